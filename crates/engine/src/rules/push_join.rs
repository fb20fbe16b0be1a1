//! PushJoin: filters the scans of a hash join's probe side by the keys of its build side.
//!
//! ```text
//! becomes   HashJoinExec Inner: c_custkey = o_custkey      HashJoinExec Inner: c_custkey = o_custkey
//!           ├ RemoteScanExec customer                      ├ BuildKeysExec: keys=[c_custkey]
//!           └ RemoteScanExec orders                        │ └ RemoteScanExec customer
//!                                                          └ RemoteScanExec orders, keys=[o_custkey of c_custkey]
//! stays     HashJoinExec Right, Full, RightAnti, RightMark every row of the probe side is needed
//! stays     HashJoinExec LeftAnti, null-aware (NOT IN)     a NULL of the probe side empties the result
//! stays     … └ SortExec fetch=10, LIMIT, window           fewer rows below would be other rows above
//! ```
//!
//! A key filter is pushed down wherever the rows that it drops do not affect other rows above:
//! through projections, repartitioning and filters, into the preserved side of a join or both sides
//! of an inner one, below a GROUP BY of the key, into every branch of a UNION. With strategy
//! `baseline` the scans below joins use plain reads.

use std::cell::Cell;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result as DfResult, Statistics};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, PhysicalExpr, ReplaceChildrenOptions, displayable,
};
use pushdowndb_contract::{Fingerprint, FingerprintBuilder};

use crate::error::to_datafusion;
use crate::exec::build_keys::BuildKeysExec;
use crate::exec::remote_scan::RemoteScanExec;
use crate::plan::join_keys::BuildKeys;
use crate::plan::join_keys::{KeyFilter, total, unshifted};
use crate::plan::lower::convert;
use crate::settings::{JoinStrategy, PushdownOptions};
use crate::strategies::join::{BuildSide, choose};

#[derive(Debug)]
pub(super) struct PushJoin;

impl PhysicalOptimizerRule for PushJoin {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let strategy = PushdownOptions::of(config).join;
        // A recursive query runs a part of its plan repeatedly, but keys are collected once.
        if strategy == JoinStrategy::Filtered || plan.exists(|node| Ok(node.is::<RecursiveQueryExec>()))? {
            return Ok(plan);
        }
        let pushed = plan.transform_down(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            if strategy == JoinStrategy::Baseline {
                return Ok(Transformed::new(read_plainly(&node)?, true, TreeNodeRecursion::Jump));
            }
            match push(join)? {
                Some(inputs) => Ok(Transformed::yes(with_inputs(node, inputs)?)),
                None => Ok(Transformed::no(node)),
            }
        })?;
        Ok(pushed.data)
    }

    fn name(&self) -> &str {
        "PushJoin"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Sets the scans of `plan` to plain reads.
fn read_plainly(plan: &Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
    let plain = Arc::clone(plan).transform_up(|node| match node.downcast_ref::<RemoteScanExec>() {
        Some(scan) => Ok(Transformed::yes(Arc::new(scan.read_plainly().map_err(to_datafusion)?) as _)),
        None => Ok(Transformed::no(node)),
    })?;
    Ok(plain.data)
}

/// Pushes the keys of `join` into the scans of its probe side. Returns the join's new inputs, or
/// `None` if no scan changes.
fn push(join: &HashJoinExec) -> DfResult<Option<Vec<Arc<dyn ExecutionPlan>>>> {
    // Rows of the probe side without a partner must not be in the result.
    let needless = match join.join_type() {
        JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftMark | JoinType::RightSemi => true,
        JoinType::LeftAnti => !join.null_aware,
        JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark => false,
    };
    if !needless {
        return Ok(None);
    }
    let (left, right) = (join.left(), join.right());
    let types = join.on().iter().map(|(key, _)| key.data_type(&left.schema()));
    let types = types.collect::<DfResult<Vec<DataType>>>()?;
    let nulls_match = join.null_equality() == NullEquality::NullEqualsNull;
    let statistics = StatisticsContext::new().compute(left.as_ref(), &StatisticsArgs::new()).ok();
    let build = Build {
        keys: Arc::new(BuildKeys::new(types.clone(), nulls_match)),
        types,
        of: join.on().iter().map(|(key, _)| key.to_string()).collect(),
        counts: join.on().iter().map(|(key, _)| count(statistics.as_deref(), key)).collect(),
        reduced: is_reduced(left)?,
        rounds: rounds(left),
        fingerprint: fingerprint(left)?,
        wanted: Cell::new(false),
    };
    let wanted =
        join.on().iter().enumerate().map(|(index, (_, key))| Wanted { index, key: Arc::clone(key), grouped: false });
    let Some(filtered) = attach(right, wanted.collect(), &build)? else { return Ok(None) };
    if !build.wanted.get() {
        return Ok(Some(vec![Arc::clone(left), filtered]));
    }
    let exprs = join.on().iter().map(|(key, _)| Arc::clone(key)).collect();
    Ok(Some(vec![with_collector(left, exprs, &build.keys, *join.partition_mode())?, filtered]))
}

/// Adds an operator that collects the keys of the build side, below its repartitioning, where each
/// row passes once.
fn with_collector(
    left: &Arc<dyn ExecutionPlan>,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    keys: &Arc<BuildKeys>,
    mode: PartitionMode,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    match left.downcast_ref::<RepartitionExec>() {
        Some(repartition) if mode == PartitionMode::Partitioned => {
            let collector = BuildKeysExec::new(Arc::clone(repartition.input()), exprs, Arc::clone(keys));
            with_inputs(Arc::clone(left), vec![Arc::new(collector)])
        }
        _ => Ok(Arc::new(BuildKeysExec::new(Arc::clone(left), exprs, Arc::clone(keys)))),
    }
}

/// Estimates the number of distinct keys: the rows, or the distinct values of the key's column if
/// those are fewer.
fn count(statistics: Option<&Statistics>, key: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    let statistics = statistics?;
    let column = key.downcast_ref::<Column>().and_then(|column| statistics.column_statistics.get(column.index()));
    let values = column.and_then(|column| column.distinct_count.get_value().copied());
    let rows = statistics.num_rows.get_value().copied();
    rows.into_iter().chain(values).min()
}

/// Returns whether `plan` drops rows of its tables, so that keys may be missing.
fn is_reduced(plan: &Arc<dyn ExecutionPlan>) -> DfResult<bool> {
    plan.exists(|node| {
        Ok(match node.downcast_ref::<RemoteScanExec>() {
            Some(scan) => {
                let plan = scan.plan();
                plan.predicate.is_some() || plan.limit.is_some() || !plan.key_filters.is_empty()
            }
            None => node.is::<FilterExec>() || node.fetch().is_some() || node.name() == "GlobalLimitExec",
        })
    })
}

/// Returns the number of scans of `plan` that run one after the other, because each waits for the
/// keys of the one before.
fn rounds(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let of_inputs = || plan.children().into_iter().map(rounds);
    match plan.downcast_ref::<HashJoinExec>() {
        Some(join) if waits_for_keys(join.right()) => of_inputs().sum(),
        _ => of_inputs().max().unwrap_or(1),
    }
}

/// Returns whether a scan of `plan` waits for keys.
fn waits_for_keys(plan: &Arc<dyn ExecutionPlan>) -> bool {
    match plan.downcast_ref::<RemoteScanExec>() {
        Some(scan) => !scan.plan().key_filters.is_empty(),
        None => plan.children().into_iter().any(waits_for_keys),
    }
}

/// Returns the fingerprint of the rows of `plan`; `None` if it has leaves other than scans.
fn fingerprint(plan: &Arc<dyn ExecutionPlan>) -> DfResult<Option<Fingerprint>> {
    let mut fingerprint = Some(Fingerprint::builder("rows of a plan", 1));
    plan.apply(|node| {
        let own = match node.downcast_ref::<RemoteScanExec>() {
            Some(scan) => scan.plan().rows_fingerprint().ok().map(|rows| rows.to_string()),
            None => (!node.children().is_empty()).then(|| displayable(node.as_ref()).one_line().to_string()),
        };
        fingerprint = fingerprint.take().zip(own).map(|(all, own)| all.text(&own));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(fingerprint.map(FingerprintBuilder::finish))
}

struct Build {
    keys: Arc<BuildKeys>,
    types: Vec<DataType>,
    /// The key expressions, for EXPLAIN.
    of: Vec<String>,
    /// The estimated number of distinct values of each key.
    counts: Vec<Option<usize>>,
    /// Whether the build side drops rows, so that keys may be missing.
    reduced: bool,
    /// The number of scans that run one after the other until all rows are there.
    rounds: usize,
    /// The fingerprint of the build side's rows, if there is one.
    fingerprint: Option<Fingerprint>,
    /// Whether a scan waits for the keys.
    wanted: Cell<bool>,
}

/// A join key of the probe side, expressed over the columns of a plan below it.
#[derive(Clone)]
struct Wanted {
    index: usize,
    key: Arc<dyn PhysicalExpr>,
    /// Whether an operator above groups rows by the key.
    grouped: bool,
}

/// Adds key filters, or the explanations why there are none, to the scans of `plan`. Returns `None`
/// if no scan changes.
fn attach(
    plan: &Arc<dyn ExecutionPlan>,
    wanted: Vec<Wanted>,
    build: &Build,
) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    if wanted.is_empty() || (plan.fetch().is_some() && !plan.is::<RemoteScanExec>()) {
        return Ok(None);
    }
    if let Some(scan) = plan.downcast_ref::<RemoteScanExec>() {
        return attach_to_scan(scan, wanted, build);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return attach_to_join(plan, join, &wanted, build);
    }
    if plan.is::<UnionExec>() {
        let inputs: Vec<_> =
            plan.children().into_iter().map(|input| attach(input, wanted.clone(), build)).collect::<DfResult<_>>()?;
        if inputs.iter().all(Option::is_none) {
            return Ok(None);
        }
        let inputs = inputs.into_iter().zip(plan.children()).map(|(new, old)| new.unwrap_or_else(|| Arc::clone(old)));
        return with_inputs(Arc::clone(plan), inputs.collect()).map(Some);
    }
    let below = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        over(wanted, &|column| projection.expr().get(column).map(|computed| Arc::clone(&computed.expr)))?
    } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        if !groups.is_single() || aggregate.limit_options().is_some() {
            return Ok(None);
        }
        // Columns after the groups are aggregates, which have no counterpart below.
        let below = over(wanted, &|column| groups.expr().get(column).map(|(group, _)| Arc::clone(group)))?;
        below.into_iter().map(|wanted| Wanted { grouped: true, ..wanted }).collect()
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let schema = filter.input().schema();
        over(wanted, &|column| {
            let column = filter.projection().as_ref().map_or(Some(column), |picked| picked.get(column).copied())?;
            Some(Arc::new(Column::new(schema.fields().get(column)?.name(), column)))
        })?
    } else if plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
        || plan.is::<BuildKeysExec>()
    {
        wanted
    } else {
        return Ok(None);
    };
    let [input] = plan.children()[..] else { return Ok(None) };
    match attach(input, below, build)? {
        Some(input) => with_inputs(Arc::clone(plan), vec![input]).map(Some),
        None => Ok(None),
    }
}

fn attach_to_scan(
    scan: &RemoteScanExec,
    wanted: Vec<Wanted>,
    build: &Build,
) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    if !scan.yields_rows() {
        return Ok(None);
    }
    let mut explained = scan.clone();
    let mut filters = Vec::new();
    for Wanted { index, key, grouped } in wanted {
        let Some(key) = convert(&key, &|column| scan.plan().file_column(column)) else { continue };
        let (Some(key_type), Some(of)) = (build.types.get(index), build.of.get(index)) else { continue };
        let (key, shift) = unshifted(key);
        let Some(own_type) = total(&key, &scan.plan().table.file_schema) else { continue };
        if !shift.is_none() && (own_type != DataType::Int64 || *key_type != DataType::Int64) {
            continue;
        }
        let side = build.fingerprint.map(|rows| {
            Fingerprint::builder("keys of a build side", 1).text(&rows.to_string()).number(index as u64).finish()
        });
        let from_feedback = scan
            .context()
            .statistics
            .as_ref()
            .zip(side)
            .and_then(|(statistics, side)| statistics.feedback().keys(side));
        let build_side = BuildSide {
            keys: from_feedback.or(build.counts.get(index).copied().flatten()),
            from_feedback: from_feedback.is_some(),
            columns: build.types.len(),
            reduced: build.reduced,
            grouped,
            rounds: build.rounds,
        };
        let decision = choose(scan.placed(), &key, key_type, build_side);
        explained = explained.with_join(decision.explanation);
        if decision.bloom {
            let of = shift.display(of);
            build.keys.want(decision.max_rows);
            filters.push(KeyFilter {
                join: build.keys.id(),
                join_keys: build.types.len(),
                nulls_match: build.keys.nulls_match(),
                index,
                key_type: key_type.clone(),
                key,
                shift,
                of,
                side,
            });
        }
    }
    if filters.is_empty() {
        return Ok((!explained.joins().is_empty()).then(|| Arc::new(explained) as _));
    }
    build.wanted.set(true);
    Ok(Some(Arc::new(explained.with_key_filters(filters, &build.keys).map_err(to_datafusion)?)))
}

/// Pushes the keys into those inputs of a join where dropping a row only drops the results made of
/// it. A key is pushed only if all of its columns come from one input.
fn attach_to_join(
    plan: &Arc<dyn ExecutionPlan>,
    join: &HashJoinExec,
    wanted: &[Wanted],
    build: &Build,
) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    let (into_left, into_right) = match join.join_type() {
        JoinType::Inner => (true, true),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftMark => (true, false),
        JoinType::LeftAnti => (!join.null_aware, false),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (false, true),
        JoinType::Full => (false, false),
    };
    let (_, places) = build_join_schema(&join.left().schema(), &join.right().schema(), join.join_type());
    let side = |side: JoinSide, input: &Arc<dyn ExecutionPlan>| -> DfResult<_> {
        let schema = input.schema();
        let wanted = over(wanted.to_vec(), &|column| {
            let column = join.projection.as_ref().map_or(Some(column), |picked| picked.get(column).copied())?;
            let place = places.get(column).filter(|place| place.side == side)?;
            Some(Arc::new(Column::new(schema.fields().get(place.index)?.name(), place.index)))
        })?;
        attach(input, wanted, build)
    };
    let left = if into_left { side(JoinSide::Left, join.left())? } else { None };
    let right = if into_right { side(JoinSide::Right, join.right())? } else { None };
    if left.is_none() && right.is_none() {
        return Ok(None);
    }
    let inputs =
        vec![left.unwrap_or_else(|| Arc::clone(join.left())), right.unwrap_or_else(|| Arc::clone(join.right()))];
    with_inputs(Arc::clone(plan), inputs).map(Some)
}

/// Rewrites keys to the columns of an input, as `column` maps them, and drops keys with a column
/// that it does not map.
fn over(wanted: Vec<Wanted>, column: &dyn Fn(usize) -> Option<Arc<dyn PhysicalExpr>>) -> DfResult<Vec<Wanted>> {
    let mut below = Vec::with_capacity(wanted.len());
    for Wanted { index, key, grouped } in wanted {
        if !collect_columns(&key).iter().all(|found| column(found.index()).is_some()) {
            continue;
        }
        let key = key.transform_down(|node| {
            Ok(match node.downcast_ref::<Column>().and_then(|found| column(found.index())) {
                // Converted columns already refer to the input.
                Some(moved) => Transformed::new(moved, true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        })?;
        below.push(Wanted { index, key: key.data, grouped });
    }
    Ok(below)
}

fn with_inputs(plan: Arc<dyn ExecutionPlan>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
    plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}
