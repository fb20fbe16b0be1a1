//! Filter by an index: the predicate goes to the index, then the rows it led to are read (PushdownDB, Section IV-A).
//!
//! ```text
//! l_orderkey = 7 AND l_tax > 0      index of l_orderkey  ->  places  ->  those records  ->  the whole predicate again
//! ```
//!
//! Only conjuncts on an indexed column alone are looked up, and only those that never hold for NULL, which an index
//! leaves out. Several indexed columns are looked up each, and the places that all of them name are read. It is the
//! best strategy for few rows: each of them costs a request, where S3 Select scans an object in one.

mod costs;

use std::sync::Arc;

use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, Schema};
use object_store::ObjectMeta;
use pushdown::{Expr, Format, Fragment, Result};
use pushdowndb_scan::Evaluator;

use super::estimate::{Estimate, Model};
use super::filter::Choice;
use crate::index::{Expected, TableIndex};
use crate::remote_scan::{Figures, ScanSpec};
use crate::settings::IndexUse;
use crate::table::DataObject;
use costs::LookupCosts;

/// A further index must leave out at least so much of what the best one leads to.
const FURTHER_SHARE: f64 = 0.5;

/// A look-up in place of the scan of some objects.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// One for each index that is used; never empty.
    pub(crate) probes: Vec<Probe>,
    /// For each object of the scan, whether an index stands for it.
    pub(crate) covered: Vec<bool>,
    /// Whether it is used however many rows it leads to.
    pub(crate) always: bool,
    /// About how many rows it leads to.
    pub(crate) hits: f64,
    pub(crate) estimate: Estimate,
    /// Of what would be done without an index.
    pub(crate) otherwise: Estimate,
    /// Whether the node looks it up.
    by_node: bool,
}

/// What is looked for in one index.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) index: TableIndex,
    /// Over the index's columns.
    pub(crate) predicate: Expr,
    pub(crate) targets: Vec<Target>,
    hits: f64,
    entries: f64,
}

/// The index of one object.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The object's place in the scan.
    pub(crate) object: usize,
    pub(crate) file: ObjectMeta,
    pub(crate) expected: Expected,
}

/// What came of looking for an index.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// No index is on a column that the predicate restricts.
    None,
    Use(Box<Lookup>),
    /// There is one, and this speaks against it.
    Refuse(String),
}

/// Chooses for a fragment that yields rows; `otherwise` is how it would be scanned, `by_node` whether the node does the
/// work.
pub(crate) fn choose(spec: &ScanSpec, fragment: &Fragment, otherwise: &Choice, by_node: bool) -> Result<Verdict> {
    let (indexes, objects) = (&spec.indexes, &spec.objects);
    let always = match spec.options.index_use() {
        IndexUse::Never => return Ok(Verdict::None),
        IndexUse::Auto => false,
        IndexUse::Always => true,
    };
    let Some(predicate) = fragment.predicate.as_ref().filter(|_| !indexes.is_empty()) else { return Ok(Verdict::None) };
    let conjuncts = predicate.clone().into_conjuncts();
    let mut probes = Vec::new();
    let mut stale = None;
    for index in indexes.iter() {
        let value = fragment.schema.field(index.column).data_type();
        let own = own_conjuncts(&conjuncts, index.column, value);
        if own.is_empty() {
            continue;
        }
        let probe = Probe::new(index, own, objects)?;
        match probe.targets.is_empty() {
            true => stale = Some(index.name.clone()),
            false => probes.push(probe),
        }
    }
    if probes.is_empty() {
        return Ok(match stale {
            Some(name) => Verdict::Refuse(format!("index {name} is stale: its objects were replaced since")),
            None => Verdict::None,
        });
    }
    let probes = select(probes, always);
    let mut covered = vec![false; objects.len()];
    for target in probes.iter().flat_map(|probe| &probe.targets) {
        if let Some(covered) = covered.get_mut(target.object) {
            *covered = true;
        }
    }
    let first = probes.first().map_or(0.0, |probe| probe.hits);
    let hits = probes.iter().skip(1).fold(first, |hits, further| hits * further.share());
    let model = Model::of(spec);
    let bytes: u64 = objects.iter().zip(&covered).filter(|(_, covered)| **covered).map(|(object, _)| object.size).sum();
    let figures = Figures::of(spec, fragment).within(bytes);
    let route = match otherwise {
        Choice::Storage { route, .. } => Some(*route),
        Choice::Compute(_) => None,
    };
    let is_parquet = fragment.format == Format::Parquet;
    let costs = LookupCosts { probes: &probes, hits, figures: &figures, is_parquet, route, model: &model };
    let indexed = covered.iter().filter(|covered| **covered).count() as u64;
    let estimate = if by_node { costs.by_node() } else { costs.by_engine(indexed) };
    // What was seen is the time of a scan, not of rows here and there.
    let timed = model.clone().timed(&figures);
    let otherwise = LookupCosts { model: &timed, ..costs }.scan(indexed, spec.options.split_bytes);
    // Where the scan is about as fast, the index spares storage the work.
    if !always && (model.is_better(&otherwise, &estimate) || estimate.usd > otherwise.usd) {
        let names = names(&probes);
        return Ok(Verdict::Refuse(format!("index {names} would take {estimate}, instead of {otherwise}")));
    }
    Ok(Verdict::Use(Box::new(Lookup { probes, covered, always, hits, estimate, otherwise, by_node })))
}

/// The conjuncts that an index on the column answers, over the index's columns.
fn own_conjuncts(conjuncts: &[Expr], column: usize, value: &DataType) -> Vec<Expr> {
    let schema = Arc::new(Schema::new(vec![Field::new("value", value.clone(), true)]));
    let never_null = |conjunct: &Expr| {
        let null = RecordBatch::try_new(Arc::clone(&schema), vec![new_null_array(value, 1)]);
        let held = |batch: RecordBatch| Evaluator::predicate(conjunct, &schema)?.matches(&batch);
        null.is_ok_and(|null| held(null).is_ok_and(|matches| matches.true_count() == 0))
    };
    let own = conjuncts.iter().filter(|conjunct| conjunct.columns() == [column]);
    let moved = own.filter_map(|conjunct| crate::remote_scan::among(&[column], conjunct.clone()).ok());
    moved.filter(never_null).collect()
}

impl Probe {
    fn new(index: &TableIndex, own: Vec<Expr>, objects: &[DataObject]) -> Result<Self> {
        let expected = index.directory.expect(&own)?;
        let mut probe =
            Self { index: index.clone(), predicate: Expr::conjunction(own), targets: vec![], hits: 0.0, entries: 0.0 };
        for (place, object) in objects.iter().enumerate() {
            let Some((indexed, at)) = index.directory.of(object).filter(|(indexed, _)| indexed.is_of(object)) else {
                continue;
            };
            let file = index.files.get(&indexed.file).filter(|file| file.size == indexed.bytes);
            let (Some(file), Some(expected)) = (file, expected.get(at)) else { continue };
            probe.hits += expected.hits;
            probe.entries += indexed.entries as f64;
            probe.targets.push(Target { object: place, file: file.clone(), expected: expected.clone() });
        }
        Ok(probe)
    }

    /// The share of its values that it leads to.
    fn share(&self) -> f64 {
        (self.hits / self.entries.max(1.0)).min(1.0)
    }
}

/// The indexes to use, the best one first.
fn select(mut probes: Vec<Probe>, always: bool) -> Vec<Probe> {
    probes.sort_by(|a, b| a.hits.total_cmp(&b.hits));
    let mut hits = f64::INFINITY;
    probes.retain(|probe| {
        // Each further one costs at least a request an object, and must save more.
        let saved = hits * (1.0 - probe.share());
        let use_it =
            always || hits.is_infinite() || (probe.share() < FURTHER_SHARE && saved > probe.targets.len() as f64);
        hits = match (use_it, hits.is_infinite()) {
            (true, true) => probe.hits,
            (true, false) => hits * probe.share(),
            (false, _) => hits,
        };
        use_it
    });
    probes
}

fn names(probes: &[Probe]) -> String {
    let names: Vec<_> = probes.iter().map(|probe| probe.index.name.as_str()).collect();
    names.join(" and ")
}

impl Lookup {
    /// What it does, for EXPLAIN.
    pub(crate) fn story(&self, schema: &Schema) -> String {
        let probes = self.probes.iter().map(|probe| {
            let parts: usize = probe.targets.iter().map(|target| target.expected.parts).sum();
            let objects = probe.targets.iter().filter(|target| target.expected.parts > 0).count();
            let column = schema.field(probe.index.column).name();
            format!("{} ({column}): {parts} parts in {objects} of {} objects", probe.index.name, probe.targets.len())
        });
        let probes: Vec<_> = probes.collect();
        let whose = if self.by_node { ", looked up by the node" } else { "" };
        let open = self.covered.iter().filter(|covered| !**covered).count();
        let scanned = match open {
            0 => String::new(),
            1 => ", 1 object has no fresh index and is scanned".to_owned(),
            n => format!(", {n} objects have no fresh index and are scanned"),
        };
        format!("index=[{}]{whose}, about {:.0} rows{scanned}", probes.join("; "), self.hits.ceil())
    }
}
