//! GuardConditions: evaluates operands of AND, OR and CASE that can fail only on rows for which
//! earlier operands do not decide the result.
//!
//! ```text
//! becomes   k <> 0 AND 10 / k > 2         k <> 0 AND
//!                                         CASE k <> 0 WHEN false THEN false ELSE 10 / k > 2 END
//! becomes   k = 0 OR 10 / k > 2           k = 0 OR
//!                                         CASE k = 0 WHEN true THEN true ELSE 10 / k > 2 END
//! becomes   CASE WHEN k = 0 THEN a        CASE true WHEN k = 0 THEN a
//!                ELSE 10 / k > 2 END           ELSE 10 / k > 2 END
//! stays     k > 1 AND l > 2               neither can fail
//! stays     x.k = y.k AND 10 / x.k > 2    a table would have to wait for another
//! ```
//!
//! DataFusion 55.2 evaluates both sides of AND and OR on all rows of a batch unless few rows are
//! left, and turns a CASE of truth values without an operand into AND and OR. Without this rule, an
//! operand could therefore fail on a row that an earlier operand excludes. Scans evaluate conjuncts
//! from left to right.
//!
//! Guards protect divisions and remainders of integers and decimals, and casts of texts. They do
//! not protect arithmetic that could overflow, since most conditions would then need a guard.

use std::collections::HashSet;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference};
use datafusion::logical_expr::expr::{Case, Cast, ScalarFunction};
use datafusion::logical_expr::utils::{conjunction, disjunction, split_binary_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, binary_expr, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::rewrite::rewrite_exprs;

/// The rule. It runs after type coercion, since the operands' types decide what can fail.
#[derive(Debug)]
pub(super) struct GuardConditions;

impl AnalyzerRule for GuardConditions {
    fn name(&self) -> &'static str {
        "guard_conditions"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_exprs(plan, guard)
    }
}

fn guard(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let parts = split_binary_owned(*right, op);
            if !parts.iter().any(|part| can_fail(part, schema)) {
                let right = join(op, parts).unwrap_or_else(|| lit(op == Operator::And));
                return Ok(Transformed::no(binary_expr(*left, op, right)));
            }
            let before = split_binary_owned((*left).clone(), op);
            let guarded = parts.into_iter().map(|part| guarded(part, &before, op, schema));
            let right = join(op, guarded.collect()).unwrap_or_else(|| lit(op == Operator::And));
            Transformed::yes(binary_expr(*left, op, right))
        }
        Expr::Case(Case { expr: None, when_then_expr, else_expr })
            if when_then_expr.iter().any(|(_, then)| is_truth(then, schema))
                && (when_then_expr.iter().any(|(when, then)| can_fail(when, schema) || can_fail(then, schema))
                    || else_expr.as_ref().is_some_and(|otherwise| can_fail(otherwise, schema))) =>
        {
            Transformed::yes(Expr::Case(Case { expr: Some(Box::new(lit(true))), when_then_expr, else_expr }))
        }
        // DataFusion turns COALESCE into a CASE of this kind later.
        Expr::ScalarFunction(ScalarFunction { func, args })
            if func.name() == "coalesce"
                && args.iter().any(|arg| is_truth(arg, schema))
                && args.iter().skip(1).any(|arg| can_fail(arg, schema)) =>
        {
            let mut args = args;
            let otherwise = args.pop().map(Box::new);
            let values = args.into_iter().map(|value| (Box::new(value.clone().is_not_null()), Box::new(value)));
            let (expr, when_then_expr) = (Some(Box::new(lit(true))), values.collect());
            Transformed::yes(Expr::Case(Case { expr, when_then_expr, else_expr: otherwise }))
        }
        other => Transformed::no(other),
    })
}

/// Maximum guards of a condition that can fail themselves. If there are more, only guards that
/// cannot fail are used.
const MAX_FALLIBLE_GUARDS: usize = 4;

/// Returns an expression that evaluates `condition` only where none of the operands `before`
/// decides the result of `op`.
fn guarded(condition: Expr, before: &[Expr], op: Operator, schema: &DFSchema) -> Expr {
    if !can_fail(&condition, schema) || is_fixed(&condition) {
        return condition;
    }
    let own = Named::by(&condition);
    // A fallible guard is itself guarded by earlier ones, so each doubles the length of the next.
    let may_fail = before.iter().filter(|guard| can_fail(guard, schema)).count() <= MAX_FALLIBLE_GUARDS;
    let guards = before.iter().filter(|guard| {
        !is_fixed(guard) && own.is_guarded_by(guard, &condition, schema) && (may_fail || !can_fail(guard, schema))
    });
    let Some(guard) = join(op, guards.cloned().collect()) else { return condition };
    let decided = lit(op == Operator::Or);
    Expr::Case(Case {
        expr: Some(Box::new(guard)),
        when_then_expr: vec![(Box::new(decided.clone()), Box::new(decided))],
        else_expr: Some(Box::new(condition)),
    })
}

fn join(op: Operator, parts: Vec<Expr>) -> Option<Expr> {
    if op == Operator::And { conjunction(parts) } else { disjunction(parts) }
}

/// Returns whether `expr` must be evaluated once, in place: it has subqueries or is volatile.
fn is_fixed(expr: &Expr) -> bool {
    let is_subquery = |expr: &Expr| {
        matches!(
            expr,
            Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::ScalarSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        )
    };
    expr.is_volatile() || expr.exists(|part| Ok(is_subquery(part))).unwrap_or(true)
}

/// The columns and tables named by an expression.
struct Named<'a> {
    columns: HashSet<&'a Column>,
    tables: HashSet<Option<&'a TableReference>>,
}

impl<'a> Named<'a> {
    fn by(expr: &'a Expr) -> Self {
        let columns = expr.column_refs();
        let tables = columns.iter().map(|column| column.relation.as_ref()).collect();
        Self { columns, tables }
    }

    /// Returns whether `guard` may guard `condition`. It must not name a table that `condition`
    /// does not. If `condition` only casts, the two must also share a column, since the cast may be
    /// pushed to storage alone.
    fn is_guarded_by(&self, guard: &Expr, condition: &Expr, schema: &DFSchema) -> bool {
        let guard = Named::by(guard);
        guard.tables.is_subset(&self.tables)
            && (divides(condition, schema) || !guard.columns.is_disjoint(&self.columns))
    }
}

/// Returns whether `expr` can fail on some row by a division or a cast of text, the failures that
/// guards prevent.
fn can_fail(expr: &Expr, schema: &DFSchema) -> bool {
    any(expr, |part| is_division(part, schema) || is_cast_of_text(part, schema))
}

fn divides(expr: &Expr, schema: &DFSchema) -> bool {
    any(expr, |part| is_division(part, schema))
}

/// Returns whether `is_one` is true for a part of `expr` outside of subqueries.
fn any(expr: &Expr, is_one: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    let walked = expr.apply(|part| {
        found |= is_one(part);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.is_err() || found
}

fn is_division(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide | Operator::Modulo, right }) = expr else {
        return false;
    };
    let is_exact = |side: &Expr| side.get_type(schema).is_ok_and(|own| own.is_integer() || own.is_decimal());
    let divisor_is_safe = match right.as_ref() {
        Expr::Literal(divisor, _) => !is_zero(divisor),
        Expr::Cast(Cast { expr, .. }) => matches!(expr.as_ref(), Expr::Literal(divisor, _) if !is_zero(divisor)),
        _ => false,
    };
    is_exact(left) && is_exact(right) && !divisor_is_safe
}

fn is_zero(value: &ScalarValue) -> bool {
    ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| zero == *value)
}

fn is_cast_of_text(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::Cast(Cast { expr, field }) = expr else { return false };
    !matches!(expr.as_ref(), Expr::Literal(..))
        && !field.data_type().is_string()
        && expr.get_type(schema).is_ok_and(|own| own.is_string())
}

fn is_truth(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|own| own == DataType::Boolean)
}
