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
use crate::settings::{Objective, PushdownOptions};
use crate::statistics::SharedStatistics;

#[derive(Clone, Debug)]
pub(crate) struct ScanContext {
    pub(crate) backend: Arc<Backend>,
    /// Nodes in front of the backend that run fragments, if any.
    pub(crate) fleet: Option<Arc<Fleet>>,
    /// Table definition, which checks the headers of objects; `None` if there is nothing to check.
    pub(crate) definition: Option<Arc<TableDefinition>>,
    pub(crate) options: PushdownOptions,
    pub(crate) statistics: Option<SharedStatistics>,
    pub(crate) cores: usize,
    pub(crate) prices: Arc<PriceBook>,
    /// Indexes on columns that the query filters by.
    pub(crate) indexes: Arc<Vec<TableIndex>>,
    /// The keys of the joins that the plan's key filters name.
    pub(crate) join_keys: BTreeMap<JoinId, Arc<BuildKeys>>,
    /// Share of the scan that this process runs; `None` if it runs the whole scan.
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
    /// Returns the measured rates of the backend for `plan`, or defaults if statistics are off, so
    /// that choices do not depend on earlier queries.
    pub(crate) fn rates(&self, plan: &ScanPlan) -> Rates {
        match self.options.uses_statistics() {
            true => {
                let rates = self.backend.rates(plan.table.profile);
                self.behind_uplink(self.fleet.as_ref().map_or(rates, |fleet| fleet.rates(rates)))
            }
            false => Rates::default(),
        }
    }

    /// Limits the network throughput of `rates` to that of the link which all endpoints share.
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

    /// Returns what storage can evaluate of a scan of `plan`.
    pub(crate) fn capability(&self, plan: &ScanPlan) -> Capability {
        let of_fleet = self.fleet.as_ref().and_then(|fleet| fleet.capability());
        of_fleet.unwrap_or_else(|| self.backend.capability(plan.table.profile))
    }

    /// Returns a client of the fragment route for requests about `object`.
    pub(crate) fn fragment_client(&self, object: &DataObject, meters: &Meters) -> Result<FragmentClient> {
        self.backend.fragment_client(object, self.fleet.as_ref(), meters, &self.options)
    }

    /// Returns a client of S3 Select for `object`.
    pub(crate) fn select_client(&self, object: &DataObject, meters: &Meters) -> Result<SelectClient> {
        self.backend.select_client(object, self.fleet.as_ref(), meters, &self.options)
    }

    /// Returns whether the objects of `plan` are read once and kept, with nothing pushed to
    /// storage: those of a small table on a remote server that versions objects. Index objects are
    /// not kept, nor is a table with an index that may find the rows.
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

    /// Returns how `store` holds the objects of `splits`, which must all lie in the same stores.
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

    /// Returns whether one request may have splits of both objects, since the same stores hold
    /// them.
    pub(crate) fn same_stores(&self, a: &DataObject, b: &DataObject) -> bool {
        self.backend.number_of(a) == self.backend.number_of(b) && a.replicas == b.replicas
    }

    /// Returns the fleet's node for a split; `None` if there is no fleet.
    pub(crate) fn node_of(&self, object: &DataObject, split: &ScanSplit) -> Option<usize> {
        let offset = split.range.as_ref().map_or(0, |range| range.start);
        let place = Place::of(object.path.as_ref(), object.etag.as_deref(), offset);
        self.fleet.as_ref().map(|fleet| fleet.home(&place))
    }

    /// Returns the number of fragment requests that each partition has in flight at each store.
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

    /// Returns whether scans that wait for no keys begin before their first row is wanted, so that
    /// the latencies of a far server do not add up over the joins of a query. A join with an empty
    /// build side then has read a part of its probe side for nothing: with objective `cost` no scan
    /// begins early.
    pub(crate) fn begins_at_once(&self) -> bool {
        self.backend.is_far() && self.options.reads != 1 && self.options.objective != Objective::Cost
    }

    /// Returns the keys that `filter` waits for. They are never available if their join runs in
    /// another process.
    pub(crate) fn keys_of(&self, filter: &KeyFilter) -> Arc<BuildKeys> {
        self.join_keys.get(&filter.join).cloned().unwrap_or_else(|| Arc::new(BuildKeys::unknown()))
    }
}
