//! Index use of a scan: the chosen look-up, and the row locations it found.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use object_store::path::Path;
use pushdowndb_contract::wire::{INDEX_VERSION, IndexObject, Lookups};
use pushdowndb_contract::{Capability, Split};

use crate::catalog::DataObject;
use crate::context::QueryContext;
use crate::plan::placement::{Choice, Route};
use crate::strategies::index::{IndexChoice, Lookup};

#[derive(Clone, Debug)]
pub(crate) struct IndexState {
    pub(crate) verdict: IndexChoice,
    /// Whether the storage node looks rows up, rather than the engine.
    pub(crate) by_node: bool,
    /// The row locations found by the engine; `None` before its look-up.
    pub(crate) locations: Option<Arc<RowLocations>>,
}

/// Row locations found by a look-up.
#[derive(Debug, Default)]
pub(crate) struct RowLocations {
    /// Ascending row locations by object number: ranges of row numbers in Parquet objects, byte
    /// ranges in others. Objects without an entry are scanned.
    pub(crate) by_object: HashMap<usize, Vec<Range<u64>>>,
}

impl IndexState {
    pub(crate) fn new(verdict: IndexChoice, by_node: bool) -> Self {
        Self { verdict, by_node, locations: None }
    }

    /// Returns the look-up if the node makes it.
    pub(crate) fn by_node(&self) -> Option<&Lookup> {
        self.lookup().filter(|_| self.by_node)
    }

    pub(crate) fn lookup(&self) -> Option<&Lookup> {
        match &self.verdict {
            IndexChoice::Use(lookup) => Some(lookup),
            IndexChoice::None | IndexChoice::Refuse(_) => None,
        }
    }

    /// Returns the look-up if the engine has yet to make it.
    pub(crate) fn pending(&self) -> Option<&Lookup> {
        self.lookup().filter(|_| self.locations.is_none() && !self.by_node)
    }

    pub(crate) fn locations(&self) -> Option<Arc<RowLocations>> {
        self.locations.clone()
    }

    /// Returns the paths of the objects whose scan an index replaces.
    pub(crate) fn covered(&self, objects: &[DataObject]) -> HashSet<Path> {
        let covered = self.lookup().into_iter().flat_map(|lookup| objects.iter().zip(&lookup.covered));
        covered.filter(|(_, covered)| **covered).map(|(object, _)| object.path.clone()).collect()
    }
}

/// Returns whether a scan placed by `choice` can leave look-ups to the node.
pub(crate) fn is_left_to_node(choice: &Choice, capability: &Capability) -> bool {
    let speaks = capability.fragment.is_some_and(|version| version >= INDEX_VERSION);
    speaks && matches!(choice, Choice::Storage { route: Route::Fragment, .. })
}

impl Lookup {
    /// Reports that the look-up in the indexes of `table` found `rows` rows in `objects` objects.
    pub(crate) fn report(&self, query: &QueryContext, table: &str, rows: u64, objects: u64) {
        let names = self.names();
        query.meter.strategy(format!("{table}: the index {names} led to {rows} rows in {objects} objects"));
    }

    /// Returns whether an index replaces the scan of `object`.
    pub(crate) fn covers(&self, object: usize) -> bool {
        self.covered.get(object).copied().unwrap_or(false)
    }

    /// Returns whether the indexes rule out every row of `object`.
    pub(crate) fn rules_out(&self, object: usize) -> bool {
        let targets = self.probes.iter().flat_map(|probe| &probe.targets);
        targets.filter(|target| target.object == object).any(|target| target.expected.ranges.is_empty())
    }

    /// Returns the look-up in wire form, for a request with a split of each object in `objects`.
    pub(crate) fn for_splits(&self, objects: impl Iterator<Item = usize>) -> Lookups {
        let mut lookups = Lookups::default();
        lookups.probes.extend(self.probes.iter().map(|probe| pushdowndb_contract::wire::Probe {
            column: probe.index.column,
            predicate: probe.predicate.clone(),
        }));
        for (split, object) in objects.enumerate() {
            for (place, probe) in self.probes.iter().enumerate() {
                let of_object = probe.targets.iter().filter(|target| target.object == object);
                lookups.objects.extend(of_object.map(|target| IndexObject {
                    split,
                    probe: place,
                    object: Split {
                        key: target.file.location.as_ref().into(),
                        etag: target.file.e_tag.clone(),
                        size: target.file.size,
                        range: None,
                    },
                    ranges: target.expected.ranges.clone(),
                }));
            }
        }
        lookups
    }

    pub(crate) fn names(&self) -> String {
        let names: Vec<_> = self.probes.iter().map(|probe| probe.index.name.as_str()).collect();
        names.join(" and ")
    }
}

/// Counts of the results of look-ups made by a node.
#[derive(Debug, Default)]
pub(crate) struct LookupOutcomes {
    pub(crate) rows: AtomicU64,
    pub(crate) objects: AtomicU64,
    /// Objects scanned despite an index.
    pub(crate) scanned: AtomicU64,
}

impl RowLocations {
    pub(crate) fn of(&self, object: usize) -> Option<&[Range<u64>]> {
        self.by_object.get(&object).map(Vec::as_slice)
    }
}
