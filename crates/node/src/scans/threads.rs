//! The threads of scans, and the account that their work is charged to.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use pushdowndb_scan::{Interrupt, Task, lend_long};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::telemetry::{CpuMeter, RequestRecord};

/// The threads that run scans.
#[derive(Debug)]
pub(super) struct ScanThreads {
    /// `None` only during drop.
    runtime: Option<Runtime>,
    cpu_ns: Arc<AtomicU64>,
}

impl ScanThreads {
    /// Starts `threads` threads.
    pub fn start(threads: usize) -> io::Result<Arc<Self>> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).thread_name("scan").enable_all();
        Ok(Arc::new(Self { runtime: Some(builder.build()?), cpu_ns: Arc::default() }))
    }

    /// The CPU time of all work so far.
    pub fn cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu_ns.load(Relaxed))
    }

    /// The number of live tasks.
    pub fn tasks(&self) -> usize {
        self.runtime.as_ref().map_or(0, |runtime| runtime.metrics().num_alive_tasks())
    }
}

impl Drop for ScanThreads {
    fn drop(&mut self) {
        // Dropping a runtime inside an async task panics. This aborts running tasks instead of
        // waiting.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs work on the scan threads and charges its CPU time to a request. May outlive the permit.
#[derive(Clone, Debug)]
pub(crate) struct CpuAccount {
    threads: Arc<ScanThreads>,
    meter: CpuMeter,
    interrupt: Interrupt,
}

impl CpuAccount {
    pub(super) fn new(threads: &Arc<ScanThreads>, record: Option<Arc<RequestRecord>>, interrupt: Interrupt) -> Self {
        let meter = CpuMeter::new(Arc::clone(&threads.cpu_ns), record);
        Self { threads: Arc::clone(threads), meter, interrupt }
    }

    /// The request that is charged, and its interrupt.
    pub(super) fn request(&self) -> (Option<Arc<RequestRecord>>, Interrupt) {
        (self.meter.record().cloned(), self.interrupt.clone())
    }

    /// The meter for work on other threads that is charged to the same request.
    pub fn meter(&self) -> &CpuMeter {
        &self.meter
    }

    /// Spawns `work`; dropping the result cancels it, even if it never yields.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Task<T> {
        Task::start(&self.interrupt, work, |work| self.start(work))
    }

    pub(super) fn start<T: Send + 'static>(&self, work: Pin<Box<dyn Future<Output = T> + Send>>) -> JoinHandle<T> {
        let metered = Metered { work, meter: self.meter.clone() };
        match &self.threads.runtime {
            Some(runtime) => runtime.spawn(metered),
            None => tokio::spawn(metered),
        }
    }

    /// Returns an error if the client has disconnected or the time of the request is up.
    pub fn check(&self) -> pushdowndb_contract::Result<()> {
        self.interrupt.check()
    }

    /// Adds the bytes that a scan read and returned.
    pub fn add_bytes(&self, scanned: u64, returned: u64) {
        if let Some(record) = self.meter.record() {
            record.scanned(scanned, returned);
        }
    }
}

/// A future whose polls are charged to `meter`.
struct Metered<T> {
    work: Pin<Box<dyn Future<Output = T> + Send>>,
    meter: CpuMeter,
}

impl<T> Future for Metered<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Self { work, meter } = &mut *self;
        meter.time(|| lend_long(|| work.as_mut().poll(cx)))
    }
}
