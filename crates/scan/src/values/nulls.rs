//! NULL rules of columns, spellings of values, and the error for a field.

use arrow::datatypes::DataType;
use pushdowndb_contract::{NullRule, Result};

use crate::values::fields::{FieldColumn, Span};

/// The fields that are NULL in a column.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Nulls {
    /// Empty fields are NULL.
    pub(crate) empty: bool,
    /// So is a pair of quotes, which is the empty text in text columns.
    pub(crate) quoted: bool,
    /// Fields with exactly this text are NULL.
    pub(crate) text: Option<Vec<u8>>,
    /// Whether the column may hold NULL.
    pub(crate) allowed: bool,
    /// Empty fields are NULL by `NULLIF`, which even a NOT NULL column allows.
    pub(crate) empty_by_nullif: bool,
}

impl Nulls {
    /// Returns the rule of a table for a column of type `data_type`.
    pub(crate) fn new(rule: &NullRule, data_type: &DataType, nullable: bool) -> Self {
        let (empty, text) = match rule {
            NullRule::Empty => (true, None),
            NullRule::Text(text) => (true, Some(text.clone().into_bytes())),
            NullRule::Never => (false, None),
        };
        Self { empty, quoted: !data_type.is_string(), text, allowed: nullable, empty_by_nullif: false }
    }

    /// Only missing fields are NULL.
    pub(crate) fn never() -> Self {
        Self { empty: false, quoted: false, text: None, allowed: true, empty_by_nullif: false }
    }

    /// True if `field`, the bytes at `span` of `fields`, is NULL.
    #[inline]
    pub(crate) fn is_null(&self, fields: &FieldColumn<'_>, span: Span, field: &[u8]) -> bool {
        match field {
            [] => self.empty_by_nullif || self.empty && (self.quoted || !fields.is_quoted(span)),
            field => self.text.as_deref() == Some(field),
        }
    }

    #[inline]
    pub(crate) fn check(&self, field: Option<&[u8]>, span: Span) -> Result<(), BadField> {
        let excused = self.empty_by_nullif && !self.empty && field.is_some_and(<[u8]>::is_empty);
        if self.allowed || excused { Ok(()) } else { Err(BadField { span, null: true }) }
    }
}

/// A field that cannot be decoded.
#[derive(Debug)]
pub(crate) struct BadField {
    /// Its span.
    pub(crate) span: Span,
    /// True if it is NULL in a NOT NULL column; otherwise it spells no value of the type.
    pub(crate) null: bool,
}

/// The spellings that a column accepts.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Spelling {
    /// Those of a typed column of a table.
    Declared,
    /// The same for an inferred type: not numbers that begin with zeros, nor integers that a DOUBLE
    /// would round.
    Inferred,
    /// Also everything that Arrow's cast accepts (`yes`, `2020-1-1`).
    Cast,
}
