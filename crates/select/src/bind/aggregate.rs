//! Binding of aggregates, GROUP BY and ORDER BY.
//!
//! The fragment outputs the keys of GROUP BY, followed by each distinct aggregate once. Items of
//! the select list and keys of ORDER BY are expressions over those columns, such as `SUM(a) /
//! COUNT(*)`. AWS's documentation neither allows nor excludes such expressions.

use arrow_schema::DataType;
use pushdowndb_contract::{AggregateCall, AggregateFunction, Expr, Function, NamedExpr, Output, SortKey};

use super::binder::{Binder, Grouping};
use super::columns;
use super::kind::{Kind, Typed, call, cast, instant_type};
use crate::SelectError;
use crate::ast::{Ast, Item, Items, Name, OrderKey, Query, Step};

/// The bound output, order and projection of a statement.
pub(super) struct Bound {
    pub(super) output: Output,
    pub(super) order: Vec<SortKey>,
    pub(super) project: Option<Vec<NamedExpr>>,
}

impl Binder<'_> {
    /// Binds the select list and ORDER BY of a statement.
    pub(super) fn output(&mut self, query: &Query) -> Result<Bound, SelectError> {
        let is_aggregate = |item: &Item| has_aggregate(&item.expr);
        match &query.items {
            Items::All if !query.groups.is_empty() => {
                Err(SelectError::structure("with GROUP BY, * has no meaning: name the keys"))
            }
            Items::Some(items) if !query.groups.is_empty() || items.iter().any(is_aggregate) => {
                self.grouped(items, query)
            }
            _ if query.order.iter().any(|key| has_aggregate(&key.expr)) => {
                Err(SelectError::structure("ORDER BY takes aggregates only where the select list has them"))
            }
            items => self.rows(items, query),
        }
    }

    fn rows(&mut self, items: &Items, query: &Query) -> Result<Bound, SelectError> {
        let mut output = match items {
            Items::All => self.columns.all(),
            Items::Some(items) => {
                items.iter().enumerate().map(|(i, item)| self.item(i, item)).collect::<Result<_, _>>()?
            }
        };
        let visible = output.len();
        let mut order = Vec::with_capacity(query.order.len());
        for key in &query.order {
            let item = match items {
                Items::Some(items) => named(&key.expr, items, query.alias.as_ref()),
                Items::All => None,
            };
            // An item may be compared in a form other than the one returned, so each key of ORDER
            // BY is an output column of its own, unless an equal column exists.
            let typed = match (item, items) {
                (Some(index), Items::Some(items)) => match items.get(index) {
                    Some(item) => self.expr(&item.expr)?,
                    None => self.expr(&key.expr)?,
                },
                _ => self.expr(&key.expr)?,
            };
            let expr = comparable(typed)?;
            let place = output.iter().position(|column| column.expr == expr).unwrap_or_else(|| {
                output.push(NamedExpr { expr, name: format!("_order{}", order.len() + 1) });
                output.len() - 1
            });
            order.push(sort_key(key, Expr::Column(place)));
        }
        let project = (output.len() > visible).then(|| {
            let column = |(index, column): (usize, &NamedExpr)| NamedExpr {
                expr: Expr::Column(index),
                name: column.name.clone(),
            };
            output.iter().take(visible).enumerate().map(column).collect()
        });
        Ok(Bound { output: Output::Rows(output), order, project })
    }

    fn item(&mut self, index: usize, item: &Item) -> Result<NamedExpr, SelectError> {
        let expr = match &item.expr {
            // A path is returned without conversion: the writer of the result formats it.
            Ast::Path(steps) => Expr::Column(self.columns.find(steps)?.0),
            Ast::Missing => self.columns.missing(),
            other => self.expr(other)?.expr,
        };
        Ok(NamedExpr { expr, name: item_name(index, item) })
    }

    fn grouped(&mut self, items: &[Item], query: &Query) -> Result<Bound, SelectError> {
        let mut grouping = Grouping::default();
        for (index, ast) in query.groups.iter().enumerate() {
            let typed = self.expr(ast)?;
            if typed.kind == Kind::Other {
                return Err(SelectError::types(format!("GROUP BY does not take {}", typed.kind)));
            }
            // NULL and the `null` of JSON form one group.
            let typed = typed.value();
            let name = item_name(index, &Item { expr: ast.clone(), alias: None });
            let ast = bare(ast, query.alias.as_ref());
            grouping.groups.push((ast, NamedExpr { expr: typed.expr, name }, typed.kind));
        }
        self.grouping = Some(grouping);
        let mut results = Vec::with_capacity(items.len());
        let mut kinds = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let typed = match &item.expr {
                Ast::Aggregate(function, argument) => self.aggregate(*function, argument.as_deref())?,
                other => self.expr(other)?,
            };
            kinds.push(typed.kind);
            results.push(NamedExpr { expr: typed.expr, name: item_name(index, item) });
        }
        let mut order = Vec::with_capacity(query.order.len());
        for key in &query.order {
            let ast = match named(&key.expr, items, query.alias.as_ref()).and_then(|index| items.get(index)) {
                Some(item) => &item.expr,
                None => &key.expr,
            };
            let typed = self.expr(ast)?;
            order.push(sort_key(key, comparable(typed)?));
        }
        let Grouping { groups, calls, .. } = self.grouping.take().unwrap_or_default();
        let mut groups: Vec<NamedExpr> = groups.into_iter().map(|(_, key, _)| key).collect();
        let mut calls: Vec<AggregateCall> = calls.into_iter().map(|(call, _)| call).collect();
        let as_they_are = results.len() == groups.len() + calls.len()
            && results.iter().enumerate().all(|(index, item)| item.expr == Expr::Column(index));
        let project = if as_they_are {
            let mut names = results.into_iter().map(|item| item.name);
            let own = groups.iter_mut().map(|key| &mut key.name).chain(calls.iter_mut().map(|call| &mut call.name));
            own.zip(&mut names).for_each(|(own, name)| *own = name);
            None
        } else {
            Some(results)
        };
        Ok(Bound { output: Output::Aggregate { groups, calls }, order, project })
    }

    /// Binds an expression over groups, if it is a key of GROUP BY or an aggregate.
    ///
    /// Returns `None` if expressions are bound over rows, and for any other expression, which is
    /// then bound by its operands. A column that is not a key is an error.
    pub(super) fn of_group(&mut self, ast: &Ast) -> Result<Option<Typed>, SelectError> {
        let Some(grouping) = self.grouping.as_ref().filter(|grouping| !grouping.inside) else { return Ok(None) };
        let alias = self.alias;
        let key = grouping.groups.iter().position(|(key, ..)| same(key, ast, alias));
        if let Some((index, (_, _, kind))) = key.and_then(|index| Some((index, grouping.groups.get(index)?))) {
            return Ok(Some(Typed::new(Expr::Column(index), *kind)));
        }
        match ast {
            Ast::Aggregate(function, argument) => {
                let typed = self.aggregate(*function, argument.as_deref())?;
                // In expressions, a sum of integers is an integer again.
                let is_whole = typed.kind == Kind::Decimal(Some((38, 0)));
                Ok(Some(if is_whole { Typed::new(cast(typed.expr, DataType::Int64), Kind::Int) } else { typed }))
            }
            Ast::Path(steps) => {
                let name = columns::path_text(columns::without_alias(steps, alias));
                let message = format!("\"{name}\" is neither in an aggregate nor in GROUP BY");
                Err(SelectError::structure(message))
            }
            _ => Ok(None),
        }
    }

    /// Returns the output column of an aggregate, and adds it to the grouping if it is new.
    fn aggregate(&mut self, function: AggregateFunction, argument: Option<&Ast>) -> Result<Typed, SelectError> {
        self.set_inside(true);
        let argument = argument.map(|argument| self.argument(function, argument)).transpose();
        self.set_inside(false);
        let (argument, kind) = match argument? {
            Some((expr, kind)) => (Some(expr), kind),
            None => (None, Kind::Int),
        };
        let Some(grouping) = &mut self.grouping else {
            return Err(SelectError::structure(format!("{} stands in the select list", function.sql())));
        };
        let same = |(call, _): &(AggregateCall, Kind)| call.function == function && call.argument == argument;
        let found = grouping.calls.iter().position(same);
        let place = found.unwrap_or_else(|| {
            let name = format!("_{}", grouping.groups.len() + grouping.calls.len() + 1);
            grouping.calls.push((AggregateCall { function, argument, name }, kind));
            grouping.calls.len() - 1
        });
        let column = Expr::Column(grouping.groups.len() + place);
        Ok(match (function, kind) {
            // The mean is the shortest decimal that holds it.
            (AggregateFunction::Avg, Kind::Int | Kind::Decimal(_)) => {
                Typed::new(call(Function::ToNumber, vec![column]), Kind::Number)
            }
            (AggregateFunction::Count, _) => Typed::new(column, Kind::Int),
            (AggregateFunction::Sum, Kind::Int) => Typed::new(column, Kind::Decimal(Some((38, 0)))),
            (AggregateFunction::Sum, Kind::Decimal(_)) => Typed::new(column, Kind::Decimal(None)),
            (AggregateFunction::Sum | AggregateFunction::Avg, Kind::Token) => Typed::new(column, Kind::Number),
            (_, kind) => Typed::new(column, kind),
        })
    }

    fn set_inside(&mut self, inside: bool) {
        if let Some(grouping) = &mut self.grouping {
            grouping.inside = inside;
        }
    }

    fn argument(&mut self, function: AggregateFunction, argument: &Ast) -> Result<(Expr, Kind), SelectError> {
        if has_aggregate(argument) {
            return Err(SelectError::structure("an aggregate stands in no aggregate"));
        }
        let argument = self.expr(argument)?.value();
        let kind = argument.kind;
        let wide = |expr: Expr, precision, scale| cast(expr, DataType::Decimal128(precision, scale));
        Ok(match function {
            AggregateFunction::Count => (argument.expr, kind),
            AggregateFunction::Min | AggregateFunction::Max if kind == Kind::Other => {
                let message = format!("{} does not take {kind}", function.sql());
                return Err(SelectError::new("IncorrectSqlFunctionArgumentType", message));
            }
            AggregateFunction::Min | AggregateFunction::Max => {
                let argument = argument.instant();
                (argument.expr, argument.kind)
            }
            AggregateFunction::Sum | AggregateFunction::Avg => {
                let number = argument.number().map_err(|_| {
                    let message = format!("{} adds numbers: write CAST(… AS DECIMAL) or INT", function.sql());
                    SelectError::new("IncorrectSqlFunctionArgumentType", message)
                })?;
                match (kind, function) {
                    // The decimals are wide enough that no number of integers overflows them.
                    (Kind::Int, AggregateFunction::Sum) => (wide(number.expr, 38, 0), kind),
                    (Kind::Int, _) => (wide(number.expr, 29, 6), kind),
                    _ => (number.expr, kind),
                }
            }
            AggregateFunction::Mean | AggregateFunction::SquaredDeviations => {
                return Err(SelectError::structure(format!("{} is no function of S3 Select", function.sql())));
            }
        })
    }
}

/// Returns the name of a selected expression: its alias, the last name of its path, or its
/// position.
fn item_name(index: usize, item: &Item) -> String {
    match (&item.alias, &item.expr) {
        (Some(alias), _) => alias.clone(),
        (None, Ast::Path(steps)) => match steps.last() {
            Some(Step::Name(name)) => name.text.clone(),
            _ => format!("_{}", index + 1),
        },
        _ => format!("_{}", index + 1),
    }
}

/// Removes the alias of the row from a path, so that `s.a` and `a` are the same key.
fn bare(ast: &Ast, alias: Option<&Name>) -> Ast {
    match ast {
        Ast::Path(steps) => Ast::Path(columns::without_alias(steps, alias).to_vec()),
        other => other.clone(),
    }
}

fn same(key: &Ast, ast: &Ast, alias: Option<&Name>) -> bool {
    match (key, ast) {
        (Ast::Path(key), Ast::Path(steps)) => {
            let steps = columns::without_alias(steps, alias);
            key.len() == steps.len()
                && key.iter().zip(steps).all(|(a, b)| match (a, b) {
                    (Step::Name(a), Step::Name(b)) => {
                        a == b || (!(a.exact && b.exact) && a.means(&b.text) && b.means(&a.text))
                    }
                    (a, b) => a == b,
                })
        }
        (key, ast) => key == ast,
    }
}

/// Returns the index of the item that a key of ORDER BY refers to: by its alias, by its number, or
/// by being the same expression.
fn named(key: &Ast, items: &[Item], alias: Option<&Name>) -> Option<usize> {
    if let Ast::Number(digits) = key {
        return digits.parse::<usize>().ok()?.checked_sub(1).filter(|index| *index < items.len());
    }
    if let Ast::Path(steps) = key
        && let [Step::Name(name)] = steps.as_slice()
        && let Some(found) = items.iter().position(|item| item.alias.as_ref().is_some_and(|alias| name.means(alias)))
    {
        return Some(found);
    }
    items.iter().position(|item| same(&bare(&item.expr, alias), key, alias))
}

fn sort_key(key: &OrderKey, expr: Expr) -> SortKey {
    SortKey { expr, descending: key.descending, nulls_first: key.nulls_first }
}

/// Converts a value to a form that sorts in the order of the values.
fn comparable(typed: Typed) -> Result<Expr, SelectError> {
    Ok(match typed.kind {
        Kind::Token | Kind::Number => call(Function::TokenOrder, vec![typed.expr]),
        Kind::Ion => match typed.instant() {
            Typed { expr, kind: Kind::Ion, .. } => cast(expr, instant_type()),
            instant => instant.expr,
        },
        Kind::Other => return Err(SelectError::types(format!("ORDER BY does not take {}", typed.kind))),
        _ => typed.expr,
    })
}

/// Returns whether the expression contains an aggregate.
fn has_aggregate(ast: &Ast) -> bool {
    let mut found = matches!(ast, Ast::Aggregate(..));
    ast.for_each_child(&mut |child| found = found || has_aggregate(child));
    found
}
