//! The context of one query: its meter, caps and progress.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pushdowndb_contract::{Error, ErrorKind, Result};
use pushdowndb_cost::units::dollars;
use pushdowndb_cost::{Bill, Caps, Meter, PriceBook, Spill, Usage};
use pushdowndb_scan::{Reject, Rejects};
use pushdowndb_spill::files::{QueryEnd, QuerySpill, SpillMeter, SpillUsage};
use tokio::sync::OnceCell;
use tracing::warn;

use crate::catalog::{Listing, TableDefinition};
use crate::endpoints::Backends;
use crate::endpoints::writes::Writes;
use crate::settings::PushdownOptions;
use crate::statistics::{SharedStatistics, StatisticsCache};

/// Interval at which the usage of a running query is compared with its caps.
const CAPS_INTERVAL: Duration = Duration::from_millis(20);

/// The state of a query from planning to its last row. It is an extension of the session's
/// configuration, so that every operator and table can get it.
pub struct QueryContext {
    /// The counters of the query's work.
    pub meter: Arc<Meter>,
    /// The progress, for progress bars.
    pub progress: Progress,
    pub(crate) backends: Arc<Backends>,
    pub(crate) options: PushdownOptions,
    pub(crate) statistics: Arc<StatisticsCache>,
    pub(crate) prices: Arc<PriceBook>,
    /// The caps on the query's usage. The meter enforces them, too, for each request.
    caps: Caps,
    started: Instant,
    listings: Mutex<HashMap<String, Arc<OnceCell<Arc<Listing>>>>>,
    /// By the address in memory of the table's definition, which the tables keep alive.
    summaries: Mutex<HashMap<usize, TableSummary>>,
    /// The errors of failed writes, which DataFusion reports as text only.
    pub(crate) writes: Writes,
    /// The spill counters, and the handle that marks the end of the query; `None` if it must not
    /// spill.
    spill: Option<(SpillMeter, QueryEnd)>,
    /// The malformed records that this query skips, and the session's log of them.
    rejects: Arc<Rejects>,
    reject_log: RejectLog,
}

/// The malformed records that a session's last statement skipped; only statements on tables that
/// may skip some count.
#[derive(Clone, Debug, Default)]
pub(crate) struct RejectLog(Arc<Mutex<Arc<Rejects>>>);

/// The size and statistics of a table, as of one query.
#[derive(Clone, Debug)]
pub(crate) struct TableSummary {
    /// The bytes of the table's objects.
    pub(crate) bytes: u64,
    /// The statistics; `None` if the table is small, or its format has no records to sample.
    pub(crate) statistics: Option<SharedStatistics>,
}

impl fmt::Debug for QueryContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryContext").field("options", &self.options).finish_non_exhaustive()
    }
}

impl QueryContext {
    pub(crate) fn new(
        backends: Arc<Backends>,
        options: PushdownOptions,
        prices: Arc<PriceBook>,
        statistics: Arc<StatisticsCache>,
        meter: Arc<Meter>,
        spill: Option<&QuerySpill>,
        reject_log: RejectLog,
    ) -> Self {
        let caps = Caps { max_bytes: options.max_bytes, max_usd: options.max_usd, prices: Arc::clone(&prices) };
        if options.max_bytes > 0 || options.max_usd > 0.0 {
            meter.cap(caps.clone());
        }
        Self {
            caps,
            meter,
            spill: spill.map(|spill| (spill.meter(), spill.end())),
            progress: Progress::default(),
            prices,
            statistics,
            backends,
            options,
            started: Instant::now(),
            listings: Mutex::default(),
            summaries: Mutex::default(),
            writes: Writes::default(),
            rejects: Arc::default(),
            reject_log,
        }
    }

    /// Returns the list to which scans of this query add the records that they skip.
    pub(crate) fn rejects(&self) -> &Arc<Rejects> {
        &self.rejects
    }

    /// Makes the skipped records of this query those that the session reports.
    pub(crate) fn logs_rejects(&self) {
        *lock(&self.reject_log.0) = Arc::clone(&self.rejects);
    }

    /// Returns the skipped records of the last query on a table that may skip some.
    pub(crate) fn last_rejects(&self) -> Vec<Reject> {
        lock(&self.reject_log.0).records()
    }

    /// Returns the listing of `table`. It is made by `list` once for all scans of the query.
    pub(crate) async fn listing<F>(&self, table: &str, list: F) -> Result<Arc<Listing>>
    where
        F: Future<Output = Result<Listing>>,
    {
        let cell = Arc::clone(lock(&self.listings).entry(table.to_owned()).or_default());
        cell.get_or_try_init(|| async { list.await.map(Arc::new) }).await.cloned()
    }

    /// Sets the listing of `table`, which was made already.
    pub(crate) fn set_listing(&self, table: &str, listing: Listing) {
        let cell = Arc::new(OnceCell::new_with(Some(Arc::new(listing))));
        lock(&self.listings).insert(table.to_owned(), cell);
    }

    pub(crate) fn summary(&self, table: &Arc<TableDefinition>) -> Option<TableSummary> {
        lock(&self.summaries).get(&Arc::as_ptr(table).addr()).cloned()
    }

    pub(crate) fn set_summary(&self, table: &Arc<TableDefinition>, summary: TableSummary) {
        lock(&self.summaries).insert(Arc::as_ptr(table).addr(), summary);
    }

    /// Records that requests to storage failed for `table` and that plain reads replace them.
    pub(crate) fn fall_back(&self, table: &str, error: &Error) {
        warn!(%error, "falling back to plain reads");
        self.meter.fell_back();
        self.meter.strategy(format!("{table}: fell back to GET: {error}"));
    }

    /// Fails if the query has used more than the session's caps allow.
    pub(crate) fn check_caps(&self) -> Result<()> {
        let options = &self.options;
        if options.query_timeout_s > 0 && self.started.elapsed() > Duration::from_secs(options.query_timeout_s) {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("stopped after pushdown.query_timeout_s = {} seconds", options.query_timeout_s),
            ));
        }
        if options.max_bytes == 0 && options.max_usd == 0.0 {
            return Ok(());
        }
        self.caps.check(&self.meter.usage())
    }

    /// Completes when the query has used more than the caps allow, whether or not its scans yield
    /// rows.
    pub(crate) async fn exceeded(&self) -> Error {
        let options = &self.options;
        if options.query_timeout_s == 0 && options.max_bytes == 0 && options.max_usd == 0.0 {
            return std::future::pending().await;
        }
        loop {
            if let Err(error) = self.check_caps() {
                return error;
            }
            tokio::time::sleep(CAPS_INTERVAL).await;
        }
    }

    /// Refuses a plan whose estimate exceeds the session's caps.
    pub(crate) fn check_estimate(&self, estimate: &Usage) -> Result<()> {
        let options = &self.options;
        if options.max_bytes > 0 && estimate.bytes_network > options.max_bytes {
            return Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "refused before running: about {} bytes would cross the network and pushdown.max_bytes is {}; \
                     raise it, select fewer columns, or push more (pushdown.level)",
                    estimate.bytes_network, options.max_bytes
                ),
            ));
        }
        let cost = self.prices.bill(estimate).total();
        if options.max_usd > 0.0 && cost > options.max_usd {
            return Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "refused before running: it would cost about {} and pushdown.max_usd is {}",
                    dollars(cost),
                    options.max_usd
                ),
            ));
        }
        Ok(())
    }

    pub(crate) fn bill(&self, usage: &Usage) -> Bill {
        self.prices.bill(usage)
    }

    /// Marks the end of the query: its result was dropped, but its operators may still hold spill
    /// files.
    pub(crate) fn ended(&self) {
        if let Some((_, end)) = &self.spill {
            end.ended();
        }
    }

    /// The usage so far.
    pub(crate) fn usage(&self) -> Usage {
        let spill = self.spill.as_ref().map(|(meter, _)| counted(&meter.usage())).unwrap_or_default();
        Usage { spill, ..self.meter.usage() }
    }

    /// The usage and its cost so far.
    pub fn report(&self) -> Report {
        let usage = self.usage();
        Report { bill: self.bill(&usage), usage }
    }
}

/// The progress of a query.
#[derive(Debug, Default)]
pub struct Progress {
    splits_total: AtomicU64,
    splits_done: AtomicU64,
    bytes_total: AtomicU64,
    bytes_done: AtomicU64,
}

impl Progress {
    pub(crate) fn expect(&self, splits: u64, bytes: u64) {
        self.splits_total.fetch_add(splits, Ordering::Relaxed);
        self.bytes_total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes of a split that is not done yet.
    pub(crate) fn advance(&self, bytes: u64) {
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn finish(&self, bytes: u64) {
        self.splits_done.fetch_add(1, Ordering::Relaxed);
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The number of splits done, and of splits planned so far.
    pub fn splits(&self) -> (u64, u64) {
        (self.splits_done.load(Ordering::Relaxed), self.splits_total.load(Ordering::Relaxed))
    }

    /// The bytes of objects scanned, and of objects to scan, by storage or by the engine.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes_done.load(Ordering::Relaxed), self.bytes_total.load(Ordering::Relaxed))
    }
}

/// The usage and cost of a query.
#[derive(Clone, Debug)]
pub struct Report {
    /// The counters.
    pub usage: Usage,
    /// The dollars of the price book.
    pub bill: Bill,
}

/// Converts the spill counters of a query for its bill.
fn counted(usage: &SpillUsage) -> Spill {
    Spill {
        disk_bytes: usage.disk_bytes_written,
        remote_bytes: usage.remote_bytes_written,
        read_bytes: usage.disk_bytes_read + usage.remote_bytes_read,
        parts: usage.parts_written,
        waited_s: (usage.write_wait + usage.read_wait).as_secs_f64(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> parking_lot::MutexGuard<'_, T> {
    // No panic can leave these maps half-written.
    mutex.lock()
}
