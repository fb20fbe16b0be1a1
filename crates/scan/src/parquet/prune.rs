//! Pruning: choose the row groups a predicate can match, from footer statistics alone.
//!
//! Keeps one promise: a row group holding a matching row is never dropped. It may keep too many. The predicate is
//! turned into one over the smallest and the largest value of each column, which is FALSE only if no row can match;
//! a missing bound is NULL and makes nothing FALSE. Floating-point columns are left out: their statistics pass over
//! NaN, which is greater than everything. Bounds of a column whose type in the file orders differently from its
//! declared type are not used.

use std::sync::Arc;

use ::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pushdown::{CompareOp, Expr, Result};

use super::nested::Place;
use crate::evaluate::Evaluator;
use crate::output::record_batch;
use crate::types::is_text;

/// A list longer than this is not looked at value by value.
const IN_LIST: usize = 1000;

/// For each of `groups`, whether a row of it may match.
pub(crate) fn may_match(
    predicate: &Expr,
    declared: &SchemaRef,
    file: &Schema,
    metadata: &ParquetMetaData,
    groups: &[usize],
) -> Result<Vec<bool>> {
    let all = vec![true; groups.len()];
    let Some(possible) = possible(predicate, declared) else { return Ok(all) };
    let groups: Vec<&RowGroupMetaData> = groups.iter().filter_map(|i| metadata.row_groups().get(*i)).collect();
    let bounds = bounds(declared, file, metadata, &groups)?;
    let evaluator = Evaluator::expr(&possible, bounds.schema_ref())?;
    let result = evaluator.evaluate(&bounds)?;
    let Some(result) = result.as_boolean_opt() else { return Ok(all) };
    Ok(result.iter().map(|matches| matches != Some(false)).collect())
}

/// Column `2 * i` holds the smallest, `2 * i + 1` the largest value of column `i`.
fn bounds(
    declared: &SchemaRef,
    file: &Schema,
    metadata: &ParquetMetaData,
    groups: &[&RowGroupMetaData],
) -> Result<RecordBatch> {
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for field in declared.fields() {
        let unknown = || arrow::array::new_null_array(field.data_type(), groups.len());
        let (smallest, largest) =
            column_bounds(field, file, metadata, groups).unwrap_or_else(|| (unknown(), unknown()));
        for (name, column) in [("min", smallest), ("max", largest)] {
            fields.push(Field::new(format!("{name}({})", field.name()), field.data_type().clone(), true));
            columns.push(column);
        }
    }
    record_batch(&Arc::new(Schema::new(fields)), columns, groups.len())
}

fn column_bounds(
    field: &Field,
    file: &Schema,
    metadata: &ParquetMetaData,
    groups: &[&RowGroupMetaData],
) -> Option<(ArrayRef, ArrayRef)> {
    if !Place::is_root(field) {
        return None;
    }
    let stored = file.field_with_name(field.name()).ok()?;
    if !same_order(stored.data_type(), field.data_type()) {
        return None;
    }
    let parquet = metadata.file_metadata().schema_descr();
    let converter = StatisticsConverter::try_new(field.name(), file, parquet).ok()?;
    let options = CastOptions { safe: false, ..Default::default() };
    let declared = |bounds: ArrayRef| cast_with_options(&bounds, field.data_type(), &options).ok();
    let smallest = declared(converter.row_group_mins(groups.iter().copied()).ok()?)?;
    let largest = declared(converter.row_group_maxes(groups.iter().copied()).ok()?)?;
    (smallest.len() == groups.len() && largest.len() == groups.len()).then_some((smallest, largest))
}

/// Whether values order in the declared type as they do in the file's, and bounds are trusted at all.
fn same_order(stored: &DataType, declared: &DataType) -> bool {
    let stored = match stored {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    if stored.is_floating() || declared.is_floating() || stored.is_nested() || declared.is_nested() {
        return false;
    }
    stored == declared
        || (is_text(stored) && is_text(declared))
        || (stored.is_integer() && (declared.is_integer() || matches!(declared, DataType::Decimal128(..))))
}

/// What must hold of a column's bounds for the predicate to be TRUE of a row; `None` if nothing is known.
fn possible(predicate: &Expr, schema: &Schema) -> Option<Expr> {
    match predicate {
        Expr::And(all) => {
            let known: Vec<Expr> = all.iter().filter_map(|e| possible(e, schema)).collect();
            (!known.is_empty()).then(|| Expr::conjunction(known))
        }
        Expr::Or(all) if !all.is_empty() => {
            all.iter().map(|e| possible(e, schema)).collect::<Option<Vec<_>>>().map(Expr::Or)
        }
        Expr::Compare(op, a, b) => match (&**a, &**b) {
            (Expr::Column(column), value @ Expr::Literal(_)) => compare(*op, *column, value, schema),
            (value @ Expr::Literal(_), Expr::Column(column)) => compare(op.swap(), *column, value, schema),
            _ => None,
        },
        Expr::InList { expr, list, negated: false } if list.len() <= IN_LIST => match &**expr {
            Expr::Column(column) if list.iter().all(|e| matches!(e, Expr::Literal(_))) => {
                let any = list.iter().map(|value| compare(CompareOp::Eq, *column, value, schema));
                any.collect::<Option<Vec<_>>>().map(Expr::Or)
            }
            _ => None,
        },
        _ => None,
    }
}

fn compare(op: CompareOp, column: usize, value: &Expr, schema: &Schema) -> Option<Expr> {
    let data_type = schema.fields().get(column)?.data_type();
    let comparable = match value {
        Expr::Literal(literal) => comparable(data_type, &crate::lower::scalar(literal).data_type()),
        _ => false,
    };
    if !comparable {
        return None;
    }
    let smallest = || Expr::Column(column * 2);
    let largest = || Expr::Column(column * 2 + 1);
    Some(match op {
        CompareOp::Lt | CompareOp::LtEq => Expr::compare(op, smallest(), value.clone()),
        CompareOp::Gt | CompareOp::GtEq => Expr::compare(op, largest(), value.clone()),
        CompareOp::Eq => Expr::compare(CompareOp::LtEq, smallest(), value.clone()).and(Expr::compare(
            CompareOp::GtEq,
            largest(),
            value.clone(),
        )),
        CompareOp::NotEq => return None,
    })
}

/// Whether a comparison of these types keeps the order of the column's type.
fn comparable(column: &DataType, literal: &DataType) -> bool {
    let number = |t: &DataType| t.is_integer() || matches!(t, DataType::Decimal128(..));
    column == literal
        || (is_text(column) && is_text(literal))
        || (number(column) && number(literal))
        || (column.is_temporal() && literal.is_temporal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_bounds_decide_is_kept() {
        let schema =
            Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("f", DataType::Float64, true)]);
        let a = |op, n| Expr::compare(op, Expr::Column(0), Expr::int(n));
        let f = Expr::compare(CompareOp::Gt, Expr::Column(1), Expr::Literal(pushdown::Literal::Float64(1.0)));
        let unknown = Expr::Not(Box::new(a(CompareOp::Gt, 5)));
        assert_eq!(possible(&a(CompareOp::Lt, 5).and(unknown.clone()), &schema), Some(a(CompareOp::Lt, 5)));
        assert_eq!(possible(&Expr::Or(vec![a(CompareOp::Lt, 5), unknown.clone()]), &schema), None);
        assert_eq!(possible(&unknown, &schema), None);
        assert!(!same_order(&DataType::Float64, &DataType::Float64));
        // The bounds of a floating-point column are unknown, so its comparison decides nothing.
        assert!(possible(&f, &schema).is_some());
    }
}
