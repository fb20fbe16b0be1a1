//! ReuseScans: a scan takes its rows from an earlier one of the same table, where that has them all.
//!
//! ```text
//! HashJoinExec LeftSemi: l_quantity < 0.2 * avg       the average quantity of the parts that were found
//! ├ HashJoinExec Inner: p_partkey = l_partkey
//! │ ├ RemoteScanExec part
//! │ └ RemoteScanExec lineitem, keys=[l_partkey]       keeps its rows
//! └ AggregateExec by l_partkey
//!   └ RemoteScanExec lineitem, keys=[l_partkey]       takes them
//! ```
//!
//! One scan comes before another where a plan reads the one to its end before it asks the other for a row: in the build and the
//! probe side of a join, or in a scalar subquery and the query around it. It has all rows that the other wants if its filter is
//! part of the other's, and if the keys that it is filtered by are all the keys that the other is filtered by ([`lineage`]). It is
//! given the columns that only the other one needs, if these cost less than another scan.
//!
//! Nothing depends on the first scan: if its rows are given up, the second one reads as it was planned. One that may begin too early
//! waits for them, and a [`KeptScopeExec`] below the join that is between them tells it that no more will come.

mod lineage;

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::Result as DfResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNode;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::error::to_datafusion;
use crate::kept_rows::{KeptRows, KeptScopeExec};
use crate::remote_scan::RemoteScanExec;
use crate::settings::PushdownOptions;
use crate::strategies::group_by::GroupByExec;
use lineage::Joins;

/// How many scans keep their rows: together they take no more than a quarter of what memory a query has.
const MOST_KEPT: usize = 8;

#[derive(Debug)]
pub(super) struct ReuseScans;

impl PhysicalOptimizerRule for ReuseScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let reuses = PushdownOptions::of(config).reuses_rows();
        // A recursive query runs a part of its plan again and again.
        if !reuses || plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))? {
            return Ok(plan);
        }
        let mut leaves = Vec::new();
        find_leaves(&plan, &mut Vec::new(), &mut leaves);
        let joins = Joins::of(&plan);
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        let mut kept_scans = 0;
        for taker in 0..leaves.len() {
            let takes = |leaf: usize| pairs.iter().any(|(_, taker)| *taker == leaf);
            let mut offers = (0..leaves.len()).filter(|giver| !takes(*giver)).filter_map(|giver| {
                let scan = offer(&joins, leaves.get(giver)?, leaves.get(taker)?).transpose()?;
                Some(scan.map(|scan| (giver, scan)))
            });
            let Some((giver, scan)) = offers.next().transpose()? else { continue };
            let Some(from) = leaves.get_mut(giver) else { continue };
            if kept_scans == MOST_KEPT && from.scan.kept().is_none() {
                continue;
            }
            let (keeping, kept) = scan.keeping(kept_scans + 1);
            from.scan = keeping;
            kept_scans = kept_scans.max(kept.number());
            pairs.push((giver, taker));
        }
        // Only now: what one taker lacks all of them get.
        let mut scopes: Vec<Scope> = Vec::new();
        for (giver, taker) in pairs {
            let (Some(from), Some(to)) = (leaves.get(giver), leaves.get(taker)) else { continue };
            let scope = from.fork(to).and_then(scope_of).zip(from.scan.kept().cloned());
            let Some(scan) = to.scan.reusing(&from.scan, scope.is_some()) else { continue };
            if let Some((above, kept)) = scope
                && !scopes.iter().any(|scope| Arc::ptr_eq(&scope.above, &above) && Arc::ptr_eq(&scope.kept, &kept))
            {
                scopes.push(Scope { above, kept });
            }
            if let Some(to) = leaves.get_mut(taker) {
                to.scan = scan;
            }
        }
        if kept_scans == 0 {
            return Ok(plan);
        }
        // In the order in which they were found.
        let mut scans = leaves.into_iter().map(|leaf| leaf.scan);
        rebuilt(&plan, &mut scans, &scopes)
    }

    fn name(&self) -> &str {
        "ReuseScans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The first of two scans as it has to be for the other one to take its rows; `None` if it does not have them.
fn offer(joins: &Joins, from: &Leaf, to: &Leaf) -> DfResult<Option<RemoteScanExec>> {
    if from.fork(to).is_none() || !joins.keys_cover(&from.scan, &to.scan) {
        return Ok(None);
    }
    if to.scan.derivation(&from.scan).is_some() {
        return Ok(Some(from.scan.clone()));
    }
    let wide = from.scan.widened_for(&to.scan).map_err(to_datafusion)?;
    Ok(wide.filter(|wide| to.scan.derivation(wide).is_some()))
}

/// The scan without the columns that only others want.
fn first_columns(scan: RemoteScanExec, wanted: &Schema) -> DfResult<Arc<dyn ExecutionPlan>> {
    if scan.schema().fields().len() == wanted.fields().len() {
        return Ok(Arc::new(scan));
    }
    let columns = wanted.fields().iter().enumerate().map(|(place, field)| ProjectionExpr {
        expr: Arc::new(Column::new(field.name(), place)),
        alias: field.name().clone(),
    });
    Ok(Arc::new(ProjectionExec::try_new(columns, Arc::new(scan))?))
}

/// A scan, and where it stands in the plan.
struct Leaf {
    scan: RemoteScanExec,
    /// The operators above it, the topmost first, and which of their inputs it is in.
    path: Vec<(Arc<dyn ExecutionPlan>, usize)>,
}

impl Leaf {
    /// The operator that reads it to its end before it asks the other one for a row; `None` if nothing does.
    fn fork(&self, other: &Self) -> Option<&Arc<dyn ExecutionPlan>> {
        let in_phases = |leaf: &Self| leaf.path.iter().any(|(node, _)| node.is::<GroupByExec>());
        if in_phases(self) || in_phases(other) {
            return None;
        }
        let ((node, own), (_, others)) =
            self.path.iter().zip(&other.path).find(|((_, own), (_, others))| own != others)?;
        let builds = node.is::<HashJoinExec>() || node.is::<NestedLoopJoinExec>() || node.is::<CrossJoinExec>();
        let comes_first = (builds && own < others) || (node.is::<ScalarSubqueryExec>() && *own > 0 && *others == 0);
        comes_first.then_some(node)
    }
}

/// The end of the first input of this operator is told to those who wait for kept rows.
struct Scope {
    above: Arc<dyn ExecutionPlan>,
    kept: Arc<KeptRows>,
}

/// The operator whose first input has ended before this join asks any partition of its probe side for a row. The one that
/// collects it for all partitions has read it then; of others each reads its own partition, and these end together where they come from a
/// repartitioning. `None` of a query with subqueries, which begins after their end: nobody has to wait.
fn scope_of(fork: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let join = match fork.downcast_ref::<HashJoinExec>() {
        Some(join) if *join.partition_mode() == PartitionMode::CollectLeft => return Some(Arc::clone(fork)),
        Some(join) => join,
        None if fork.is::<ScalarSubqueryExec>() => return None,
        None => return Some(Arc::clone(fork)),
    };
    join.left().is::<RepartitionExec>().then(|| Arc::clone(join.left()))
}

/// The plan with these scans in place of its own, and its scopes.
fn rebuilt(
    plan: &Arc<dyn ExecutionPlan>,
    scans: &mut impl Iterator<Item = RemoteScanExec>,
    scopes: &[Scope],
) -> DfResult<Arc<dyn ExecutionPlan>> {
    if plan.is::<RemoteScanExec>() {
        return match scans.next() {
            Some(scan) => first_columns(scan, &plan.schema()),
            None => Ok(Arc::clone(plan)),
        };
    }
    let mut children = Vec::new();
    for child in plan.children() {
        children.push(rebuilt(child, scans, scopes)?);
    }
    for scope in scopes.iter().filter(|scope| Arc::ptr_eq(&scope.above, plan)) {
        if let Some(first) = children.first_mut() {
            *first = Arc::new(KeptScopeExec::new(Arc::clone(first), Arc::clone(&scope.kept)));
        }
    }
    replace_children_if_necessary(Arc::clone(plan), children)
}

/// All scans of the plan, from left to right.
fn find_leaves(plan: &Arc<dyn ExecutionPlan>, path: &mut Vec<(Arc<dyn ExecutionPlan>, usize)>, leaves: &mut Vec<Leaf>) {
    if let Some(scan) = plan.downcast_ref::<RemoteScanExec>() {
        leaves.push(Leaf { scan: scan.clone(), path: path.clone() });
    }
    for (place, input) in plan.children().into_iter().enumerate() {
        path.push((Arc::clone(plan), place));
        find_leaves(input, path, leaves);
        path.pop();
    }
}
