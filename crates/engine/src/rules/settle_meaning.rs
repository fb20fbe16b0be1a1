//! SettleMeaning: corrects expressions whose meaning DataFusion 55.2 changes in type coercion or
//! planning.
//!
//! **Decimals compared with floating-point numbers.** DataFusion converts the latter to decimals
//! with 15 places, which cannot hold large numbers and NaN. This rule converts the decimal to a
//! floating-point number instead, as PostgreSQL and DuckDB do. The literal `0.05` is a decimal.
//!
//! **Zeros in lists.** `-0.0 IN (0.0)` becomes true, as `-0.0 = 0.0` is: a list that contains one
//! zero gets the other one, too.
//!
//! **Dates and parts of a day.** `DATE '2024-01-01' + INTERVAL '90 minutes'` becomes a timestamp,
//! where DataFusion returns the date.
//!
//! **Times without seconds.** A text literal with hours and minutes gets seconds if it is compared
//! with a timestamp.
//!
//! **Subqueries of ANY and ALL** get a unique name. DataFusion turns them into a condition inside
//! the subquery, in which a column of the outer table is confused with one of the same name of the
//! inner table.
//!
//! **Functions** with a bug in DataFusion are replaced ([`crate::functions`]). Functions of
//! floating-point numbers are computed as DOUBLE, even if the argument is a REAL: `degrees(r)` can
//! be infinite as a REAL where the DOUBLE is not.
//!
//! **Places of ROUND and TRUNC.** The type of `round(d, 2)` is `DECIMAL(38, 2)` if the 2 is an INT,
//! else that of `d`. DataFusion chooses the type before type coercion makes the 2 an INT. So this
//! rule makes a constant number of places an INT before that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Between, InList, InSubquery, ScalarFunction, SetComparison};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, ScalarUDF, Subquery, binary_expr, cast,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::rewrite::rewrite_exprs;
use crate::functions::date_part;
use crate::sql::syntax::times;

/// The rule. It runs before DataFusion's type coercion.
#[derive(Debug)]
pub(super) struct SettleMeaning {
    /// Number of subqueries that have been named, which makes names unique.
    named: AtomicUsize,
    date_part: Arc<ScalarUDF>,
}

impl SettleMeaning {
    pub(super) fn new() -> Self {
        Self { named: AtomicUsize::new(0), date_part: Arc::new(date_part::function()) }
    }
}

impl AnalyzerRule for SettleMeaning {
    fn name(&self) -> &'static str {
        "settle_meaning"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_exprs(plan, |expr, schema| self.settle(expr, schema))
    }
}

impl SettleMeaning {
    fn settle(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
                let (left, right) = (with_seconds(left, &right, schema), right);
                let (right, left) = (with_seconds(right, &left, schema), left);
                let to = floating([left.as_ref(), right.as_ref()], schema);
                let (left, right) = (as_floating(left, to.as_ref(), schema), as_floating(right, to.as_ref(), schema));
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) => {
                let is_date = |side: &Expr| side.get_type(schema).is_ok_and(|own| own == DataType::Date32);
                let (left, right) = match (left, right) {
                    (left, right) if is_date(&left) && cuts_days(&right) => (Box::new(cast(*left, TIMESTAMP)), right),
                    (left, right) if is_date(&right) && cuts_days(&left) => (left, Box::new(cast(*right, TIMESTAMP))),
                    unchanged => return Ok(Transformed::no(binary_expr(*unchanged.0, op, *unchanged.1))),
                };
                Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
            Expr::Between(Between { expr, negated, low, high }) => {
                let [low, high] = [low, high].map(|side| with_seconds(side, &expr, schema));
                let to = floating([expr.as_ref(), low.as_ref(), high.as_ref()], schema);
                let [expr, low, high] = [expr, low, high].map(|side| as_floating(side, to.as_ref(), schema));
                Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
            }
            Expr::InList(InList { expr, list, negated }) => {
                let to = floating(list.iter().chain([expr.as_ref()]), schema);
                let list = list.into_iter().map(|item| *as_floating(Box::new(item), to.as_ref(), schema));
                let (expr, list) =
                    with_equal_zeros(as_floating(expr, to.as_ref(), schema), list.collect(), to.as_ref());
                Transformed::yes(Expr::InList(InList { expr, list, negated }))
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let field = subquery.subquery.schema().fields().first();
                let to = field.map(|field| field.data_type().clone()).filter(DataType::is_floating);
                let expr = as_floating(expr, to.as_ref(), schema);
                Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery, negated }))
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let name = format!("__subquery_{}", self.named.fetch_add(1, Relaxed));
                let plan = LogicalPlanBuilder::from((*subquery.subquery).clone()).alias(name)?.build()?;
                let subquery = Subquery { subquery: plan.into(), ..subquery };
                Transformed::yes(Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }))
            }
            Expr::ScalarFunction(call) if call.func.name() == self.date_part.name() => {
                Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: Arc::clone(&self.date_part), ..call }))
            }
            Expr::ScalarFunction(ScalarFunction { func, args }) if ROUNDING_FUNCTIONS.contains(&func.name()) => {
                Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args: with_int_places(args) }))
            }
            Expr::ScalarFunction(ScalarFunction { func, args }) if DOUBLE_FUNCTIONS.contains(&func.name()) => {
                let is_narrow = |arg: &Expr| arg.get_type(schema).is_ok_and(|own| own == DataType::Float32);
                let widened =
                    args.into_iter().map(|arg| if is_narrow(&arg) { cast(arg, DataType::Float64) } else { arg });
                Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args: widened.collect() }))
            }
            other => Transformed::no(other),
        })
    }
}

/// Functions whose result is a DOUBLE in PostgreSQL and DuckDB.
const DOUBLE_FUNCTIONS: [&str; 22] = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "cot", "degrees", "exp", "ln",
    "log", "log10", "log2", "power", "radians", "sin", "sqrt", "tan",
];

/// Functions whose result type depends on their second argument, the number of decimal places.
const ROUNDING_FUNCTIONS: [&str; 2] = ["round", "trunc"];

/// Converts a constant integer in the second argument to INT, if it fits.
fn with_int_places(mut args: Vec<Expr>) -> Vec<Expr> {
    if let Some(Expr::Literal(value, _)) = args.get_mut(1)
        && let Ok(int @ ScalarValue::Int32(Some(_))) = value.cast_to(&DataType::Int32)
        && value.data_type().is_integer()
    {
        *value = int;
    }
    args
}

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

/// Returns whether `expr` is a constant interval with a fraction of a day.
fn cuts_days(expr: &Expr) -> bool {
    const DAY_MS: i32 = 24 * 60 * 60 * 1000;
    const DAY_NS: i64 = DAY_MS as i64 * 1_000_000;
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) => interval.nanoseconds % DAY_NS != 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(interval)), _) => interval.milliseconds % DAY_MS != 0,
        _ => false,
    }
}

/// Makes both floating-point zeros equal in `expr IN (list)` of type `to`, since lists are searched
/// by bits. A list of constants that contains a zero gets both zeros. Otherwise 0 is added to both
/// sides, since the sum is never `-0.0`.
fn with_equal_zeros(expr: Box<Expr>, mut list: Vec<Expr>, to: Option<&DataType>) -> (Box<Expr>, Vec<Expr>) {
    let Some(to) = to else { return (expr, list) };
    let zeros = [0.0_f64, -0.0].map(|zero| ScalarValue::from(zero).cast_to(to));
    let [Ok(zero), Ok(negative)] = zeros else { return (expr, list) };
    if !list.iter().all(|item| matches!(item, Expr::Literal(..))) {
        let add = |side: Expr| binary_expr(side, Operator::Plus, Expr::Literal(zero.clone(), None));
        return (Box::new(add(*expr)), list.into_iter().map(add).collect());
    }
    let is_zero = |item: &Expr| match item {
        Expr::Literal(value, _) => value.cast_to(to).is_ok_and(|value| value == zero || value == negative),
        _ => false,
    };
    if list.iter().any(is_zero) {
        list.extend([zero, negative].map(|zero| Expr::Literal(zero, None)));
    }
    (expr, list)
}

/// Adds seconds to a text literal such as `2024-01-02 03:04` if `other`, which it is compared with,
/// is a timestamp.
fn with_seconds(side: Box<Expr>, other: &Expr, schema: &DFSchema) -> Box<Expr> {
    let Expr::Literal(value, metadata) = side.as_ref() else { return side };
    let Some(complete) = value.try_as_str().flatten().and_then(times::with_seconds) else { return side };
    match other.get_type(schema) {
        Ok(DataType::Timestamp(..)) => Box::new(Expr::Literal(ScalarValue::Utf8(Some(complete)), metadata.clone())),
        _ => side,
    }
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Returns the type of the first floating-point expression in `all`.
fn floating<'a>(all: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Option<DataType> {
    all.into_iter().filter_map(|expr| expr.get_type(schema).ok()).find(DataType::is_floating)
}

/// Casts `expr` to floating point if it is a decimal that is compared with an operand of type `to`.
fn as_floating(expr: Box<Expr>, to: Option<&DataType>, schema: &DFSchema) -> Box<Expr> {
    let Some(to) = to else { return expr };
    match *expr {
        Expr::Literal(value, metadata) if is_decimal(&value.data_type()) => match value.cast_to(to) {
            Ok(floating) => Box::new(Expr::Literal(floating, metadata)),
            Err(_) => Box::new(Expr::Literal(value, metadata)),
        },
        Expr::Negative(inner) if matches!(*inner, Expr::Literal(..)) => {
            Box::new(Expr::Negative(as_floating(inner, Some(to), schema)))
        }
        // The smaller floating-point numbers do not hold all digits of a decimal.
        other if other.get_type(schema).is_ok_and(|own| is_decimal(&own)) => Box::new(cast(other, DataType::Float64)),
        other => Box::new(other),
    }
}

fn is_decimal(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..)
    )
}
