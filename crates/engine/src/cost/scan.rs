//! Cost of a table's scans, by plain reads or by storage: the terms that the operators' models
//! share.

use pushdowndb_contract::{Expr, Format, Fragment};
use pushdowndb_cost::Requests;
use pushdowndb_http::reads::PART_BYTES;

use super::cardinality::Cardinality;
use super::model::{Model, Work};
use super::plain_reads::PlainReads;
use super::requests::count_requests;
use crate::plan::estimate::Estimate;
use crate::plan::placement::Route;
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;

/// Seconds lost by waiting for an earlier phase, in addition to the requests of both phases.
const PHASE_OVERHEAD_S: f64 = 0.01;

/// Seconds per row to look a key up in a binary Bloom filter.
pub(crate) const BLOOM_LOOKUP_S_PER_ROW: f64 = 25e-9;

/// Seconds per row to look a key up in a set of numbers.
pub(crate) const SET_LOOKUP_S_PER_ROW: f64 = 5e-9;

/// Ratio of the bytes that plain reads of Parquet fetch to the bytes in use, since gaps between
/// pages are fetched as well.
const GAP_READ_FACTOR: f64 = 1.5;

/// Share of the ideal saving that remains when storage and plain reads share a scan.
const SHARED_SCAN_EFFICIENCY: f64 = 0.6;

/// Minimum saving of a shared scan, as a share of its time, since splits cost requests.
const MIN_SHARED_SAVING: f64 = 0.2;
/// Minimum saving of a shared scan, in seconds.
const MIN_SHARED_SAVING_S: f64 = 0.15;

/// The cost terms of one table's scans.
#[derive(Clone, Debug)]
pub(crate) struct ScanCosts {
    model: Model,
    route: Option<Route>,
    /// Bytes that a scan processes: all of text; for Parquet, the columns in use.
    pub(crate) scanned: u64,
    /// Rows of the objects.
    pub(crate) rows: f64,
    /// Rows that pass the filter.
    pub(crate) passing: f64,
    /// Bytes of the passing rows' columns as storage sends them.
    pub(crate) sent: u64,
    /// Compressed size of `sent` in a response of the fragment route, as a share of it.
    compressed: f64,
    /// Bytes that plain reads fetch.
    pub(crate) read: u64,
    /// Plain reads whose latency the scan waits for.
    plain_requests: u64,
    /// Plain reads in flight meanwhile.
    further_reads: u64,
    /// Splits of a scan by storage.
    pub(crate) splits: u64,
    /// Requests for these splits.
    pub(crate) requests: u64,
    pub(crate) objects: u64,
    /// Seconds to evaluate the Bloom filters of the predicate, in storage or in the engine.
    bloom_s: f64,
}

/// The work of a scan by storage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pushed {
    pub(crate) requests: u64,
    pub(crate) scanned: u64,
    pub(crate) returned: u64,
    /// Bytes of values that storage decodes but does not return: those of aggregates and groups.
    pub(crate) decoded: u64,
    /// Bytes of all request bodies.
    pub(crate) request_bytes: u64,
    /// CPU seconds of storage besides scanning.
    pub(crate) storage_s: f64,
    /// CPU seconds of the engine besides decoding.
    pub(crate) engine_s: f64,
}

impl ScanCosts {
    /// Estimates the cost terms of a scan by `route`, which is `None` if there is no route to
    /// storage.
    pub(crate) fn of(plan: &ScanPlan, context: &ScanContext, fragment: &Fragment, route: Option<Route>) -> Self {
        let cardinality = Cardinality::of(plan, context, fragment);
        let (bytes, objects) = (cardinality.bytes(), plan.objects.len() as u64);
        let read = cardinality.read_bytes();
        // Feedback tells how much the fragment route skips. Without it, all columns in use are
        // scanned.
        let before_bytes = cardinality.scanned_before().map(|share| (bytes as f64 * share) as u64);
        let scanned = match route {
            Some(Route::Fragment) => before_bytes.unwrap_or(read),
            _ => read,
        };
        let read = match before_bytes.filter(|_| fragment.format == Format::Parquet) {
            Some(before_bytes) => read.min((before_bytes as f64 * GAP_READ_FACTOR) as u64),
            None => read,
        };
        let splits = bytes.div_ceil(context.options.split_bytes.max(1)).max(objects);
        let model = Model::of(plan, context).timed(&cardinality);
        let requests = match route {
            Some(Route::Fragment) => {
                let partitions = plan.partitions.max(1) as u64;
                count_requests(scanned, splits, model.at_once(), partitions, model.objective())
            }
            _ => splits,
        };
        let further = cardinality.further_reads(objects);
        let (plain_requests, further_reads) = match PlainReads::of(plan, context, fragment) {
            // All are in flight while the first is waited for.
            Some(_) => (1, (objects + further).max(read.div_ceil(PART_BYTES)).saturating_sub(1)),
            None => (objects, further),
        };
        Self {
            model,
            route,
            scanned,
            rows: cardinality.scanned(),
            passing: cardinality.rows(),
            sent: cardinality.sent_bytes(),
            compressed: cardinality.compressed(),
            read,
            plain_requests,
            further_reads,
            splits,
            requests,
            objects,
            bloom_s: bloom_s(plan, context, fragment),
        }
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Estimates plain reads, with `engine_s` seconds of the engine besides scanning.
    pub(crate) fn plain(&self, engine_s: f64) -> Estimate {
        self.model.estimate(&self.plain_work(self.plain_requests, engine_s))
    }

    /// Estimates plain reads after a phase that yields join keys. Looking keys up takes `engine_s`
    /// seconds, and only the `share` of rows that match is decoded.
    pub(crate) fn plain_keyed(&self, share: f64, engine_s: f64) -> Estimate {
        let work = self.plain_work(self.plain_requests, engine_s);
        let bytes_decoded = (work.bytes_decoded as f64 * share) as u64;
        waiting(self.model.estimate(&Work { bytes_decoded, ..work }))
    }

    /// Estimates plain reads that decode `bytes` of values at most; other rows are skipped.
    pub(crate) fn plain_decoding(&self, bytes: u64) -> Estimate {
        let work = self.plain_work(self.plain_requests, 0.0);
        self.model.estimate(&Work { bytes_decoded: bytes.min(work.bytes_decoded), ..work })
    }

    fn plain_work(&self, requests: u64, engine_s: f64) -> Work {
        Work {
            bytes_network: self.read,
            bytes_read: self.read,
            // The scan throughput of Parquet includes decoding.
            bytes_decoded: if self.model.is_parquet() { 0 } else { self.sent },
            requests: Requests { get: requests, ..Requests::default() },
            further_reads: self.further_reads,
            engine_s: engine_s + self.bloom_s,
            ..Work::default()
        }
    }

    pub(crate) fn pushed(&self, scan: Pushed) -> Estimate {
        self.model.estimate(&self.pushed_work(scan))
    }

    fn pushed_work(&self, scan: Pushed) -> Work {
        let requests = match self.route {
            Some(Route::Fragment) => Requests { fragment: scan.requests, ..Requests::default() },
            _ => Requests { select: scan.requests, ..Requests::default() },
        };
        let on_the_wire = match self.route {
            Some(Route::Fragment) => (scan.returned as f64 * self.compressed) as u64,
            _ => scan.returned,
        };
        Work {
            bytes_network: on_the_wire + scan.request_bytes,
            bytes_scanned: scan.scanned,
            bytes_returned: scan.returned,
            bytes_decoded: scan.returned,
            requests,
            storage_s: scan.storage_s + self.model.decoding_s(scan.decoded),
            engine_s: scan.engine_s,
            ..Work::default()
        }
    }

    /// Estimates the seconds of a scan that plain reads and storage share; `None` if sharing saves
    /// too little.
    pub(crate) fn shared(&self) -> Option<f64> {
        let alone = self.filtered().seconds;
        let (_, together) = self.model.shared(&self.plain_work(self.splits, 0.0), &self.pushed_work(self.filtering()));
        let saved = (alone - together) * SHARED_SCAN_EFFICIENCY;
        (saved >= alone * MIN_SHARED_SAVING && saved >= MIN_SHARED_SAVING_S).then_some(alone - saved)
    }

    /// Returns whether the link takes longer for a filtered scan than storage.
    pub(crate) fn is_bound_by_link(&self) -> bool {
        self.model.is_bound_by_link(&self.pushed_work(self.filtering()))
    }

    /// Estimates a scan by storage that waits for an earlier phase.
    pub(crate) fn one_of_phases(&self, scan: Pushed) -> Estimate {
        waiting(self.pushed(scan))
    }

    /// Estimates a scan by storage that sends the passing rows.
    pub(crate) fn filtered(&self) -> Estimate {
        self.pushed(self.filtering())
    }

    /// Returns the work of [`Self::filtered`].
    pub(crate) fn filtering(&self) -> Pushed {
        let (requests, scanned, returned, storage_s) = (self.requests, self.scanned, self.sent, self.bloom_s);
        Pushed { requests, scanned, returned, storage_s, ..Pushed::default() }
    }
}

/// Adds the overhead of waiting for an earlier phase.
fn waiting(scan: Estimate) -> Estimate {
    Estimate { seconds: scan.seconds + PHASE_OVERHEAD_S, ..scan }
}

/// Estimates the seconds to evaluate the Bloom filters of a predicate, after all its other
/// conjuncts.
fn bloom_s(plan: &ScanPlan, context: &ScanContext, fragment: &Fragment) -> f64 {
    let conjuncts = fragment.predicate.clone().map_or_else(Vec::new, Expr::into_conjuncts);
    let (blooms, others): (Vec<_>, Vec<_>) = conjuncts.into_iter().partition(|expr| matches!(expr, Expr::Bloom { .. }));
    if blooms.is_empty() {
        return 0.0;
    }
    let predicate = (!others.is_empty()).then(|| Expr::conjunction(others));
    let before = Fragment { predicate, ..fragment.clone() };
    let s_per_row = |expr: &Expr| match expr {
        Expr::Bloom { filter, .. } if filter.is_of_numbers() => SET_LOOKUP_S_PER_ROW,
        _ => BLOOM_LOOKUP_S_PER_ROW,
    };
    Cardinality::of(plan, context, &before).rows() * blooms.iter().map(s_per_row).sum::<f64>()
}
