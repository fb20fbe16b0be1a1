//! Fingerprints of parts of the contract, computed from their wire form, which is versioned and
//! canonical.

use arrow_schema::{DataType, Field, Schema};
use prost::Message;

use super::expr::write_expr;
use super::format::write_format;
use super::fragment::write_fragment;
use super::types::{write_schema, write_type};
use crate::{Expr, FingerprintBuilder, Format, Fragment, Result};

impl FingerprintBuilder {
    /// Writes a format with its options.
    ///
    /// # Errors
    ///
    /// Returns an error if the format has no wire form. The same holds for the methods below.
    pub fn format(self, format: &Format) -> Result<Self> {
        Ok(self.bytes(&write_format(format)?.encode_to_vec()))
    }

    /// Writes a field: name, type, whether it is nullable, metadata.
    pub fn field(self, field: &Field) -> Result<Self> {
        self.schema(&Schema::new(vec![field.clone()]))
    }

    /// Writes the fields of a schema.
    pub fn schema(self, schema: &Schema) -> Result<Self> {
        Ok(self.bytes(&write_schema(schema)?))
    }

    /// Writes a type.
    pub fn data_type(self, data_type: &DataType) -> Result<Self> {
        Ok(self.bytes(&write_type(data_type)?))
    }

    /// Writes an expression.
    pub fn expr(self, expr: &Expr) -> Result<Self> {
        Ok(self.bytes(&write_expr(expr)?))
    }

    /// Writes a fragment.
    pub fn fragment(self, fragment: &Fragment) -> Result<Self> {
        Ok(self.bytes(&write_fragment(fragment)?.encode_to_vec()))
    }
}
