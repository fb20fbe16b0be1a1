//! Metrics of a scan.

use std::sync::atomic::Ordering::Relaxed;

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use pushdowndb_cost::Meter;

use super::index_state::LookupOutcomes;

/// Metrics shown by EXPLAIN ANALYZE.
pub(crate) struct ScanMetrics {
    network: Count,
    scanned: Count,
    returned: Count,
    get: Count,
    select: Count,
    fragment: Count,
    head: Count,
    index_rows: Count,
    index_objects: Count,
    index_unused: Count,
}

impl ScanMetrics {
    pub(crate) fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(set).counter(name, partition);
        Self {
            network: counter("bytes_network"),
            scanned: counter("bytes_scanned"),
            returned: counter("bytes_returned"),
            get: counter("requests_get"),
            select: counter("requests_select"),
            fragment: counter("requests_fragment"),
            head: counter("requests_head"),
            index_rows: counter("index_rows"),
            index_objects: counter("index_objects"),
            index_unused: counter("index_unused"),
        }
    }

    pub(crate) fn record(&self, meter: &Meter, outcomes: &LookupOutcomes) {
        let usage = meter.usage();
        let add = |count: &Count, n: u64| count.add(usize::try_from(n).unwrap_or(usize::MAX));
        add(&self.network, usage.bytes_network);
        add(&self.scanned, usage.bytes_scanned);
        add(&self.returned, usage.bytes_returned);
        add(&self.get, usage.requests.get);
        add(&self.select, usage.requests.select);
        add(&self.fragment, usage.requests.fragment);
        add(&self.head, usage.requests.head);
        add(&self.index_rows, outcomes.rows.load(Relaxed));
        add(&self.index_objects, outcomes.objects.load(Relaxed));
        add(&self.index_unused, outcomes.scanned.load(Relaxed));
    }
}
