//! `a ASOF JOIN b ON a.k = b.k AND a.t >= b.t`: each row of `a` with the last row of `b` whose `t` is
//! not later, among those of the same `k`.
//!
//! [`super::shorthand`] turns it into a GLOBAL JOIN before parsing; that has no other meaning here.
//! It is rewritten to a join with a range, from each `t` of `b` to the next:
//!
//! ```sql
//! a JOIN (SELECT *, lead(t) OVER (PARTITION BY k ORDER BY t) AS next FROM b WHERE t IS NOT NULL) AS b
//!   ON a.k = b.k AND a.t >= b.t AND (b.next IS NULL OR a.t < b.next)
//! ```

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Join, JoinConstraint, JoinOperator, Select, SelectItem, TableAlias, TableFactor,
};
use pushdowndb_contract::{Error, Result};

use super::parsed::{expression, query};
use super::using::name_of;
use super::visit::each_expression;
use super::wildcards::exclude;

/// The column of the next or the previous time.
const NEXT: &str = "\u{f8fc}next";

/// Rewrites the ASOF joins of `select`.
///
/// # Errors
///
/// Returns an error if a join has another form than the one above.
pub(super) fn rewrite(select: &mut Select) -> Result<()> {
    let mut found = false;
    for join in select.from.iter_mut().flat_map(|from| &mut from.joins).filter(|join| join.global) {
        of_join(join)?;
        found = true;
    }
    if found {
        select.projection.iter_mut().for_each(without_next);
    }
    Ok(())
}

fn wrong(what: &str) -> Error {
    Error::unsupported(format!("ASOF JOIN {what}; write a ASOF [LEFT] JOIN b ON a.key = b.key AND a.at >= b.at"))
}

fn of_join(join: &mut Join) -> Result<()> {
    join.global = false;
    let constraint = match &mut join.join_operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => constraint,
        _ => return Err(wrong("is an inner or a left join")),
    };
    let JoinConstraint::On(condition) = constraint else { return Err(wrong("takes ON")) };
    let alias = alias_of(&mut join.relation).ok_or_else(|| wrong("takes a table with a name"))?;
    let (mut keys, mut range) = (Vec::new(), None);
    for part in conjuncts(condition) {
        let Expr::BinaryOp { left, op, right } = part else { return Err(wrong("takes comparisons")) };
        let is_flipped = is_of(left, &alias) || !is_of(right, &alias) && is_qualified(right) && !is_qualified(left);
        let (left, right) = if is_flipped { (right, left) } else { (left, right) };
        let op = if is_flipped { flipped(op) } else { op.clone() };
        match op {
            BinaryOperator::Eq => keys.push(unqualified(right)),
            BinaryOperator::Gt | BinaryOperator::GtEq | BinaryOperator::Lt | BinaryOperator::LtEq
                if range.is_none() =>
            {
                range = Some((left.to_string(), op, unqualified(right)));
            }
            BinaryOperator::Gt | BinaryOperator::GtEq | BinaryOperator::Lt | BinaryOperator::LtEq => {
                return Err(wrong("takes one range"));
            }
            _ => return Err(wrong("takes comparisons")),
        }
    }
    let (at, op, other) = range.ok_or_else(|| wrong("needs a range"))?;
    let (function, beyond) = match op {
        BinaryOperator::GtEq => ("lead", "<"),
        BinaryOperator::Gt => ("lead", "<="),
        BinaryOperator::LtEq => ("lag", ">"),
        _ => ("lag", ">="),
    };
    let partitions = if keys.is_empty() { String::new() } else { format!("PARTITION BY {} ", keys.join(", ")) };
    let next = Ident::with_quote('"', NEXT);
    let source = query(&format!(
        "SELECT *, {function}({other}) OVER ({partitions}ORDER BY {other}) AS {next} FROM {} WHERE {other} IS NOT NULL",
        join.relation
    ))?;
    let within = format!("{alias}.{next} IS NULL OR {at} {beyond} {alias}.{next}");
    *condition = expression(&format!("({condition}) AND ({within})"))?;
    let alias = TableAlias { explicit: true, name: alias, columns: vec![], at: None };
    let subquery = Box::new(source);
    join.relation = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
    Ok(())
}

/// Returns the name of a table and removes its alias; `None` if it has no name or its alias names
/// columns.
fn alias_of(table: &mut TableFactor) -> Option<Ident> {
    let name = name_of(table)?;
    let (TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. }) = table else { return None };
    let has_columns = alias.take().is_some_and(|alias| !alias.columns.is_empty());
    (!has_columns).then_some(name)
}

fn conjuncts(condition: &Expr) -> Vec<&Expr> {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => [conjuncts(left), conjuncts(right)].concat(),
        Expr::Nested(inner) => conjuncts(inner),
        other => vec![other],
    }
}

fn is_of(expr: &Expr, alias: &Ident) -> bool {
    matches!(expr, Expr::CompoundIdentifier(parts)
        if parts.first().is_some_and(|first| first.value.eq_ignore_ascii_case(&alias.value)))
}

fn is_qualified(expr: &Expr) -> bool {
    matches!(expr, Expr::CompoundIdentifier(_))
}

fn flipped(op: &BinaryOperator) -> BinaryOperator {
    match op {
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        other => other.clone(),
    }
}

/// Returns the expression as text, with columns that are not qualified by their table.
fn unqualified(expr: &Expr) -> String {
    let mut expr = expr.clone();
    each_expression(&mut expr, &mut |expr| {
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() > 1
        {
            parts.remove(0);
        }
    });
    expr.to_string()
}

/// Excludes the added column from a `*`.
fn without_next(item: &mut SelectItem) {
    if let SelectItem::Wildcard(options) = item {
        exclude(options, Ident::with_quote('"', NEXT));
    }
}
