//! ReuseScans: lets a scan reuse the rows of an earlier scan of the same table that has all of its
//! rows.
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
//! A scan is earlier if the plan reads it to its end before it reads the other: in the build and
//! probe side of a join, or in a scalar subquery and the query around it. It has all rows of the
//! other if its filter is part of the other's, and its join keys include the other's ([`lineage`]).
//! Columns that only the other one needs are added to the earlier scan if they cost less than a
//! second scan.
//!
//! Reuse is optional: if the rows of the first scan are given up, the second one reads the table as
//! planned. If the second scan may start before the first has ended, it waits, and a
//! [`SharedRowsScopeExec`] below the join between them signals the end of the first.

pub(crate) mod lineage;

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
use crate::exec::group_by::GroupByExec;
use crate::exec::remote_scan::RemoteScanExec;
use crate::exec::shared_rows::{SharedRows, SharedRowsScopeExec};
use crate::settings::PushdownOptions;
use lineage::Joins;

/// Maximum scans whose rows are shared. Together they take up to a quarter of a query's memory.
const MAX_SHARED_SCANS: usize = 8;

#[derive(Debug)]
pub(super) struct ReuseScans;

impl PhysicalOptimizerRule for ReuseScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let reuses = PushdownOptions::of(config).reuses_rows();
        // A recursive query runs a part of its plan repeatedly.
        if !reuses || plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))? {
            return Ok(plan);
        }
        let mut leaves = Vec::new();
        find_leaves(&plan, &mut Vec::new(), &mut leaves);
        let joins = Joins::of(&plan);
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        let mut shared_scans = 0;
        for taker in 0..leaves.len() {
            let takes = |leaf: usize| pairs.iter().any(|(_, taker)| *taker == leaf);
            let mut offers = (0..leaves.len()).filter(|giver| !takes(*giver)).filter_map(|giver| {
                let scan = offer(&joins, leaves.get(giver)?, leaves.get(taker)?).transpose()?;
                Some(scan.map(|scan| (giver, scan)))
            });
            let Some((giver, scan)) = offers.next().transpose()? else { continue };
            let Some(from) = leaves.get_mut(giver) else { continue };
            if shared_scans == MAX_SHARED_SCANS && from.scan.shared_rows().is_none() {
                continue;
            }
            let (keeping, kept) = scan.sharing_rows(shared_scans + 1);
            from.scan = keeping;
            shared_scans = shared_scans.max(kept.number());
            pairs.push((giver, taker));
        }
        // Readers are attached once all pairs exist, since a giver serves all of its takers.
        let mut scopes: Vec<Scope> = Vec::new();
        for (giver, taker) in pairs {
            let (Some(from), Some(to)) = (leaves.get(giver), leaves.get(taker)) else { continue };
            let scope = from.fork(to).and_then(scope_of).zip(from.scan.shared_rows().cloned());
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
        if shared_scans == 0 {
            return Ok(plan);
        }
        // `rebuilt` visits the scans in the same order.
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

/// Returns the scan of `from`, with more columns if needed, so that `to` can reuse its rows; `None`
/// if it cannot have all rows that `to` needs.
fn offer(joins: &Joins, from: &Leaf, to: &Leaf) -> DfResult<Option<RemoteScanExec>> {
    if from.fork(to).is_none() || !joins.keys_cover(&from.scan, &to.scan) {
        return Ok(None);
    }
    if to.scan.rewrite_of(&from.scan).is_some() {
        return Ok(Some(from.scan.clone()));
    }
    let wide = from.scan.widened_for(&to.scan).map_err(to_datafusion)?;
    Ok(wide.filter(|wide| to.scan.rewrite_of(wide).is_some()))
}

/// Projects `scan` to the columns of `wanted`, which are its first ones.
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

/// A scan with its position in the plan.
struct Leaf {
    scan: RemoteScanExec,
    /// The operators above it, from the root of the plan, each with the index of the input that
    /// leads to the scan.
    path: Vec<(Arc<dyn ExecutionPlan>, usize)>,
}

impl Leaf {
    /// Returns the operator at which the paths to the two scans part, if it reads this scan to its
    /// end before `other`.
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

/// An operator, the end of whose first input is signaled to the readers of `kept`.
struct Scope {
    above: Arc<dyn ExecutionPlan>,
    kept: Arc<SharedRows>,
}

/// Returns the operator whose first input ends before `fork` reads its other input: a join itself
/// if it collects its build side as a whole, otherwise the repartitioning of the build side.
/// Returns `None` for subqueries, since the query around them starts after their end.
fn scope_of(fork: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let join = match fork.downcast_ref::<HashJoinExec>() {
        Some(join) if *join.partition_mode() == PartitionMode::CollectLeft => return Some(Arc::clone(fork)),
        Some(join) => join,
        None if fork.is::<ScalarSubqueryExec>() => return None,
        None => return Some(Arc::clone(fork)),
    };
    join.left().is::<RepartitionExec>().then(|| Arc::clone(join.left()))
}

/// Rebuilds `plan` with `scans` in place of its scans and with `scopes` added.
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
            *first = Arc::new(SharedRowsScopeExec::new(Arc::clone(first), Arc::clone(&scope.kept)));
        }
    }
    replace_children_if_necessary(Arc::clone(plan), children)
}

/// Finds all scans of `plan`, from left to right.
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
