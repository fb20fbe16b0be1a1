//! PushAggregate: scalar aggregates over a scan become partial results computed by storage.
//!
//! ```text
//! becomes   AggregateExec Final                 AggregateExec Final
//!           └ AggregateExec Partial: sum(a)     └ RemoteScanExec aggregates=[SUM(a)]
//!             └ RemoteScanExec filter: b > 1
//! becomes   AggregateExec Single: count(*)      AggregateExec Final
//!           └ RemoteScanExec                    └ RemoteScanExec aggregates=[COUNT(*)]
//! stays     AggregateExec Partial: sum(a)       storage's rows are a superset, and a sum of those is wrong
//!           └ FilterExec b LIKE '%x'
//!             └ RemoteScanExec
//! stays     GROUP BY, DISTINCT, FILTER (WHERE …), ORDER BY inside an aggregate
//! ```

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::Result as DfResult;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use pushdown::{AggregateCall, AggregateFunction, Expr, Literal};

use crate::convert::convert;
use crate::error::to_datafusion;
use crate::remote_scan::{PartialAggregate, RemoteScanExec, ScanSpec};

#[derive(Debug)]
pub(super) struct PushAggregate;

impl PhysicalOptimizerRule for PushAggregate {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let pushed = plan.transform_up(|node| {
            let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(node)) };
            match push(aggregate)? {
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

fn push(aggregate: &AggregateExec) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    let partial = matches!(aggregate.mode(), AggregateMode::Partial);
    let single = matches!(aggregate.mode(), AggregateMode::Single | AggregateMode::SinglePartitioned);
    let plain = aggregate.group_expr().is_true_no_grouping()
        && aggregate.limit_options().is_none()
        && aggregate.filter_expr().iter().all(Option::is_none);
    let Some(scan) = aggregate.input().downcast_ref::<RemoteScanExec>() else { return Ok(None) };
    if !(partial || single) || !plain {
        return Ok(None);
    }
    // The schema of the partial states is what a partial aggregate over the same input would have.
    let as_partial = AggregateExec::try_new(
        AggregateMode::Partial,
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    let Some(wanted) =
        partial_aggregate(aggregate.aggr_expr(), scan.spec(), &aggregate.input().schema(), as_partial.schema())?
    else {
        return Ok(None);
    };
    let Some(scan) = scan.with_aggregate(wanted).map_err(to_datafusion)? else { return Ok(None) };
    let mut states: Arc<dyn ExecutionPlan> = Arc::new(scan);
    if partial {
        return Ok(Some(states));
    }
    if states.output_partitioning().partition_count() > 1 {
        states = Arc::new(CoalescePartitionsExec::new(states));
    }
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

/// The calls that fill the states of these aggregates; `None` if one of them has no counterpart in storage.
fn partial_aggregate(
    aggregates: &[Arc<AggregateFunctionExpr>],
    spec: &ScanSpec,
    input: &Schema,
    schema: SchemaRef,
) -> DfResult<Option<PartialAggregate>> {
    let mut calls: Vec<AggregateCall> = Vec::new();
    let mut states = Vec::new();
    for aggregate in aggregates {
        let arguments = aggregate.expressions();
        let functions: &[AggregateFunction] = match aggregate.fun().name() {
            "count" => &[AggregateFunction::Count],
            "sum" => &[AggregateFunction::Sum],
            "min" => &[AggregateFunction::Min],
            "max" => &[AggregateFunction::Max],
            // DataFusion's state of AVG is the count, then the sum.
            "avg" => &[AggregateFunction::Count, AggregateFunction::Sum],
            _ => return Ok(None),
        };
        let [argument] = arguments.as_slice() else { return Ok(None) };
        if aggregate.is_distinct() || aggregate.ignore_nulls() || !aggregate.order_bys().is_empty() {
            return Ok(None);
        }
        if let ("avg", Ok(DataType::Decimal128(29.., _))) = (aggregate.fun().name(), argument.data_type(input)) {
            // DataFusion adds such values in a wider type than storage has.
            return Ok(None);
        }
        let Some(argument) = convert(argument, &|column| spec.file_column(column)) else { return Ok(None) };
        let state_fields = aggregate.state_fields()?;
        if state_fields.len() != functions.len() {
            return Ok(None);
        }
        for function in functions {
            let call = call(*function, &argument, spec);
            let place = calls.iter().position(|known| *known == call).unwrap_or_else(|| {
                calls.push(call);
                calls.len() - 1
            });
            states.push(place);
        }
    }
    if calls.is_empty() || states.len() != schema.fields().len() {
        return Ok(None);
    }
    Ok(Some(PartialAggregate { calls, schema, states }))
}

fn call(function: AggregateFunction, argument: &Expr, spec: &ScanSpec) -> AggregateCall {
    let schema = &spec.table.file_schema;
    let never_null = match argument {
        // COUNT(1) is what COUNT(*) is planned as.
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
