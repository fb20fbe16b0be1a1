//! `a FULL JOIN b USING (k)`, whose `k` is that of the side that has a row.
//!
//! DataFusion takes `k` from one side, whatever the kind of join, and for `*` from the side whose
//! name comes first. Here the joins of a SELECT with an outer join, or with a `*`, are rewritten:
//!
//! | written | rewritten to |
//! | --- | --- |
//! | `a JOIN b USING (k)` | `a JOIN b ON a.k = b.k` |
//! | `k` | `a.k`; of a RIGHT JOIN `b.k`, of a FULL JOIN `coalesce(a.k, b.k)` |
//! | `*` | `a.* REPLACE (… AS k), b.* EXCLUDE (k)` |

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart,
    ReplaceSelectElement, ReplaceSelectItem, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor,
    TableWithJoins, WildcardAdditionalOptions,
};
use pushdowndb_contract::{Error, Result};

use super::calls::call;
use super::visit::each_outside_subqueries;

/// Rewrites the joins of `select` that merge columns.
///
/// # Errors
///
/// Returns an error if an outer join merges columns in a way that cannot be rewritten.
pub(super) fn rewrite(select: &mut Select) -> Result<()> {
    let kinds = select.from.iter_mut().flat_map(|from| &mut from.joins);
    let kinds = kinds.filter_map(|join| merging(&mut join.join_operator));
    let kinds: Vec<(Side, bool)> =
        kinds.map(|(side, constraint)| (side, *constraint == JoinConstraint::Natural)).collect();
    let is_wild = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_));
    let is_outer = kinds.iter().any(|(side, _)| matches!(side, Side::Right | Side::Both));
    let has_wildcard = select.projection.iter().any(is_wild);
    if kinds.is_empty() || !is_outer && !has_wildcard {
        return Ok(());
    }
    if kinds.iter().any(|(side, natural)| *natural && *side != Side::Inner) {
        return Err(Error::unsupported("NATURAL with an outer join is not supported; write USING (key)"));
    }
    let mut rewritten = select.from.clone();
    let merged = match Merged::of(&mut rewritten) {
        Some(merged) => merged,
        None if kinds.iter().all(|(side, _)| *side == Side::Inner) => return Ok(()),
        None => return Err(not_told_apart()),
    };
    let has_options = |item: &SelectItem| match item {
        SelectItem::Wildcard(options) => *options != WildcardAdditionalOptions::default(),
        _ => false,
    };
    if select.projection.iter().any(has_options) {
        return match kinds.iter().all(|(side, _)| *side == Side::Inner) {
            true => Ok(()),
            false => Err(Error::unsupported(
                "an outer join with USING takes no EXCLUDE, REPLACE or RENAME behind *; write a.*, b.* EXCLUDE (key)",
            )),
        };
    }
    select.from = rewritten;
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(_) => projection.extend(merged.wildcards()),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) if merged.key(&name).is_some() => {
                projection.push(SelectItem::ExprWithAlias { expr: Expr::Identifier(name.clone()), alias: name });
            }
            item => projection.push(item),
        }
    }
    select.projection = projection;
    let mut replace = |expr: &mut Expr| {
        if let Expr::Identifier(name) = expr
            && let Some(value) = merged.key(name)
        {
            *expr = value.clone();
        }
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            each_outside_subqueries(expr, &mut replace);
        }
    }
    for expr in [&mut select.selection, &mut select.having, &mut select.qualify].into_iter().flatten() {
        each_outside_subqueries(expr, &mut replace);
    }
    each_outside_subqueries(&mut select.group_by, &mut replace);
    Ok(())
}

fn not_told_apart() -> Error {
    Error::unsupported(
        "an outer join with USING takes tables with names, of which one has the key; write ON a.key = b.key, and \
         coalesce(a.key, b.key) for the key of both",
    )
}

/// The side from which a join takes its key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Side {
    /// Either side, since both have it.
    Inner,
    Left,
    Right,
    /// The side that has a row.
    Both,
}

/// Returns the side and the constraint of a join that merges columns; `None` for other joins.
fn merging(operator: &mut JoinOperator) -> Option<(Side, &mut JoinConstraint)> {
    let (side, constraint) = match operator {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (Side::Inner, constraint),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (Side::Left, constraint),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (Side::Right, constraint),
        JoinOperator::FullOuter(constraint) => (Side::Both, constraint),
        _ => return None,
    };
    matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural).then_some((side, constraint))
}

/// Returns whether `*` shows the columns of the right table of a join.
fn shows_right(operator: &JoinOperator) -> bool {
    use JoinOperator::{Anti, LeftAnti, LeftSemi, Semi};
    !matches!(operator, Semi(_) | LeftSemi(_) | Anti(_) | LeftAnti(_))
}

/// The tables of a FROM, and the columns that its joins merge.
struct Merged {
    /// The names of the tables, each with the merged columns that `*` leaves out of it.
    tables: Vec<(Ident, Vec<Ident>)>,
    /// The merged columns: their names, their values, and the number of the table that shows them.
    keys: Vec<(Ident, Expr, usize)>,
}

impl Merged {
    /// Replaces each USING in `from` by ON. Returns `None` if a table has no name, or a key may
    /// belong to several tables.
    fn of(from: &mut [TableWithJoins]) -> Option<Self> {
        let mut merged = Self { tables: Vec::new(), keys: Vec::new() };
        for one in from {
            let first = merged.tables.len();
            merged.tables.push((name_of(&one.relation)?, vec![]));
            for join in &mut one.joins {
                let right = name_of(&join.relation)?;
                let shows_right = shows_right(&join.join_operator);
                match merging(&mut join.join_operator) {
                    Some((side, constraint)) => {
                        let JoinConstraint::Using(columns) = constraint else { return None };
                        let (condition, own) = merged.merge(columns, side, &right, first)?;
                        *constraint = JoinConstraint::On(condition);
                        merged.tables.push((right, own));
                    }
                    None if shows_right => merged.tables.push((right, vec![])),
                    None => {}
                }
            }
        }
        Some(merged)
    }

    /// Returns the condition that joins the table `right` by `columns`, and the names of these
    /// columns, which have the value of `side` from here on. The tables from number `first` on are
    /// joined with `right`.
    fn merge(&mut self, columns: &[ObjectName], side: Side, right: &Ident, first: usize) -> Option<(Expr, Vec<Ident>)> {
        let (mut conditions, mut own) = (Vec::new(), Vec::new());
        for column in columns {
            let key = column.0.last().and_then(ObjectNamePart::as_ident)?.clone();
            let of_right = Expr::CompoundIdentifier(vec![right.clone(), key.clone()]);
            let at = match self.place(&key) {
                Some(at) => at,
                None if self.tables.len() == first + 1 => {
                    let (left, _) = self.tables.get(first)?;
                    let of_left = Expr::CompoundIdentifier(vec![left.clone(), key.clone()]);
                    self.keys.push((key.clone(), of_left, first));
                    self.keys.len() - 1
                }
                None => return None,
            };
            let (_, value, _) = self.keys.get_mut(at)?;
            conditions.push(binary(value.clone(), BinaryOperator::Eq, of_right.clone()));
            match side {
                Side::Inner | Side::Left => {}
                Side::Right => *value = of_right,
                Side::Both => *value = call("coalesce", [value.clone(), of_right]),
            }
            own.push(key);
        }
        let all = conditions.into_iter().reduce(|one, other| binary(one, BinaryOperator::And, other))?;
        Some((all, own))
    }

    fn place(&self, name: &Ident) -> Option<usize> {
        self.keys.iter().position(|(key, ..)| is_same(key, name))
    }

    fn key(&self, name: &Ident) -> Option<&Expr> {
        let (_, value, _) = self.keys.get(self.place(name)?)?;
        Some(value)
    }

    /// Returns the items that `*` stands for.
    fn wildcards(&self) -> Vec<SelectItem> {
        let of_table = |(at, (table, left_out)): (usize, &(Ident, Vec<Ident>))| {
            let excluded = left_out.iter().map(|name| ObjectName::from(vec![name.clone()])).collect::<Vec<_>>();
            let replaced = self.keys.iter().filter(|(_, value, shown)| *shown == at && !is_of(value, table));
            let replaced: Vec<Box<ReplaceSelectElement>> = replaced
                .map(|(key, value, _)| {
                    Box::new(ReplaceSelectElement { expr: value.clone(), column_name: key.clone(), as_keyword: true })
                })
                .collect();
            let options = WildcardAdditionalOptions {
                wildcard_token: AttachedToken::empty(),
                opt_exclude: (!excluded.is_empty()).then_some(ExcludeSelectItem::Multiple(excluded)),
                opt_replace: (!replaced.is_empty()).then_some(ReplaceSelectItem { items: replaced }),
                ..WildcardAdditionalOptions::default()
            };
            let table = ObjectName::from(vec![table.clone()]);
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options)
        };
        self.tables.iter().enumerate().map(of_table).collect()
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// Returns whether `value` is a column of `table`.
fn is_of(value: &Expr, table: &Ident) -> bool {
    matches!(value, Expr::CompoundIdentifier(parts) if parts.first() == Some(table))
}

fn is_same(one: &Ident, other: &Ident) -> bool {
    match (one.quote_style, other.quote_style) {
        (None, None) => one.value.eq_ignore_ascii_case(&other.value),
        _ => one.value == other.value,
    }
}

/// Returns the name that qualifies the columns of a table.
pub(super) fn name_of(table: &TableFactor) -> Option<Ident> {
    let (alias, name) = match table {
        TableFactor::Table { alias, name, .. } => (alias, name.0.last().and_then(ObjectNamePart::as_ident)),
        TableFactor::Derived { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::TableFunction { alias, .. } => (alias, None),
        _ => return None,
    };
    let name = alias.as_ref().map(|alias| &alias.name).or(name)?.clone();
    Some(if name.quote_style == Some('\'') { Ident::with_quote('"', name.value) } else { name })
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{SetExpr, Statement};
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn rewritten(sql: &str) -> Result<String> {
        let mut statement = Parser::parse_sql(&GenericDialect {}, sql).unwrap().remove(0);
        let Statement::Query(query) = &mut statement else { panic!("{sql}") };
        let SetExpr::Select(select) = query.body.as_mut() else { panic!("{sql}") };
        rewrite(select)?;
        Ok(statement.to_string())
    }

    #[test]
    fn keys_come_from_the_side_that_has_a_row() {
        for (sql, expected) in [
            ("SELECT k FROM a JOIN b USING (k)", "SELECT k FROM a JOIN b USING(k)"),
            ("SELECT * FROM a LEFT JOIN b USING (k)", "SELECT a.*, b.* EXCLUDE (k) FROM a LEFT JOIN b ON a.k = b.k"),
            (
                "SELECT k, sum(v) FROM a FULL JOIN b USING (k) WHERE k > 1 GROUP BY k",
                "SELECT coalesce(a.k, b.k) AS k, sum(v) FROM a FULL JOIN b ON a.k = b.k WHERE coalesce(a.k, b.k) > 1 \
                 GROUP BY coalesce(a.k, b.k)",
            ),
            (
                "SELECT * FROM a RIGHT JOIN 'x.csv' b USING (k) JOIN c USING (k)",
                "SELECT a.* REPLACE (b.k AS k), b.* EXCLUDE (k), c.* EXCLUDE (k) FROM a RIGHT JOIN 'x.csv' b ON a.k = \
                 b.k JOIN c ON b.k = c.k",
            ),
            ("SELECT * FROM a JOIN b ON a.k = b.k", "SELECT * FROM a JOIN b ON a.k = b.k"),
        ] {
            assert_eq!(rewritten(sql).unwrap(), expected, "{sql}");
        }
        assert!(rewritten("SELECT * FROM a NATURAL LEFT JOIN b").is_err());
    }
}
