//! The values of one column of a batch, in PostgreSQL's text or binary format.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericListArray, LargeStringBuilder, OffsetSizeTrait};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal128Type, Decimal256Type, DurationMicrosecondType,
    Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use arrow_json::writer::{EncoderOptions, make_encoder};
use pushdowndb_contract::{Error, ErrorKind, Result};

use super::types::{PgType, Scalar};
use super::{Format, calendar, numeric, text};

/// Writes the value of a row, which must not be NULL.
type WriteCell = Box<dyn Fn(usize, &mut Vec<u8>) -> Result<()> + Send>;

/// The values of a column of a batch, ready to be written in one format.
pub(crate) struct Cells {
    array: ArrayRef,
    write: WriteCell,
}

impl Cells {
    /// Prepares the column `array`, which was declared to the client as `declared`, for `format`.
    ///
    /// # Errors
    ///
    /// The type cannot be written in this format, or a value exceeds the range of PostgreSQL's
    /// type.
    pub fn new(array: &ArrayRef, declared: PgType, format: Format) -> Result<Self> {
        let array = plain(array, declared)?;
        let write = match declared.is_array {
            true => list(&array, declared, format)?,
            false => scalar(&array, declared.scalar, format)?,
        };
        Ok(Self { array, write })
    }

    /// Whether the value of a row is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row)
    }

    /// Writes the value of a row, which must not be NULL.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        (self.write)(row, out)
    }

    /// Writes the value of a row, preceded by its length; the length of NULL is -1.
    pub fn write_with_length(&self, row: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.is_null(row) {
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            return Ok(());
        }
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        self.write(row, out)?;
        let length = i32::try_from(out.len() - start - 4)
            .map_err(|_| Error::new(ErrorKind::Limit, "a value has more than 2 GiB"))?;
        if let Some(place) = out.get_mut(start..start + 4) {
            place.copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }
}

/// Casts an array to one of the few Arrow types that are used for each type of PostgreSQL.
fn plain(array: &ArrayRef, declared: PgType) -> Result<ArrayRef> {
    if declared.is_array {
        let elements = |field: &Arc<Field>| {
            let element = plain_type(field.data_type(), declared.scalar);
            DataType::List(Arc::new(Field::new_list_field(element, true)))
        };
        return match array.data_type() {
            DataType::LargeList(element) => {
                let element = plain_type(element.data_type(), declared.scalar);
                casted(array, &DataType::LargeList(Arc::new(Field::new_list_field(element, true))))
            }
            DataType::List(element) | DataType::FixedSizeList(element, _) => casted(array, &elements(element)),
            DataType::ListView(element) | DataType::LargeListView(element) => casted(array, &elements(element)),
            other => Err(Error::internal(format!("a list was expected, not {other}"))),
        };
    }
    if declared.scalar == Scalar::Json {
        return json(array);
    }
    casted(array, &plain_type(array.data_type(), declared.scalar))
}

fn casted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    // A value out of range is an error instead of NULL.
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &options)
        .map_err(|error| Error::invalid(format!("a value is beyond PostgreSQL's range: {error}")))
}

fn plain_type(data_type: &DataType, scalar: Scalar) -> DataType {
    match scalar {
        Scalar::Bool => DataType::Boolean,
        Scalar::Bytea => DataType::LargeBinary,
        Scalar::Char | Scalar::Text | Scalar::Json => DataType::LargeUtf8,
        Scalar::Int2 => DataType::Int16,
        Scalar::Int4 | Scalar::Oid(_) => DataType::Int32,
        Scalar::Int8 => DataType::Int64,
        Scalar::Float4 => DataType::Float32,
        Scalar::Float8 => DataType::Float64,
        Scalar::Date => match data_type {
            DataType::Date64 => DataType::Date64,
            _ => DataType::Date32,
        },
        Scalar::Time => DataType::Time64(TimeUnit::Microsecond),
        Scalar::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Scalar::TimestampTz => match data_type {
            DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
            _ => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        },
        Scalar::Interval => match data_type {
            DataType::Duration(_) => DataType::Duration(TimeUnit::Microsecond),
            _ => DataType::Interval(IntervalUnit::MonthDayNano),
        },
        Scalar::Numeric => match data_type {
            DataType::UInt64 => DataType::UInt64,
            DataType::Decimal256(precision, scale) => DataType::Decimal256(*precision, *scale),
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale) => DataType::Decimal128(*precision, *scale),
            _ => DataType::Decimal128(38, 10),
        },
    }
}

/// Converts structures, maps and lists of lists to JSON.
fn json(array: &ArrayRef) -> Result<ArrayRef> {
    if let DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View = array.data_type() {
        return casted(array, &DataType::LargeUtf8);
    }
    let field = Arc::new(Field::new("value", array.data_type().clone(), true));
    let options = EncoderOptions::default().with_explicit_nulls(true);
    let encoder = make_encoder(&field, array.as_ref(), &options);
    let mut encoder =
        encoder.map_err(|error| Error::unsupported(format!("a column of {} as JSON: {error}", array.data_type())))?;
    let mut values = LargeStringBuilder::new();
    let mut value = Vec::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            values.append_null();
            continue;
        }
        value.clear();
        encoder.encode(row, &mut value);
        values.append_value(std::str::from_utf8(&value).map_err(|_| Error::internal("JSON that is not UTF-8"))?);
    }
    Ok(Arc::new(values.finish()))
}

/// Returns a writer that calls `write` with the values of a primitive array.
fn primitive<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    write: impl Fn(T::Native, &mut Vec<u8>) + Send + 'static,
) -> Result<WriteCell> {
    let values = array.as_primitive_opt::<T>().cloned();
    let values = values.ok_or_else(|| Error::internal(format!("an array of {}", array.data_type())))?;
    Ok(Box::new(move |row, out| {
        write(values.value(row), out);
        Ok(())
    }))
}

/// Returns a writer of numbers in either format.
macro_rules! number {
    ($array:expr, $type:ty, $format:expr) => {
        match $format {
            Format::Text => primitive::<$type>($array, |value, out| {
                let _ = write!(out, "{value}");
            }),
            Format::Binary => primitive::<$type>($array, |value, out| out.extend_from_slice(&value.to_be_bytes())),
        }
    };
}

fn scalar(array: &ArrayRef, scalar: Scalar, format: Format) -> Result<WriteCell> {
    let is_text = format == Format::Text;
    match scalar {
        Scalar::Bool => {
            let values = array.as_boolean().clone();
            Ok(Box::new(move |row, out| {
                out.push(match (is_text, values.value(row)) {
                    (true, true) => b't',
                    (true, false) => b'f',
                    (false, value) => u8::from(value),
                });
                Ok(())
            }))
        }
        Scalar::Int2 => number!(array, Int16Type, format),
        Scalar::Int4 => number!(array, Int32Type, format),
        Scalar::Int8 => number!(array, Int64Type, format),
        Scalar::Oid(_) => match format {
            Format::Text => primitive::<Int32Type>(array, |value, out| {
                let _ = write!(out, "{}", value.cast_unsigned());
            }),
            Format::Binary => number!(array, Int32Type, format),
        },
        Scalar::Float4 => match format {
            Format::Text => primitive::<Float32Type>(array, text::float4),
            Format::Binary => number!(array, Float32Type, format),
        },
        Scalar::Float8 => match format {
            Format::Text => primitive::<Float64Type>(array, text::float8),
            Format::Binary => number!(array, Float64Type, format),
        },
        Scalar::Text | Scalar::Json | Scalar::Char => {
            let values = array.as_string::<i64>().clone();
            let first_only = scalar == Scalar::Char;
            Ok(Box::new(move |row, out| {
                let value = values.value(row).as_bytes();
                out.extend_from_slice(if first_only { value.get(..1).unwrap_or(&[0]) } else { value });
                Ok(())
            }))
        }
        Scalar::Bytea => {
            let values = array.as_binary::<i64>().clone();
            Ok(Box::new(move |row, out| {
                match is_text {
                    true => text::bytea(values.value(row), out),
                    false => out.extend_from_slice(values.value(row)),
                }
                Ok(())
            }))
        }
        Scalar::Date => date(array, format),
        Scalar::Time => match format {
            Format::Text => primitive::<Time64MicrosecondType>(array, calendar::time),
            Format::Binary => number!(array, Time64MicrosecondType, format),
        },
        Scalar::Timestamp | Scalar::TimestampTz => timestamp(array, scalar == Scalar::TimestampTz, format),
        Scalar::Interval => interval(array, format),
        Scalar::Numeric => decimal(array, format),
    }
}

fn date(array: &ArrayRef, format: Format) -> Result<WriteCell> {
    const MILLIS_PER_DAY: i64 = 86_400_000;
    let values: Box<dyn Fn(usize) -> i64 + Send> = match array.data_type() {
        DataType::Date64 => {
            let values = array.as_primitive::<Date64Type>().clone();
            Box::new(move |row| values.value(row).div_euclid(MILLIS_PER_DAY))
        }
        _ => {
            let values = array.as_primitive::<Date32Type>().clone();
            Box::new(move |row| i64::from(values.value(row)))
        }
    };
    Ok(Box::new(move |row, out| {
        let days = values(row);
        match format {
            Format::Text => calendar::date(days, out),
            Format::Binary => {
                let days = i32::try_from(days.saturating_sub(calendar::EPOCH_DAYS));
                let days = days.map_err(|_| beyond("date"))?;
                out.extend_from_slice(&days.to_be_bytes());
            }
        }
        Ok(())
    }))
}

fn timestamp(array: &ArrayRef, has_zone: bool, format: Format) -> Result<WriteCell> {
    let values = array.as_primitive::<TimestampMicrosecondType>().clone();
    Ok(Box::new(move |row, out| {
        let micros = values.value(row);
        match format {
            Format::Text => calendar::timestamp(micros, has_zone, out),
            Format::Binary => {
                let micros = micros.checked_sub(calendar::EPOCH_MICROS).ok_or_else(|| beyond("timestamp"))?;
                out.extend_from_slice(&micros.to_be_bytes());
            }
        }
        Ok(())
    }))
}

fn interval(array: &ArrayRef, format: Format) -> Result<WriteCell> {
    let parts: Box<dyn Fn(usize) -> (i32, i32, i64) + Send> = match array.data_type() {
        DataType::Duration(_) => {
            let values = array.as_primitive::<DurationMicrosecondType>().clone();
            Box::new(move |row| (0, 0, values.value(row)))
        }
        _ => {
            let values = array.as_primitive::<IntervalMonthDayNanoType>().clone();
            Box::new(move |row| {
                let value = values.value(row);
                (value.months, value.days, value.nanoseconds / 1000)
            })
        }
    };
    Ok(Box::new(move |row, out| {
        let (months, days, micros) = parts(row);
        match format {
            Format::Text => calendar::interval(months, days, micros, out),
            Format::Binary => {
                out.extend_from_slice(&micros.to_be_bytes());
                out.extend_from_slice(&days.to_be_bytes());
                out.extend_from_slice(&months.to_be_bytes());
            }
        }
        Ok(())
    }))
}

fn decimal(array: &ArrayRef, format: Format) -> Result<WriteCell> {
    let texts: Box<dyn Fn(usize) -> String + Send> = match array.data_type() {
        DataType::UInt64 => {
            let values = array.as_primitive::<UInt64Type>().clone();
            Box::new(move |row| values.value(row).to_string())
        }
        DataType::Decimal256(..) => {
            let values = array.as_primitive::<Decimal256Type>().clone();
            Box::new(move |row| values.value_as_string(row))
        }
        _ => {
            let values = array.as_primitive::<Decimal128Type>().clone();
            Box::new(move |row| values.value_as_string(row))
        }
    };
    Ok(Box::new(move |row, out| {
        match format {
            Format::Text => out.extend_from_slice(texts(row).as_bytes()),
            Format::Binary => numeric::write(&texts(row), out),
        }
        Ok(())
    }))
}

fn list(array: &ArrayRef, declared: PgType, format: Format) -> Result<WriteCell> {
    match array.data_type() {
        DataType::LargeList(_) => list_of(array.as_list::<i64>(), declared, format),
        _ => list_of(array.as_list::<i32>(), declared, format),
    }
}

fn list_of<O: OffsetSizeTrait>(lists: &GenericListArray<O>, declared: PgType, format: Format) -> Result<WriteCell> {
    let element = PgType::scalar(declared.scalar);
    let cells = Cells::new(lists.values(), element, format)?;
    let offsets = lists.offsets().clone();
    Ok(Box::new(move |row, out| {
        let bounds = offsets.get(row).zip(offsets.get(row + 1));
        let (start, end) = bounds.map_or((0, 0), |(start, end)| (start.as_usize(), end.as_usize()));
        match format {
            Format::Text => {
                let mut value = Vec::new();
                out.push(b'{');
                for at in start..end {
                    if at > start {
                        out.push(b',');
                    }
                    if cells.is_null(at) {
                        out.extend_from_slice(b"NULL");
                        continue;
                    }
                    value.clear();
                    cells.write(at, &mut value)?;
                    text::element(&value, out);
                }
                out.push(b'}');
            }
            Format::Binary => {
                let has_nulls = (start..end).any(|at| cells.is_null(at));
                let length = i32::try_from(end - start).map_err(|_| beyond("list"))?;
                let dimensions = i32::from(length > 0);
                out.extend_from_slice(&dimensions.to_be_bytes());
                out.extend_from_slice(&i32::from(has_nulls).to_be_bytes());
                out.extend_from_slice(&element.oid().to_be_bytes());
                if length > 0 {
                    out.extend_from_slice(&length.to_be_bytes());
                    out.extend_from_slice(&1_i32.to_be_bytes());
                }
                for at in start..end {
                    cells.write_with_length(at, out)?;
                }
            }
        }
        Ok(())
    }))
}

fn beyond(what: &str) -> Error {
    Error::invalid(format!("a {what} is beyond PostgreSQL's range in the binary format"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BinaryArray, Decimal128Array, Int32Array, ListArray, StructArray, TimestampNanosecondArray, UInt64Array,
    };
    use arrow::datatypes::{Fields, Int32Type};

    use super::*;

    fn cell(array: ArrayRef, format: Format) -> Vec<u8> {
        let mut out = Vec::new();
        let declared = PgType::of(array.data_type());
        Cells::new(&array, declared, format).unwrap().write_with_length(0, &mut out).unwrap();
        out.split_off(4)
    }

    fn text_of(array: impl Array + 'static) -> String {
        String::from_utf8(cell(Arc::new(array), Format::Text)).unwrap()
    }

    #[test]
    fn extremes_are_written() {
        assert_eq!(text_of(UInt64Array::from(vec![u64::MAX])), "18446744073709551615");
        let decimals = Decimal128Array::from(vec![-(10_i128.pow(38) - 1)]).with_precision_and_scale(38, 38).unwrap();
        assert_eq!(text_of(decimals), format!("-0.{}", "9".repeat(38)));
        assert_eq!(text_of(TimestampNanosecondArray::from(vec![i64::MIN])), "1677-09-21 00:12:43.145225");
        assert_eq!(text_of(BinaryArray::from(vec![&b"\x00\xff"[..]])), "\\x00ff");
    }

    #[test]
    fn nested_values_are_json() {
        let fields = Fields::from(vec![Field::new("a", DataType::Int32, true)]);
        let rows = StructArray::new(fields, vec![Arc::new(Int32Array::from(vec![None]))], None);
        assert_eq!(text_of(rows), r#"{"a":null}"#);
    }

    #[test]
    fn lists_have_both_formats() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None])]);
        assert_eq!(text_of(lists.clone()), "{1,NULL}");
        let binary = cell(Arc::new(lists), Format::Binary);
        let words: Vec<i32> = binary.chunks(4).map(|w| i32::from_be_bytes(w.try_into().unwrap())).collect();
        assert_eq!(words, [1, 1, 23, 2, 1, 4, 1, -1]);
    }
}
