//! Arrow columns as values of rows: the type of a column is resolved once, not per row.

use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, Float32Array,
    Float64Array, GenericStringArray, Int8Array, Int16Array, Int32Array, Int64Array, LargeStringArray, OffsetSizeTrait,
    PrimitiveArray, StringArray, StringViewArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use pushdowndb_contract::{CsvOptions, Error, Result};
use pushdowndb_scan::rest_fields;

use super::text;

/// Whether text can be written without quotes and escapes.
type IsPlain<'a> = &'a dyn Fn(&[u8]) -> bool;

/// A column with its type resolved.
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
    Decimal256(Decimal256Array),
    Date(Date32Array),
    /// Ticks, ticks per second, and whether it has a time zone.
    Timestamp(Int64Array, i64, bool),
    /// Text, and whether all of it can be written without quotes or escapes: one check of all bytes
    /// is faster than one per value.
    Utf8(StringArray, bool),
    LargeUtf8(LargeStringArray, bool),
    Utf8View(StringViewArray),
    /// Text if it is valid UTF-8, as in Parquet files without the annotation; base64 otherwise.
    Binary(BinaryArray),
    /// Structs, lists and maps.
    Nested(Box<Nested>),
    /// The remaining fields of each CSV record.
    Rest(Vec<Vec<String>>),
}

/// A value of a record.
pub(super) enum Cell<'a> {
    Null,
    Boolean(bool),
    /// A number.
    Number(&'a dyn Fn(&mut Vec<u8>)),
    /// A double, which JSON cannot express if it is not finite.
    Float(f64, &'a dyn Fn(&mut Vec<u8>)),
    /// A date or time, which is text in JSON.
    Time(&'a dyn Fn(&mut Vec<u8>)),
    /// Text, and whether it can be written without quotes or escapes.
    Text(&'a str, bool),
    /// A nested column and a row of it.
    Nested(&'a Nested, usize),
}

impl Column {
    pub fn new(array: &ArrayRef, is_plain: IsPlain<'_>) -> Result<Self> {
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
                Self::Utf8(array.clone(), is_plain(all_text(array)))
            }
            DataType::LargeUtf8 => {
                let array = array.as_string::<i64>();
                Self::LargeUtf8(array.clone(), is_plain(all_text(array)))
            }
            DataType::Utf8View => Self::Utf8View(array.as_string_view().clone()),
            DataType::Decimal256(..) => Self::Decimal256(array.as_primitive::<Decimal256Type>().clone()),
            DataType::Binary => Self::Binary(array.as_binary().clone()),
            // Rare types are cast to another one.
            other => {
                if let Some(nested) = Nested::new(array, is_plain)? {
                    return Ok(Self::Nested(Box::new(nested)));
                }
                let to = match other {
                    DataType::Float16 => &DataType::Float32,
                    DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => &DataType::Binary,
                    DataType::Dictionary(_, values) => values.as_ref(),
                    DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
                        &DataType::Decimal128(*precision, *scale)
                    }
                    _ => &DataType::Utf8,
                };
                let array = cast(array, to).map_err(|error| {
                    Error::unsupported(format!("values of type {other} cannot be returned")).with_source(error)
                })?;
                Self::new(&array, is_plain)?
            }
        })
    }

    /// Parses the remaining fields of records, which are CSV text with these options.
    pub fn rest(array: &ArrayRef, options: &CsvOptions) -> Result<Self> {
        let rest = array.as_string_opt::<i32>().ok_or_else(|| Error::internal("the rest of records is no text"))?;
        let fields = rest.iter().map(|rest| rest.map_or(Ok(Vec::new()), |rest| rest_fields(rest, options)));
        Ok(Self::Rest(fields.collect::<Result<_>>()?))
    }

    /// Whether a row has no value.
    pub fn is_null(&self, row: usize) -> bool {
        let array: &dyn Array = match self {
            Self::Null => return true,
            Self::Rest(rest) => return rest.get(row).is_none_or(Vec::is_empty),
            Self::Nested(nested) => return nested.is_null(row),
            Self::Boolean(array) => array,
            Self::Int8(array) => array,
            Self::Int16(array) => array,
            Self::Int32(array) => array,
            Self::Int64(array) | Self::Timestamp(array, ..) => array,
            Self::UInt8(array) => array,
            Self::UInt16(array) => array,
            Self::UInt32(array) => array,
            Self::UInt64(array) => array,
            Self::Float32(array) => array,
            Self::Float64(array) => array,
            Self::Decimal(array, _) => array,
            Self::Decimal256(array) => array,
            Self::Date(array) => array,
            Self::Utf8(array, _) => array,
            Self::LargeUtf8(array, _) => array,
            Self::Utf8View(array) => array,
            Self::Binary(array) => array,
        };
        array.is_null(row)
    }

    /// Passes the value of a row to `write`.
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
            Self::Decimal256(array) => {
                let text = |out: &mut Vec<u8>| out.extend_from_slice(array.value_as_string(row).as_bytes());
                value!(array, _v => Cell::Number(&text))
            }
            Self::Binary(array) if array.is_null(row) => write(Cell::Null),
            Self::Binary(array) => match std::str::from_utf8(array.value(row)) {
                Ok(text) => write(Cell::Text(text, false)),
                Err(_) => write(Cell::Text(&BASE64.encode(array.value(row)), false)),
            },
            Self::Nested(nested) if nested.is_null(row) => write(Cell::Null),
            Self::Nested(nested) => write(Cell::Nested(nested, row)),
            Self::Rest(_) => write(Cell::Null),
        }
    }
}

/// The concatenated bytes of all texts of an array.
fn all_text<O: OffsetSizeTrait>(array: &GenericStringArray<O>) -> &[u8] {
    let offsets = array.value_offsets();
    let span = offsets.first().zip(offsets.last()).map(|(first, last)| first.as_usize()..last.as_usize());
    span.and_then(|span| array.value_data().get(span)).unwrap_or_default()
}

/// A column of nested values.
pub(super) struct Nested {
    nulls: Option<NullBuffer>,
    pub kind: Kind,
}

/// The children of a nested column.
pub(super) enum Kind {
    /// Members with their names.
    Struct(Vec<(String, Column)>),
    /// The ranges of the elements of each row.
    List(Vec<Range<usize>>, Box<Column>),
    /// The ranges of the entries of each row: keys and values.
    Map(Vec<Range<usize>>, Box<Column>, Box<Column>),
}

impl Nested {
    /// Returns the column if its type is nested, `None` otherwise.
    fn new(array: &ArrayRef, is_plain: IsPlain<'_>) -> Result<Option<Self>> {
        let elements = |values: &ArrayRef| Column::new(values, is_plain).map(Box::new);
        let kind = if let Some(object) = array.as_struct_opt() {
            let members = object.fields().iter().zip(object.columns());
            Kind::Struct(
                members
                    .map(|(field, column)| Ok((field.name().clone(), Column::new(column, is_plain)?)))
                    .collect::<Result<_>>()?,
            )
        } else if let Some(list) = array.as_list_opt::<i32>() {
            Kind::List(ranges(list.value_offsets()), elements(list.values())?)
        } else if let Some(list) = array.as_list_opt::<i64>() {
            Kind::List(ranges(list.value_offsets()), elements(list.values())?)
        } else if let Some(list) = array.as_fixed_size_list_opt() {
            let length = usize::try_from(list.value_length()).unwrap_or_default();
            let ranges = (0..list.len()).map(|row| row * length..(row + 1) * length).collect();
            Kind::List(ranges, elements(list.values())?)
        } else if let Some(map) = array.as_map_opt() {
            Kind::Map(ranges(map.value_offsets()), elements(map.keys())?, elements(map.values())?)
        } else {
            return Ok(None);
        };
        Ok(Some(Self { nulls: array.nulls().cloned(), kind }))
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }
}

fn ranges<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<Range<usize>> {
    let range = |pair: &[O]| match pair {
        [start, end] => start.as_usize()..end.as_usize(),
        _ => 0..0,
    };
    offsets.windows(2).map(range).collect()
}
