//! What the scans of one table would cost, read plainly or by storage: the terms that the operators' models share.

use pushdown::{Expr, Format, Fragment};
use pushdowndb_cost::Requests;

use super::estimate::{Estimate, Model, Work};
use super::filter::Route;
use crate::remote_scan::{Figures, ScanSpec, count_requests};

/// What two phases cost besides their requests: the second is planned by what the first one found, and waits for it.
const PHASE_S: f64 = 0.01;

/// Seconds that a scan needs to look the key of one row up in a Bloom filter in bytes, about.
pub(crate) const BLOOM_S: f64 = 25e-9;

/// The same in a set of numbers.
pub(crate) const SET_S: f64 = 5e-9;

/// Plain reads of Parquet fetch so many times the bytes that they look at, where these are pages here and there: what lies
/// between near ones comes along.
const WITH_GAPS: f64 = 1.5;

/// What two ways that share a scan save of what they would if neither ever waited for the other.
const SHARED: f64 = 0.6;

/// It has to be this share of the time, and so many seconds: pieces cost requests.
const LEAST_SHARE: f64 = 0.2;
const LEAST_S: f64 = 0.15;

/// A table, as far as scans of it cost something.
#[derive(Clone, Debug)]
pub(crate) struct ScanCosts {
    model: Model,
    route: Option<Route>,
    /// Bytes of the objects that a scan looks at: of Parquet the columns that are read.
    pub(crate) scanned: u64,
    /// Rows, and how many of them pass the filter.
    pub(crate) rows: f64,
    pub(crate) passing: f64,
    /// Bytes of the columns that the query reads, of the rows that pass, as storage sends them.
    pub(crate) sent: u64,
    /// The share of those bytes that the fragment route's answers take.
    compressed: f64,
    /// Bytes that plain reads fetch.
    pub(crate) read: u64,
    /// Requests that they need beyond one an object.
    further_reads: u64,
    /// Pieces that a scan by storage is cut into, and requests that ask for them.
    pub(crate) splits: u64,
    pub(crate) asks: u64,
    pub(crate) objects: u64,
    /// Seconds of either side for the Bloom filters of the predicate.
    bloom_s: f64,
}

/// A scan by storage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pushed {
    pub(crate) requests: u64,
    /// Bytes of the objects that are looked at.
    pub(crate) scanned: u64,
    pub(crate) returned: u64,
    /// Bytes of values that it decodes and keeps to itself: those of aggregates and groups.
    pub(crate) decoded: u64,
    /// Bytes that all requests bring along.
    pub(crate) brought: u64,
    /// Seconds of storage besides its scanning, and of the engine besides its decoding.
    pub(crate) storage_s: f64,
    pub(crate) engine_s: f64,
}

impl ScanCosts {
    /// Of a scan that storage is asked for by this route; `None` where it cannot be asked.
    pub(crate) fn of(spec: &ScanSpec, fragment: &Fragment, route: Option<Route>) -> Self {
        let figures = Figures::of(spec, fragment);
        let (bytes, objects) = (figures.bytes(), spec.objects.len() as u64);
        let read = figures.read_bytes();
        // Of text all, on either side, unless storage was seen to pass over some; of Parquet what is needed, on either side.
        let seen = figures.scanned_before().map(|share| (bytes as f64 * share) as u64);
        let scanned = match route {
            Some(Route::Fragment) => seen.unwrap_or(read),
            _ => read,
        };
        let read = match seen.filter(|_| fragment.format == Format::Parquet) {
            Some(seen) => read.min((seen as f64 * WITH_GAPS) as u64),
            None => read,
        };
        let splits = bytes.div_ceil(spec.options.split_bytes.max(1)).max(objects);
        let model = Model::of(spec).timed(&figures);
        let asks = match route {
            Some(Route::Fragment) => {
                let partitions = spec.partitions.max(1) as u64;
                count_requests(scanned, splits, model.at_once(), partitions, model.objective())
            }
            _ => splits,
        };
        Self {
            model,
            route,
            scanned,
            rows: figures.scanned(),
            passing: figures.rows(),
            sent: figures.sent_bytes(),
            compressed: figures.compressed(),
            read,
            further_reads: figures.further_reads(objects),
            splits,
            asks,
            objects,
            bloom_s: bloom_s(spec, fragment),
        }
    }

    /// What estimates are compared by.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Plain reads, with so many seconds of the engine besides its scanning.
    pub(crate) fn plain(&self, engine_s: f64) -> Estimate {
        self.model.estimate(&self.plain_work(self.objects, engine_s))
    }

    /// Plain reads that look keys up in so many seconds, which this share of the rows has: others are not decoded. They wait for the
    /// keys.
    pub(crate) fn plain_keyed(&self, share: f64, engine_s: f64) -> Estimate {
        let work = self.plain_work(self.objects, engine_s);
        let bytes_decoded = (work.bytes_decoded as f64 * share) as u64;
        waiting(self.model.estimate(&Work { bytes_decoded, ..work }))
    }

    /// The same where only so many bytes of values are decoded, since the others are those of rows that do not count.
    pub(crate) fn plain_decoding(&self, bytes: u64) -> Estimate {
        let work = self.plain_work(self.objects, 0.0);
        self.model.estimate(&Work { bytes_decoded: bytes.min(work.bytes_decoded), ..work })
    }

    fn plain_work(&self, requests: u64, engine_s: f64) -> Work {
        Work {
            bytes_network: self.read,
            bytes_read: self.read,
            // That a core scans so many bytes of Parquet includes their values.
            bytes_decoded: if self.model.is_parquet() { 0 } else { self.sent },
            requests: Requests { get: requests, ..Requests::default() },
            further_reads: self.further_reads,
            engine_s: engine_s + self.bloom_s,
            ..Work::default()
        }
    }

    /// A scan by storage.
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
            bytes_network: on_the_wire + scan.brought,
            bytes_scanned: scan.scanned,
            bytes_returned: scan.returned,
            bytes_decoded: scan.returned,
            requests,
            storage_s: scan.storage_s + self.model.decoding_s(scan.decoded),
            engine_s: scan.engine_s,
            ..Work::default()
        }
    }

    /// Seconds of plain reads of some splits and a scan of the others by storage, as is best for both, where that is worth it;
    /// `None` where it is not. What storage reads and sends it cannot scan meanwhile.
    pub(crate) fn shared(&self) -> Option<f64> {
        let alone = self.filtered().seconds;
        let (_, together) = self.model.shared(&self.plain_work(self.splits, 0.0), &self.pushed_work(self.filtering()));
        let saved = (alone - together) * SHARED;
        (saved >= alone * LEAST_SHARE && saved >= LEAST_S).then_some(alone - saved)
    }

    /// Whether the link is busy longer with what storage sends than storage with the scan.
    pub(crate) fn is_bound_by_link(&self) -> bool {
        self.model.is_bound_by_link(&self.pushed_work(self.filtering()))
    }

    /// The same as one of two phases, of which the second waits for the first.
    pub(crate) fn one_of_phases(&self, scan: Pushed) -> Estimate {
        waiting(self.pushed(scan))
    }

    /// A scan of everything by storage that sends the rows that pass.
    pub(crate) fn filtered(&self) -> Estimate {
        self.pushed(self.filtering())
    }

    /// The work of that.
    pub(crate) fn filtering(&self) -> Pushed {
        let (requests, scanned, returned, storage_s) = (self.asks, self.scanned, self.sent, self.bloom_s);
        Pushed { requests, scanned, returned, storage_s, ..Pushed::default() }
    }
}

/// The same after another phase.
fn waiting(scan: Estimate) -> Estimate {
    Estimate { seconds: scan.seconds + PHASE_S, ..scan }
}

/// What the Bloom filters of a scan's predicate cost who scans: they are asked last.
fn bloom_s(spec: &ScanSpec, fragment: &Fragment) -> f64 {
    let conjuncts = fragment.predicate.clone().map_or_else(Vec::new, Expr::into_conjuncts);
    let (blooms, others): (Vec<_>, Vec<_>) = conjuncts.into_iter().partition(|expr| matches!(expr, Expr::Bloom { .. }));
    if blooms.is_empty() {
        return 0.0;
    }
    let predicate = (!others.is_empty()).then(|| Expr::conjunction(others));
    let before = Fragment { predicate, ..fragment.clone() };
    let row_s = |expr: &Expr| match expr {
        Expr::Bloom { filter, .. } if filter.is_of_numbers() => SET_S,
        _ => BLOOM_S,
    };
    Figures::of(spec, &before).rows() * blooms.iter().map(row_s).sum::<f64>()
}
