//! The walk that rewrites each query, table and expression of a statement.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Query, Select, TableFactor, UnaryOperator, Value,
    ValueWithSpan, VisitorMut,
};
use pushdowndb_contract::{Error, Result};

use super::calls::call;
use super::visit::walk;
use super::{
    asof, distinct_from, exists, forms, groups, json_operators, macros, order_all, patterns, power, reading, refused,
    relations, rows, times, types, using,
};

/// Maximum precision of a decimal.
const MAX_DECIMAL_DIGITS: u64 = 76;

/// Rewrites all parts of a statement.
#[derive(Default)]
pub(super) struct Rewrite {
    /// Number of calls of reading functions so far.
    calls: usize,
}

impl Rewrite {
    fn break_with(error: Option<Error>) -> ControlFlow<Box<Error>> {
        error.map_or(ControlFlow::Continue(()), |error| ControlFlow::Break(Box::new(error)))
    }
}

impl VisitorMut for Rewrite {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        order_all::rewrite(query);
        Self::break_with(refused::clause_of_query(query).or_else(|| groups::fetch_as_limit(query).err()))
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        groups::rewrite(select);
        exists::in_projection(select);
        relations::name_halves_of_joins(select);
        let refused = refused::clause_of_select(select);
        Self::break_with(refused.or_else(|| asof::rewrite(select).and_then(|()| using::rewrite(select)).err()))
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Self::Break> {
        reading::name_call(table, &mut self.calls);
        Self::break_with(refused::clause_of_table(table).or_else(|| relations::rewrite(table).err()))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Err(error) = patterns::translate(expr) {
            return Self::break_with(Some(error));
        }
        if let Some(compared) = rows::by_fields(expr) {
            *expr = compared;
        }
        if let Err(error) = exists::row_in_subquery(expr).and_then(|()| {
            json_operators::rewrite(expr);
            power::rewrite(expr);
            forms::rewrite(expr);
            times::add_seconds(expr);
            macros::expand(expr)
        }) {
            return Self::break_with(Some(error));
        }
        match expr {
            Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) if is_wider_than_decimals(number) => {
                if number.parse().is_ok_and(f64::is_infinite) {
                    let message = format!("{number} is larger than any number, of which the largest is 1.8e308");
                    return ControlFlow::Break(Box::new(Error::invalid(message)));
                }
                let text = Value::SingleQuotedString(std::mem::take(number));
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(Expr::value(text)),
                    data_type: DataType::Double(ExactNumberInfo::None),
                    array: false,
                    format: None,
                };
            }
            Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: bits } => {
                let bits = std::mem::replace(&mut **bits, Expr::value(Value::Null));
                let all = Expr::UnaryOp {
                    op: UnaryOperator::Minus,
                    expr: Box::new(Expr::value(Value::Number("1".to_owned(), false))),
                };
                *expr = Expr::BinaryOp {
                    left: Box::new(Expr::Nested(Box::new(bits))),
                    op: BinaryOperator::PGBitwiseXor,
                    right: Box::new(all),
                };
            }
            Expr::BinaryOp {
                op: op @ (BinaryOperator::DuckIntegerDivide | BinaryOperator::MyIntegerDivide), ..
            } => {
                *op = BinaryOperator::Divide;
            }
            Expr::Cast { data_type, .. } => types::known(data_type),
            Expr::TypedString(text) => types::known(&mut text.data_type),
            Expr::AtTimeZone { timestamp, time_zone } => {
                let [time, zone] =
                    [timestamp, time_zone].map(|e| std::mem::replace(&mut **e, Expr::value(Value::Null)));
                *expr = call("timezone", [zone, time]);
            }
            _ => distinct_from::regroup(expr),
        }
        ControlFlow::Continue(())
    }
}

/// Rewrites an expression that is no part of a statement.
pub(super) fn rewrite_part(expr: &mut Expr) -> Result<()> {
    match walk(expr, &mut Rewrite::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

fn is_wider_than_decimals(number: &str) -> bool {
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let digits = digits.bytes().filter(u8::is_ascii_digit).count() as u64;
    let exponent = exponent.parse::<i64>().map_or(u64::MAX, i64::unsigned_abs);
    digits.saturating_add(exponent) > MAX_DECIMAL_DIGITS
}
