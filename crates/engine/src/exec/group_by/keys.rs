//! Counts the distinct group keys in the rows of a scan, and builds predicates on them.

use std::collections::HashMap;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, SortField};
use datafusion::common::ScalarValue;
use futures::stream::BoxStream;
use futures::{Stream, TryStreamExt};
use pushdowndb_contract::{CompareOp, Error, Expr, Literal, NamedExpr, Result};
use pushdowndb_scan::Evaluator;

use crate::error::from_datafusion;
use crate::plan::lower::among;
use crate::plan::lower::literal;

/// Maximum distinct keys counted; requests could not list more.
const MAX_KEYS: usize = 100_000;

/// Group that storage can aggregate.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Key values, in the types of the plan.
    pub(crate) values: Vec<ScalarValue>,
    /// Key values as literals of a request.
    pub(crate) literals: Vec<Literal>,
    /// Number of rows counted in this group.
    pub(crate) rows: u64,
}

/// Row counts of the groups in the rows of a scan.
#[derive(Debug)]
pub(crate) struct GroupCounts {
    pub(crate) groups: Vec<Group>,
    pub(crate) rows: u64,
    /// Whether `groups` has all groups that occur in the counted rows.
    pub(crate) complete: bool,
}

/// Counts the groups by `keys` in a stream of batches that have the table's columns `columns`. The
/// key values are cast to the leading column types of `types`.
pub(crate) async fn count(
    keys: &[NamedExpr],
    columns: &[usize],
    types: &SchemaRef,
    (schema, mut batches): (SchemaRef, BoxStream<'static, Result<RecordBatch>>),
) -> Result<GroupCounts> {
    let evaluators = keys.iter().map(|key| Evaluator::expr(&among(columns, key.expr.clone())?, &schema));
    let evaluators: Vec<Evaluator> = evaluators.collect::<Result<_>>()?;
    let fields = evaluators.iter().map(|key| SortField::new(key.data_type().clone())).collect();
    let converter = RowConverter::new(fields).map_err(unsorted)?;
    let mut counts: HashMap<Box<[u8]>, u64> = HashMap::new();
    let mut counted = GroupCounts { groups: vec![], rows: 0, complete: true };
    while let Some(batch) = batches.try_next().await? {
        let values: Vec<ArrayRef> = evaluators.iter().map(|key| key.evaluate(&batch)).collect::<Result<_>>()?;
        let rows = converter.convert_columns(&values).map_err(unsorted)?;
        for row in &rows {
            match counts.get_mut(row.as_ref()) {
                Some(count) => *count += 1,
                None => {
                    counts.insert(row.as_ref().into(), 1);
                }
            }
        }
        counted.rows += batch.num_rows() as u64;
        if counts.len() > MAX_KEYS {
            counted.complete = false;
            break;
        }
    }
    let mut counts: Vec<(Box<[u8]>, u64)> = counts.into_iter().collect();
    // Ties are broken by key, so that the order is deterministic.
    counts.sort_unstable_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
    let parser = converter.parser();
    let columns = converter.convert_rows(counts.iter().map(|(key, _)| parser.parse(key))).map_err(unsorted)?;
    let mut typed = Vec::with_capacity(columns.len());
    for (column, field) in columns.iter().zip(types.fields()) {
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let column = cast_with_options(column, field.data_type(), &strict);
        typed.push(column.map_err(|error| Error::invalid(format!("a key of a group leaves its type: {error}")))?);
    }
    for (place, (_, rows)) in counts.into_iter().enumerate() {
        let value = |column: &ArrayRef| ScalarValue::try_from_array(column, place).map_err(from_datafusion);
        let values: Vec<ScalarValue> = typed.iter().map(value).collect::<Result<_>>()?;
        match values.iter().map(literal).collect::<Option<Vec<Literal>>>() {
            Some(literals) => counted.groups.push(Group { values, literals, rows }),
            None => counted.complete = false,
        }
    }
    Ok(counted)
}

fn unsorted(error: arrow::error::ArrowError) -> Error {
    Error::internal("keys that cannot be counted").with_source(error)
}

/// Returns the columns that `keys` read, in ascending order.
pub(crate) fn columns(keys: &[NamedExpr]) -> Vec<usize> {
    let mut columns: Vec<usize> = keys.iter().flat_map(|key| key.expr.columns()).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Returns a predicate that is TRUE for the rows of `group`, and FALSE or NULL for other rows.
pub(crate) fn is_in(keys: &[NamedExpr], group: &[Literal]) -> Expr {
    let is = |(key, value): (&NamedExpr, &Literal)| match value {
        Literal::Null => Expr::IsNull(Box::new(key.expr.clone())),
        value => Expr::compare(CompareOp::Eq, key.expr.clone(), Expr::Literal(value.clone())),
    };
    Expr::conjunction(keys.iter().zip(group).map(is).collect())
}

/// Returns a predicate that is TRUE for the rows outside of `groups`, including rows with NULL
/// keys, which `NOT (key = x)` would lose.
pub(crate) fn is_in_none(keys: &[NamedExpr], groups: &[Group]) -> Expr {
    if let [key] = keys {
        let values = groups.iter().filter_map(|group| group.literals.first());
        let (nulls, values): (Vec<&Literal>, Vec<&Literal>) = values.partition(|value| **value == Literal::Null);
        let is_null = Expr::IsNull(Box::new(key.expr.clone()));
        let other = Expr::InList {
            expr: Box::new(key.expr.clone()),
            list: values.iter().map(|value| Expr::Literal((*value).clone())).collect(),
            negated: true,
        };
        return match (nulls.is_empty(), values.is_empty()) {
            (true, true) => Expr::Literal(Literal::Boolean(true)),
            (true, false) => Expr::Or(vec![is_null, other]),
            (false, true) => Expr::Not(Box::new(is_null)),
            // `NOT IN` is never TRUE for a NULL key.
            (false, false) => other,
        };
    }
    let differs = |(key, value): (&NamedExpr, &Literal)| {
        let is_null = Expr::IsNull(Box::new(key.expr.clone()));
        match value {
            Literal::Null => vec![Expr::Not(Box::new(is_null))],
            value => {
                let other = Expr::compare(CompareOp::NotEq, key.expr.clone(), Expr::Literal(value.clone()));
                vec![other, is_null]
            }
        }
    };
    let out_of = |group: &Group| Expr::Or(keys.iter().zip(&group.literals).flat_map(differs).collect());
    Expr::conjunction(groups.iter().map(out_of).collect())
}

/// Merges `streams` and converts their errors.
pub(crate) fn merged<S>(streams: Vec<S>) -> BoxStream<'static, Result<RecordBatch>>
where
    S: Stream<Item = datafusion::common::Result<RecordBatch>> + Send + Unpin + 'static,
{
    use futures::StreamExt;
    futures::stream::select_all(streams).map_err(from_datafusion).boxed()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use super::*;

    fn key(column: usize) -> NamedExpr {
        NamedExpr { expr: Expr::Column(column), name: format!("k{column}") }
    }

    fn batch() -> RecordBatch {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)]);
        let a = Int64Array::from(vec![Some(1), Some(1), None, Some(2), None, Some(1)]);
        let b = StringArray::from(vec![Some("x"), None, Some("x"), Some("y"), None, Some("x")]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(a), Arc::new(b)]).expect("a batch")
    }

    async fn seen(keys: &[NamedExpr]) -> GroupCounts {
        let columns = columns(keys);
        let batch = batch().project(&columns).expect("columns");
        let schema = batch.schema();
        let types: Vec<_> = keys
            .iter()
            .map(|key| {
                let Expr::Column(column) = key.expr else { panic!("a column") };
                super::tests::batch().schema().field(column).clone()
            })
            .collect();
        let rows = Box::pin(futures::stream::iter([Ok(batch)]));
        count(keys, &columns, &Arc::new(Schema::new(types)), (schema, rows)).await.expect("groups")
    }

    #[tokio::test]
    async fn every_row_is_in_one_group_or_in_none() {
        for keys in [vec![key(0)], vec![key(1)], vec![key(0), key(1)]] {
            let all = seen(&keys).await;
            assert_eq!((all.rows, all.complete), (6, true));
            assert!(all.groups.is_sorted_by_key(|group| std::cmp::Reverse(group.rows)));
            for taken in 0..=all.groups.len() {
                let (large, rest) = all.groups.split_at(taken);
                let schema = batch().schema();
                let rows = |predicate: Expr| {
                    let filter = Evaluator::predicate(&predicate, &schema).expect("a predicate");
                    filter.filter(&batch()).expect("rows").num_rows() as u64
                };
                for group in large {
                    assert_eq!(rows(is_in(&keys, &group.literals)), group.rows, "{group:?}");
                }
                let others: u64 = rest.iter().map(|group| group.rows).sum();
                assert_eq!(rows(is_in_none(&keys, large)), others, "all but {large:?}");
            }
        }
    }
}
