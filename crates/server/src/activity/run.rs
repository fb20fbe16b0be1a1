//! One query from its start to its entry in the query log.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use pushdowndb_contract::Result;
use pushdowndb_engine::QueryContext;

use super::admission::{Admission, Place};
use super::counters::Counters;
use super::sessions::{Entry, Phase};

/// Maximum characters of a query in the log and in lists.
const MAX_SHOWN_CHARS: usize = 2000;

/// How long sending rows may wait for a slow client before the query gives up its slot to others.
const SLOW: Duration = Duration::from_secs(1);

/// A query while it is planned and run. Dropping it writes its entry in the query log.
#[derive(Debug)]
pub(crate) struct QueryRun {
    entry: Arc<Entry>,
    counters: Arc<Counters>,
    shown: Arc<str>,
    started: Instant,
    waited: Duration,
    place: Option<Place>,
    /// Whether the slot was given up because the client reads slowly.
    has_left: bool,
    context: Arc<OnceLock<Arc<QueryContext>>>,
    rows: u64,
    outcome: &'static str,
}

/// The outcome of a query whose rows were not read to the end.
const UNFINISHED: &str = "unfinished";

impl QueryRun {
    /// Begins a query with this text.
    pub fn start(entry: &Arc<Entry>, counters: &Arc<Counters>, text: &str) -> Self {
        let shown: Arc<str> = shown(text).into();
        let now = SystemTime::now();
        entry.change(|activity| {
            activity.phase = Phase::Active;
            activity.query = Arc::clone(&shown);
            activity.query_start = Some(now);
            activity.running += 1;
        });
        Self {
            entry: Arc::clone(entry),
            counters: Arc::clone(counters),
            shown,
            started: Instant::now(),
            waited: Duration::ZERO,
            place: None,
            has_left: false,
            context: Arc::default(),
            rows: 0,
            outcome: UNFINISHED,
        }
    }

    /// Waits for a slot, unless the query has one. The user may run `most` queries at once.
    pub async fn enter(&mut self, admission: &Arc<Admission>, most: Option<usize>) -> Result<()> {
        if self.place.is_some() {
            return Ok(());
        }
        self.entry.change(|activity| activity.phase = Phase::Waiting);
        let began = Instant::now();
        let place = admission.enter(&self.entry.user, most).await;
        self.waited += began.elapsed();
        self.entry.change(|activity| activity.phase = Phase::Active);
        self.place = Some(place?);
        Ok(())
    }

    /// Gives up the slot while the client does not request rows.
    pub fn pause(&mut self) {
        self.place = None;
    }

    /// Waits for `sending`, which takes as long as the client takes to read. If that is long, the
    /// query gives up its slot until [`QueryRun::come_back`].
    pub async fn send<T>(&mut self, sending: impl Future<Output = T>) -> T {
        let mut sending = pin!(sending);
        if let Ok(sent) = tokio::time::timeout(SLOW, &mut sending).await {
            return sent;
        }
        self.has_left |= self.place.take().is_some();
        sending.await
    }

    /// Waits as long as it takes for a slot, if the query has given up its own in
    /// [`QueryRun::send`].
    ///
    /// # Errors
    ///
    /// None in practice, since the queue has no limit for such queries.
    pub async fn come_back(&mut self, admission: &Arc<Admission>, most: Option<usize>) -> Result<()> {
        if self.has_left {
            self.place = Some(admission.enter_again(&self.entry.user, most).await?);
            self.has_left = false;
        }
        Ok(())
    }

    /// Returns a callback for the engine that receives the context of the query and makes it
    /// visible in the list of sessions.
    pub fn watch(&self) -> impl FnOnce(Arc<QueryContext>) + Send + use<> {
        let (entry, own) = (Arc::clone(&self.entry), Arc::clone(&self.context));
        move |context| {
            entry.change(|activity| activity.context = Some(Arc::clone(&context)));
            drop(own.set(context));
        }
    }

    /// Counts rows that were sent.
    pub fn sent(&mut self, rows: u64) {
        self.rows += rows;
    }

    /// Sets the outcome: `ok`, or the code of an error.
    pub fn ended(&mut self, outcome: &'static str) {
        self.outcome = outcome;
    }
}

impl Drop for QueryRun {
    fn drop(&mut self) {
        self.place = None;
        self.entry.change(|activity| {
            activity.running = activity.running.saturating_sub(1);
            if activity.running == 0 {
                activity.phase = Phase::Idle;
                activity.context = None;
            }
        });
        let time = self.started.elapsed();
        let report = self.context.get().map(|context| context.report());
        let (usage, dollars) = report.map(|report| (report.usage, report.bill.total())).unwrap_or_default();
        self.counters.query(self.outcome, time, self.rows, usage.bytes_network, dollars);
        let activity = self.entry.activity();
        tracing::info!(
            target: "pushdowndb_server::query",
            pid = self.entry.pid,
            user = &*self.entry.user,
            database = &*self.entry.database,
            application = &*activity.application,
            client = %self.entry.client,
            outcome = self.outcome,
            rows = self.rows,
            ms = time.as_secs_f64() * 1e3,
            waited_ms = self.waited.as_secs_f64() * 1e3,
            bytes_network = usage.bytes_network,
            bytes_scanned = usage.bytes_scanned,
            requests = usage.requests.total(),
            usd = dollars,
            query = &*self.shown,
            "query"
        );
    }
}

/// The text of a query for the log and for lists. Statements that may contain credentials are
/// reduced to their first three words, and URLs lose their query strings, which may contain
/// signatures.
fn shown(text: &str) -> String {
    let trimmed = text.trim_start();
    let first = trimmed.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    let is_query = first.starts_with('(')
        || ["SELECT", "WITH", "VALUES", "TABLE", "FROM", "SHOW", "EXPLAIN", "DESCRIBE", "DESC", "FETCH"]
            .contains(&first.as_str());
    if !is_query {
        let words: Vec<&str> = trimmed.split_whitespace().take(3).collect();
        return words.join(" ").chars().take(MAX_SHOWN_CHARS).collect();
    }
    let mut shown = String::new();
    let mut in_address = false;
    let mut is_hidden = false;
    let mut rest = trimmed;
    while let Some(next) = rest.chars().next() {
        if shown.len() >= MAX_SHOWN_CHARS {
            shown.push('…');
            break;
        }
        if rest.starts_with("://") {
            in_address = true;
        }
        if matches!(next, '\'' | '"') || next.is_whitespace() {
            (in_address, is_hidden) = (false, false);
        }
        if in_address && next == '?' {
            shown.push_str("?…");
            is_hidden = true;
        }
        if !is_hidden {
            shown.push(next);
        }
        rest = rest.get(next.len_utf8()..).unwrap_or_default();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let url = "SELECT * FROM 'https://h/x.csv?X-Amz-Signature=abc' WHERE a = '?' AND b ? 'c'";
        assert_eq!(shown(url), "SELECT * FROM 'https://h/x.csv?…' WHERE a = '?' AND b ? 'c'");
        let table = "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 's3://b' OPTIONS ('secret' 'hunter2')";
        assert_eq!(shown(table), "CREATE EXTERNAL TABLE");
        assert_eq!(shown("  select 1"), "select 1");
        assert!(shown(&format!("select '{}'", "é".repeat(5000))).len() < 2 * MAX_SHOWN_CHARS);
    }
}
