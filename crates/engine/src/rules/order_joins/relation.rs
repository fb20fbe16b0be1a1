//! What is known of an input of a join: its rows and the values of its columns, found in the tables below it.

use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::{Column, DFSchema};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use datafusion::physical_expr::create_physical_expr;
use pushdown::Fragment;

use crate::convert::convert;
use crate::provider::ObjectTable;
use crate::query::{Known, QueryContext};
use crate::remote_scan::estimate::{DEFAULT_SELECTIVITY, column_bytes, rows_of};

/// Rows of a plan of which nothing is known.
const UNKNOWN_ROWS: f64 = 1e4;

/// The share of its input's rows that an aggregate has groups.
const GROUPED: f64 = 0.1;

/// Rows that a plan probably has. `query` knows the tables.
pub(super) fn rows(plan: &LogicalPlan, query: &QueryContext) -> f64 {
    match plan {
        LogicalPlan::TableScan(scan) => scanned(scan, &[], query),
        LogicalPlan::Filter(filter) => match filter.input.as_ref() {
            // Conditions stay above a scan that was told of them.
            LogicalPlan::TableScan(scan) => scanned(scan, std::slice::from_ref(&filter.predicate), query),
            input => rows(input, query) * DEFAULT_SELECTIVITY,
        },
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => 1.0,
        LogicalPlan::Aggregate(aggregate) => {
            let groups = aggregate.group_expr.iter().map(|key| Some(of_table(&aggregate.input, key, query)?.most));
            let all = rows(&aggregate.input, query);
            groups.product::<Option<f64>>().unwrap_or(all * GROUPED).min(all)
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
            _ => UNKNOWN_ROWS,
        },
    }
}

/// Whether the statistics of a table stand behind the rows of the plan.
pub(super) fn is_known(plan: &LogicalPlan, query: &QueryContext) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => known(scan, query).is_some_and(|(_, known)| known.statistics.is_some()),
        other => other.inputs().into_iter().any(|input| is_known(input, query)),
    }
}

/// Bytes of a row of the plan.
pub(super) fn width(plan: &LogicalPlan) -> f64 {
    plan.schema().fields().iter().map(|field| column_bytes(field.data_type()) as f64).sum()
}

/// The values of an expression that is joined by, in its table before any condition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values {
    /// There are no more.
    pub(super) most: f64,
    /// How many there are, where statistics tell.
    pub(super) known: Option<f64>,
}

/// The values of an expression over the plan's columns, as far as anybody can tell.
pub(super) fn values(plan: &LogicalPlan, expr: &Expr, query: &QueryContext) -> Values {
    of_table(plan, expr, query).unwrap_or_else(|| Values { most: rows(plan, query), known: None })
}

fn of_table(plan: &LogicalPlan, expr: &Expr, query: &QueryContext) -> Option<Values> {
    let (scan, column) = origin(plan, column_of(expr)?)?;
    let (table, known) = known(scan, query)?;
    let column = scan.projection.as_ref().map_or(Some(column), |picked| picked.get(column).copied())?;
    let schema = &table.definition().file_schema;
    if column >= schema.fields().len() {
        return None;
    }
    match &known.statistics {
        Some(statistics) => {
            let groups = statistics.groups(&[pushdown::Expr::Column(column)], None)?;
            Some(Values { most: groups, known: Some(groups) })
        }
        None => {
            let all = Fragment::all(table.definition().format.clone(), schema.clone());
            Some(Values { most: rows_of(&all, known.bytes) as f64, known: None })
        }
    }
}

/// How many values each of the members of a class has, which are equal to each other: of a table without statistics as
/// many as the richest known one, because most joins are of a key and what refers to it, and where none is known as the
/// smallest table, because a key has no more.
pub(super) fn values_of_class(members: &[Values]) -> Vec<f64> {
    let known = members.iter().filter_map(|values| values.known).reduce(f64::max);
    let smallest = members.iter().map(|values| values.most).fold(f64::INFINITY, f64::min);
    members.iter().map(|values| values.known.unwrap_or_else(|| known.unwrap_or(smallest).min(values.most))).collect()
}

/// Rows of a table that fulfil these conditions and those that the scan was told of.
fn scanned(scan: &TableScan, conditions: &[Expr], query: &QueryContext) -> f64 {
    let Some((table, known)) = known(scan, query) else { return UNKNOWN_ROWS };
    let definition = table.definition();
    let conditions: Vec<&Expr> = scan.filters.iter().chain(conditions).collect();
    let guess = if conditions.is_empty() { 1.0 } else { DEFAULT_SELECTIVITY };
    let Some(statistics) = &known.statistics else {
        let all = Fragment::all(definition.format.clone(), definition.file_schema.clone());
        return rows_of(&all, known.bytes) as f64 * guess;
    };
    let all = known.bytes as f64 / statistics.row_bytes().max(f64::MIN_POSITIVE);
    let projected: Option<Vec<usize>> = scan.projection.clone();
    let column = |index: usize| {
        let column = projected.as_ref().map_or(Some(index), |picked| picked.get(index).copied())?;
        (column < definition.file_schema.fields().len()).then_some(column)
    };
    // Conditions may name columns that the scan does not yield.
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
    let mut kept = 1.0;
    let mut conjuncts: Vec<pushdown::Expr> = Vec::new();
    for condition in converted {
        match condition {
            Some(condition) => {
                for conjunct in condition.into_conjuncts() {
                    if !conjuncts.contains(&conjunct) {
                        conjuncts.push(conjunct);
                    }
                }
            }
            None => kept = DEFAULT_SELECTIVITY,
        }
    }
    if !conjuncts.is_empty() {
        kept *= statistics.kept(&pushdown::Expr::conjunction(conjuncts)).map_or(guess, |kept| kept.rows);
    }
    all * kept
}

/// The table behind a scan, and what is known of it.
fn known(scan: &TableScan, query: &QueryContext) -> Option<(Box<ObjectTable>, Known)> {
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<ObjectTable>()?.clone();
    let known = table.known_to(query)?;
    Some((Box::new(table), known))
}

/// The column that an expression is, perhaps cast.
fn column_of(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Cast(cast) => column_of(&cast.expr),
        Expr::Alias(alias) => column_of(&alias.expr),
        _ => None,
    }
}

/// The scan that a column of the plan comes from, and its place there.
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
    fn what_refers_to_a_key_has_the_values_of_the_key() {
        let unknown = |most| Values { most, known: None };
        let known = |rows| Values { most: rows, known: Some(rows) };
        // nation.n_regionkey, region.r_regionkey: nothing is known but how small they are.
        assert_eq!(values_of_class(&[unknown(25.0), unknown(5.0)]), [5.0, 5.0]);
        // customer.c_nationkey, supplier.s_nationkey, nation.n_nationkey.
        assert_eq!(values_of_class(&[known(25.0), unknown(10_000.0), unknown(30.0)]), [25.0, 25.0, 25.0]);
        assert_eq!(values_of_class(&[known(1e6), unknown(25.0)]), [1e6, 25.0]);
    }
}
