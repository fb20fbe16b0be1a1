//! Estimates of a join's inputs: rows, and distinct values of columns, from the tables below.

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::{Column, DFSchema};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use datafusion::physical_expr::create_physical_expr;
use pushdowndb_contract::Fragment;

use crate::context::{QueryContext, TableSummary};
use crate::cost::cardinality::{DEFAULT_SELECTIVITY, rows_of};
use crate::plan::lower::convert;
use crate::provider::ObjectTable;
use crate::statistics::width::column_bytes;

/// Assumed rows of a plan for which there is no estimate.
const DEFAULT_ROWS: f64 = 1e4;

/// Assumed groups of an aggregate per row of its input, without statistics.
const GROUPS_PER_ROW: f64 = 0.1;

/// Estimates the rows of `plan` from the summaries in `query`.
pub(super) fn rows(plan: &LogicalPlan, query: &QueryContext) -> f64 {
    match plan {
        LogicalPlan::TableScan(scan) => scanned(scan, &[], query),
        LogicalPlan::Filter(filter) => match filter.input.as_ref() {
            // A filter above a scan repeats conditions that were pushed into it.
            LogicalPlan::TableScan(scan) => scanned(scan, std::slice::from_ref(&filter.predicate), query),
            input => rows(input, query) * DEFAULT_SELECTIVITY,
        },
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => 1.0,
        LogicalPlan::Aggregate(aggregate) => {
            let groups = aggregate.group_expr.iter().map(|key| Some(of_table(&aggregate.input, key, query)?.max));
            let all = rows(&aggregate.input, query);
            groups.product::<Option<f64>>().unwrap_or(all * GROUPS_PER_ROW).min(all)
        }
        LogicalPlan::Limit(limit) => {
            let fetched = match limit.get_fetch_type() {
                Ok(datafusion::logical_expr::FetchType::Literal(Some(fetched))) => fetched as f64,
                _ => f64::INFINITY,
            };
            rows(&limit.input, query).min(fetched)
        }
        LogicalPlan::Join(join) => rows(&join.left, query).max(rows(&join.right, query)),
        LogicalPlan::Union(union) => union.inputs.iter().map(|input| rows(input, query)).sum(),
        LogicalPlan::EmptyRelation(_) => 1.0,
        other => match other.inputs().as_slice() {
            [input] => rows(input, query),
            _ => DEFAULT_ROWS,
        },
    }
}

/// Returns whether a table below `plan` has statistics.
pub(super) fn has_statistics(plan: &LogicalPlan, query: &QueryContext) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => {
            summary_of(scan, query).is_some_and(|(_, summary)| summary.statistics.is_some())
        }
        other => other.inputs().into_iter().any(|input| has_statistics(input, query)),
    }
}

/// Estimates the bytes of a row of `plan`.
pub(super) fn width(plan: &LogicalPlan) -> f64 {
    plan.schema().fields().iter().map(|field| column_bytes(field.data_type()) as f64).sum()
}

/// The distinct values of a join key in its table, before any condition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    /// Upper bound on their number.
    pub(super) max: f64,
    /// Estimate of their number; `None` without statistics.
    pub(super) distinct: Option<f64>,
}

/// Estimates the distinct values of `expr` over the columns of `plan`.
pub(super) fn values(plan: &LogicalPlan, expr: &Expr, query: &QueryContext) -> Values {
    of_table(plan, expr, query).unwrap_or_else(|| Values { max: rows(plan, query), distinct: None })
}

fn of_table(plan: &LogicalPlan, expr: &Expr, query: &QueryContext) -> Option<Values> {
    let (scan, column) = origin(plan, column_of(expr)?)?;
    let (table, summary) = summary_of(scan, query)?;
    let column = scan.projection.as_ref().map_or(Some(column), |picked| picked.get(column).copied())?;
    let schema = &table.definition().file_schema;
    if column >= schema.fields().len() {
        return None;
    }
    match &summary.statistics {
        Some(statistics) => {
            let groups = statistics.groups(&[pushdowndb_contract::Expr::Column(column)], None)?;
            Some(Values { max: groups, distinct: Some(groups) })
        }
        None => {
            let all = Fragment::all(table.definition().format.clone(), schema.clone());
            Some(Values { max: rows_of(&all, summary.bytes) as f64, distinct: None })
        }
    }
}

/// Estimates the distinct values of each member of a class of equal expressions. A member without
/// statistics gets the largest estimate of the others, since most joins are between a key and its
/// references. If none has an estimate, it gets the rows of the smallest table, since a key has no
/// more distinct values.
pub(super) fn values_of_class(members: &[Values]) -> Vec<f64> {
    let largest = members.iter().filter_map(|values| values.distinct).reduce(f64::max);
    let smallest = members.iter().map(|values| values.max).fold(f64::INFINITY, f64::min);
    members
        .iter()
        .map(|values| values.distinct.unwrap_or_else(|| largest.unwrap_or(smallest).min(values.max)))
        .collect()
}

/// Estimates the rows of a table that satisfy `conditions` and those pushed into the scan.
fn scanned(scan: &TableScan, conditions: &[Expr], query: &QueryContext) -> f64 {
    let Some((table, summary)) = summary_of(scan, query) else { return DEFAULT_ROWS };
    let definition = table.definition();
    let conditions: Vec<&Expr> = scan.filters.iter().chain(conditions).collect();
    let guess = if conditions.is_empty() { 1.0 } else { DEFAULT_SELECTIVITY };
    let Some(statistics) = &summary.statistics else {
        let all = Fragment::all(definition.format.clone(), definition.file_schema.clone());
        return rows_of(&all, summary.bytes) as f64 * guess;
    };
    let all = summary.bytes as f64 / statistics.row_bytes().max(f64::MIN_POSITIVE);
    let projected: Option<Vec<usize>> = scan.projection.clone();
    let column = |index: usize| {
        let column = projected.as_ref().map_or(Some(index), |picked| picked.get(index).copied())?;
        (column < definition.file_schema.fields().len()).then_some(column)
    };
    // Conditions may use columns that the scan does not yield.
    let whole = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &definition.schema()).ok();
    let (properties, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
    let converted = conditions.iter().map(|condition| {
        let physical = create_physical_expr(condition, &scan.projected_schema, &properties, &context);
        if let Ok(physical) = physical {
            return convert(&physical, &column);
        }
        let physical = create_physical_expr(condition, whole.as_ref()?, &properties, &context).ok()?;
        convert(&physical, &|index| (index < definition.file_schema.fields().len()).then_some(index))
    });
    let mut selectivity = 1.0;
    let mut conjuncts: Vec<pushdowndb_contract::Expr> = Vec::new();
    for condition in converted {
        match condition {
            Some(condition) => {
                for conjunct in condition.into_conjuncts() {
                    if !conjuncts.contains(&conjunct) {
                        conjuncts.push(conjunct);
                    }
                }
            }
            None => selectivity = DEFAULT_SELECTIVITY,
        }
    }
    if !conjuncts.is_empty() {
        selectivity *= statistics
            .selectivity(&pushdowndb_contract::Expr::conjunction(conjuncts))
            .map_or(guess, |passing| passing.rows);
    }
    all * selectivity
}

/// Returns the table of a scan, and its summary.
fn summary_of(scan: &TableScan, query: &QueryContext) -> Option<(Box<ObjectTable>, TableSummary)> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<ObjectTable>()?.clone();
    let summary = table.summary_in(query)?;
    Some((Box::new(table), summary))
}

/// Returns the column that `expr` consists of, apart from casts and aliases.
fn column_of(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Cast(cast) => column_of(&cast.expr),
        Expr::Alias(alias) => column_of(&alias.expr),
        _ => None,
    }
}

/// Returns the scan that yields `column` of `plan`, and the column's position in the scan.
fn origin<'a>(plan: &'a LogicalPlan, column: &Column) -> Option<(&'a TableScan, usize)> {
    let place = plan.schema().maybe_index_of_column(column)?;
    match plan {
        LogicalPlan::TableScan(scan) => Some((scan, place)),
        LogicalPlan::Projection(projection) => origin(&projection.input, column_of(projection.expr.get(place)?)?),
        LogicalPlan::SubqueryAlias(alias) => {
            let column = Column::from(alias.input.schema().qualified_field(place));
            origin(&alias.input, &column)
        }
        LogicalPlan::Aggregate(aggregate) => origin(&aggregate.input, column_of(aggregate.group_expr.get(place)?)?),
        LogicalPlan::Join(join) => origin(&join.left, column).or_else(|| origin(&join.right, column)),
        LogicalPlan::Filter(_) | LogicalPlan::Sort(_) | LogicalPlan::Limit(_) | LogicalPlan::Distinct(_) => {
            origin(plan.inputs().first()?, column)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_have_the_values_of_their_key() {
        let unknown = |max| Values { max, distinct: None };
        let estimated = |rows| Values { max: rows, distinct: Some(rows) };
        // nation.n_regionkey, region.r_regionkey, without statistics.
        assert_eq!(values_of_class(&[unknown(25.0), unknown(5.0)]), [5.0, 5.0]);
        // customer.c_nationkey, supplier.s_nationkey, nation.n_nationkey.
        assert_eq!(values_of_class(&[estimated(25.0), unknown(10_000.0), unknown(30.0)]), [25.0, 25.0, 25.0]);
        assert_eq!(values_of_class(&[estimated(1e6), unknown(25.0)]), [1e6, 25.0]);
    }
}
