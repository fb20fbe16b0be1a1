//! One query: its meter, its caps, its progress, and its result.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use futures::{Stream, StreamExt};
use pushdown::{Error, ErrorKind, Result};
use pushdowndb_cost::units::dollars;
use pushdowndb_cost::{Bill, Meter, PriceBook, Usage};
use tokio::sync::OnceCell;
use tracing::warn;

use crate::backends::Backends;
use crate::error::from_datafusion;
use crate::profile::{Profile, Ran};
use crate::settings::PushdownOptions;
use crate::statistics::{Catalogue, SharedStatistics};
use crate::stores::FailedWrite;
use crate::table::{Listing, TableDefinition};

/// How often a running query is held against its caps.
const CAPS_INTERVAL: Duration = Duration::from_millis(20);

/// What a query carries from planning to its last row. Lives in the session's configuration, so that every
/// operator and table finds it.
pub struct QueryContext {
    /// What the query did.
    pub meter: Arc<Meter>,
    /// How far it is.
    pub progress: Progress,
    pub(crate) backends: Arc<Backends>,
    pub(crate) options: PushdownOptions,
    pub(crate) statistics: Arc<Catalogue>,
    pub(crate) prices: Arc<PriceBook>,
    started: Instant,
    listings: Mutex<HashMap<String, Arc<OnceCell<Arc<Listing>>>>>,
    /// By the address of the table's definition, which the tables keep alive.
    known: Mutex<HashMap<usize, Known>>,
    /// What went wrong when something was written; DataFusion does not tell.
    pub(crate) failed_write: FailedWrite,
}

/// What a query knows of a table.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Bytes of its objects.
    pub(crate) bytes: u64,
    /// `None` where nothing was found out: the table is small, or has no place to draw from.
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
        statistics: Arc<Catalogue>,
    ) -> Self {
        Self {
            meter: Arc::new(Meter::default()),
            progress: Progress::default(),
            prices,
            statistics,
            backends,
            options,
            started: Instant::now(),
            listings: Mutex::default(),
            known: Mutex::default(),
            failed_write: FailedWrite::default(),
        }
    }

    /// The objects of a table, listed once however often the query names it, also at the same time: all its scans see the same.
    pub(crate) async fn listing<F>(&self, table: &str, list: F) -> Result<Arc<Listing>>
    where
        F: Future<Output = Result<Listing>>,
    {
        let cell = Arc::clone(lock(&self.listings).entry(table.to_owned()).or_default());
        cell.get_or_try_init(|| async { list.await.map(Arc::new) }).await.cloned()
    }

    /// What was found out about a table, if anybody asked yet.
    pub(crate) fn known(&self, table: &Arc<TableDefinition>) -> Option<Known> {
        lock(&self.known).get(&Arc::as_ptr(table).addr()).cloned()
    }

    /// Keeps what was found out about a table while the query lasts.
    pub(crate) fn learn(&self, table: &Arc<TableDefinition>, known: Known) {
        lock(&self.known).insert(Arc::as_ptr(table).addr(), known);
    }

    /// Tells that storage is no longer asked for something of this table.
    pub(crate) fn fall_back(&self, table: &str, error: &Error) {
        warn!(%error, "falling back to plain reads");
        self.meter.fell_back();
        self.meter.strategy(format!("{table}: fell back to GET: {error}"));
    }

    /// Fails once the query has used more than the session's caps allow.
    fn check_caps(&self) -> Result<()> {
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
        let usage = self.meter.usage();
        if options.max_bytes > 0 && usage.bytes_network > options.max_bytes {
            return Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "stopped after {} bytes over the network: pushdown.max_bytes is {}",
                    usage.bytes_network, options.max_bytes
                ),
            ));
        }
        let spent = self.prices.bill(&usage).total();
        if options.max_usd > 0.0 && spent > options.max_usd {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("stopped after {}: pushdown.max_usd is {}", dollars(spent), options.max_usd),
            ));
        }
        Ok(())
    }

    /// Ends when the query has used more than the caps allow; checked while the scans run, whether or not they
    /// yield rows.
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

    /// What so much costs.
    pub(crate) fn bill(&self, usage: &Usage) -> Bill {
        self.prices.bill(usage)
    }

    fn report(&self) -> Report {
        let usage = self.meter.usage();
        Report { bill: self.bill(&usage), usage }
    }
}

/// How far a query is, for progress bars.
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

    /// Some bytes of a split that is not done yet.
    pub(crate) fn advance(&self, bytes: u64) {
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn finish(&self, bytes: u64) {
        self.splits_done.fetch_add(1, Ordering::Relaxed);
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Splits done and splits known of.
    pub fn splits(&self) -> (u64, u64) {
        (self.splits_done.load(Ordering::Relaxed), self.splits_total.load(Ordering::Relaxed))
    }

    /// Bytes of objects dealt with and bytes of objects to deal with, wherever they are scanned.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes_done.load(Ordering::Relaxed), self.bytes_total.load(Ordering::Relaxed))
    }
}

/// What a query did and what it cost.
#[derive(Clone, Debug)]
pub struct Report {
    /// The counters.
    pub usage: Usage,
    /// The dollars.
    pub bill: Bill,
}

/// What kind of statement gave a result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StatementKind {
    /// Rows to print: SELECT, EXPLAIN, SHOW, COPY's count.
    Rows,
    /// CREATE, DROP: nothing to print.
    Definition,
    /// SET.
    Setting,
}

/// A running query. Dropping it stops the work and closes its requests.
pub struct QueryResult {
    /// The columns of the result.
    pub schema: SchemaRef,
    /// What kind of statement it was.
    pub kind: StatementKind,
    pub(crate) stream: SendableRecordBatchStream,
    pub(crate) context: Arc<QueryContext>,
    pub(crate) ran: Option<Ran>,
}

impl fmt::Debug for QueryResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryResult").field("schema", &self.schema).field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl QueryResult {
    /// The meter, which counts while rows are read.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.context.meter
    }

    /// How far the query is; keep the Arc to read it while the rows are read.
    pub fn context(&self) -> &Arc<QueryContext> {
        &self.context
    }

    /// The physical plan, where there is one.
    pub fn plan(&self) -> Option<&Arc<dyn ExecutionPlan>> {
        self.ran.as_ref().map(|ran| &ran.plan)
    }

    /// What each operator of the plan did so far, where there is a plan; final once the rows are read.
    pub fn profile(&self) -> Option<Profile> {
        self.ran.as_ref().map(|ran| ran.profile(&self.context))
    }

    /// What it did and cost so far; final once the rows are read.
    pub fn report(&self) -> Report {
        self.context.report()
    }

    /// Reads all rows. For results that fit in memory.
    pub async fn collect(&mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }
}

impl Stream for QueryResult {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.stream.poll_next_unpin(cx);
        if let Poll::Ready(Some(Ok(batch))) = &polled {
            self.context.meter.rows(batch.num_rows() as u64);
        }
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.context.meter.finish();
        }
        polled.map(|item| item.map(|batch| batch.map_err(from_datafusion)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic elsewhere cannot leave these maps half-written.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
