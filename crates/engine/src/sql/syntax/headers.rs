//! Names of the columns of results.
//!
//! DataFusion names an expression by its own spelling, such as `median(t.latency)` and `Int64(1)`,
//! and refuses two of the same name. Here, an expression without an alias gets its text in the
//! statement as its alias, and names may repeat:
//!
//! | selected | name |
//! | --- | --- |
//! | `Count(*)`, `median(l.latency)`, `1` | `count(*)`, `median(l.latency)`, `1` |
//! | `a::INT`, `CAST(t.a AS INT)` | `a` |
//! | `item.price`, of a struct `item` | `price` |
//! | `a, a` | `a`, `a`; of a subquery, a view or a table `a`, `a_1`, as in DuckDB |
//!
//! An outermost column whose name repeats is planned under another one, which ends in [`MARK`] and
//! a number; [`shown`] takes them off again.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Ident, ObjectNamePart, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Statement,
    TableAlias, TableFactor, TableWithJoins, VisitorMut,
};

use super::marks;
use super::visit::walk;

/// Ends the part of a name that is shown. This character is for private use, so it is in no name
/// that people write.
const MARK: char = '\u{f8fe}';

/// Returns the name of an outermost column as it is shown.
pub(crate) fn shown(name: &str) -> &str {
    name.split_once(MARK).map_or(name, |(shown, _)| shown)
}

/// Names the columns of `statement`.
pub(super) fn name_statement(statement: &mut Statement) {
    match statement {
        Statement::Query(query) => name_query(query, Names::Outermost),
        Statement::CreateTable(table) => {
            if let Some(query) = &mut table.query {
                name_query(query, Names::Inner);
            }
        }
        Statement::CreateView(view) => name_query(&mut view.query, Names::Inner),
        Statement::Insert(insert) => {
            if let Some(query) = &mut insert.source {
                name_query(query, Names::Inner);
            }
        }
        Statement::Prepare { statement, .. } => name_statement(statement),
        _ => {}
    }
}

/// Where the names of a query's columns appear.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Names {
    /// In the result of the statement, where they may repeat.
    Outermost,
    /// In another query, or in a table.
    Inner,
}

/// Names the columns of `query` and of the subqueries that it selects from.
pub(super) fn name_query(query: &mut Query, names: Names) {
    for table in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
        name_query(&mut table.query, Names::Inner);
    }
    name_body(&mut query.body, names);
    if let SetExpr::Select(select) = query.body.as_ref()
        && select.distinct.is_some()
        && let Some(OrderBy { kind: OrderByKind::Expressions(keys), .. }) = &mut query.order_by
    {
        keys.iter_mut().for_each(|key| order_by_name(&mut key.expr, select));
    }
}

/// Replaces a sort key that a SELECT DISTINCT computes, too, by the name of that column: the
/// planner does not find an expression that has an alias.
fn order_by_name(key: &mut Expr, select: &Select) {
    if matches!(key, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)) {
        return;
    }
    let written = key.to_string();
    let name = select.projection.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if expr.to_string() == written => Some(alias),
        _ => None,
    });
    if let Some(name) = name {
        *key = Expr::Identifier(name.clone());
    }
}

fn name_body(body: &mut SetExpr, names: Names) {
    match body {
        SetExpr::Select(select) => name_select(select, names),
        SetExpr::Query(query) => name_query(query, names),
        SetExpr::SetOperation { left, right, .. } => {
            name_body(left, names);
            name_body(right, names);
        }
        SetExpr::Insert(statement) => name_statement(statement),
        _ => {}
    }
}

fn name_select(select: &mut Select, names: Names) {
    let mut relations = Relations::default();
    let several = select.from.len() > 1 || select.from.iter().any(|from| !from.joins.is_empty());
    select.from.iter_mut().for_each(|from| relations.add_all(from, several));
    let mut taken = BTreeSet::new();
    // The planner treats `t.a` and a field `a` as the same name, wherever they stand.
    let mut qualified = BTreeSet::new();
    for item in &select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Name::Key { name, .. } = Name::of(expr, &relations, names)
        {
            qualified.insert(name);
        }
    }
    for item in &mut select.projection {
        let (expr, alias) = match item {
            // Columns that are not written out yet keep their mark.
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } if marks::is_marked(expr) => {
                continue;
            }
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
            _ => continue,
        };
        let written = match &alias {
            Some(alias) => Name::Given(normal(alias)),
            None => Name::of(expr, &relations, names),
        };
        let (Name::Given(name) | Name::Own(name) | Name::Key { name, .. }) = &written;
        let key = if let Name::Key { key, .. } = &written { key } else { name };
        let is_new = taken.insert(key.clone()) && !(matches!(written, Name::Own(_)) && qualified.contains(name));
        let unique = match is_new {
            true if matches!(written, Name::Given(_) | Name::Key { .. }) => continue,
            true => name.clone(),
            false => {
                let numbered = |number: usize| match names {
                    Names::Outermost => format!("{name}{MARK}{number}"),
                    Names::Inner => format!("{name}_{number}"),
                };
                let free = (1..).map(numbered).find(|name| !taken.contains(name)).unwrap_or_default();
                taken.insert(free.clone());
                free
            }
        };
        let unique = Ident::with_quote('"', unique);
        match alias {
            Some(alias) => *alias = unique,
            None => {
                let expr = std::mem::replace(expr, Expr::Wildcard(wildcard()));
                *item = SelectItem::ExprWithAlias { expr, alias: unique };
            }
        }
    }
}

/// Gives a unique alias to each column and each alias that is selected beside a `*`, after planning
/// found that a name repeats. Returns whether anything changed.
pub(crate) fn name_beside_wildcards(query: &mut Query) -> bool {
    let SetExpr::Select(select) = query.body.as_mut() else { return false };
    let mut changed = false;
    for (at, item) in select.projection.iter_mut().enumerate() {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                let Some(column) = column(expr) else { continue };
                let alias = Ident::with_quote('"', format!("{}{MARK}{at}", normal(column)));
                let expr = std::mem::replace(expr, Expr::Wildcard(wildcard()));
                *item = SelectItem::ExprWithAlias { expr, alias };
                changed = true;
            }
            SelectItem::ExprWithAlias { alias, .. } if !alias.value.contains(MARK) => {
                *alias = Ident::with_quote('"', format!("{}{MARK}{at}", normal(alias)));
                changed = true;
            }
            _ => {}
        }
    }
    changed
}

fn wildcard() -> AttachedToken {
    AttachedToken::empty()
}

/// Returns the name as the planner reads it: in lower case unless it is in quotes.
fn normal(name: &Ident) -> String {
    match name.quote_style {
        None => name.value.to_lowercase(),
        Some(_) => name.value.clone(),
    }
}

/// The name of a selected expression.
enum Name {
    /// The planner gives this name by itself.
    Given(String),
    /// The name must be given as an alias.
    Own(String),
    /// The planner gives this name by itself, and it repeats only where `key` does.
    Key { name: String, key: String },
}

impl Name {
    fn of(expr: &Expr, relations: &Relations, names: Names) -> Self {
        match expr {
            Expr::Nested(inner) => match Self::of(inner, relations, names) {
                Self::Own(_) => Self::Own(written(expr)),
                given => given,
            },
            Expr::Identifier(name) => Self::Given(normal(name)),
            Expr::CompoundIdentifier(parts) => {
                let Some(last) = parts.last() else { return Self::Own(written(expr)) };
                if relations.is_field(parts) {
                    return Self::Own(last.value.clone());
                }
                match names {
                    Names::Outermost => {
                        let key = parts.iter().map(normal).collect::<Vec<_>>().join(".");
                        Self::Key { name: normal(last), key }
                    }
                    Names::Inner => Self::Given(normal(last)),
                }
            }
            Expr::Cast { expr: inner, .. } => match column(inner) {
                Some(column) => Self::Own(normal(column)),
                None => Self::Own(written(expr)),
            },
            _ => Self::Own(written(expr)),
        }
    }
}

/// Returns the column that `expr` is, without its qualifier; `None` if it is no column.
fn column(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        Expr::Nested(inner) => column(inner),
        _ => None,
    }
}

/// Returns the text of `expr`, with names of functions in lower case, and columns without a file
/// before them.
pub(super) fn written(expr: &Expr) -> String {
    let mut expr = expr.clone();
    let _ = walk(&mut expr, &mut Short);
    expr.to_string()
}

struct Short;

impl VisitorMut for Short {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(Function { name, .. }) => {
                for part in &mut name.0 {
                    if let ObjectNamePart::Identifier(part) = part
                        && part.quote_style.is_none()
                    {
                        part.value = part.value.to_lowercase();
                    }
                }
            }
            Expr::CompoundIdentifier(parts) if parts.len() > 1 => {
                parts.retain(|part| part.quote_style != Some('\'') && !part.value.contains('/'));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The names of the tables that a SELECT reads.
#[derive(Default)]
struct Relations {
    names: BTreeSet<String>,
    /// Whether there are any tables, even without names.
    any: bool,
    /// Number of subqueries that were given a name.
    unnamed: usize,
}

impl Relations {
    /// Adds the tables of `from`, and names the columns of its subqueries. If there are `several`
    /// tables, a subquery without a name gets one, since its columns may repeat in the others.
    fn add_all(&mut self, from: &mut TableWithJoins, several: bool) {
        let joined = from.joins.iter_mut().map(|join| &mut join.relation);
        [&mut from.relation].into_iter().chain(joined).for_each(|table| self.add(table, several));
    }

    fn add(&mut self, table: &mut TableFactor, several: bool) {
        self.any = true;
        let alias = match table {
            TableFactor::Table { alias, name, .. } => {
                if alias.is_none() {
                    let name = name.0.last().and_then(ObjectNamePart::as_ident).map(normal);
                    self.names.extend(name);
                }
                alias
            }
            TableFactor::Derived { subquery, alias, .. } => {
                name_query(subquery, Names::Inner);
                if alias.is_none() && several {
                    self.unnamed += 1;
                    let number = if self.unnamed == 1 { String::new() } else { self.unnamed.to_string() };
                    let name = Ident::new(format!("unnamed_subquery{number}"));
                    *alias = Some(TableAlias { explicit: true, name, columns: vec![], at: None });
                }
                alias
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                self.add_all(table_with_joins, true);
                alias
            }
            TableFactor::Pivot { table, alias, .. } | TableFactor::Unpivot { table, alias, .. } => {
                self.add(table, several);
                alias
            }
            TableFactor::TableFunction { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. } => alias,
            _ => return,
        };
        self.names.extend(alias.as_ref().map(|alias| normal(&alias.name)));
    }

    /// Returns whether a name of several parts is a field of a column, not a column of a table.
    fn is_field(&self, parts: &[Ident]) -> bool {
        let is_table = parts.first().is_some_and(|first| self.names.contains(&normal(first)));
        match (is_table, parts.len()) {
            (true, parts) => parts > 2,
            (false, 2) => self.any,
            // Three parts may name a schema, four a catalog, before the table.
            (false, count @ 3..=4) => {
                let table = parts.get(count - 2).map(normal);
                self.any && table.is_some_and(|table| !self.names.contains(&table))
            }
            (false, count) => count > 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn named(sql: &str) -> String {
        let mut statement = Parser::parse_sql(&GenericDialect {}, sql).unwrap().remove(0);
        name_statement(&mut statement);
        statement.to_string().replace(MARK, "#")
    }

    #[test]
    fn expressions_are_named_by_what_was_written() {
        for (sql, expected) in [
            (
                "SELECT COUNT(*), Median(l.x), 1 FROM l",
                "COUNT(*) AS \"count(*)\", Median(l.x) AS \"median(l.x)\", 1 AS \"1\"",
            ),
            ("SELECT a, t.a, a AS b FROM t", "a, t.a, a AS b"),
            ("SELECT a::INT, CAST(t.\"B\" AS INT) FROM t", "a::INT AS \"a\", CAST(t.\"B\" AS INT) AS \"B\""),
            ("SELECT i.price, t.i.tax FROM t", "i.price AS \"price\", t.i.tax AS \"tax\""),
            ("SELECT r.who.name, public.t.a FROM t", "r.who.name AS \"name\", public.t.a"),
            ("SELECT sum(\"s3://b/x.csv\".v) FROM 's3://b/x.csv'", "sum(\"s3://b/x.csv\".v) AS \"sum(v)\""),
            ("SELECT 1, 1, 2 AS \"1\" FROM t", "1 AS \"1\", 1 AS \"1#1\", 2 AS \"1#2\""),
            ("SELECT a, A FROM t", "a, A AS \"a#1\""),
            ("SELECT t.k, u.k FROM t, u", "t.k, u.k"),
            ("SELECT t.k, t.s.k FROM t", "t.k, t.s.k AS \"k#1\""),
        ] {
            let selected = named(sql);
            let selected = selected.strip_prefix("SELECT ").unwrap().split(" FROM").next().unwrap();
            assert_eq!(selected, expected, "{sql}");
        }
    }

    #[test]
    fn inner_names_get_numbers() {
        assert_eq!(
            named("SELECT DISTINCT lower(a) FROM t ORDER BY lower(a)"),
            "SELECT DISTINCT lower(a) AS \"lower(a)\" FROM t ORDER BY \"lower(a)\""
        );
        assert_eq!(
            named("SELECT * FROM (SELECT 1 AS a, 2 AS a, max(b) FROM t)"),
            "SELECT * FROM (SELECT 1 AS a, 2 AS \"a_1\", max(b) AS \"max(b)\" FROM t)"
        );
        assert_eq!(
            named("CREATE TABLE x AS WITH c AS (SELECT 1) SELECT a, a FROM c"),
            "CREATE TABLE x AS WITH c AS (SELECT 1 AS \"1\") SELECT a, a AS \"a_1\" FROM c"
        );
        assert_eq!(
            named("SELECT * FROM (SELECT 1 AS k) NATURAL JOIN (SELECT 1 AS k)"),
            "SELECT * FROM (SELECT 1 AS k) AS unnamed_subquery NATURAL JOIN (SELECT 1 AS k) AS unnamed_subquery2"
        );
    }
}
