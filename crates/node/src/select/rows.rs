//! Rows of Arrow batches as the records of an answer, in CSV or JSON.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    GenericStringArray, Int8Array, Int16Array, Int32Array, Int64Array, LargeStringArray, OffsetSizeTrait,
    PrimitiveArray, RecordBatch, StringArray, StringViewArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use pushdown::{Error, Result};

use super::csv::CsvWriter;
use super::json::JsonWriter;
use super::text;

/// How records are written.
#[derive(Clone, Debug)]
pub(super) enum RowWriter {
    Csv(CsvWriter),
    Json(JsonWriter),
}

/// The rows of one batch on their way out.
pub(super) struct Rows {
    columns: Vec<Column>,
    count: usize,
    at: usize,
}

impl Rows {
    /// The rows of a batch that `writer` will write.
    pub fn new(batch: &RecordBatch, writer: &RowWriter) -> Result<Self> {
        let columns = batch.columns().iter().map(|array| Column::new(array, writer)).collect::<Result<_>>()?;
        Ok(Self { columns, count: batch.num_rows(), at: 0 })
    }

    /// Writes rows until `out` holds `enough` bytes; false when there are none left.
    pub fn fill(&mut self, writer: &RowWriter, out: &mut Vec<u8>, enough: usize) -> bool {
        while self.at < self.count && out.len() < enough {
            match writer {
                RowWriter::Csv(csv) => csv.record(out, &self.columns, self.at),
                RowWriter::Json(json) => json.record(out, &self.columns, self.at),
            }
            self.at += 1;
        }
        self.at < self.count
    }
}

impl RowWriter {
    fn is_plain<O: OffsetSizeTrait>(&self, array: &GenericStringArray<O>) -> bool {
        let offsets = array.value_offsets();
        let span = offsets.first().zip(offsets.last()).map(|(first, last)| first.as_usize()..last.as_usize());
        let text = span.and_then(|span| array.value_data().get(span)).unwrap_or_default();
        match self {
            Self::Csv(csv) => csv.is_plain(text),
            Self::Json(json) => json.is_plain(text),
        }
    }
}

/// A column with its type found out once for all its rows.
pub(super) enum Column {
    Null,
    Boolean(BooleanArray),
    Int8(Int8Array),
    Int16(Int16Array),
    Int32(Int32Array),
    Int64(Int64Array),
    UInt8(UInt8Array),
    UInt16(UInt16Array),
    UInt32(UInt32Array),
    UInt64(UInt64Array),
    Float32(Float32Array),
    Float64(Float64Array),
    Decimal(Decimal128Array, i8),
    Date(Date32Array),
    /// Ticks, ticks per second, whether it is an instant.
    Timestamp(Int64Array, i64, bool),
    /// Text, and whether none of it needs quotes or escapes: one look at all of it is faster than one at each.
    Utf8(StringArray, bool),
    LargeUtf8(LargeStringArray, bool),
    Utf8View(StringViewArray),
}

/// A value as it goes into a record.
pub(super) enum Cell<'a> {
    Null,
    Boolean(bool),
    /// A number.
    Number(&'a dyn Fn(&mut Vec<u8>)),
    /// A double, for which JSON may have no number.
    Float(f64, &'a dyn Fn(&mut Vec<u8>)),
    /// A date or time, which is text in JSON.
    Time(&'a dyn Fn(&mut Vec<u8>)),
    /// Text, and whether it is known to need no quotes or escapes.
    Text(&'a str, bool),
}

impl Column {
    fn new(array: &ArrayRef, writer: &RowWriter) -> Result<Self> {
        fn ticks<T: arrow::datatypes::ArrowPrimitiveType<Native = i64>>(array: &ArrayRef) -> Int64Array {
            let array: &PrimitiveArray<T> = array.as_primitive();
            Int64Array::new(array.values().clone(), array.nulls().cloned())
        }
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean(array.as_boolean().clone()),
            DataType::Int8 => Self::Int8(array.as_primitive::<Int8Type>().clone()),
            DataType::Int16 => Self::Int16(array.as_primitive::<Int16Type>().clone()),
            DataType::Int32 => Self::Int32(array.as_primitive::<Int32Type>().clone()),
            DataType::Int64 => Self::Int64(array.as_primitive::<Int64Type>().clone()),
            DataType::UInt8 => Self::UInt8(array.as_primitive::<UInt8Type>().clone()),
            DataType::UInt16 => Self::UInt16(array.as_primitive::<UInt16Type>().clone()),
            DataType::UInt32 => Self::UInt32(array.as_primitive::<UInt32Type>().clone()),
            DataType::UInt64 => Self::UInt64(array.as_primitive::<UInt64Type>().clone()),
            DataType::Float32 => Self::Float32(array.as_primitive::<Float32Type>().clone()),
            DataType::Float64 => Self::Float64(array.as_primitive::<Float64Type>().clone()),
            DataType::Decimal128(_, scale) => Self::Decimal(array.as_primitive::<Decimal128Type>().clone(), *scale),
            DataType::Date32 => Self::Date(array.as_primitive::<Date32Type>().clone()),
            DataType::Timestamp(unit, zone) => {
                let (ticks, per_second) = match unit {
                    TimeUnit::Second => (ticks::<TimestampSecondType>(array), 1),
                    TimeUnit::Millisecond => (ticks::<TimestampMillisecondType>(array), 1000),
                    TimeUnit::Microsecond => (ticks::<TimestampMicrosecondType>(array), 1_000_000),
                    TimeUnit::Nanosecond => (ticks::<TimestampNanosecondType>(array), 1_000_000_000),
                };
                Self::Timestamp(ticks, per_second, zone.is_some())
            }
            DataType::Utf8 => {
                let array = array.as_string::<i32>();
                Self::Utf8(array.clone(), writer.is_plain(array))
            }
            DataType::LargeUtf8 => {
                let array = array.as_string::<i64>();
                Self::LargeUtf8(array.clone(), writer.is_plain(array))
            }
            DataType::Utf8View => Self::Utf8View(array.as_string_view().clone()),
            // Rarer types take the way over text.
            other => {
                let to = match other {
                    DataType::Dictionary(_, values) => values.as_ref(),
                    DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                        &DataType::Decimal128(*precision, *scale)
                    }
                    _ => &DataType::Utf8,
                };
                let array = cast(array, to).map_err(|error| {
                    Error::unsupported(format!("values of type {other} cannot be returned")).with_source(error)
                })?;
                Self::new(&array, writer)?
            }
        })
    }

    /// Hands the value of a row to `write`.
    pub fn cell(&self, row: usize, write: impl FnOnce(Cell<'_>)) {
        macro_rules! value {
            ($array:expr, $value:ident => $cell:expr) => {
                if $array.is_null(row) {
                    write(Cell::Null)
                } else {
                    let $value = $array.value(row);
                    write($cell)
                }
            };
        }
        match self {
            Self::Null => write(Cell::Null),
            Self::Boolean(array) => value!(array, v => Cell::Boolean(v)),
            Self::Int8(array) => value!(array, v => Cell::Number(&|out| text::signed(out, v.into()))),
            Self::Int16(array) => value!(array, v => Cell::Number(&|out| text::signed(out, v.into()))),
            Self::Int32(array) => value!(array, v => Cell::Number(&|out| text::signed(out, v.into()))),
            Self::Int64(array) => value!(array, v => Cell::Number(&|out| text::signed(out, v))),
            Self::UInt8(array) => value!(array, v => Cell::Number(&|out| text::unsigned(out, v.into()))),
            Self::UInt16(array) => value!(array, v => Cell::Number(&|out| text::unsigned(out, v.into()))),
            Self::UInt32(array) => value!(array, v => Cell::Number(&|out| text::unsigned(out, v.into()))),
            Self::UInt64(array) => value!(array, v => Cell::Number(&|out| text::unsigned(out, v))),
            Self::Float32(array) => value!(array, v => Cell::Float(v.into(), &|out| text::single(out, v))),
            Self::Float64(array) => value!(array, v => Cell::Float(v, &|out| text::double(out, v))),
            Self::Decimal(array, scale) => value!(array, v => Cell::Number(&|out| text::decimal(out, v, *scale))),
            Self::Date(array) => value!(array, v => Cell::Time(&|out| text::date(out, v.into()))),
            Self::Timestamp(array, per_second, utc) => {
                value!(array, v => Cell::Time(&|out| text::timestamp(out, v, *per_second, *utc)))
            }
            Self::Utf8(array, plain) => value!(array, v => Cell::Text(v, *plain)),
            Self::LargeUtf8(array, plain) => value!(array, v => Cell::Text(v, *plain)),
            Self::Utf8View(array) => value!(array, v => Cell::Text(v, false)),
        }
    }
}

#[cfg(test)]
mod tests;
