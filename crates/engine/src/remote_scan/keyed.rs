//! Scans that wait for the keys of a join above them.

use std::sync::Arc;

use pushdown::Result;

use super::spec::WithoutKeys;
use super::{RemoteScanExec, ScanSpec};
use crate::query::QueryContext;
use crate::settings::{HighestLevel, Side};
use crate::strategies::decision::Story;
use crate::strategies::filter::{self, Choice, Route};
use crate::strategies::join::{self, KeyFilter, Learned};

impl RemoteScanExec {
    /// The same scan, filtered by these keys too.
    pub(crate) fn with_key_filters(&self, more: Vec<Arc<KeyFilter>>) -> Result<Self> {
        let key_filters = self.spec.key_filters.iter().cloned().chain(more).collect();
        self.in_place(ScanSpec { key_filters, ..self.spec.clone() })
    }

    /// The same scan with what a join chose for it, for EXPLAIN.
    pub(crate) fn with_join(&self, story: Story) -> Self {
        let mut scan = self.clone();
        scan.spec.joins.push(Arc::new(story));
        scan
    }

    /// Whether it yields rows, all of them, so that leaving some out leaves nothing else out.
    pub(crate) fn yields_rows(&self) -> bool {
        self.spec.aggregate.is_none() && self.spec.limit.is_none() && self.spec.top_k.is_none()
    }

    /// The same scan at level none.
    pub(crate) fn read_plainly(&self) -> Result<Self> {
        let mut spec = self.spec.clone();
        spec.options.level = HighestLevel::None;
        self.in_place(spec)
    }

    /// The filters by keys, for EXPLAIN.
    pub(super) fn shown_keys(&self) -> String {
        let schema = &self.fragment.schema;
        let shown = |filter: &Arc<KeyFilter>| format!("{} of {}", filter.key.display(schema), filter.of);
        let keys: Vec<String> = self.spec.key_filters.iter().map(shown).collect();
        if keys.is_empty() { String::new() } else { format!(", keys=[{}]", keys.join(", ")) }
    }

    /// The scan as it is once the keys are known: with a predicate in the place of its key filters. `None` if no row
    /// can have one of the keys.
    pub(super) async fn keyed(&self, query: &QueryContext) -> Result<Option<Arc<Self>>> {
        let learn = || async {
            let plain = ScanSpec { key_filters: vec![], ..self.spec.clone() };
            let exact = plain.aggregate.is_some();
            let options = &self.spec.options;
            let filters = &self.spec.key_filters;
            let route = filter::route(&self.fragment, &self.capability, options, Side::Auto).ok();
            let learned = join::learn(filters, &self.fragment, exact, route, &self.capability, options).await?;
            let (learned, stories) = learned;
            self.note_keys().await;
            query.meter.strategy(format!("{}: join by {}", self.spec.name, stories.join("; ")));
            let keys = match learned {
                Learned::Nothing => return Ok(None),
                Learned::Keys(None) => None,
                Learned::Keys(Some(keys)) => filter::both(plain.predicate.clone(), Some(keys)),
            };
            let without_keys =
                || WithoutKeys { predicate: self.fragment.predicate.clone(), rows: self.figures().rows() };
            let keyed = keys.map(|keys| {
                let without_keys = Some(Arc::new(without_keys()));
                self.in_place(ScanSpec { predicate: Some(keys), without_keys, ..plain.clone() })
            });
            // Plain reads look the keys up as our node does. In SQL they are long: if storage cannot be asked for all of them, it is
            // asked for none of them.
            let is_of_use =
                |keyed: &Self| route != Some(Route::Select) || matches!(keyed.choice, Choice::Storage { .. });
            let scan = match keyed.transpose()?.filter(is_of_use) {
                Some(keyed) => keyed,
                None => self.in_place(plain)?,
            };
            Ok(Some(Arc::new(self.counting(scan))))
        };
        self.keyed.get_or_try_init(learn).await.cloned()
    }

    /// Remembers how many keys the build sides had.
    pub(super) async fn note_keys(&self) {
        let Some(statistics) = &self.spec.statistics else { return };
        for filter in &self.spec.key_filters {
            if let (Some(keys), Some(side)) = (filter.keys.seen(filter.index).await, filter.side) {
                statistics.seen().note_keys(side, keys);
            }
        }
    }
}
