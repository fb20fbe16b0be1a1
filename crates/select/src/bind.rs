//! A parsed statement and the columns of an input, to a [`Fragment`].
//!
//! S3 Select reads text without types; a fragment is typed. Binding makes every conversion explicit, so that
//! the evaluator needs no rules of S3 Select: an untyped CSV field is Utf8 and compares as text, and a constant
//! takes the type of the other side. What has no type before its record is read, a path of JSON or a decimal of
//! any number of digits, is a token ([`pushdown::Expr::is_token`]) with functions of its own; timestamps are text
//! ([`pushdown::Timestamp`]) that becomes an instant only to be compared.

mod aggregate;
mod call;
mod columns;
mod compare;
mod constant;
mod expr;
mod kind;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_schema::{Field, Schema, SchemaRef};
use pushdown::{CsvOptions, Format, Fragment, JsonOptions, NamedExpr, NullRule, Ragged, Timestamp};

use crate::ast::{Ast, Item, Items, Name, Query, Step};
use crate::{Extensions, SelectError, Statement};
use aggregate::{Bound, Grouping};
use columns::Columns;

/// What is known of an input before its rows are read.
#[derive(Clone, Debug)]
pub enum InputColumns {
    /// A CSV object. Whatever the options say of NULL and short records, S3 Select knows no NULL in CSV and
    /// takes records as long as they are.
    Csv {
        /// How it is written.
        options: CsvOptions,
        /// The names in its header, if the request said USE.
        names: Option<Vec<String>>,
        /// How many fields its first record has; names beyond may still be asked for by `_N`.
        count: usize,
    },
    /// A JSON object: any path may be asked for.
    Json(JsonOptions),
    /// A Parquet object with this schema.
    Parquet(SchemaRef),
}

impl Statement {
    /// The columns and paths that the statement refers to, as they are written and each once.
    pub fn columns(&self) -> Vec<String> {
        let Query { items, alias, filter, groups, order, .. } = &self.query;
        let mut all = Vec::new();
        let mut add = |ast: &Ast| {
            visit(ast, &mut |steps| {
                let text = match columns::without_alias(steps, alias.as_ref()) {
                    [Step::Name(name)] => name.text.clone(),
                    path => columns::path_text(path),
                };
                if !all.contains(&text) {
                    all.push(text);
                }
            });
        };
        if let Items::Some(items) = items {
            items.iter().for_each(|item| add(&item.expr));
        }
        filter.iter().chain(groups).for_each(&mut add);
        order.iter().for_each(|key| add(&key.expr));
        all
    }

    /// Whether every column is selected, by `*`.
    pub fn selects_all(&self) -> bool {
        self.query.items == Items::All
    }

    /// Binds the statement to an input, in the dialect of AWS.
    pub fn bind(&self, input: &InputColumns) -> Result<Fragment, SelectError> {
        self.bind_with(input, Extensions::Off)
    }

    /// Binds the statement to an input, with or without what only our node understands.
    pub fn bind_with(&self, input: &InputColumns, extensions: Extensions) -> Result<Fragment, SelectError> {
        let query = &self.query;
        if extensions == Extensions::Off && !(query.groups.is_empty() && query.order.is_empty()) {
            return Err(SelectError::structure("S3 Select has neither GROUP BY nor ORDER BY"));
        }
        if !query.order.is_empty() {
            match query.limit {
                None => return Err(SelectError::structure("ORDER BY needs a LIMIT, which bounds what it holds")),
                Some(limit) if limit > pushdown::limits::TOP_K_ROWS => {
                    let message = format!("ORDER BY takes a LIMIT of at most {}", pushdown::limits::TOP_K_ROWS);
                    return Err(SelectError::structure(message));
                }
                Some(_) => {}
            }
        }
        if !query.from.is_empty() && !matches!(input, InputColumns::Json(_)) {
            return Err(SelectError::new("UnsupportedSyntax", "only JSON has paths after FROM S3Object[*]"));
        }
        let alias = query.alias.as_ref();
        let mut binder = Binder {
            columns: Columns::new(input, alias),
            alias,
            has_nulls: matches!(input, InputColumns::Parquet(_)),
            grouping: None,
            extensions,
            now: now(),
            copied: 0,
        };
        let predicate = query.filter.as_ref().map(|filter| binder.condition(filter)).transpose()?;
        let Bound { output, order, project } = binder.output(query)?;
        let format = match input {
            InputColumns::Csv { options, .. } => {
                Format::Csv(CsvOptions { null: NullRule::Never, ragged: Ragged::Lenient, ..options.clone() })
            }
            InputColumns::Json(options) => {
                Format::Json(JsonOptions { raw_tokens: true, from: query.from.clone(), ..options.clone() })
            }
            InputColumns::Parquet(_) => Format::Parquet,
        };
        let schema = binder.columns.into_schema();
        Ok(Fragment { format, schema, predicate, output, order, limit: query.limit, project })
    }
}

/// The time, for UTCNOW: one for the whole statement.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or_default();
    Timestamp::from_micros(micros, 3).map(|now| now.to_string()).unwrap_or_default()
}

/// Binds expressions, collecting the columns they need.
struct Binder<'a> {
    columns: Columns<'a>,
    alias: Option<&'a Name>,
    /// Whether a NULL of the input is a value, not something missing.
    has_nulls: bool,
    /// While the select list of a statement with aggregates is bound.
    grouping: Option<Grouping>,
    extensions: Extensions,
    now: String,
    /// Nodes that were added by repeating operands.
    copied: usize,
}

impl Binder<'_> {
    /// Notes that an operand is said so many times more than it is written, and refuses what doubles too often.
    fn copy(&mut self, operand: &pushdown::Expr, times: usize) -> Result<(), SelectError> {
        self.copied = self.copied.saturating_add(operand.size().saturating_mul(times));
        if self.copied <= pushdown::limits::EXPRESSION_COPIES {
            return Ok(());
        }
        let message = "BETWEEN, IN, NULLIF and CASE with an operand nest too deeply in each other";
        Err(SelectError::new("MaxOperatorsExceeded", message))
    }

    fn item(&mut self, index: usize, item: &Item) -> Result<NamedExpr, SelectError> {
        let expr = match &item.expr {
            // As the object has it: the writer of the result knows best how to print it.
            Ast::Path(steps) => pushdown::Expr::Column(self.columns.find(steps)?.0),
            Ast::Missing => self.columns.missing(),
            other => self.expr(other)?.expr,
        };
        Ok(NamedExpr { expr, name: item_name(index, item) })
    }
}

/// The name of a selected expression: its alias, the last name of its path, or its position.
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

/// Calls `found` with every path.
fn visit(ast: &Ast, found: &mut dyn FnMut(&[Step])) {
    if let Ast::Path(steps) = ast {
        found(steps);
    }
    children(ast, &mut |child| visit(child, found));
}

/// Calls `f` with every expression directly below.
fn children(ast: &Ast, f: &mut dyn FnMut(&Ast)) {
    match ast {
        Ast::Number(_)
        | Ast::Text(_)
        | Ast::Bool(_)
        | Ast::Null
        | Ast::Missing
        | Ast::Timestamp(_)
        | Ast::Path(_)
        | Ast::Aggregate(_, None) => {}
        Ast::Negate(a) | Ast::Not(a) | Ast::IsNull(a) | Ast::IsMissing(a) | Ast::Cast(a, _) | Ast::Bloom(a, _) => f(a),
        Ast::Aggregate(_, Some(a)) => f(a),
        Ast::And(all) | Ast::Or(all) | Ast::Call(_, all) => all.iter().for_each(f),
        Ast::Compare(_, a, b) | Ast::Arithmetic(_, a, b) => {
            f(a);
            f(b);
        }
        Ast::In { expr, list, .. } => {
            f(expr);
            list.iter().for_each(f);
        }
        Ast::Between { expr, low, high } => [expr, low, high].into_iter().for_each(|a| f(a)),
        Ast::Like { expr, pattern, escape, .. } => {
            [Some(expr), Some(pattern), escape.as_ref()].into_iter().flatten().for_each(|a| f(a));
        }
        Ast::Case { operand, branches, otherwise } => {
            operand.iter().chain(otherwise).for_each(|a| f(a));
            for (when, then) in branches {
                f(when);
                f(then);
            }
        }
    }
}

fn schema_of(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}

#[cfg(test)]
mod tests;
