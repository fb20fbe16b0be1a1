//! The context of a scan: the services and settings by which it is estimated, placed and run.

use std::collections::BTreeMap;
use std::sync::Arc;

use pushdowndb_contract::{Capability, Result};
use pushdowndb_cost::PriceBook;

use super::join_keys::{BuildKeys, JoinId, KeyFilter};
use super::scan_plan::ScanPlan;
use super::share::Share;
use super::splits::ScanSplit;
use crate::catalog::{DataObject, TableDefinition};
use crate::endpoints::{Backend, Fleet, FragmentClient, Meters, Place, Rates, SelectClient};
use crate::index::TableIndex;
use crate::settings::PushdownOptions;
use crate::statistics::SharedStatistics;

#[derive(Clone, Debug)]
pub(crate) struct ScanContext {
    pub(crate) backend: Arc<Backend>,
    /// The nodes before the backend, to which fragments go.
    pub(crate) fleet: Option<Arc<Fleet>>,
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
    /// The share of the scan that this process runs; `None` is all of it.
    pub(crate) share: Option<Arc<Share>>,
}

/// How a store holds an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Held {
    AtHome,
    AsReplica,
    Nowhere,
}

impl ScanContext {
    /// The measured rates of the backend for `plan`; defaults where statistics are off, so that
    /// choices do not depend on earlier queries.
    pub(crate) fn rates(&self, plan: &ScanPlan) -> Rates {
        match self.options.uses_statistics() {
            true => {
                let rates = self.backend.rates(plan.table.profile);
                self.behind_uplink(self.fleet.as_ref().map_or(rates, |fleet| fleet.rates(rates)))
            }
            false => Rates::default(),
        }
    }

    /// `rates` with a network that is no faster than the link which all endpoints share.
    fn behind_uplink(&self, rates: Rates) -> Rates {
        match self.options.uplink {
            0 => rates,
            uplink => Rates {
                network_bytes_per_s: rates.network_bytes_per_s.min(uplink as f64),
                knows_network: rates.knows_network || self.backend.stores() > 1,
                ..rates
            },
        }
    }

    /// What storage can do of a scan of `plan`.
    pub(crate) fn capability(&self, plan: &ScanPlan) -> Capability {
        let of_fleet = self.fleet.as_ref().and_then(|fleet| fleet.capability());
        of_fleet.unwrap_or_else(|| self.backend.capability(plan.table.profile))
    }

    /// A client for the fragment route, for requests about `object`.
    pub(crate) fn fragment_client(&self, object: &DataObject, meters: &Meters) -> Result<FragmentClient> {
        self.backend.fragment_client(object, self.fleet.as_ref(), meters, &self.options)
    }

    /// A client for S3 Select of `object`.
    pub(crate) fn select_client(&self, object: &DataObject, meters: &Meters) -> Result<SelectClient> {
        self.backend.select_client(object, self.fleet.as_ref(), meters, &self.options)
    }

    /// Whether the objects of `plan` are read once and kept, and nothing is pushed to them: a small
    /// table of a server whose objects have versions. Indexes are no tables, and where one may find
    /// the rows, it is asked.
    pub(crate) fn keeps(&self, plan: &ScanPlan) -> bool {
        if let Some(share) = &self.share {
            return share.is_kept;
        }
        self.definition.is_some()
            && self.indexes.is_empty()
            && !self.is_local()
            && plan.bytes() <= self.options.kept_table_bytes()
            && plan.objects.iter().all(|object| object.etag.is_some())
    }

    /// How `store` holds the object of `splits`, which all have the same stores.
    pub(crate) fn held(&self, plan: &ScanPlan, splits: &[ScanSplit], store: usize) -> Held {
        let Some(object) = splits.first().and_then(|split| plan.objects.get(split.object)) else {
            return Held::AtHome;
        };
        match self.backend.number_of(object) == store {
            true => Held::AtHome,
            false if object.replicas.contains(&store) => Held::AsReplica,
            false => Held::Nowhere,
        }
    }

    /// Whether one request may have splits of both objects: the same stores hold them.
    pub(crate) fn same_stores(&self, a: &DataObject, b: &DataObject) -> bool {
        self.backend.number_of(a) == self.backend.number_of(b) && a.replicas == b.replicas
    }

    /// The node that has a split, if there are several.
    pub(crate) fn node_of(&self, object: &DataObject, split: &ScanSplit) -> Option<usize> {
        let offset = split.range.as_ref().map_or(0, |range| range.start);
        let place = Place::of(object.path.as_ref(), object.etag.as_deref(), offset);
        self.fleet.as_ref().map(|fleet| fleet.home(&place))
    }

    /// The number of fragment requests in flight for each partition, at each store.
    pub(crate) fn fragments_at_once(&self, plan: &ScanPlan) -> Vec<usize> {
        let stores = self.backend.stores();
        if stores == 1 {
            return vec![self.options.requests_at_once(plan.partitions, self.rates(plan).at_once)];
        }
        let of = |number| {
            let store = self.backend.store_number(number).filter(|_| self.options.uses_statistics());
            let rates = store.map(|store| store.rates(plan.table.profile)).unwrap_or_default();
            self.options.requests_at_once(plan.partitions, rates.at_once)
        };
        (0..stores).map(of).collect()
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
