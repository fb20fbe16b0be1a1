//! What the values of result columns mean, beyond their Arrow types.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use pushdowndb_contract::{Expr, Format, Fragment, NamedExpr, Output};
use pushdowndb_scan::REST;

/// The meaning of a text column.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Token {
    /// Text.
    #[default]
    No,
    /// A JSON value, as stored or computed.
    Value,
    /// A whole JSON record, selected by `*`.
    Record,
}

/// How an output column is written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Shape {
    pub token: Token,
    /// Whether NULL stands for MISSING, in which case the record has no such field.
    pub missing: bool,
}

/// The shapes of the result columns.
pub(super) fn of(fragment: &Fragment) -> Vec<Shape> {
    let of_text = match &fragment.format {
        // In these formats NULL stands for MISSING: CSV has no NULL, and in JSON it is the token
        // `null`.
        Format::Csv(_) => true,
        Format::Json(options) => options.raw_tokens,
        Format::Parquet => false,
    };
    let exprs: Vec<&Expr> = match &fragment.output {
        Output::Rows(columns) => columns.iter().map(|column| &column.expr).collect(),
        Output::Aggregate { groups, .. } => groups.iter().map(|group| &group.expr).collect(),
    };
    let is_whole = |index: usize| {
        let field = fragment.schema.fields().get(index);
        field.and_then(|field| field.metadata().get("path")).is_some_and(|path| path == "$")
    };
    let input = |place: usize| match exprs.get(place) {
        Some(Expr::Column(index)) if of_text => Some(*index),
        _ => None,
    };
    let tokens = fragment.token_columns();
    let shape = |(place, token): (usize, bool)| {
        // The output column that this result column refers to.
        let place = match fragment.project.as_ref().map(|project| project.get(place).map(|column| &column.expr)) {
            None => Some(place),
            Some(Some(Expr::Column(index))) => Some(*index),
            Some(_) => None,
        };
        let column = place.and_then(input);
        let whole = tokens.len() == 1 && column.is_some_and(is_whole);
        let token = match (whole, token) {
            (true, _) => Token::Record,
            (false, true) => Token::Value,
            (false, false) => Token::No,
        };
        Shape { token, missing: column.is_some() }
    };
    tokens.iter().copied().enumerate().map(shape).collect()
}

/// Adds a column for the remaining fields to `*` over CSV: those fields of a record that exceed the
/// number of fields in the first record. Returns whether the column was added.
pub(super) fn add_remaining_fields(fragment: &mut Fragment, selects_all: bool) -> bool {
    let Fragment { format: Format::Csv(_), output: Output::Rows(columns), order, project: None, .. } = fragment else {
        return false;
    };
    let as_they_are = columns.iter().enumerate().all(|(place, column)| column.expr == Expr::Column(place));
    if !selects_all || !order.is_empty() || !as_they_are || columns.is_empty() {
        return false;
    }
    // Columns that only the predicate uses are part of the record too.
    for index in columns.len()..fragment.schema.fields().len() {
        columns.push(NamedExpr { expr: Expr::Column(index), name: format!("_{}", index + 1) });
    }
    let metadata = HashMap::from([(REST.to_owned(), String::new())]);
    let rest = Field::new(REST, DataType::Utf8, true).with_metadata(metadata);
    columns.push(NamedExpr { expr: Expr::Column(columns.len()), name: REST.to_owned() });
    let fields = fragment.schema.fields().iter().cloned().chain([Arc::new(rest)]);
    fragment.schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    true
}
