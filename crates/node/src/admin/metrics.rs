//! Metrics of a node in the OpenMetrics text format.
//!
//! Nothing is counted here; each request for the metrics copies the counters of the node. Labels
//! are operations and statuses, never names chosen by clients, so the output has a bounded size.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use pushdowndb_scan::MemoryBudget;

use crate::Limits;
use crate::admission::{Admission, Connections};
use crate::process::process_stats;
use crate::scans::ScanScheduler;
use crate::store::Store;
use crate::telemetry::LiveCounters;

/// Upper bounds of the buckets of the request duration histogram, in seconds.
const DURATION_BUCKETS_S: [f64; 11] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 600.0];

type Label = [(&'static str, String); 1];

/// A histogram of request durations by operation.
#[derive(Clone, Debug)]
pub(crate) struct Durations(Family<Label, Histogram, fn() -> Histogram>);

impl Default for Durations {
    fn default() -> Self {
        Self(Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS_S)))
    }
}

impl Durations {
    pub fn observe(&self, operation: &str, time: Duration) {
        self.0.get_or_create(&[("operation", operation.to_owned())]).observe(time.as_secs_f64());
    }
}

/// The counters and states that metrics are read from.
#[derive(Debug)]
pub(crate) struct MetricSources {
    pub counting: Arc<LiveCounters>,
    pub connections: Arc<Connections>,
    pub admission: Arc<Admission>,
    pub scans: Weak<ScanScheduler>,
    pub store: Weak<dyn Store>,
    pub memory: MemoryBudget,
    pub limits: Limits,
}

/// The metric registry of a node.
pub(crate) struct Metrics {
    registry: Registry,
}

impl Metrics {
    pub fn new(sources: MetricSources, durations: &Durations) -> Self {
        let mut registry = Registry::with_prefix("pushdowndb");
        let help = "Time from the head of a request to the end of its answer";
        registry.register_with_unit("request_duration", help, Unit::Seconds, durations.0.clone());
        registry.register_collector(Box::new(NodeCollector { sources, started: Instant::now() }));
        Self { registry }
    }

    /// Encodes the current values.
    pub fn text(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(error) => {
                tracing::error!(%error, "cannot write the metrics");
                String::new()
            }
        }
    }
}

#[derive(Debug)]
struct NodeCollector {
    sources: MetricSources,
    started: Instant,
}

impl Collector for NodeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        use std::sync::atomic::Ordering::Relaxed;
        let MetricSources { counting, connections, admission, scans, store, memory, limits } = &self.sources;
        let count = counting.read();

        let mut family = encoder.encode_descriptor(
            "requests",
            "Answered requests by S3 operation and HTTP status",
            None,
            MetricType::Counter,
        )?;
        for ((operation, status), answers) in &count.answers {
            let labels = [("operation", operation.clone()), ("code", status.to_string())];
            ConstCounter::new(*answers).encode(family.encode_family(&labels)?)?;
        }

        let mut out = Unlabeled(&mut encoder);
        out.counter("received_bytes", "Bytes read from sockets", count.bytes_received as f64)?;
        out.counter("sent_bytes", "Bytes written to sockets", count.bytes_sent as f64)?;
        out.counter("scanned_bytes", "Bytes that S3 Select read from objects", count.bytes_scanned as f64)?;
        out.counter("returned_bytes", "Bytes of rows that S3 Select returned", count.bytes_returned as f64)?;
        out.counter("zone_hits", "Splits of objects whose zones were known already", count.zone_hits as f64)?;
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed) as f64;
        out.counter("requests_refused", "Requests told to slow down on arrival", admission.refused() as f64)?;
        out.counter("answers_cut_off", "Answers that their client did not take whole", load(&counting.cut_off))?;
        out.counter("answers_failed", "Answers that the node could not finish", load(&counting.failed))?;
        out.gauge("connections", "Open connections", count.connections as f64)?;
        out.counter("connections_closed", "Connections closed to make room for others", connections.closed() as f64)?;
        out.gauge("connections_limit", "Open connections allowed", limits.connections as f64)?;
        out.gauge("requests_in_flight", "Requests whose answer has not left yet", count.requests_in_flight as f64)?;
        out.gauge("requests_limit", "Requests allowed at once", limits.requests as f64)?;

        out.gauge("memory_bound_bytes", "Memory that the process may hold", limits.memory_bytes as f64)?;
        out.gauge("memory_limit_bytes", "Memory that requests may take", memory.limit() as f64)?;
        out.gauge("memory_used_bytes", "Memory that requests have taken", memory.used() as f64)?;
        out.gauge("memory_peak_bytes", "The most memory that requests had taken at once", memory.peak() as f64)?;
        out.counter("memory_refused", "Requests for memory that was not there", memory.refused() as f64)?;

        if let Some(scans) = scans.upgrade() {
            out.gauge("zone_bytes", "Memory of what is known of values in objects", scans.zones().size_bytes() as f64)?;
            out.gauge(
                "footer_bytes",
                "Memory of known footers of Parquet objects",
                scans.footers().size_bytes() as f64,
            )?;
            let scans = scans.figures();
            out.gauge("scans_active", "Scans running now", scans.active as f64)?;
            out.gauge("scans_limit", "Scans allowed at once", limits.selects as f64)?;
            out.gauge("scan_tasks", "Live tasks on the threads of scans", scans.tasks as f64)?;
            out.gauge("scans_waiting", "Scans waiting for their turn", scans.waiting as f64)?;
            out.counter("scans_refused", "Scans told to slow down", scans.refused as f64)?;
            out.counter("scan_wait_seconds", "Time that scans waited for their turn", scans.waited.as_secs_f64())?;
            out.counter("scan_cpu_seconds", "Time that scans spent on a core", scans.cpu.as_secs_f64())?;
        }
        if let Some(store) = store.upgrade() {
            for (name, help, value) in store.figures() {
                out.gauge(name, help, value as f64)?;
            }
            for (name, help, value) in store.totals() {
                out.counter(name, help, value as f64)?;
            }
        }

        if let Some(process) = process_stats() {
            out.counter("process_cpu_seconds", "Time that the process spent on cores", process.cpu_s)?;
            out.gauge("process_resident_bytes", "Memory of the process", process.resident_bytes as f64)?;
            out.gauge("process_open_files", "Open file descriptors of the process", process.files as f64)?;
            out.gauge("process_threads", "Threads of the process", process.threads as f64)?;
        }
        let tasks = tokio::runtime::Handle::try_current().map_or(0, |handle| handle.metrics().num_alive_tasks());
        out.gauge("tasks", "Live tasks of the server", tasks as f64)?;
        let since =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(self.started.elapsed());
        out.gauge("start_time_seconds", "When the node started, in seconds since 1970", since.as_secs_f64())?;
        let mut build = encoder.encode_descriptor("build", "The version of the node", None, MetricType::Gauge)?;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        ConstGauge::new(1u64).encode(build.encode_family(&version)?)
    }
}

/// Encodes metrics without labels.
struct Unlabeled<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Unlabeled<'_, '_> {
    fn counter(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let metric = ConstCounter::new(value);
        metric.encode(self.0.encode_descriptor(name, help, None, MetricType::Counter)?)
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let metric = ConstGauge::new(value);
        metric.encode(self.0.encode_descriptor(name, help, None, MetricType::Gauge)?)
    }
}
