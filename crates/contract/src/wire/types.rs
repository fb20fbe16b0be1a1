//! Schemas and types on the wire: fields in prefix order, each followed by the fields of its type.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use prost::Message;

use super::{read_list, unknown, write_list};
use crate::{Error, Result, limits};

/// A field, or a type without a name.
#[derive(Clone, PartialEq, Message)]
struct FieldMessage {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bool, tag = "2")]
    nullable: bool,
    /// See [`shape`].
    #[prost(uint32, tag = "3")]
    kind: u32,
    /// The first parameter of the type: precision, width, unit, type of keys, or the order of a
    /// map.
    #[prost(sint64, tag = "4")]
    first: i64,
    /// The second parameter of the type: scale.
    #[prost(sint64, tag = "5")]
    second: i64,
    #[prost(string, optional, tag = "6")]
    zone: Option<String>,
    /// The number of following fields that belong to the type.
    #[prost(uint32, tag = "7")]
    children: u32,
    /// A list of [`PairMessage`].
    #[prost(bytes = "vec", tag = "8")]
    metadata: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct PairMessage {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// The maximum number of metadata entries of one field.
const PAIRS: usize = 64;

/// Encodes the fields of `schema`, without the metadata of the schema itself.
pub fn write_schema(schema: &Schema) -> Result<Vec<u8>> {
    let mut messages = Vec::new();
    for field in schema.fields() {
        write_field(field, 0, &mut messages)?;
    }
    write_list(messages)
}

/// Decodes what [`write_schema`] encoded.
pub fn read_schema(bytes: &[u8]) -> Result<SchemaRef> {
    let mut messages = read_list::<FieldMessage>(bytes, limits::COLUMNS, "columns")?.into_iter();
    let mut fields = Vec::new();
    while messages.len() > 0 {
        fields.push(read_field(&mut messages, 0)?);
    }
    check_widths(&fields)?;
    Ok(Arc::new(Schema::new(fields)))
}

/// Encodes one type.
pub fn write_type(data_type: &DataType) -> Result<Vec<u8>> {
    let mut messages = Vec::new();
    write_field(&Field::new("", data_type.clone(), true), 0, &mut messages)?;
    write_list(messages)
}

/// Decodes what [`write_type`] encoded.
pub fn read_type(bytes: &[u8]) -> Result<DataType> {
    let mut messages = read_list::<FieldMessage>(bytes, limits::COLUMNS, "columns")?.into_iter();
    let field = read_field(&mut messages, 0)?;
    match messages.next() {
        None => check_widths(std::slice::from_ref(&field)).map(|()| field.data_type().clone()),
        Some(_) => Err(Error::invalid("the request is malformed: a type is followed by another")),
    }
}

/// Checks the total width of the fixed-width columns of a row against the limit.
fn check_widths(fields: &[Field]) -> Result<()> {
    let bytes = fields.iter().map(|field| fixed_bytes(field.data_type())).fold(0, u64::saturating_add);
    if bytes > limits::FIXED_BYTES {
        let message = format!("columns of fixed width take {bytes} bytes a row, and may take {}", limits::FIXED_BYTES);
        return Err(Error::unsupported(message));
    }
    Ok(())
}

/// Returns the width of a fixed-width type in bytes; 0 for other types.
fn fixed_bytes(data_type: &DataType) -> u64 {
    match data_type {
        DataType::FixedSizeBinary(width) => u64::from(width.unsigned_abs()),
        DataType::FixedSizeList(item, width) => {
            let inner = item.data_type().primitive_width().map_or_else(|| fixed_bytes(item.data_type()), |w| w as u64);
            u64::from(width.unsigned_abs()).saturating_mul(inner.max(1))
        }
        DataType::Struct(fields) => fields.iter().map(|f| fixed_bytes(f.data_type())).fold(0, u64::saturating_add),
        _ => 0,
    }
}

fn too_deep() -> Error {
    Error::unsupported(format!("types may be nested {} levels deep", limits::TYPE_DEPTH))
}

/// A type as it is encoded, without the fields nested in it.
struct Shape<'a> {
    kind: u32,
    first: i64,
    second: i64,
    zone: Option<&'a str>,
    children: Vec<&'a Field>,
}

fn shape(data_type: &DataType) -> Result<Shape<'_>> {
    let leaf = |kind| Shape { kind, first: 0, second: 0, zone: None, children: vec![] };
    let of = |kind, first: i64| Shape { first, ..leaf(kind) };
    let decimal =
        |kind, precision: u8, scale: i8| Shape { first: i64::from(precision), second: i64::from(scale), ..leaf(kind) };
    let over = |kind, children| Shape { children, ..leaf(kind) };
    Ok(match data_type {
        DataType::Null => leaf(1),
        DataType::Boolean => leaf(2),
        DataType::Int8 => leaf(3),
        DataType::Int16 => leaf(4),
        DataType::Int32 => leaf(5),
        DataType::Int64 => leaf(6),
        DataType::UInt8 => leaf(7),
        DataType::UInt16 => leaf(8),
        DataType::UInt32 => leaf(9),
        DataType::UInt64 => leaf(10),
        DataType::Float16 => leaf(11),
        DataType::Float32 => leaf(12),
        DataType::Float64 => leaf(13),
        DataType::Utf8 => leaf(14),
        DataType::LargeUtf8 => leaf(15),
        DataType::Utf8View => leaf(16),
        DataType::Binary => leaf(17),
        DataType::LargeBinary => leaf(18),
        DataType::BinaryView => leaf(19),
        DataType::FixedSizeBinary(width) => of(20, i64::from(*width)),
        DataType::Date32 => leaf(21),
        DataType::Date64 => leaf(22),
        DataType::Time32(unit) => of(23, unit_code(*unit)),
        DataType::Time64(unit) => of(24, unit_code(*unit)),
        DataType::Timestamp(unit, zone) => Shape { zone: zone.as_deref(), ..of(25, unit_code(*unit)) },
        DataType::Duration(unit) => of(26, unit_code(*unit)),
        DataType::Interval(unit) => of(
            27,
            match unit {
                IntervalUnit::YearMonth => 0,
                IntervalUnit::DayTime => 1,
                IntervalUnit::MonthDayNano => 2,
            },
        ),
        DataType::Decimal32(precision, scale) => decimal(28, *precision, *scale),
        DataType::Decimal64(precision, scale) => decimal(29, *precision, *scale),
        DataType::Decimal128(precision, scale) => decimal(30, *precision, *scale),
        DataType::Decimal256(precision, scale) => decimal(31, *precision, *scale),
        DataType::List(item) => over(32, vec![item.as_ref()]),
        DataType::LargeList(item) => over(33, vec![item.as_ref()]),
        DataType::FixedSizeList(item, width) => Shape { children: vec![item.as_ref()], ..of(34, i64::from(*width)) },
        DataType::Struct(fields) => over(35, fields.iter().map(AsRef::as_ref).collect()),
        DataType::Map(entries, sorted) => Shape { children: vec![entries.as_ref()], ..of(36, i64::from(*sorted)) },
        // The type of the values is encoded as a child field, see `write_field`.
        DataType::Dictionary(keys, _) => of(37, i64::from(shape(keys)?.kind)),
        other => return Err(Error::unsupported(format!("{other} does not cross the wire"))),
    })
}

fn write_field(field: &Field, depth: usize, into: &mut Vec<FieldMessage>) -> Result<()> {
    if depth >= limits::TYPE_DEPTH {
        return Err(too_deep());
    }
    let values = match field.data_type() {
        DataType::Dictionary(_, values) => Some(Field::new("", values.as_ref().clone(), true)),
        _ => None,
    };
    let shape = shape(field.data_type())?;
    let children: Vec<&Field> = shape.children.into_iter().chain(&values).collect();
    let pairs = field.metadata().iter().map(|(key, value)| PairMessage { key: key.clone(), value: value.clone() });
    // Metadata is sorted, so that equal fields have equal encodings.
    let mut pairs: Vec<_> = pairs.collect();
    pairs.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    into.push(FieldMessage {
        name: field.name().clone(),
        nullable: field.is_nullable(),
        kind: shape.kind,
        first: shape.first,
        second: shape.second,
        zone: shape.zone.map(str::to_owned),
        children: u32::try_from(children.len()).map_err(|_| too_deep())?,
        metadata: write_list(pairs)?,
    });
    children.into_iter().try_for_each(|child| write_field(child, depth + 1, into))
}

fn read_field(messages: &mut impl Iterator<Item = FieldMessage>, depth: usize) -> Result<Field> {
    if depth >= limits::TYPE_DEPTH {
        return Err(too_deep());
    }
    let message = messages.next().ok_or_else(|| super::missing("a field"))?;
    let mut children = Vec::new();
    for _ in 0..message.children {
        children.push(Arc::new(read_field(messages, depth + 1)?));
    }
    let data_type = data_type(&message, children)?;
    let pairs = read_list::<PairMessage>(&message.metadata, PAIRS, "notes on a column")?;
    let metadata: HashMap<String, String> = pairs.into_iter().map(|pair| (pair.key, pair.value)).collect();
    Ok(Field::new(message.name, data_type, message.nullable).with_metadata(metadata))
}

fn data_type(message: &FieldMessage, children: Vec<Arc<Field>>) -> Result<DataType> {
    let unit = || read_unit(message.first);
    let width = || i32::try_from(message.first).ok().filter(|width| *width >= 0).ok_or_else(malformed_type);
    // Precision and scale must be within Arrow's limits: an oversized decimal would later be a
    // wrong value.
    let decimal = |digits: u8| {
        let precision =
            u8::try_from(message.first).ok().filter(|p| (1..=digits).contains(p)).ok_or_else(malformed_type)?;
        let limit = i64::from(digits);
        let scale = i8::try_from(message.second).ok().filter(|s| (-limit..=limit).contains(&i64::from(*s)));
        let scale = scale.filter(|scale| i16::from(*scale) <= i16::from(precision)).ok_or_else(malformed_type)?;
        Ok::<_, Error>((precision, scale))
    };
    let is_nested = matches!(message.kind, 32..=37);
    if !is_nested && !children.is_empty() {
        return Err(malformed_type());
    }
    let only = |children: Vec<Arc<Field>>| {
        <[Arc<Field>; 1]>::try_from(children).map(|[only]| only).map_err(|_| malformed_type())
    };
    Ok(match message.kind {
        1 => DataType::Null,
        2 => DataType::Boolean,
        kind @ 3..=10 => integer(kind.into())?,
        11 => DataType::Float16,
        12 => DataType::Float32,
        13 => DataType::Float64,
        14 => DataType::Utf8,
        15 => DataType::LargeUtf8,
        16 => DataType::Utf8View,
        17 => DataType::Binary,
        18 => DataType::LargeBinary,
        19 => DataType::BinaryView,
        20 => DataType::FixedSizeBinary(width()?),
        21 => DataType::Date32,
        22 => DataType::Date64,
        23 => match unit()? {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => DataType::Time32(unit),
            _ => return Err(malformed_type()),
        },
        24 => match unit()? {
            unit @ (TimeUnit::Microsecond | TimeUnit::Nanosecond) => DataType::Time64(unit),
            _ => return Err(malformed_type()),
        },
        25 => DataType::Timestamp(unit()?, message.zone.as_deref().map(Arc::from)),
        26 => DataType::Duration(unit()?),
        27 => DataType::Interval(match message.first {
            0 => IntervalUnit::YearMonth,
            1 => IntervalUnit::DayTime,
            2 => IntervalUnit::MonthDayNano,
            _ => return Err(malformed_type()),
        }),
        28 => decimal(9).map(|(precision, scale)| DataType::Decimal32(precision, scale))?,
        29 => decimal(18).map(|(precision, scale)| DataType::Decimal64(precision, scale))?,
        30 => decimal(38).map(|(precision, scale)| DataType::Decimal128(precision, scale))?,
        31 => decimal(76).map(|(precision, scale)| DataType::Decimal256(precision, scale))?,
        32 => DataType::List(only(children)?),
        33 => DataType::LargeList(only(children)?),
        34 => DataType::FixedSizeList(only(children)?, width()?),
        35 => DataType::Struct(children.into()),
        36 => {
            let entries = only(children)?;
            match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => DataType::Map(entries, message.first != 0),
                _ => return Err(malformed_type()),
            }
        }
        37 => DataType::Dictionary(Box::new(integer(message.first)?), Box::new(only(children)?.data_type().clone())),
        other => return Err(unknown("type", other)),
    })
}

/// Returns the integer type with a `code`, for columns and for the keys of dictionaries.
fn integer(code: i64) -> Result<DataType> {
    Ok(match code {
        3 => DataType::Int8,
        4 => DataType::Int16,
        5 => DataType::Int32,
        6 => DataType::Int64,
        7 => DataType::UInt8,
        8 => DataType::UInt16,
        9 => DataType::UInt32,
        10 => DataType::UInt64,
        _ => return Err(malformed_type()),
    })
}

fn malformed_type() -> Error {
    Error::invalid("the request is malformed: a type contradicts itself")
}

fn unit_code(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

fn read_unit(code: i64) -> Result<TimeUnit> {
    Ok(match code {
        0 => TimeUnit::Second,
        1 => TimeUnit::Millisecond,
        2 => TimeUnit::Microsecond,
        3 => TimeUnit::Nanosecond,
        _ => return Err(Error::invalid("the request is malformed: a unit of time is unknown")),
    })
}
