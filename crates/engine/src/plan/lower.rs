//! Lowering of DataFusion's physical expressions to expressions of the contract.
//!
//! This is the allow-list of expressions that may be pushed to storage. Anything else (volatile
//! functions, TRY_CAST, subqueries, user functions) stays in the plan above the scan.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal as PhysicalLiteral, NegativeExpr, NotExpr,
};
use datafusion::physical_plan::PhysicalExpr;
use pushdowndb_contract::{ArithmeticOp, CompareOp, Expr, Function, Literal, limits};

use crate::functions::arithmetic::Checked;
use crate::functions::casts;

/// Converts `expr` over a scan's output into an expression over the object's columns. `column` maps
/// the index of an output column to that of the object's column, and returns `None` for columns
/// that are not in the object. Returns `None` if `expr` cannot be pushed.
pub(crate) fn convert(expr: &Arc<dyn PhysicalExpr>, column: &dyn Fn(usize) -> Option<usize>) -> Option<Expr> {
    let converted = convert_node(expr, column)?;
    (converted.depth() <= limits::EXPRESSION_DEPTH).then_some(converted)
}

fn convert_node(expr: &Arc<dyn PhysicalExpr>, column: &dyn Fn(usize) -> Option<usize>) -> Option<Expr> {
    let child = |e: &Arc<dyn PhysicalExpr>| convert_node(e, column).map(Box::new);
    let all = |list: &[Arc<dyn PhysicalExpr>]| list.iter().map(|e| convert_node(e, column)).collect::<Option<Vec<_>>>();
    if let Some(found) = expr.downcast_ref::<Column>() {
        return column(found.index()).map(Expr::Column);
    }
    if let Some(found) = expr.downcast_ref::<PhysicalLiteral>() {
        return literal(found.value()).map(Expr::Literal);
    }
    if let Some(found) = expr.downcast_ref::<BinaryExpr>() {
        return binary(found, child(found.left())?, child(found.right())?);
    }
    if let Some(found) = expr.downcast_ref::<NotExpr>() {
        return Some(Expr::Not(child(found.arg())?));
    }
    if let Some(found) = expr.downcast_ref::<IsNullExpr>() {
        return Some(Expr::IsNull(child(found.arg())?));
    }
    if let Some(found) = expr.downcast_ref::<IsNotNullExpr>() {
        return Some(Expr::Not(Box::new(Expr::IsNull(child(found.arg())?))));
    }
    if let Some(found) = expr.downcast_ref::<NegativeExpr>() {
        return Some(Expr::Negate(child(found.arg())?));
    }
    if let Some(found) = expr.downcast_ref::<InListExpr>() {
        return Some(Expr::InList { expr: child(found.expr())?, list: all(found.list())?, negated: found.negated() });
    }
    if let Some(found) = expr.downcast_ref::<LikeExpr>() {
        return Some(Expr::Like {
            expr: child(found.expr())?,
            pattern: child(found.pattern())?,
            negated: found.negated(),
            case_insensitive: found.case_insensitive(),
        });
    }
    if let Some(found) = expr.downcast_ref::<CastExpr>() {
        // A safe cast, which yields NULL instead of failing, is not in the contract.
        return if found.cast_options().safe {
            None
        } else {
            Some(Expr::Cast(child(found.expr())?, found.cast_type().clone()))
        };
    }
    if let Some(found) = expr.downcast_ref::<CaseExpr>() {
        let operand = found.expr().map(|e| convert_node(e, column)).map_or(Some(None), |e| e.map(Some))?;
        let branches = found.when_then_expr().iter().map(|(when, then)| {
            let when = convert_node(when, column)?;
            let when = match &operand {
                Some(operand) => Expr::compare(CompareOp::Eq, operand.clone(), when),
                None => when,
            };
            Some((when, convert_node(then, column)?))
        });
        return Some(Expr::Case {
            branches: branches.collect::<Option<_>>()?,
            otherwise: found.else_expr().map(child).map_or(Some(None), |e| e.map(Some))?,
        });
    }
    if let Some(found) = expr.downcast_ref::<ScalarFunctionExpr>() {
        if let Some(checked) = Checked::of_function(found.fun()) {
            return checked_arithmetic(checked, found.args(), column);
        }
        if let (Some(types), [value]) = (casts::in_storage(found.fun()), found.args()) {
            return Some(types.into_iter().fold(*child(value)?, |value, to| Expr::Cast(Box::new(value), to)));
        }
        let function = match (found.name(), found.args().len()) {
            ("lower", 1) => Function::Lower,
            ("upper", 1) => Function::Upper,
            ("character_length" | "char_length" | "length", 1) => Function::CharLength,
            ("substr" | "substring", 2 | 3) => Function::Substring,
            ("btrim" | "trim", 1 | 2) => Function::Trim,
            ("ltrim", 1 | 2) => Function::TrimLeading,
            ("rtrim", 1 | 2) => Function::TrimTrailing,
            ("nullif", 2) => Function::NullIf,
            ("coalesce", 1..) => Function::Coalesce,
            _ => return None,
        };
        return Some(Expr::Call(function, all(found.args())?));
    }
    None
}

fn checked_arithmetic(
    checked: Checked,
    args: &[Arc<dyn PhysicalExpr>],
    column: &dyn Fn(usize) -> Option<usize>,
) -> Option<Expr> {
    let operand = |expr: &Arc<dyn PhysicalExpr>| {
        let converted = convert_node(expr, column)?;
        // Literals of the contract have 64 bits, but overflow depends on the operands' types, so
        // narrower literals are cast.
        let own = expr.downcast_ref::<PhysicalLiteral>().map(|literal| literal.value().data_type());
        let narrow = own.filter(|own| own.is_integer() && *own != DataType::Int64);
        Some(Box::new(match narrow {
            Some(own) => Expr::Cast(Box::new(converted), own),
            None => converted,
        }))
    };
    let op = match (checked, args) {
        (Checked::Negate, [value]) => return Some(Expr::Negate(operand(value)?)),
        (Checked::Binary(op), [_, _]) => arithmetic_op(op)?,
        _ => return None,
    };
    Some(Expr::Arithmetic(op, operand(args.first()?)?, operand(args.last()?)?))
}

fn arithmetic_op(op: Operator) -> Option<ArithmeticOp> {
    Some(match op {
        Operator::Plus => ArithmeticOp::Add,
        Operator::Minus => ArithmeticOp::Subtract,
        Operator::Multiply => ArithmeticOp::Multiply,
        Operator::Divide => ArithmeticOp::Divide,
        Operator::Modulo => ArithmeticOp::Modulo,
        _ => return None,
    })
}

fn binary(found: &BinaryExpr, left: Box<Expr>, right: Box<Expr>) -> Option<Expr> {
    let compare = |op| Some(Expr::Compare(op, left.clone(), right.clone()));
    let like = |negated, case_insensitive| {
        Some(Expr::Like { expr: left.clone(), pattern: right.clone(), negated, case_insensitive })
    };
    match found.op() {
        Operator::Eq => compare(CompareOp::Eq),
        Operator::NotEq => compare(CompareOp::NotEq),
        Operator::Lt => compare(CompareOp::Lt),
        Operator::LtEq => compare(CompareOp::LtEq),
        Operator::Gt => compare(CompareOp::Gt),
        Operator::GtEq => compare(CompareOp::GtEq),
        Operator::And => Some(left.and(*right)),
        Operator::Or => Some(Expr::Or(match *left {
            Expr::Or(mut all) => {
                all.push(*right);
                all
            }
            one => vec![one, *right],
        })),
        Operator::StringConcat => Some(Expr::Call(Function::Concat, vec![*left, *right])),
        Operator::LikeMatch => like(false, false),
        Operator::ILikeMatch => like(false, true),
        Operator::NotLikeMatch => like(true, false),
        Operator::NotILikeMatch => like(true, true),
        op => Some(Expr::Arithmetic(arithmetic_op(*op)?, left, right)),
    }
}

/// Converts a constant; `None` if the contract does not have its type.
pub(crate) fn literal(value: &ScalarValue) -> Option<Literal> {
    if value.is_null() {
        return Some(Literal::Null);
    }
    Some(match value {
        ScalarValue::Boolean(Some(v)) => Literal::Boolean(*v),
        ScalarValue::Int8(Some(v)) => Literal::Int64(i64::from(*v)),
        ScalarValue::Int16(Some(v)) => Literal::Int64(i64::from(*v)),
        ScalarValue::Int32(Some(v)) => Literal::Int64(i64::from(*v)),
        ScalarValue::Int64(Some(v)) => Literal::Int64(*v),
        ScalarValue::UInt8(Some(v)) => Literal::Int64(i64::from(*v)),
        ScalarValue::UInt16(Some(v)) => Literal::Int64(i64::from(*v)),
        ScalarValue::UInt32(Some(v)) => Literal::Int64(i64::from(*v)),
        ScalarValue::UInt64(Some(v)) => Literal::Int64(i64::try_from(*v).ok()?),
        ScalarValue::Float32(Some(v)) => Literal::Float64(f64::from(*v)),
        ScalarValue::Float64(Some(v)) => Literal::Float64(*v),
        ScalarValue::Decimal128(Some(v), precision, scale) => Literal::Decimal(*v, *precision, *scale),
        ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v)) | ScalarValue::LargeUtf8(Some(v)) => {
            Literal::Utf8(v.clone())
        }
        ScalarValue::Date32(Some(v)) => Literal::Date(*v),
        ScalarValue::TimestampSecond(Some(v), zone) => Literal::Timestamp(v.checked_mul(1_000_000)?, utc(zone)?),
        ScalarValue::TimestampMillisecond(Some(v), zone) => Literal::Timestamp(v.checked_mul(1_000)?, utc(zone)?),
        ScalarValue::TimestampMicrosecond(Some(v), zone) => Literal::Timestamp(*v, utc(zone)?),
        ScalarValue::TimestampNanosecond(Some(v), zone) if v % 1_000 == 0 => Literal::Timestamp(v / 1_000, utc(zone)?),
        ScalarValue::Dictionary(_, inner) => return literal(inner),
        _ => return None,
    })
}

/// Returns whether a timestamp in `zone` is an instant, rather than a time without a zone. Returns
/// `None` for time zones that are not pushed.
fn utc(zone: &Option<Arc<str>>) -> Option<bool> {
    match zone.as_deref() {
        None => Some(false),
        Some("UTC" | "+00:00" | "Z") => Some(true),
        Some(_) => None,
    }
}

/// Renumbers the columns of `expr` as positions in `columns`, which must be in ascending order.
pub(crate) fn among(columns: &[usize], expr: Expr) -> pushdowndb_contract::Result<Expr> {
    expr.replace_columns(&mut |column| {
        let place = columns.binary_search(&column).map(Expr::Column);
        place.map_err(|_| pushdowndb_contract::Error::internal("an expression over a column that was not read"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::{binary, col, in_list, lit};

    fn schema() -> Schema {
        Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)])
    }

    #[test]
    fn columns_are_mapped_to_the_object() {
        let schema = schema();
        let expr = binary(col("b", &schema).unwrap(), Operator::Eq, lit("x"), &schema).unwrap();
        let converted = convert(&expr, &|i| Some(i + 10)).unwrap();
        assert_eq!(converted, Expr::compare(CompareOp::Eq, Expr::Column(11), Expr::text("x")));
        assert_eq!(convert(&expr, &|_| None), None, "a partition column is not in the object");
    }

    #[test]
    fn lists_and_conjunctions_convert() {
        let schema = schema();
        let list = in_list(col("a", &schema).unwrap(), vec![lit(1i64), lit(2i64)], &true, &schema).unwrap();
        let both = binary(Arc::clone(&list), Operator::And, list, &schema).unwrap();
        let Some(Expr::And(all)) = convert(&both, &Some) else { panic!("a conjunction") };
        assert_eq!(all.len(), 2);
        assert!(matches!(&all[0], Expr::InList { negated: true, list, .. } if list.len() == 2));
    }
}
