//! Constant texts that are compared with truth values: `b = 'true'`.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans a constant text that is compared with a BOOLEAN as the truth value that it spells.
#[derive(Debug)]
pub(crate) struct TruthTexts;

impl ExprPlanner for TruthTexts {
    fn plan_binary_op(&self, binary: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let RawBinaryExpr { op, mut left, mut right } = binary;
        if matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            if let Some(value) = meant(&left, &right, schema) {
                left = value;
            } else if let Some(value) = meant(&right, &left, schema) {
                right = value;
            }
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Returns the truth value that `side` means when it is compared with `other`; `None` unless
/// `other` is a BOOLEAN and `side` spells one.
fn meant(side: &Expr, other: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::Literal(value, metadata) = side else { return None };
    let value = spelled(value.try_as_str()??)?;
    let is_boolean = other.get_type(schema).is_ok_and(|data_type| data_type == DataType::Boolean);
    is_boolean.then(|| Expr::Literal(ScalarValue::Boolean(Some(value)), metadata.clone()))
}

/// Returns the truth value that a text spells; `None` if it spells none.
fn spelled(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
        _ => None,
    }
}
