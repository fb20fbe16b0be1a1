//! PushAggregate: replaces aggregates over a scan by partial results that storage computes.
//!
//! ```text
//! becomes   AggregateExec Final                 AggregateExec Final
//!           └ AggregateExec Partial: sum(a)     └ RemoteScanExec aggregates=[SUM(a)]
//!             └ RemoteScanExec filter: b > 1
//! becomes   AggregateExec Single: count(*)      AggregateExec Final
//!           └ RemoteScanExec                    └ RemoteScanExec aggregates=[COUNT(*)]
//! becomes   AggregateExec FinalPartitioned      AggregateExec FinalPartitioned
//!           └ RepartitionExec Hash(g)           └ RepartitionExec Hash(g)
//!             └ AggregateExec Partial by g        └ RemoteScanExec groups=[g] aggregates=[SUM(a)]
//!               └ RemoteScanExec                  (the fragment route)
//! becomes   the same                            …   └ GroupByExec by g
//!                                                     └ AggregateExec Partial by g
//!                                                       └ RemoteScanExec  (S3 Select, two phases)
//! stays     AggregateExec Partial: sum(a)       storage returns a superset, whose sum is wrong
//!           └ FilterExec b LIKE '%x'
//!             └ RemoteScanExec
//! becomes   AggregateExec Partial by (a), (b)   AggregateExec PartialReduce by a, b, set
//!           └ RemoteScanExec                    └ ExpandSetsExec sets=2
//!                                                 └ RemoteScanExec groups=[all keys] aggregates=[SUM(a)]
//! stays     ROLLUP, CUBE and other grouping sets with (), which has a group even without rows
//! stays     ORDER BY and DISTINCT inside an aggregate. DataFusion itself turns a single
//!           COUNT(DISTINCT x) into two aggregates; the inner one, by x, is pushed
//! ```
//!
//! `agg(x) FILTER (WHERE c)` is pushed as `agg(CASE WHEN c THEN x END)`, since aggregates skip
//! NULL. The engine computes grouping sets from the states of their finest grouping.
//!
//! Projections between the aggregate and the scan are folded into the aggregate's expressions. A
//! RepartitionExec in between is dropped, since there are few states.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::Result as DfResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr, ReplaceChildrenOptions,
};
use pushdowndb_contract::{AggregateCall, AggregateFunction, Expr, Literal, NamedExpr};

use crate::error::to_datafusion;
use crate::exec::expand_sets::ExpandSetsExec;
use crate::exec::group_by::{GroupByExec, Scans, in_engine, with_scan};
use crate::exec::remote_scan::RemoteScanExec;
use crate::plan::lower::convert;
use crate::plan::partial_aggregate::{PartialAggregate, State};
use crate::plan::placement::Choice;
use crate::plan::scan_plan::ScanPlan;
use crate::settings::{GroupByStrategy, Side};
use crate::strategies::group_by::Strategy;
use crate::strategies::{aggregate, group_by};

#[derive(Debug)]
pub(super) struct PushAggregate;

impl PhysicalOptimizerRule for PushAggregate {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let pushed = plan.transform_up(|node| {
            let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
            match push(&node, aggregate)? {
                Some(replaced) => Ok(Transformed::yes(replaced)),
                None => Ok(Transformed::no(node)),
            }
        })?;
        Ok(pushed.data)
    }

    fn name(&self) -> &str {
        "PushAggregate"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn push(node: &Arc<dyn ExecutionPlan>, aggregate: &AggregateExec) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    let partial = matches!(aggregate.mode(), AggregateMode::Partial);
    let single = matches!(aggregate.mode(), AggregateMode::Single | AggregateMode::SinglePartitioned);
    if !(partial || single) || aggregate.limit_options().is_some() || has_empty_set(aggregate) {
        return Ok(None);
    }
    let Some(below) = Below::of(aggregate.input())? else { return Ok(None) };
    let finest = PhysicalGroupBy::new_single(aggregate.group_expr().expr().to_vec());
    // The states have the schema of a partial aggregate over the same input.
    let as_partial = AggregateExec::try_new(
        AggregateMode::Partial,
        finest,
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(&below.input),
        aggregate.input_schema(),
    )?;
    let wanted = partial_aggregate(aggregate, &below, as_partial.schema())?;
    let states: Arc<dyn ExecutionPlan> = if aggregate.group_expr().expr().is_empty() {
        // The few rows of an index look-up are aggregated by the engine.
        if !below.scan.yields_rows() || below.scan.is_looked_up() {
            return Ok(None);
        }
        match scalar(&below.scan, wanted).map_err(to_datafusion)? {
            Ok(scan) => Arc::new(scan),
            Err(rows) => return with_scan(node, &rows).map(Some),
        }
    } else {
        match groups(as_partial, &below, wanted)? {
            Groups::States(states) => states,
            Groups::Rows(scan) => return with_scan(node, &scan).map(Some),
            Groups::Stay => return Ok(None),
        }
    };
    let states = match aggregate.group_expr().has_grouping_set() {
        true => rolled_up(states, aggregate)?,
        false => states,
    };
    if partial {
        return Ok(Some(states));
    }
    let states: Arc<dyn ExecutionPlan> = match states.output_partitioning().partition_count() {
        1 => states,
        _ => Arc::new(CoalescePartitionsExec::new(states)),
    };
    let merged = AggregateExec::try_new(
        AggregateMode::Final,
        aggregate.group_expr().as_final(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        states,
        aggregate.input_schema(),
    )?;
    Ok(Some(Arc::new(merged)))
}

/// Returns whether a grouping set has no keys. Such a set has a group even without rows.
fn has_empty_set(aggregate: &AggregateExec) -> bool {
    let sets = aggregate.group_expr();
    sets.has_grouping_set() && sets.groups().iter().any(|nulls| nulls.iter().all(|null| *null))
}

/// Computes the states of grouping sets from those of their finest grouping.
fn rolled_up(states: Arc<dyn ExecutionPlan>, aggregate: &AggregateExec) -> DfResult<Arc<dyn ExecutionPlan>> {
    let sets = aggregate.group_expr();
    let expanded = ExpandSetsExec::try_new(states, sets)?;
    let schema = expanded.schema();
    let key = |(place, field): (usize, &FieldRef)| {
        (Arc::new(Column::new(field.name(), place)) as Arc<dyn PhysicalExpr>, field.name().clone())
    };
    // The grouping ID is a key like the others.
    let keys = schema.fields().iter().enumerate().take(sets.expr().len() + 1).map(key).collect();
    let reduced = AggregateExec::try_new(
        AggregateMode::PartialReduce,
        PhysicalGroupBy::new_single(keys),
        aggregate.aggr_expr().to_vec(),
        vec![None; aggregate.aggr_expr().len()],
        Arc::new(expanded),
        aggregate.input_schema(),
    )?;
    Ok(Arc::new(reduced))
}

/// Returns the scan that yields partial aggregates (inner `Ok`), or else the scan of rows for the
/// engine to aggregate (inner `Err`).
fn scalar(
    rows: &RemoteScanExec,
    wanted: Result<PartialAggregate, &'static str>,
) -> pushdowndb_contract::Result<Result<RemoteScanExec, RemoteScanExec>> {
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(why) => return Ok(Err(rows.with_note(aggregate::explanation(rows.placed(), Some(why))))),
    };
    let scan = rows.with_aggregate(wanted)?;
    let Choice::Compute(why) = scan.choice() else {
        return Ok(Ok(scan.with_note(aggregate::explanation(rows.placed(), None))));
    };
    let note = aggregate::explanation(rows.placed(), Some(why));
    // The filter is pushed down regardless of where the aggregate runs.
    let is_read_plainly = matches!(rows.choice(), Choice::Compute(_));
    Ok(match is_read_plainly && rows.context().options.aggregate == Side::Auto {
        true => Ok(scan.with_note(note)),
        false => Err(rows.with_note(note)),
    })
}

/// How a group-by runs.
enum Groups {
    /// This operator yields the partial states.
    States(Arc<dyn ExecutionPlan>),
    /// The engine groups the rows of this scan.
    Rows(Box<RemoteScanExec>),
    /// There is no choice to make, so the plan stays.
    Stay,
}

/// Replaces `engine`, the partial aggregate over the scan, by an operator that yields its states.
fn groups(engine: AggregateExec, below: &Below, wanted: Result<PartialAggregate, &'static str>) -> DfResult<Groups> {
    let scan = &below.scan;
    // The few rows of an index look-up are grouped by the engine.
    if !scan.yields_rows() || scan.is_looked_up() {
        return Ok(Groups::Stay);
    }
    let grouped = |rows: &RemoteScanExec| match &wanted {
        Ok(wanted) => in_engine(rows, wanted).map_err(to_datafusion),
        Err(_) => Ok(None),
    };
    let Some(decision) =
        group_by::choose(scan.placed(), wanted.as_ref().map_err(|why| *why), &Scans(scan)).map_err(to_datafusion)?
    else {
        return Ok(grouped(scan)?.map_or(Groups::Stay, |scan| Groups::States(Arc::new(scan))));
    };
    let noted = scan.with_note(Some(decision.explanation.clone()));
    let rows = |strategy| {
        let rows = noted.with_options(|options| group_by::fix_filter(options, strategy));
        rows.map_err(to_datafusion)
    };
    if decision.strategy == Strategy::Compute {
        let options = &scan.context().options;
        let is_asked = options.filter_side() == Side::Compute || options.group_by == GroupByStrategy::Compute;
        let rows = rows(Strategy::Compute)?;
        let rows = if is_asked { rows } else { rows.reading_plainly("the engine groups, which takes less") };
        return Ok(match grouped(&rows)? {
            Some(states) => Groups::States(Arc::new(states)),
            None => Groups::Rows(Box::new(rows)),
        });
    }
    Ok(match (decision.strategy, wanted) {
        (strategy @ (Strategy::Partial | Strategy::SmallPartial), Ok(wanted)) => {
            let group_bytes = strategy.group_bytes().unwrap_or(scan.plan().group_bytes);
            let plan = ScanPlan { aggregate: Some(wanted), group_bytes, ..scan.plan().clone() };
            Groups::States(Arc::new(noted.with_plan(plan).map_err(to_datafusion)?))
        }
        (Strategy::Storage | Strategy::Hybrid, Ok(wanted)) => {
            Groups::States(Arc::new(GroupByExec::new(Arc::new(engine), scan.clone(), wanted, decision)))
        }
        (strategy, _) => Groups::Rows(Box::new(rows(strategy)?)),
    })
}

/// A scan below an aggregate, and operators in between that keep every row.
struct Below {
    scan: RemoteScanExec,
    /// The operators over the scan, and the scan, without repartitioning.
    input: Arc<dyn ExecutionPlan>,
    /// The columns of `input` as expressions over those of the scan; `None` if they are the same.
    columns: Option<Vec<Arc<dyn PhysicalExpr>>>,
}

impl Below {
    fn of(plan: &Arc<dyn ExecutionPlan>) -> DfResult<Option<Self>> {
        if let Some(scan) = plan.downcast_ref::<RemoteScanExec>() {
            return Ok(Some(Self { scan: scan.clone(), input: Arc::clone(plan), columns: None }));
        }
        if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
            return Self::of(repartition.input());
        }
        let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return Ok(None) };
        let Some(below) = Self::of(projection.input())? else { return Ok(None) };
        let columns = projection.expr().iter().map(|column| below.over_scan(&column.expr));
        let columns = columns.collect::<DfResult<Vec<_>>>()?;
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let input = Arc::clone(plan).replace_children(vec![below.input], options)?;
        Ok(Some(Self { scan: below.scan, input, columns: Some(columns) }))
    }

    /// Converts an expression over the operators' columns into one over the scan's.
    fn over_scan(&self, expr: &Arc<dyn PhysicalExpr>) -> DfResult<Arc<dyn PhysicalExpr>> {
        let Some(columns) = &self.columns else { return Ok(Arc::clone(expr)) };
        let computed = |node: Arc<dyn PhysicalExpr>| {
            let computed = node.downcast_ref::<Column>().and_then(|column| columns.get(column.index()));
            Ok(match computed {
                // Computed columns already refer to the scan.
                Some(computed) => Transformed::new(Arc::clone(computed), true, TreeNodeRecursion::Jump),
                None => Transformed::no(node),
            })
        };
        Ok(Arc::clone(expr).transform_down(computed)?.data)
    }

    /// Converts an expression over the operators' columns into one over the object's.
    fn convert(&self, expr: &Arc<dyn PhysicalExpr>) -> DfResult<Option<Expr>> {
        let expr = self.over_scan(expr)?;
        Ok(convert(&expr, &|column| self.scan.plan().file_column(column)))
    }
}

/// Returns the partial aggregate whose groups and calls fill the states, or the reason why storage
/// cannot compute it.
fn partial_aggregate(
    aggregate: &AggregateExec,
    below: &Below,
    schema: SchemaRef,
) -> DfResult<Result<PartialAggregate, &'static str>> {
    let mut groups = Vec::new();
    for (key, name) in aggregate.group_expr().expr() {
        let Some(expr) = below.convert(key)? else { return Ok(Err("a key is no expression that storage knows")) };
        groups.push(NamedExpr { expr, name: name.clone() });
    }
    let mut calls: Vec<AggregateCall> = Vec::new();
    let mut states = Vec::new();
    for (call, filter) in aggregate.aggr_expr().iter().zip(aggregate.filter_expr()) {
        let arguments = call.expressions();
        let call_name = call.fun().name();
        let functions: &[AggregateFunction] = match call_name {
            "count" => &[AggregateFunction::Count],
            "sum" => &[AggregateFunction::Sum],
            "min" => &[AggregateFunction::Min],
            "max" => &[AggregateFunction::Max],
            // DataFusion's state of AVG is the count, then the sum.
            "avg" => &[AggregateFunction::Count, AggregateFunction::Sum],
            "var" | "var_pop" | "stddev" | "stddev_pop" => {
                &[AggregateFunction::Count, AggregateFunction::Mean, AggregateFunction::SquaredDeviations]
            }
            _ => return Ok(Err("storage has no such aggregate")),
        };
        let [argument] = arguments.as_slice() else { return Ok(Err("an aggregate has several arguments")) };
        if call.is_distinct() || call.ignore_nulls() || !call.order_bys().is_empty() {
            return Ok(Err("an aggregate is DISTINCT or ordered"));
        }
        if let ("avg", Ok(DataType::Decimal128(29.., _))) = (call_name, argument.data_type(&below.input.schema())) {
            return Ok(Err("DataFusion adds such decimals in a wider type than storage has"));
        }
        let is_nested = argument.data_type(&below.input.schema()).is_ok_and(|argument| argument.is_nested());
        if matches!(call_name, "min" | "max") && is_nested {
            return Ok(Err("the least of structs and lists is what DataFusion takes for it"));
        }
        let Some(argument) = below.convert(argument)? else {
            return Ok(Err("an argument is no expression that storage knows"));
        };
        let argument = match filter {
            None => argument,
            Some(filter) => {
                let Some(filter) = below.convert(filter)? else {
                    return Ok(Err("a FILTER is no expression that storage knows"));
                };
                Expr::Case { branches: vec![(filter, argument)], otherwise: None }
            }
        };
        if call.state_fields()?.len() != functions.len() {
            return Ok(Err("the states of an aggregate are not those that storage yields"));
        }
        for function in functions {
            let call = self::call(*function, &argument, below.scan.plan());
            let place = calls.iter().position(|other| *other == call).unwrap_or_else(|| {
                calls.push(call);
                calls.len() - 1
            });
            let zero_is_null = !groups.is_empty() && call_name == "avg" && *function == AggregateFunction::Count;
            states.push(State { call: place, zero_is_null });
        }
    }
    if groups.len() + states.len() != schema.fields().len() || schema.fields().is_empty() {
        return Ok(Err("the states of an aggregate are not those that storage yields"));
    }
    Ok(Ok(PartialAggregate { groups, calls, schema, states }))
}

fn call(function: AggregateFunction, argument: &Expr, plan: &ScanPlan) -> AggregateCall {
    let schema = &plan.table.file_schema;
    let never_null = match argument {
        // DataFusion plans COUNT(*) as COUNT(1).
        Expr::Literal(value) => *value != Literal::Null,
        Expr::Column(index) => !schema.field(*index).is_nullable(),
        _ => false,
    };
    let rows = function == AggregateFunction::Count && never_null;
    let shown = if rows { "*".to_owned() } else { argument.display(schema).to_string() };
    AggregateCall {
        function,
        argument: (!rows).then(|| argument.clone()),
        name: format!("{}({shown})", function.sql()),
    }
}
