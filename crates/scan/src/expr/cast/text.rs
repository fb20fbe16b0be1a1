//! Casts from text as DataFusion functions.

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::Result as DfResult;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use pushdowndb_contract::Error;

use crate::error::into_datafusion;
use crate::expr::physical::on_array;
use crate::types::sql_type;
use crate::values::builders::builder;
use crate::values::fields::{FieldColumn, Quoting, Span};
use crate::values::nulls::{Nulls, Spelling};

/// The function `CAST(text AS type)`. It follows the rules of [`crate::values::parse`], as the
/// decoders of typed columns do.
#[derive(Debug, Eq, Hash, PartialEq)]
pub(crate) struct TextCast {
    to: DataType,
    signature: Signature,
}

impl TextCast {
    pub(crate) fn new(to: DataType) -> Self {
        Self { to, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TextCast {
    fn name(&self) -> &str {
        "text_cast"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        on_array(args, |array| {
            let text = cast(array, &DataType::Utf8)?;
            text_to(text.as_string(), &self.to).map_err(into_datafusion)
        })
    }
}

/// Casts text strictly to a type that has rules in [`crate::values::parse`].
pub(crate) fn text_to(text: &StringArray, to: &DataType) -> pushdowndb_contract::Result<ArrayRef> {
    text_to_spelled(text, to, Spelling::Cast)
}

/// Casts text. `spelling` selects the spellings that are accepted: those of a cast or of a declared
/// column.
pub(crate) fn text_to_spelled(
    text: &StringArray,
    to: &DataType,
    spelling: Spelling,
) -> pushdowndb_contract::Result<ArrayRef> {
    let span = |i: usize| match text.value_offsets().get(i..i + 2) {
        Some(&[start, end]) if text.is_valid(i) => Span::plain(start as usize, end as usize),
        _ => Span::MISSING,
    };
    let spans: Vec<Span> = (0..text.len()).map(span).collect();
    let quoting = Quoting::default();
    let fields = FieldColumn { data: text.value_data(), spans: &spans, stride: 1, column: 0, rows: None, quoting };
    let mut column = builder(to, Nulls::never(), spelling)?;
    column.append(&fields).map_err(|bad| {
        let value = fields.shown(bad.span);
        Error::invalid(format!("cannot parse '{value}' as {}", sql_type(to))).with_code("CastFailed")
    })?;
    column.finish().map_err(crate::error::from_arrow)
}
