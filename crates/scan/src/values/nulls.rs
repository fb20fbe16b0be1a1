//! NULL rules of columns, spellings of values, and the error for a field.

use arrow::datatypes::DataType;
use pushdowndb_contract::{NullRule, Result};

use crate::values::fields::{FieldColumn, Span};

/// Determines which fields of a column are NULL.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Nulls {
    /// True if empty fields are NULL.
    pub(crate) empty: bool,
    /// True if a pair of quotes is NULL, too. In text columns it is empty text.
    pub(crate) quoted: bool,
    /// If given, fields with exactly this text are NULL.
    pub(crate) text: Option<Vec<u8>>,
    /// True if the column may contain NULL.
    pub(crate) allowed: bool,
    /// True if empty fields are NULL because of `NULLIF`, which is allowed even for a NOT NULL
    /// column.
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

    /// Returns the rule by which only missing fields are NULL.
    pub(crate) fn never() -> Self {
        Self { empty: false, quoted: false, text: None, allowed: true, empty_by_nullif: false }
    }

    /// Returns whether `field`, the bytes at `span` of `fields`, is NULL.
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
    /// The span of the field.
    pub(crate) span: Span,
    /// True if it is NULL in a NOT NULL column, false if it is not valid for the type.
    pub(crate) null: bool,
}

/// The spellings of values that a column accepts.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Spelling {
    /// The spellings of a declared column of a table.
    Declared,
    /// Like `Declared`, for an inferred type: numbers that begin with superfluous zeros are
    /// refused, and so are integers that a DOUBLE would round.
    Inferred,
    /// Like `Declared`, and everything else that Arrow's cast accepts (`yes`, `2020-1-1`).
    Cast,
}
