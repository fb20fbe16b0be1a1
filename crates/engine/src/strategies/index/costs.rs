//! What it costs to look rows up, and to scan the same objects instead.

use pushdowndb_cost::Requests;

use super::Probe;
use crate::remote_scan::Figures;
use crate::strategies::estimate::{Estimate, Model, Work};
use crate::strategies::filter::Route;

/// The bytes of a record of an index.
const ENTRY_BYTES: f64 = 28.0;

/// What one row of Parquet brings along: its pages.
const PAGE_BYTES: f64 = 64.0 * 1024.0;

/// A look-up of about `hits` rows.
pub(super) struct LookupCosts<'a> {
    pub(super) probes: &'a [Probe],
    pub(super) hits: f64,
    /// Of a scan of the objects that have an index.
    pub(super) figures: &'a Figures<'a>,
    pub(super) is_parquet: bool,
    /// How storage would be asked; `None` where it is only read.
    pub(super) route: Option<Route>,
    pub(super) model: &'a Model,
}

impl LookupCosts<'_> {
    /// The engine asks for parts of the indexes, then reads the rows of these objects.
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

    /// The node reads parts of indexes and the rows, and sends those.
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

    /// A scan of these objects, in splits of so many bytes.
    pub(super) fn scan(&self, objects: u64, split_bytes: u64) -> Estimate {
        let (read, sent) = (self.figures.read_bytes(), self.returned_bytes());
        let requests = self.asking(self.figures.bytes().div_ceil(split_bytes.max(1)).max(objects));
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

    /// The parts of the indexes that are looked at.
    fn parts_bytes(&self) -> u64 {
        let targets = self.probes.iter().flat_map(|probe| &probe.targets);
        targets.flat_map(|target| &target.expected.ranges).map(|range| range.end - range.start).sum()
    }

    /// A record, of any of the objects.
    fn record_bytes(&self) -> f64 {
        let rows = self.probes.iter().map(|probe| probe.entries).fold(1.0, f64::max);
        self.figures.bytes() as f64 / rows
    }

    /// What is read for the rows.
    fn rows_bytes(&self) -> u64 {
        let one = if self.is_parquet { PAGE_BYTES } else { self.record_bytes() };
        (self.hits * one).min(self.figures.bytes() as f64) as u64
    }

    /// What the rows take as storage sends them.
    fn returned_bytes(&self) -> u64 {
        self.figures.sent_bytes().min((self.hits * self.record_bytes()) as u64)
    }
}
