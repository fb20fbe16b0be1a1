//! CPU time of scans, counted for the node and for the request that caused it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use pushdowndb_scan::thread_cpu;

use super::access_log::{RequestRecord, ThreadTime, nanos};

/// Adds thread time to the total of the node and to the record of a request. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct CpuMeter {
    total_ns: Arc<AtomicU64>,
    record: Option<Arc<RequestRecord>>,
}

impl CpuMeter {
    /// A meter that adds to `total_ns`, and to `record` if there is one.
    pub fn new(total_ns: Arc<AtomicU64>, record: Option<Arc<RequestRecord>>) -> Self {
        Self { total_ns, record }
    }

    /// The record that the time is added to.
    pub fn record(&self) -> Option<&Arc<RequestRecord>> {
        self.record.as_ref()
    }

    /// Runs `work` on this thread and adds the time that it takes.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let (began, cpu) = (Instant::now(), thread_cpu());
        let done = work();
        let time = ThreadTime { cpu: thread_cpu().saturating_sub(cpu), busy: began.elapsed() };
        self.total_ns.fetch_add(nanos(time.cpu), Relaxed);
        if let Some(record) = &self.record {
            record.add_thread_time(time);
        }
        done
    }
}
