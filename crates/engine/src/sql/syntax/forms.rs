//! Expressions that DataFusion 55.2 plans only in another form:
//!
//! | written | rewritten to |
//! | --- | --- |
//! | `(a).b`, `{'b': 1}.b` | `(a)['b']` |
//! | `t.user.name`, where `user` is a keyword | the column `user` of `t`, and its field `name` |
//! | `a[:2]`, `a[2:]` | `a[1:2]`, `a[2:-1]` |
//! | `INTERVAL 3 DAY`, `INTERVAL (x) DAY` | `INTERVAL '3' DAY`, `to_days(x)` |
//! | `s ^@ 'a'` | `starts_with(s, 'a')` |
//! | `ARRAY (SELECT a FROM t ORDER BY a)` | `(SELECT array_agg(a ORDER BY a) FROM t)` |

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, DateTimeField, Expr, Function, FunctionArguments, GroupByExpr, Ident, Interval,
    OrderByKind, Query, Select, SelectItem, SetExpr, Subscript, UnaryOperator, Value, ValueWithSpan,
};

use super::calls::call;
use super::parsed::{expression, query as parsed_query};

/// Rewrites `expr`, if it is one of these.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::CompoundFieldAccess { .. } => fields(expr),
        Expr::Interval(interval) => {
            if let Some(meant) = interval_of(interval) {
                *expr = meant;
            }
        }
        Expr::BinaryOp { left, op: BinaryOperator::PGStartsWith, right } => {
            let [text, start] = [left, right].map(|side| std::mem::replace(&mut **side, null()));
            *expr = call("starts_with", [text, start]);
        }
        Expr::Function(Function { name, args: FunctionArguments::Subquery(query), .. })
            if name.to_string().eq_ignore_ascii_case("array") =>
        {
            if let Some(list) = list_of(query) {
                *expr = Expr::Subquery(Box::new(list));
            }
        }
        _ => {}
    }
}

fn null() -> Expr {
    Expr::value(Value::Null)
}

fn number(number: &str) -> Expr {
    Expr::value(Value::Number(number.to_owned(), false))
}

/// Adds missing bounds to slices, and turns the names of fields in `(a).b` into texts, as the
/// planner requires.
fn fields(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    for access in access_chain.iter_mut() {
        // A keyword such as `user` is parsed as a call without brackets.
        if let AccessExpr::Dot(name @ Expr::Function(Function { args: FunctionArguments::None, .. })) = access {
            *name = Expr::Identifier(Ident::new(name.to_string().to_lowercase()));
        }
        if let AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) = access {
            lower_bound.get_or_insert_with(|| number("1"));
            upper_bound.get_or_insert_with(|| Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number("1")) });
        }
    }
    let names = access_chain.iter().map(|access| match access {
        AccessExpr::Dot(Expr::Identifier(name)) => Some(name.clone()),
        _ => None,
    });
    if let (Expr::Identifier(first), Some(names)) = (root.as_ref(), names.collect::<Option<Vec<_>>>()) {
        *expr = Expr::CompoundIdentifier([vec![first.clone()], names].concat());
        return;
    }
    for access in access_chain {
        if let AccessExpr::Dot(name) = access
            && let Expr::Identifier(field) = name
        {
            let text = if field.quote_style.is_none() { field.value.to_lowercase() } else { field.value.clone() };
            *name = Expr::value(Value::SingleQuotedString(text));
        }
    }
}

/// Rewrites an interval whose value is not a text; `None` for other intervals.
fn interval_of(interval: &mut Interval) -> Option<Expr> {
    let mut value = interval.value.as_mut();
    while let Expr::Nested(inner) = value {
        value = inner;
    }
    let field = interval.leading_field.as_ref()?;
    let is_text =
        |value: &Expr| matches!(value, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }));
    if is_text(value) {
        return None;
    }
    if let Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) = value {
        let text = Expr::value(Value::SingleQuotedString(std::mem::take(number)));
        return Some(Expr::Interval(Interval { value: Box::new(text), ..interval.clone() }));
    }
    let function = match field {
        DateTimeField::Year | DateTimeField::Years => "to_years",
        DateTimeField::Month | DateTimeField::Months => "to_months",
        DateTimeField::Week(None) | DateTimeField::Weeks => "to_weeks",
        DateTimeField::Day | DateTimeField::Days => "to_days",
        DateTimeField::Hour | DateTimeField::Hours => "to_hours",
        DateTimeField::Minute | DateTimeField::Minutes => "to_minutes",
        DateTimeField::Second | DateTimeField::Seconds => "to_seconds",
        _ => return None,
    };
    Some(call(function, [std::mem::replace(value, null())]))
}

/// Returns a query for one list of the values of `query`, in its order.
fn list_of(query: &mut Query) -> Option<Query> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let is_plain = select.distinct.is_none()
        && select.having.is_none()
        && matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty())
        && query.limit_clause.is_none()
        && query.fetch.is_none();
    let Select { projection, .. } = select.as_mut();
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] = projection.as_mut_slice()
    else {
        return None;
    };
    let value = value.clone();
    if is_plain {
        let order = query.order_by.take().and_then(|order| match order.kind {
            OrderByKind::Expressions(keys) => Some(keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
            OrderByKind::All(_) => None,
        });
        let order = order.map(|keys| format!(" ORDER BY {keys}")).unwrap_or_default();
        let list = expression(&format!("array_agg({value}{order})")).ok()?;
        *projection = vec![SelectItem::UnnamedExpr(list)];
        return Some(query.clone());
    }
    let alias = Ident::new("listed");
    *projection = vec![SelectItem::ExprWithAlias { expr: value, alias }];
    parsed_query(&format!("SELECT array_agg(listed) FROM ({query}) AS lists")).ok()
}
