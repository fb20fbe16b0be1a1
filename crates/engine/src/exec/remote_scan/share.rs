//! Division of a scan into shares, one for each process that runs it.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::physical_plan::metrics::{Count, Metric, MetricValue, MetricsSet};
use pushdowndb_contract::{Fragment, Result};
use pushdowndb_cost::Usage;

use super::RemoteScanExec;
use crate::catalog::DataObject;
use crate::exec::scan_counters::ScanCounters;
use crate::plan::placement::{Choice, Route};
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;
use crate::plan::share::Share;
use crate::plan::splits::ScanSplit;
use crate::settings::TopKStrategy;

/// The prefix of the metrics that carry the usage of a share.
const PREFIX: &str = "share";

impl RemoteScanExec {
    /// Returns how many processes can run the scan together, at most `wanted`.
    pub(crate) fn most_shares(&self, wanted: usize) -> usize {
        // Each process would read as many rows as the limit allows in total.
        if self.plan.limit.is_some() {
            return 1;
        }
        self.dealt(wanted).iter().filter(|splits| !splits.is_empty()).count().max(1)
    }

    /// Divides the scan into `shares` scans that together read each record of its objects once.
    /// `number` identifies the scan within its query.
    pub(crate) fn shares(&self, shares: usize, number: u64) -> Result<Vec<Self>> {
        self.dealt(shares).into_iter().map(|splits| self.share(splits, number)).collect()
    }

    fn dealt(&self, shares: usize) -> Vec<Vec<ScanSplit>> {
        let scan: (&ScanPlan, &ScanContext, &Fragment) = (&self.plan, &self.context, &self.fragment);
        self.placement().shared_out(scan, shares, self.partition_count())
    }

    /// Returns the scan of `splits`, without the objects that have no split.
    fn share(&self, splits: Vec<ScanSplit>, number: u64) -> Result<Self> {
        let mut places: Vec<usize> = splits.iter().map(|split| split.object).collect();
        places.sort_unstable();
        places.dedup();
        let objects: Vec<DataObject> =
            places.iter().filter_map(|place| self.plan.objects.get(*place).cloned()).collect();
        let moved = |split: ScanSplit| {
            let object = places.binary_search(&split.object).unwrap_or_default();
            ScanSplit { object, ..split }
        };
        let share = Share {
            number,
            splits: splits.into_iter().map(moved).collect(),
            partitions: self.partition_count(),
            is_kept: self.context.keeps(&self.plan),
            is_pushed: self.plan.key_filters.is_empty().then_some(self.is_pushed()),
        };
        let mut context = ScanContext { share: Some(Arc::new(share)), ..self.context.clone() };
        if self.plan.top_k.is_some() {
            context.options.top_k = self.top_k_strategy();
        }
        let plan = ScanPlan { objects: Arc::new(objects), partitions: self.partition_count(), ..self.plan.clone() };
        self.replaced(plan, context)
    }

    fn is_pushed(&self) -> bool {
        matches!(self.choice(), Choice::Storage { .. })
    }

    /// Returns how the scan's top-k runs. The planning process decides this for all shares, since
    /// other processes have fewer statistics.
    fn top_k_strategy(&self) -> TopKStrategy {
        let placement = self.placement();
        match (&placement.live_top_k, &placement.sampling) {
            (Some(_), _) => TopKStrategy::Storage,
            (None, Some(_)) => TopKStrategy::Sampling,
            (None, None) => TopKStrategy::Compute,
        }
    }

    /// Returns whether storage runs the scan through S3 Select.
    pub(crate) fn is_selected(&self) -> bool {
        matches!(self.choice(), Choice::Storage { route: Route::Select, .. })
    }

    /// Adds the usage of the scan's share to `metrics`, for the process that planned the query.
    pub(super) fn reported(&self, mut metrics: MetricsSet) -> MetricsSet {
        if let Some(share) = &self.context.share {
            for (field, value) in fields(&self.counters.usage()) {
                let count = Count::new();
                count.add(usize::try_from(value).unwrap_or(usize::MAX));
                let name = Cow::Owned(format!("{PREFIX}.{}.{field}", share.number));
                metrics.push(Arc::new(Metric::new(MetricValue::Count { name, count }, None)));
            }
        }
        metrics
    }
}

/// Returns the usage of a share as named counters.
fn fields(usage: &Usage) -> [(&'static str, u64); 13] {
    [
        ("rows", usage.rows),
        ("get", usage.requests.get),
        ("head", usage.requests.head),
        ("select", usage.requests.select),
        ("fragment", usage.requests.fragment),
        ("network", usage.bytes_network),
        ("sent", usage.bytes_sent),
        ("scanned", usage.bytes_scanned),
        ("returned", usage.bytes_returned),
        ("scanned_by_fragments", usage.bytes_scanned_by_fragments),
        ("returned_by_fragments", usage.bytes_returned_by_fragments),
        ("storage_cpu_us", (usage.storage_cpu_s * 1e6) as u64),
        ("failed", usage.requests_failed),
    ]
}

/// Extracts the usage that [`RemoteScanExec::reported`] added to `metrics`, by the number of the
/// scan.
pub(crate) fn usages(metrics: &MetricsSet) -> Vec<(u64, Usage)> {
    let mut all: Vec<(u64, Usage)> = Vec::new();
    for metric in metrics.iter() {
        let MetricValue::Count { name, count } = metric.value() else { continue };
        let mut parts = name.splitn(3, '.');
        let (Some(PREFIX), Some(number), Some(field)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let Ok(number) = number.parse::<u64>() else { continue };
        let place = all.iter().position(|(known, _)| *known == number).unwrap_or_else(|| {
            all.push((number, Usage::default()));
            all.len() - 1
        });
        set(&mut all[place].1, field, count.value() as u64);
    }
    all
}

fn set(usage: &mut Usage, field: &str, value: u64) {
    let requests = &mut usage.requests;
    let place = match field {
        "rows" => &mut usage.rows,
        "get" => &mut requests.get,
        "head" => &mut requests.head,
        "select" => &mut requests.select,
        "fragment" => &mut requests.fragment,
        "network" => &mut usage.bytes_network,
        "sent" => &mut usage.bytes_sent,
        "scanned" => &mut usage.bytes_scanned,
        "returned" => &mut usage.bytes_returned,
        "scanned_by_fragments" => &mut usage.bytes_scanned_by_fragments,
        "returned_by_fragments" => &mut usage.bytes_returned_by_fragments,
        "failed" => &mut usage.requests_failed,
        "storage_cpu_us" => {
            usage.storage_cpu_s += value as f64 / 1e6;
            return;
        }
        _ => return,
    };
    *place += value;
}

impl ScanCounters {
    /// Adds the usage of a share that another process ran.
    pub(crate) fn ran_elsewhere(&self, usage: &Usage) {
        self.busy();
        self.rows(usage.rows);
        self.meter().add(usage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_survives_as_metrics() {
        let mut usage = Usage { rows: 3, bytes_network: 5, bytes_sent: 2, requests_failed: 1, ..Usage::default() };
        usage.requests.fragment = 7;
        usage.storage_cpu_s = 0.25;
        let mut metrics = MetricsSet::new();
        for number in [4, 9] {
            for (field, value) in fields(&usage) {
                let count = Count::new();
                count.add(value as usize);
                let name = Cow::Owned(format!("{PREFIX}.{number}.{field}"));
                metrics.push(Arc::new(Metric::new(MetricValue::Count { name, count }, None)));
            }
        }
        let foreign = MetricValue::Count { name: Cow::Borrowed("share.x.rows"), count: Count::new() };
        metrics.push(Arc::new(Metric::new(foreign, None)));
        assert_eq!(usages(&metrics), [(4, usage.clone()), (9, usage)]);
    }
}
