//! Rewrites statements into forms that DataFusion can plan: equivalent ones where possible, and
//! otherwise simplified ones, in which references to objects that do not exist here (sequences,
//! constraints, indexes, defaults) become NULL.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Query, SelectItem, SetExpr, Statement, TableFactor,
    Value, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut, visit_expressions,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// Columns that hold lists of columns or types of indexes and constraints, of which there are none.
const KEYS: [&str; 5] = ["indkey", "indclass", "indoption", "conkey", "confkey"];

/// Rewrites the parts of `sql` that DataFusion never accepts into equivalent ones. Returns `None`
/// if there is no such part, or if the text is not a single statement.
pub(super) fn adapted(sql: &str) -> Option<String> {
    rewritten(sql, Simplify { leaves_out: false, has_changed: false })
}

/// Simplifies `sql` by leaving out what does not exist here. Returns `None` if there is nothing to
/// simplify, or if the text is not a single statement.
pub(super) fn simplified(sql: &str) -> Option<String> {
    rewritten(sql, Simplify { leaves_out: true, has_changed: false })
}

fn rewritten(sql: &str, mut simplify: Simplify) -> Option<String> {
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).ok()?;
    let _: ControlFlow<()> = VisitMut::visit(&mut statements, &mut simplify);
    let mut texts = statements.iter().map(Statement::to_string);
    let first = texts.next().filter(|_| simplify.has_changed)?;
    texts.next().is_none().then_some(first)
}

struct Simplify {
    /// Whether references to objects that do not exist here are left out.
    leaves_out: bool,
    has_changed: bool,
}

impl VisitorMut for Simplify {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.leaves_out
            && let Some(counted) = counted(query)
        {
            *query = counted;
            self.has_changed = true;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(simpler) = adapted_expr(expr).or_else(|| self.leaves_out.then(|| simpler(expr)).flatten()) {
            *expr = simpler;
            self.has_changed = true;
        }
        // DataFusion supports only the backslash as the escape character of LIKE.
        if let Expr::Like { pattern, escape_char, .. } = expr
            && escape_char.as_ref().is_some_and(is_other_escape)
            && let Some(ValueWithSpan { value: Value::SingleQuotedString(escape), .. }) = escape_char.take()
        {
            **pattern = replaced(pattern.as_ref().clone(), escape);
            self.has_changed = true;
        }
        ControlFlow::Continue(())
    }
}

/// Returns an equivalent of `expr` that DataFusion accepts; `None` if `expr` needs no change.
fn adapted_expr(expr: &Expr) -> Option<Expr> {
    if let Some(name) = class_name(expr)
        && let [name] = name.as_slice()
        && name.starts_with("pg_")
        && let Expr::Cast { data_type, .. } = expr
    {
        // DataFusion looks up a name without a schema in `public` only.
        let literal = Expr::value(Value::SingleQuotedString(format!("pg_catalog.{name}")));
        return Some(cast(literal, data_type.clone()));
    }
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } if is_named(left, is_flag) => {
            let right = Box::new(Expr::value(Value::Boolean(flag(right)?)));
            Some(Expr::BinaryOp { left: left.clone(), op: BinaryOperator::Eq, right })
        }
        _ => found_class(expr),
    }
}

/// Returns a simpler replacement for an expression that DataFusion may be unable to plan.
fn simpler(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Subquery(query) if is_correlated(query) => Some(null()),
        Expr::Exists { subquery, negated } if is_correlated(subquery) => Some(Expr::value(Value::Boolean(*negated))),
        Expr::Exists { subquery, negated } => exists(subquery, *negated),
        Expr::Function(function) => of_function(function),
        Expr::Cast { expr, data_type, .. } if is_parameter(expr) && is_class(data_type) => {
            Some(cast(null(), DataType::Integer(None)))
        }
        _ => None,
    }
}

/// Returns `(SELECT count(*) > 0 AS "exists" FROM (query) AS found)`, since DataFusion accepts
/// EXISTS only in conditions. `None` if the query has parameters, since it would be treated as
/// correlated.
fn exists(query: &Query, negated: bool) -> Option<Expr> {
    let alias = Ident::with_quote('"', "exists");
    let text = format!("({})", count_of(query, negated, &alias));
    if text.contains('$') {
        None
    } else {
        Parser::new(&PostgreSqlDialect {}).try_with_sql(&text).ok()?.parse_expr().ok()
    }
}

/// Like [`exists`], but for a whole query `SELECT EXISTS (query)`, which may have parameters.
fn counted(query: &Query) -> Option<Query> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let (expr, alias) = match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(expr)] => (expr, Ident::with_quote('"', "exists")),
        [SelectItem::ExprWithAlias { expr, alias }] => (expr, alias.clone()),
        _ => return None,
    };
    match expr {
        Expr::Exists { subquery, negated } if select.from.is_empty() && select.selection.is_none() => {
            let text = count_of(subquery, *negated, &alias);
            Some(*Parser::new(&PostgreSqlDialect {}).try_with_sql(&text).ok()?.parse_query().ok()?)
        }
        _ => None,
    }
}

fn count_of(query: &Query, negated: bool, alias: &Ident) -> String {
    let sign = if negated { "=" } else { ">" };
    let query = query.to_string();
    // PostgreSQL accepts a query without columns.
    let rest = query.strip_prefix("SELECT FROM ").map(|rest| format!("SELECT 1 FROM {rest}"));
    format!("SELECT count(*) {sign} 0 AS {alias} FROM ({}) AS found", rest.unwrap_or(query))
}

/// Whether the column of the catalog with this name is boolean.
fn is_flag(name: &str) -> bool {
    name.starts_with("indis") || name.starts_with("relhas") || name.starts_with("attis") || name == "attnotnull"
}

/// The value of `'t'` and `'f'`, which clients compare boolean columns with.
fn flag(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) if text == "t" => Some(true),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) if text == "f" => Some(false),
        _ => None,
    }
}

fn null() -> Expr {
    Expr::value(Value::Null)
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

fn is_parameter(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Placeholder(_), .. }))
}

fn is_class(data_type: &DataType) -> bool {
    let name = data_type.to_string().to_lowercase();
    name.strip_prefix("pg_catalog.").unwrap_or(&name) == "regclass"
}

/// The parts of the relation name in `'name'::regclass`; `None` for other expressions.
fn class_name(expr: &Expr) -> Option<Vec<String>> {
    let Expr::Cast { expr, data_type, .. } = expr else { return None };
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = &**expr else { return None };
    if !is_class(data_type) || text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    relation_name(text)
}

/// The parts of a relation name, unquoted and in the case in which they are looked up.
fn relation_name(text: &str) -> Option<Vec<String>> {
    let name = Parser::new(&PostgreSqlDialect {}).try_with_sql(text).ok()?.parse_object_name(false).ok()?;
    let part =
        |ident: &Ident| if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() };
    name.0.iter().map(|found| found.as_ident().map(part)).collect()
}

/// Replaces `to_regclass('name')` with a query for the `oid` of the relation, which is NULL if
/// there is none.
fn found_class(expr: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] = list.args.as_slice() else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    if last(&function.name)? != "to_regclass" {
        return None;
    }
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let (schemas, name) = match relation_name(text)?.as_slice() {
        [name] => ("'public', 'pg_catalog'".to_owned(), quoted(name)),
        [schema, name] => (quoted(schema), quoted(name)),
        _ => return None,
    };
    let query = format!(
        "(SELECT max(c.oid) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relname = {name} AND n.nspname IN ({schemas}))"
    );
    Parser::new(&PostgreSqlDialect {}).try_with_sql(&query).ok()?.parse_expr().ok()
}

/// The first name in a `'name'::regclass` of the statement that names no relation.
pub(super) fn missing_relation(sql: &str, is_there: impl Fn(&[String]) -> bool) -> Option<String> {
    let statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).ok()?;
    let found: ControlFlow<String> = visit_expressions(&statements, |expr| match class_name(expr) {
        Some(name) if !is_there(&name) => ControlFlow::Break(name.join(".")),
        _ => ControlFlow::Continue(()),
    });
    found.break_value()
}

fn is_other_escape(escape: &ValueWithSpan) -> bool {
    matches!(&escape.value, Value::SingleQuotedString(escape) if escape != "\\")
}

/// `replace(pattern, escape, '\')`.
fn replaced(pattern: Expr, escape: String) -> Expr {
    let text = |text: String| Expr::value(Value::SingleQuotedString(text));
    let args = [pattern, text(escape), text("\\".to_owned())];
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("replace")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect(),
            clauses: vec![],
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// Returns the replacement for a call of a function that does not exist here.
fn of_function(function: &Function) -> Option<Expr> {
    let name = last(&function.name)?;
    match (name.as_str(), &function.args) {
        ("array", FunctionArguments::Subquery(_)) => {
            let texts = DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(DataType::Text), None));
            Some(cast(null(), texts))
        }
        ("json_build_object", _) => Some(null()),
        ("array_to_string", FunctionArguments::List(list)) => match list.args.first() {
            // Lists of access rights, of which there are none.
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(column)))
                if is_named(column, |name| name.ends_with("acl")) =>
            {
                Some(cast(null(), DataType::Text))
            }
            _ => None,
        },
        ("generate_subscripts", _) => Some(Expr::value(Value::Number("1".to_owned(), false))),
        ("unnest", FunctionArguments::List(list)) => match list.args.as_slice() {
            [FunctionArg::Unnamed(FunctionArgExpr::Expr(column))] if is_named(column, |name| KEYS.contains(&name)) => {
                Some(cast(null(), DataType::Integer(None)))
            }
            _ => None,
        },
        _ => None,
    }
}

fn last(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.to_lowercase())
}

/// Whether an expression is a column whose name satisfies `is_such`.
fn is_named(column: &Expr, is_such: impl Fn(&str) -> bool) -> bool {
    let name = match column {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    };
    name.is_some_and(|name| is_such(&name.value.to_lowercase()))
}

/// Whether a query refers to columns of tables outside of it.
fn is_correlated(query: &Query) -> bool {
    let mut own = Names::default();
    let _: ControlFlow<()> = Visit::visit(query, &mut own);
    own.qualifiers.iter().any(|qualifier| !own.tables.contains(qualifier))
}

/// The tables of a query, and the qualifiers of its columns.
#[derive(Default)]
struct Names {
    tables: HashSet<String>,
    qualifiers: HashSet<String>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        let (name, alias) = match table {
            TableFactor::Table { name, alias, .. } => (last(name), alias),
            TableFactor::Derived { alias, .. } => (None, alias),
            _ => return ControlFlow::Continue(()),
        };
        let alias = alias.as_ref().map(|alias| alias.name.value.to_lowercase());
        self.tables.extend(alias.or(name));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(names) = expr
            && let [.., qualifier, _] = names.as_slice()
        {
            self.qualifiers.insert(qualifier.value.to_lowercase());
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_not_is_null() {
        for (sql, expected) in [
            (
                "SELECT CASE WHEN a.x THEN (SELECT d.b FROM pg_catalog.pg_attrdef d WHERE d.r = a.r) END FROM t a",
                "SELECT CASE WHEN a.x THEN NULL END FROM t a",
            ),
            ("SELECT ARRAY(SELECT b.r FROM b WHERE b.m = r.o) AS m FROM r", "SELECT CAST(NULL AS TEXT[]) AS m FROM r"),
            (
                "SELECT a FROM t WHERE n NOT LIKE $1 ESCAPE '/'",
                "SELECT a FROM t WHERE n NOT LIKE replace($1, '/', '\\')",
            ),
            (
                "SELECT CASE WHEN EXISTS(SELECT 1 FROM e WHERE e.n = a.n) THEN 1 END, 'pg_class'::regclass FROM a",
                "SELECT CASE WHEN false THEN 1 END, CAST('pg_catalog.pg_class' AS REGCLASS) FROM a",
            ),
            (
                "SELECT EXISTS(SELECT FROM b), i.indisprimary = 't' FROM i",
                "SELECT (SELECT count(*) > 0 AS \"exists\" FROM (SELECT 1 FROM b) AS found), i.indisprimary = true FROM i",
            ),
            (
                "SELECT NOT EXISTS(SELECT 1 FROM b WHERE c = $1)",
                "SELECT count(*) = 0 AS \"exists\" FROM (SELECT 1 FROM b WHERE c = $1) AS found",
            ),
            (
                "SELECT unnest(i.indkey), CAST($2 AS REGCLASS) FROM i",
                "SELECT CAST(NULL AS INTEGER), CAST(NULL AS INTEGER) FROM i",
            ),
        ] {
            let adapted = adapted(sql);
            let text = adapted.as_deref().unwrap_or(sql);
            assert_eq!(simplified(text).unwrap_or_else(|| text.to_owned()), expected, "{sql}");
        }
        for sql in [
            "SELECT (SELECT max(b.x) FROM pg_catalog.b) FROM t",
            "SELECT unnest(a.b) FROM a",
            "SELECT a FROM t WHERE b LIKE 'x' ESCAPE '\\'",
            "SELECT (SELECT pg_class.oid FROM pg_catalog.pg_class)",
            "no SQL",
        ] {
            assert_eq!((adapted(sql), simplified(sql)), (None, None), "{sql}");
        }
    }

    #[test]
    fn names_of_relations_that_do_not_exist_are_found() {
        let missing = |sql: &str| missing_relation(sql, |name| name == ["public", "t"] || name == ["T"]);
        for (sql, expected) in [
            ("SELECT 'v'::regclass", Some("v")),
            ("SELECT 1 WHERE 'public.V'::pg_catalog.regclass = 1", Some("public.v")),
            ("SELECT 'public.t'::regclass, '\"T\"'::regclass, '12'::regclass, 'x'::text, a::regclass FROM b", None),
        ] {
            assert_eq!(missing(sql).as_deref(), expected, "{sql}");
        }
    }
}
