//! Binding of a parsed statement to the columns of an input. The result is a [`Fragment`].
//!
//! S3 Select reads text without types; a fragment is typed. Binding makes every conversion
//! explicit, so that the evaluator needs no rules of S3 Select. An untyped CSV field is Utf8 and is
//! compared as text, and a constant takes the type of the other operand. A value whose type differs
//! from record to record, such as a path of JSON, or a decimal of any number of digits, is a token
//! ([`pushdowndb_contract::Expr::is_token`]), for which there are separate functions. Timestamps
//! are text ([`pushdowndb_contract::Timestamp`]) and are converted to instants only for
//! comparisons.

mod aggregate;
mod binder;
mod call;
mod columns;
mod compare;
mod constant;
mod expr;
mod input;
mod kind;

use std::time::{SystemTime, UNIX_EPOCH};

use pushdowndb_contract::{CsvOptions, Format, Fragment, JsonOptions, NullRule, Ragged, Timestamp};

use crate::ast::{Ast, Items, Query, Step};
use crate::{Extensions, SelectError, Statement};
use aggregate::Bound;
use binder::Binder;
use columns::Columns;
pub use input::InputColumns;

impl Statement {
    /// Returns the distinct columns and paths that the statement refers to, as they are written.
    pub fn columns(&self) -> Vec<String> {
        let Query { items, alias, filter, groups, order, .. } = &self.query;
        let mut all = Vec::new();
        let mut add = |ast: &Ast| {
            ast.for_each_path(&mut |steps| {
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

    /// Returns whether every column is selected, by `*`.
    pub fn selects_all(&self) -> bool {
        self.query.items == Items::All
    }

    /// Binds the statement to an input, in AWS's dialect.
    pub fn bind(&self, input: &InputColumns) -> Result<Fragment, SelectError> {
        self.bind_with(input, Extensions::Off)
    }

    /// Binds the statement to an input, with or without the `extensions` of a PushdownDB node.
    pub fn bind_with(&self, input: &InputColumns, extensions: Extensions) -> Result<Fragment, SelectError> {
        let query = &self.query;
        if extensions == Extensions::Off && !(query.groups.is_empty() && query.order.is_empty()) {
            return Err(SelectError::structure("S3 Select has neither GROUP BY nor ORDER BY"));
        }
        if !query.order.is_empty() {
            match query.limit {
                None => return Err(SelectError::structure("ORDER BY needs a LIMIT, which bounds what it holds")),
                Some(limit) if limit > pushdowndb_contract::limits::TOP_K_ROWS => {
                    let message =
                        format!("ORDER BY takes a LIMIT of at most {}", pushdowndb_contract::limits::TOP_K_ROWS);
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

/// Returns the current time for UTCNOW. A statement uses one time throughout.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or_default();
    Timestamp::from_micros(micros, 3).map(|now| now.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
