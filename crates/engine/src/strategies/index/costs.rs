//! Cost of an index look-up, and of a scan of the same objects.

use pushdowndb_cost::Requests;

use super::probe::Probe;
use crate::cost::cardinality::Cardinality;
use crate::cost::model::{Model, Work};
use crate::plan::estimate::Estimate;
use crate::plan::placement::Route;

/// Bytes of an index record.
const ENTRY_BYTES: f64 = 28.0;

/// Bytes read for one row of Parquet, whose pages are read as a whole.
const PAGE_BYTES: f64 = 64.0 * 1024.0;

/// The cost terms of a look-up.
pub(super) struct LookupCosts<'a> {
    pub(super) probes: &'a [Probe],
    pub(super) hits: f64,
    /// The cardinality of a scan of the indexed objects.
    pub(super) cardinality: &'a Cardinality<'a>,
    pub(super) is_parquet: bool,
    /// The route to storage; `None` for plain reads.
    pub(super) route: Option<Route>,
    pub(super) model: &'a Model,
}

impl LookupCosts<'_> {
    /// Estimates a look-up by the engine, which reads index parts, then rows.
    pub(super) fn by_engine(&self, objects: u64) -> Estimate {
        let with_parts = self.probes.iter().flat_map(|probe| &probe.targets);
        let with_parts = with_parts.filter(|target| !target.expected.ranges.is_empty()).count() as u64;
        let found = (self.probes.iter().map(|probe| probe.hits).sum::<f64>() * ENTRY_BYTES) as u64;
        let requests = self.asking(with_parts);
        let look_up = match self.route {
            Some(_) => Work {
                bytes_network: found,
                bytes_scanned: self.parts_bytes(),
                bytes_returned: found,
                requests,
                ..Work::default()
            },
            None => Work { bytes_network: self.parts_bytes(), requests, ..Work::default() },
        };
        let rows = self.hits.ceil() as u64;
        let gets = if self.route == Some(Route::Fragment) { objects.min(rows) } else { rows };
        let requests = Requests { get: gets, ..Requests::default() };
        let read = Work { bytes_network: self.rows_bytes(), requests, ..Work::default() };
        self.model.estimate(&look_up) + self.model.estimate(&read)
    }

    /// Estimates a look-up by the node, which reads index parts and rows, and sends the rows.
    pub(super) fn by_node(&self) -> Estimate {
        let parts = self.parts_bytes();
        let returned = self.returned_bytes();
        self.model.estimate(&Work {
            bytes_network: returned,
            bytes_scanned: parts + self.rows_bytes(),
            bytes_returned: returned,
            requests: Requests { fragment: u64::from(parts > 0), ..Requests::default() },
            ..Work::default()
        })
    }

    /// Estimates a scan of `objects` objects in splits of `split_bytes`.
    pub(super) fn scan(&self, objects: u64, split_bytes: u64) -> Estimate {
        let (read, sent) = (self.cardinality.read_bytes(), self.returned_bytes());
        let requests = self.asking(self.cardinality.bytes().div_ceil(split_bytes.max(1)).max(objects));
        self.model.estimate(&match self.route {
            Some(_) => Work {
                bytes_network: sent,
                bytes_scanned: read,
                bytes_returned: sent,
                bytes_decoded: sent,
                requests,
                ..Work::default()
            },
            None => Work { bytes_network: read, bytes_read: read, bytes_decoded: sent, requests, ..Work::default() },
        })
    }

    fn asking(&self, count: u64) -> Requests {
        match self.route {
            Some(Route::Fragment) => Requests { fragment: count.min(1), ..Requests::default() },
            Some(Route::Select) => Requests { select: count, ..Requests::default() },
            None => Requests { get: count, ..Requests::default() },
        }
    }

    /// Returns the bytes of the index parts that are read.
    fn parts_bytes(&self) -> u64 {
        let targets = self.probes.iter().flat_map(|probe| &probe.targets);
        targets.flat_map(|target| &target.expected.ranges).map(|range| range.end - range.start).sum()
    }

    /// Estimates the mean bytes of a record.
    fn record_bytes(&self) -> f64 {
        let rows = self.probes.iter().map(|probe| probe.entries).fold(1.0, f64::max);
        self.cardinality.bytes() as f64 / rows
    }

    /// Estimates the bytes read for the rows.
    fn rows_bytes(&self) -> u64 {
        let one = if self.is_parquet { PAGE_BYTES } else { self.record_bytes() };
        (self.hits * one).min(self.cardinality.bytes() as f64) as u64
    }

    /// Estimates the bytes of the rows as storage sends them.
    fn returned_bytes(&self) -> u64 {
        self.cardinality.sent_bytes().min((self.hits * self.record_bytes()) as u64)
    }
}
