//! Filter by an index: the predicate is looked up in the index, then the matching rows are read
//! (PushdownDB, Section IV-A).
//!
//! ```text
//! l_orderkey = 7 AND l_tax > 0   index of l_orderkey -> positions -> records -> whole predicate
//! ```
//!
//! A conjunct is looked up if it uses an indexed column alone and is never TRUE for NULL, since an
//! index has no NULLs. With several indexed columns, the rows in the intersection of their
//! positions are read. This is the best strategy for few rows, but not for many: each row costs a
//! request, while S3 Select scans an object in one.

pub(crate) mod costs;
pub(crate) mod probe;

use std::sync::Arc;

use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, Schema};
use pushdowndb_contract::{Expr, Format, Fragment, Result};
use pushdowndb_scan::Evaluator;

use crate::catalog::DataObject;
use crate::cost::cardinality::Cardinality;
use crate::cost::model::Model;
use crate::index::TableIndex;
use crate::plan::estimate::Estimate;
use crate::plan::lower::among;
use crate::plan::placement::Choice;
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;
use crate::settings::IndexUse;
use costs::LookupCosts;

pub(crate) use probe::{Probe, Target};

/// Maximum share of rows that may be left by a further index for it to be worth its requests.
const MAX_FURTHER_SHARE: f64 = 0.5;

/// A look-up that replaces the scan of some objects.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// One probe per index in use; never empty.
    pub(crate) probes: Vec<Probe>,
    /// Whether each object of the scan has an index that is used.
    pub(crate) covered: Vec<bool>,
    /// Whether a setting forces the look-up, however many rows match.
    pub(crate) always: bool,
    /// Estimated matching rows.
    pub(crate) hits: f64,
    pub(crate) estimate: Estimate,
    /// Estimate of the scan without an index.
    pub(crate) otherwise: Estimate,
    /// Whether the node runs the look-up.
    by_node: bool,
}

/// The result of searching for a useful index.
#[derive(Clone, Debug)]
pub(crate) enum IndexChoice {
    /// No index is on a column that the predicate restricts.
    None,
    Use(Box<Lookup>),
    /// There is an index, but it is not used, for this reason.
    Refuse(String),
}

/// Chooses the indexes for a fragment that yields rows. `otherwise` is the placement without an
/// index, and `by_node` is whether the node would run the look-up.
pub(crate) fn choose(
    plan: &ScanPlan,
    context: &ScanContext,
    fragment: &Fragment,
    otherwise: &Choice,
    by_node: bool,
) -> Result<IndexChoice> {
    let (indexes, objects) = (&context.indexes, &plan.objects);
    let always = match context.options.index_use() {
        IndexUse::Never => return Ok(IndexChoice::None),
        IndexUse::Auto => false,
        IndexUse::Always => true,
    };
    let Some(predicate) = fragment.predicate.as_ref().filter(|_| !indexes.is_empty()) else {
        return Ok(IndexChoice::None);
    };
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
            Some(name) => IndexChoice::Refuse(format!("index {name} is stale: its objects were replaced since")),
            None => IndexChoice::None,
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
    let model = Model::of(plan, context);
    let bytes: u64 = objects.iter().zip(&covered).filter(|(_, covered)| **covered).map(|(object, _)| object.size).sum();
    let cardinality = Cardinality::of(plan, context, fragment).within(bytes);
    let route = match otherwise {
        Choice::Storage { route, .. } => Some(*route),
        Choice::Compute(_) => None,
    };
    let is_parquet = fragment.format == Format::Parquet;
    let costs = LookupCosts { probes: &probes, hits, cardinality: &cardinality, is_parquet, route, model: &model };
    let indexed = covered.iter().filter(|covered| **covered).count() as u64;
    let estimate = if by_node { costs.by_node() } else { costs.by_engine(indexed) };
    // Feedback measures scans, not reads of scattered rows, so it adjusts only the estimate of the
    // scan.
    let timed = model.clone().timed(&cardinality);
    let otherwise = LookupCosts { model: &timed, ..costs }.scan(indexed, context.options.split_bytes);
    // In a tie the index is used, since it saves storage work.
    if !always && (model.is_better(&otherwise, &estimate) || estimate.usd > otherwise.usd) {
        let names = names(&probes);
        return Ok(IndexChoice::Refuse(format!("index {names} would take {estimate}, instead of {otherwise}")));
    }
    Ok(IndexChoice::Use(Box::new(Lookup { probes, covered, always, hits, estimate, otherwise, by_node })))
}

/// Returns the conjuncts that an index on `column` can answer, rewritten to the index's columns.
fn own_conjuncts(conjuncts: &[Expr], column: usize, value: &DataType) -> Vec<Expr> {
    let schema = Arc::new(Schema::new(vec![Field::new("value", value.clone(), true)]));
    let never_null = |conjunct: &Expr| {
        let null = RecordBatch::try_new(Arc::clone(&schema), vec![new_null_array(value, 1)]);
        let held = |batch: RecordBatch| Evaluator::predicate(conjunct, &schema)?.matches(&batch);
        null.is_ok_and(|null| held(null).is_ok_and(|matches| matches.true_count() == 0))
    };
    let own = conjuncts.iter().filter(|conjunct| conjunct.columns() == [column]);
    let moved = own.filter_map(|conjunct| among(&[column], conjunct.clone()).ok());
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

    /// Returns the estimated share of the index's values that match.
    fn share(&self) -> f64 {
        (self.hits / self.entries.max(1.0)).min(1.0)
    }
}

/// Selects the indexes to use, the best one first.
fn select(mut probes: Vec<Probe>, always: bool) -> Vec<Probe> {
    probes.sort_by(|a, b| a.hits.total_cmp(&b.hits));
    let mut hits = f64::INFINITY;
    probes.retain(|probe| {
        // A further index costs at least a request per object, and must save more.
        let saved = hits * (1.0 - probe.share());
        let use_it =
            always || hits.is_infinite() || (probe.share() < MAX_FURTHER_SHARE && saved > probe.targets.len() as f64);
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
    /// Describes the look-up for EXPLAIN.
    pub(crate) fn explanation(&self, schema: &Schema) -> String {
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
