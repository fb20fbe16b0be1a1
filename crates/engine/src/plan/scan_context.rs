//! The context of a scan: the services and settings by which it is estimated, placed and run.

use std::collections::BTreeMap;
use std::sync::Arc;

use pushdowndb_cost::PriceBook;

use super::join_keys::{BuildKeys, JoinId, KeyFilter};
use super::scan_plan::ScanPlan;
use crate::catalog::TableDefinition;
use crate::endpoints::{Backend, Rates};
use crate::index::TableIndex;
use crate::settings::PushdownOptions;
use crate::statistics::SharedStatistics;

#[derive(Clone, Debug)]
pub(crate) struct ScanContext {
    pub(crate) backend: Arc<Backend>,
    /// The definition that checks the headers of objects, if there is any to check.
    pub(crate) definition: Option<Arc<TableDefinition>>,
    pub(crate) options: PushdownOptions,
    pub(crate) statistics: Option<SharedStatistics>,
    pub(crate) cores: usize,
    pub(crate) prices: Arc<PriceBook>,
    /// The indexes on columns that the query filters by.
    pub(crate) indexes: Arc<Vec<TableIndex>>,
    /// The keys of the joins that the plan's key filters name.
    pub(crate) join_keys: BTreeMap<JoinId, Arc<BuildKeys>>,
}

impl ScanContext {
    /// The measured rates of the backend for `plan`; defaults where statistics are off, so that
    /// choices do not depend on earlier queries.
    pub(crate) fn rates(&self, plan: &ScanPlan) -> Rates {
        match self.options.uses_statistics() {
            true => self.backend.rates(plan.table.profile),
            false => Rates::default(),
        }
    }

    /// The number of fragment requests in flight for each partition.
    pub(crate) fn fragments_at_once(&self, plan: &ScanPlan) -> usize {
        self.options.requests_at_once(plan.partitions, self.rates(plan).at_once)
    }

    /// Returns whether the objects are local files.
    pub(crate) fn is_local(&self) -> bool {
        self.backend.name().starts_with("file:")
    }

    /// The keys that `filter` waits for; never available if their join is not on this machine.
    pub(crate) fn keys_of(&self, filter: &KeyFilter) -> Arc<BuildKeys> {
        self.join_keys.get(&filter.join).cloned().unwrap_or_else(|| Arc::new(BuildKeys::unknown()))
    }
}
