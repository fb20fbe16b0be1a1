//! Keys of the probe side that can be pushed to storage.
//!
//! A key expression that could fail on rows that never reach the join is not pushed. A constant
//! added to a key of the probe side is subtracted from the build side's keys instead: for `a.x + 1
//! = b.y`, storage tests whether `x` is one of the values `y - 1`. Integers wrap around, so each
//! `y` has exactly one such `x`.

use arrow::datatypes::{DataType, Schema};
use pushdowndb_contract::{ArithmeticOp, Expr, Function, Literal};

/// Returns the type of `key` as the join compares it, if evaluating `key` cannot fail on any row: a
/// column, a widening cast, or a text function of one. Returns `None` for anything else, such as
/// arithmetic.
pub(crate) fn total(key: &Expr, schema: &Schema) -> Option<DataType> {
    match key {
        Expr::Column(index) => schema.fields().get(*index).map(|field| field.data_type().clone()),
        Expr::Cast(inner, to) => widens(&total(inner, schema)?, to).then(|| to.clone()),
        Expr::Call(
            Function::Lower | Function::Upper | Function::Trim | Function::TrimLeading | Function::TrimTrailing,
            args,
        ) => match args.as_slice() {
            [text, rest @ ..] if rest.iter().all(|arg| matches!(arg, Expr::Literal(_))) => {
                total(text, schema).filter(DataType::is_string)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether a cast from `from` to `to` never fails and keeps distinct values distinct. Casts
/// to doubles count, although they may round distinct values to the same one.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    let digits = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
    match (from, to) {
        (from, to) if from == to || (from.is_string() && to.is_string()) => true,
        (Int8 | UInt8, Int16 | Int32 | Int64) | (Int16 | UInt16, Int32 | Int64) | (Int32 | UInt32, Int64) => true,
        (UInt8, UInt16 | UInt32) | (UInt16, UInt32) | (Float32, Float64) => true,
        (integer, Float64) if integer.is_integer() => true,
        (Decimal128(..), Float64) => true,
        (integer, Decimal128(precision, scale)) if integer.is_integer() => digits(*precision, *scale) >= 20,
        (Decimal128(p, s), Decimal128(precision, scale)) => scale >= s && digits(*precision, *scale) >= digits(*p, *s),
        _ => false,
    }
}

/// A constant added to a 64-bit integer x: the key is `x + offset`, or `offset - x` if `negated`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Shift {
    pub(crate) negated: bool,
    pub(crate) offset: i64,
}

impl Shift {
    /// Returns the x of `key`, wrapping around on overflow.
    pub(crate) fn undo(self, key: i64) -> i64 {
        if self.negated { self.offset.wrapping_sub(key) } else { key.wrapping_sub(self.offset) }
    }

    /// Returns the x of `key`; `None` if it would wrap around, which would break the order.
    pub(crate) fn undo_in_order(self, key: i64) -> Option<i64> {
        if self.negated { self.offset.checked_sub(key) } else { key.checked_sub(self.offset) }
    }

    pub(crate) fn is_none(self) -> bool {
        self == Self::default()
    }

    /// Formats the expression that computes x from the key named `key`, for EXPLAIN.
    pub(crate) fn display(self, key: &str) -> String {
        match self {
            Self { negated: false, offset: 0 } => key.to_owned(),
            Self { negated: true, offset } => format!("{offset} - {key}"),
            Self { offset, .. } if offset < 0 => format!("{key} + {}", offset.unsigned_abs()),
            Self { offset, .. } => format!("{key} - {offset}"),
        }
    }
}

/// Splits `key` into an expression and the sum of the constants added to it.
pub(crate) fn unshifted(key: Expr) -> (Expr, Shift) {
    let (mut key, mut shift) = (key, Shift::default());
    loop {
        // `key` is `± inner + added`.
        let (inner, negated, added) = match key {
            Expr::Arithmetic(op, a, b) => match (op, *a, *b) {
                (ArithmeticOp::Add, inner, Expr::Literal(Literal::Int64(added)))
                | (ArithmeticOp::Add, Expr::Literal(Literal::Int64(added)), inner) => (inner, false, added),
                (ArithmeticOp::Subtract, inner, Expr::Literal(Literal::Int64(less))) => {
                    (inner, false, less.wrapping_neg())
                }
                (ArithmeticOp::Subtract, Expr::Literal(Literal::Int64(from)), inner) => (inner, true, from),
                (op, a, b) => return (Expr::Arithmetic(op, Box::new(a), Box::new(b)), shift),
            },
            Expr::Negate(inner) => (*inner, true, 0),
            other => return (other, shift),
        };
        let added = if shift.negated { added.wrapping_neg() } else { added };
        shift = Shift { negated: shift.negated ^ negated, offset: shift.offset.wrapping_add(added) };
        key = inner;
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn keys_that_could_fail_are_not_pushed() {
        let types = [DataType::Int32, DataType::Utf8, DataType::Decimal128(15, 2), DataType::Int64];
        let fields: Vec<Field> = types.into_iter().map(|t| Field::new("c", t, true)).collect();
        let schema = Schema::new(fields);
        let cast = |column, to| Expr::Cast(Box::new(Expr::Column(column)), to);
        let twice = Expr::Arithmetic(ArithmeticOp::Multiply, Expr::Column(0).into(), Expr::int(2).into());
        let lower = |inner| Expr::Call(Function::Lower, vec![inner]);
        for (key, expected) in [
            (Expr::Column(0), true),
            (cast(0, DataType::Int64), true),
            (cast(0, DataType::Int16), false),
            (cast(3, DataType::Decimal128(22, 2)), true),
            (cast(3, DataType::Decimal128(15, 2)), false),
            (cast(2, DataType::Decimal128(22, 4)), true),
            (cast(2, DataType::Decimal128(15, 4)), false),
            (cast(1, DataType::Int64), false),
            (cast(1, DataType::Utf8View), true),
            (lower(Expr::Column(1)), true),
            (lower(cast(0, DataType::Utf8)), false),
            (twice, false),
        ] {
            assert_eq!(total(&key, &schema).is_some(), expected, "{}", key.display(&schema));
        }
    }

    #[test]
    fn added_constants_are_subtracted() {
        let add = |a: Expr, b: Expr| Expr::Arithmetic(ArithmeticOp::Add, a.into(), b.into());
        let less = |a: Expr, b: Expr| Expr::Arithmetic(ArithmeticOp::Subtract, a.into(), b.into());
        let x = || Expr::Column(0);
        for (key, of_seven, shown) in [
            (x(), 7, "y"),
            (add(x(), Expr::int(2)), 5, "y - 2"),
            (add(Expr::int(2), x()), 5, "y - 2"),
            (less(x(), Expr::int(2)), 9, "y + 2"),
            (less(Expr::int(2), x()), -5, "2 - y"),
            (Expr::Negate(Box::new(add(x(), Expr::int(2)))), -9, "-2 - y"),
            (less(Expr::int(1), less(Expr::int(2), x())), 8, "y + 1"),
            (add(x(), Expr::int(i64::MIN)), i64::MIN + 7, "y + 9223372036854775808"),
        ] {
            let (inner, shift) = unshifted(key);
            assert_eq!((inner, shift.undo(7), shift.display("y").as_str()), (x(), of_seven, shown));
        }
        let twice = Expr::Arithmetic(ArithmeticOp::Multiply, x().into(), Expr::int(2).into());
        assert_eq!(unshifted(twice.clone()), (twice, Shift::default()));
        let (_, shift) = unshifted(add(x(), Expr::int(1)));
        assert_eq!((shift.undo(i64::MIN), shift.undo_in_order(i64::MIN)), (i64::MAX, None));
    }
}
