//! The access log: one record per request, logged and counted once when the request has ended.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use http::Method;

/// The operation of requests that were refused before it was determined.
pub(crate) const UNKNOWN_OPERATION: &str = "Unknown";

/// A request from its head to the last byte of its response.
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

/// The time that threads spent on a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadTime {
    /// CPU time.
    pub cpu: Duration,
    /// Wall-clock time during which the work ran.
    pub busy: Duration,
}

/// The operation and resource of a request, and its signer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub operation: String,
    pub bucket: Option<String>,
    pub key: Option<String>,
    /// The access key of a signed request.
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

    /// Records the operation, bucket, object key and access key of the request for the access log.
    /// Calls after the first have no effect.
    pub fn identify(&self, target: Target) {
        drop(self.target.set(target));
    }

    pub fn target(&self) -> Option<&Target> {
        self.target.get()
    }

    /// The S3 operation, or [`UNKNOWN_OPERATION`].
    pub fn operation(&self) -> &str {
        self.target.get().map_or(UNKNOWN_OPERATION, |target| &target.operation)
    }

    /// Adds received bytes of the body.
    pub fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }

    /// Adds sent bytes of the response body.
    pub fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
    }

    /// Adds bytes that a scan read from objects and returned to the client.
    pub fn scanned(&self, scanned: u64, returned: u64) {
        self.scanned.fetch_add(scanned, Relaxed);
        self.returned.fetch_add(returned, Relaxed);
    }

    /// Adds thread time of a scan.
    pub fn add_thread_time(&self, time: ThreadTime) {
        self.cpu_ns.fetch_add(nanos(time.cpu), Relaxed);
        self.busy_ns.fetch_add(nanos(time.busy), Relaxed);
    }

    /// The thread time of its scans so far.
    pub fn thread_time(&self) -> ThreadTime {
        let time = |count: &AtomicU64| Duration::from_nanos(count.load(Relaxed));
        ThreadTime { cpu: time(&self.cpu_ns), busy: time(&self.busy_ns) }
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub fn sent_bytes(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Writes the log line of the request. Headers and the query are left out: they may hold
    /// signatures.
    pub fn log(&self, status: u16, code: Option<&str>, outcome: Outcome) {
        let unknown = Target::default();
        let target = self.target.get().unwrap_or(&unknown);
        let load = |count: &AtomicU64| count.load(Relaxed);
        let ms = self.started.elapsed().as_millis() as u64;
        // Expands to one call per level, since the macro needs a constant level.
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    target: "pushdowndb::request",
                    id = self.id,
                    method = self.method.as_str(),
                    operation = self.operation(),
                    // Logged as strings, which every format quotes, since clients choose the names.
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

/// How the response ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// The whole response was sent.
    Complete,
    /// The client disconnected, or the node stopped.
    CutOff,
    /// The node failed.
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

/// A duration in nanoseconds, saturating after 584 years.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
