//! SQL values as JSON text: `to_json`, `json_array`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::arrow::json::writer::{EncoderOptions, make_encoder};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Returns the functions that make JSON of values.
pub(super) fn functions() -> Vec<ScalarUDF> {
    let all = [Encoded::Value, Encoded::Array];
    all.map(|encoded| {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::from(ToJson { encoded, signature })
    })
    .into()
}

/// Returns the JSON of each value; NULL for NULL.
pub(super) fn encoded(values: &ArrayRef) -> Result<ArrayRef> {
    let mut texts = StringBuilder::new();
    let mut bytes = Vec::new();
    each(values, |row| {
        match row {
            None => texts.append_null(),
            Some(encode) => {
                bytes.clear();
                encode(&mut bytes);
                texts.append_value(text(&bytes)?);
            }
        }
        Ok(())
    })?;
    Ok(Arc::new(texts.finish()))
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| DataFusionError::External(Box::new(error)))
}

/// Calls `row` for each row of `values`: with a closure that appends the row's JSON, or with `None`
/// for NULL.
fn each(values: &ArrayRef, mut row: impl FnMut(Option<&mut dyn FnMut(&mut Vec<u8>)>) -> Result<()>) -> Result<()> {
    if values.data_type().is_null() {
        return (0..values.len()).try_for_each(|_| row(None));
    }
    // The encoder supports neither a dictionary of dictionaries nor a view inside of one.
    let values = match values.data_type() {
        DataType::Dictionary(_, value) => cast(values, value)?,
        _ => Arc::clone(values),
    };
    let options = EncoderOptions::default()
        .with_explicit_nulls(true)
        .with_timestamp_format("%Y-%m-%d %H:%M:%S%.f".to_owned())
        .with_timestamp_tz_format("%Y-%m-%d %H:%M:%S%.f%:z".to_owned());
    let field: FieldRef = Arc::new(Field::new("value", values.data_type().clone(), true));
    let mut encoder = make_encoder(&field, values.as_ref(), &options)?;
    for at in 0..values.len() {
        if encoder.is_null(at) {
            row(None)?;
        } else {
            row(Some(&mut |bytes| encoder.encode(at, bytes)))?;
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Encoded {
    Value,
    Array,
}

#[derive(Debug, Eq, Hash, PartialEq)]
struct ToJson {
    encoded: Encoded,
    signature: Signature,
}

impl ScalarUDFImpl for ToJson {
    fn name(&self) -> &str {
        match self.encoded {
            Encoded::Value => "to_json",
            Encoded::Array => "json_array",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if self.encoded == Encoded::Value && types.len() != 1 {
            return plan_err!("to_json takes one value, not {}", types.len());
        }
        Ok(types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), DataType::Utf8, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        if let (Encoded::Value, [values]) = (self.encoded, arrays.as_slice()) {
            return encoded(values).map(ColumnarValue::Array);
        }
        let mut lines = vec![vec![b'[']; rows];
        for (position, values) in arrays.iter().enumerate() {
            let mut lines = lines.iter_mut();
            each(values, |row| {
                let Some(line) = lines.next() else { return Ok(()) };
                if position > 0 {
                    line.push(b',');
                }
                match row {
                    Some(encode) => encode(line),
                    None => line.extend_from_slice(b"null"),
                }
                Ok(())
            })?;
        }
        let mut texts = StringBuilder::new();
        for mut line in lines {
            line.push(b']');
            texts.append_value(text(&line)?);
        }
        Ok(ColumnarValue::Array(Arc::new(texts.finish())))
    }
}
