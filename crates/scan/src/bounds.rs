//! What bounds decide: a predicate over columns, turned into one over the smallest and the largest value of each.
//!
//! Keeps one promise: what holds for a row is not FALSE of the bounds of a set of rows that has it. A missing bound is
//! NULL and makes nothing FALSE.

use arrow::datatypes::{DataType, Schema};
use pushdown::{CompareOp, Expr};

use crate::types::is_text;

/// A list longer than this is not looked at value by value.
const IN_LIST: usize = 1000;

/// What must hold of a column's bounds for the predicate to be TRUE of a row: over columns `2 * i` and `2 * i + 1` for
/// the smallest and the largest value of column `i`. `None` if nothing is known.
pub(crate) fn possible(predicate: &Expr, schema: &Schema) -> Option<Expr> {
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
    use arrow::datatypes::Field;

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
        // The bounds of a floating-point column are unknown, so its comparison decides nothing.
        assert!(possible(&f, &schema).is_some());
    }
}
