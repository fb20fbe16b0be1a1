//! What is known of one request: filled in by whoever learns it, logged and counted once when it has ended.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use http::Method;

/// The name of operations of requests that were refused before it was clear what they want.
pub(crate) const UNKNOWN: &str = "Unknown";

/// A request from its head to the last byte of its answer.
#[derive(Debug)]
pub(crate) struct RequestRecord {
    pub id: String,
    pub method: Method,
    started: Instant,
    target: OnceLock<Target>,
    received: AtomicU64,
    sent: AtomicU64,
    scanned: AtomicU64,
    returned: AtomicU64,
    cpu_ns: AtomicU64,
    busy_ns: AtomicU64,
}

/// Time of threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    /// On a core.
    pub cpu: Duration,
    /// From the beginning of the work to its end.
    pub busy: Duration,
}

/// What a request is about, and who sent it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub operation: String,
    pub bucket: Option<String>,
    pub key: Option<String>,
    /// The access key, if the request was signed with one.
    pub access_key: Option<String>,
}

impl RequestRecord {
    pub fn new(id: String, method: Method) -> Self {
        Self {
            id,
            method,
            started: Instant::now(),
            target: OnceLock::new(),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            scanned: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
        }
    }

    /// Says what the request is about; only the first word counts.
    pub fn identify(&self, target: Target) {
        drop(self.target.set(target));
    }

    pub fn target(&self) -> Option<&Target> {
        self.target.get()
    }

    /// The S3 operation, as far as it is known.
    pub fn operation(&self) -> &str {
        self.target.get().map_or(UNKNOWN, |target| &target.operation)
    }

    /// Bytes of the body that arrived.
    pub fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }

    /// Bytes of the answer's body that left.
    pub fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
    }

    /// Bytes that a scan read and returned.
    pub fn scanned(&self, scanned: u64, returned: u64) {
        self.scanned.fetch_add(scanned, Relaxed);
        self.returned.fetch_add(returned, Relaxed);
    }

    /// What a scan spent.
    pub fn spent(&self, time: Spent) {
        let add = |count: &AtomicU64, time: Duration| {
            count.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        };
        add(&self.cpu_ns, time.cpu);
        add(&self.busy_ns, time.busy);
    }

    /// What its scans have spent so far.
    pub fn spent_so_far(&self) -> Spent {
        let time = |count: &AtomicU64| Duration::from_nanos(count.load(Relaxed));
        Spent { cpu: time(&self.cpu_ns), busy: time(&self.busy_ns) }
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn sent_bytes(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Writes the one line that a log has of a request. Neither headers nor the query are in it: they may hold
    /// signatures.
    pub fn log(&self, status: u16, code: Option<&str>, outcome: Outcome) {
        let unknown = Target::default();
        let target = self.target.get().unwrap_or(&unknown);
        let load = |count: &AtomicU64| count.load(Relaxed);
        let ms = self.started.elapsed().as_millis() as u64;
        // One call for each level, as a macro wants it; a scan has more to tell.
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    target: "pushdowndb::request",
                    id = self.id,
                    method = self.method.as_str(),
                    operation = self.operation(),
                    // As strings, which every format quotes: names are chosen by clients and may hold anything.
                    bucket = target.bucket.as_deref(),
                    key = target.key.as_deref(),
                    access_key = target.access_key.as_deref(),
                    status,
                    code,
                    outcome = outcome.name(),
                    received = load(&self.received),
                    sent = load(&self.sent),
                    scanned = load(&self.scanned),
                    returned = load(&self.returned),
                    cpu_ms = load(&self.cpu_ns) / 1_000_000,
                    ms,
                )
            };
        }
        let failed = status >= 500 && status != 501 && status != 503;
        if failed || outcome == Outcome::Failed { line!(warn) } else { line!(info) }
    }
}

/// How the answer ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// All of it left.
    Complete,
    /// The client went away, or the node stopped.
    CutOff,
    /// The node could not go on.
    Failed,
}

impl Outcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::CutOff => "cut_off",
            Self::Failed => "failed",
        }
    }
}
