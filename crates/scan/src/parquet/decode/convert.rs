//! Conversion of the columns of a file to the types of a table.
//!
//! Fields of structs are matched by name: exactly, or else ignoring case if only one field matches.
//! Fields that the file lacks are NULL, and fields that the table lacks are omitted. The names of
//! list elements and map entries are ignored.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, MapArray, OffsetSizeTrait, StringArray, StructArray, new_null_array,
};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pushdowndb_contract::{Error, Result};

use crate::error::from_arrow;
use crate::expr::cast::text::text_to;
use crate::expr::coerce::casts_from_text;
use crate::types::sql_type;

/// Converts `column` to the type `to`. A value that does not fit is an error.
///
/// If `exact`, a value that the conversion changes is an error, too, such as an integer with more
/// digits than a DOUBLE has. A fraction in an integer column is always an error.
pub(super) fn convert(column: &ArrayRef, to: &DataType, exact: bool) -> Result<ArrayRef> {
    let from = column.data_type();
    if from == to {
        return Ok(Arc::clone(column));
    }
    match (from, to) {
        (DataType::Null, _) => Ok(new_null_array(to, column.len())),
        (DataType::Dictionary(_, values), _) if !matches!(to, DataType::Dictionary(..)) => {
            convert(&cast(column, values).map_err(from_arrow)?, to, exact)
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            structs(column.as_struct(), fields, exact).map(|column| Arc::new(column) as ArrayRef)
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => maps(column.as_map(), entries, *sorted, exact),
        (_, DataType::List(item)) if element(from).is_some() => lists::<i32>(column, item, exact),
        (_, DataType::LargeList(item)) if element(from).is_some() => lists::<i64>(column, item, exact),
        _ if from.is_string() && casts_from_text(to) => {
            text_to(cast(column, &DataType::Utf8).map_err(from_arrow)?.as_string(), to)
        }
        (DataType::FixedSizeBinary(16), DataType::Utf8) => {
            let texts: StringArray = column.as_fixed_size_binary().iter().map(|uuid| uuid.map(uuid_text)).collect();
            Ok(Arc::new(texts))
        }
        _ => plain(column, to, exact),
    }
}

/// Converts values that are not nested.
fn plain(column: &ArrayRef, to: &DataType, exact: bool) -> Result<ArrayRef> {
    let from = column.data_type();
    let options = CastOptions { safe: false, ..Default::default() };
    let converted = cast_with_options(column, to, &options).map_err(|error| {
        Error::invalid(format!("holds {}, which does not fit the declared {}", sql_type(from), sql_type(to)))
            .with_source(error)
    })?;
    if !changes(from, to, exact) {
        return Ok(converted);
    }
    let back = cast_with_options(&converted, from, &CastOptions::default()).map_err(from_arrow)?;
    if *back == **column {
        return Ok(converted);
    }
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options).map_err(from_arrow)?;
    let changed = (0..column.len()).find(|row| *back.slice(*row, 1) != *column.slice(*row, 1));
    let value = changed.map(|row| formatter.value(row).to_string()).unwrap_or_default();
    Err(Error::invalid(format!(
        "holds {value}, which {} would change; declare the column with CREATE EXTERNAL TABLE, in a type that holds the \
         values of all objects or as VARCHAR",
        sql_type(to)
    )))
}

/// Returns whether a cast may change a value without an error although that is not allowed.
fn changes(from: &DataType, to: &DataType, exact: bool) -> bool {
    use DataType::{Decimal128, Float16, Float32, Float64, Timestamp};
    let width = |of: &DataType| of.primitive_width().unwrap_or_default();
    match (from, to) {
        (Float16 | Float32 | Float64, _) if to.is_integer() => true,
        (_, Float32) if from.is_integer() => exact && width(from) > 2,
        (_, Float64) if from.is_integer() => exact && width(from) > 4,
        (Float64, Float32 | Float16) | (Float32, Float16) => exact,
        (Decimal128(_, scale), Decimal128(_, other)) => exact && scale > other,
        (Decimal128(_, scale), _) if to.is_integer() => exact && *scale > 0,
        (Timestamp(unit, _), Timestamp(other, _)) => exact && ticks(*unit) > ticks(*other),
        _ => false,
    }
}

/// Returns the number of ticks in a second.
fn ticks(unit: TimeUnit) -> u32 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Returns the element field of a list in any layout.
fn element(list: &DataType) -> Option<&FieldRef> {
    match list {
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _) => Some(element),
        _ => None,
    }
}

fn lists<O: OffsetSizeTrait>(column: &ArrayRef, item: &FieldRef, exact: bool) -> Result<ArrayRef> {
    let Some(own) = element(column.data_type()) else { return plain(column, item.data_type(), exact) };
    let layout = match O::IS_LARGE {
        true => DataType::LargeList(Arc::clone(own)),
        false => DataType::List(Arc::clone(own)),
    };
    let column =
        if *column.data_type() == layout { Arc::clone(column) } else { cast(column, &layout).map_err(from_arrow)? };
    let list = column.as_list::<O>();
    let values = convert(list.values(), item.data_type(), exact)?;
    let list = GenericListArray::<O>::try_new(Arc::clone(item), list.offsets().clone(), values, list.nulls().cloned());
    Ok(Arc::new(list.map_err(from_arrow)?))
}

fn structs(column: &StructArray, fields: &Fields, exact: bool) -> Result<StructArray> {
    let own = column.fields();
    let find = |name: &str| {
        own.iter().position(|field| field.name() == name).or_else(|| {
            let is_like = |field: &Field| {
                field.name().eq_ignore_ascii_case(name) && fields.iter().all(|other| other.name() != field.name())
            };
            let mut alike = own.iter().enumerate().filter(|(_, field)| is_like(field));
            alike.next().filter(|_| alike.next().is_none()).map(|(place, _)| place)
        })
    };
    let member = |field: &FieldRef| match find(field.name()).and_then(|place| column.columns().get(place)) {
        Some(member) => {
            let member = convert(member, field.data_type(), exact);
            member.map_err(|error| error.context(format!("field \"{}\"", field.name())))
        }
        None => Ok(new_null_array(field.data_type(), column.len())),
    };
    let members = fields.iter().map(member).collect::<Result<Vec<_>>>()?;
    StructArray::try_new_with_length(fields.clone(), members, column.nulls().cloned(), column.len()).map_err(from_arrow)
}

fn maps(map: &MapArray, entries: &FieldRef, sorted: bool, exact: bool) -> Result<ArrayRef> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(Error::internal("a map whose entries are no structs"));
    };
    let [key, value] = fields.as_ref() else { return Err(Error::internal("a map without keys and values")) };
    let columns = vec![convert(map.keys(), key.data_type(), exact)?, convert(map.values(), value.data_type(), exact)?];
    let pairs = StructArray::try_new(fields.clone(), columns, map.entries().nulls().cloned()).map_err(from_arrow)?;
    let map = MapArray::try_new(Arc::clone(entries), map.offsets().clone(), pairs, map.nulls().cloned(), sorted);
    Ok(Arc::new(map.map_err(from_arrow)?))
}

/// Formats a UUID as usual, with `8-4-4-4-12` digits.
fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Decimal128Array, Float64Array, Int32Array, Int64Array, ListArray, TimestampNanosecondArray, UInt64Array,
    };
    use arrow::buffer::{NullBuffer, OffsetBuffer};

    use super::*;

    fn field(name: &str, data_type: DataType) -> FieldRef {
        Arc::new(Field::new(name, data_type, true))
    }

    #[test]
    fn values_that_would_change_are_errors() {
        let millis = DataType::Timestamp(TimeUnit::Millisecond, None);
        let decimals = |values: Vec<i128>| -> ArrayRef {
            Arc::new(Decimal128Array::from(values).with_precision_and_scale(10, 2).unwrap())
        };
        let cases: Vec<(ArrayRef, DataType, bool, Option<&str>)> = vec![
            (Arc::new(Int64Array::from(vec![Some(1 << 53), None])), DataType::Float64, true, None),
            (Arc::new(Int64Array::from(vec![0, (1 << 53) + 1])), DataType::Float64, true, Some("9007199254740993")),
            (Arc::new(Int64Array::from(vec![(1 << 53) + 1])), DataType::Float64, false, None),
            (Arc::new(Int64Array::from(vec![i64::MAX])), DataType::Float64, true, Some("9223372036854775807")),
            (Arc::new(UInt64Array::from(vec![u64::MAX])), DataType::Decimal128(20, 0), true, None),
            (Arc::new(Float64Array::from(vec![Some(2.0), None])), DataType::Int32, false, None),
            (Arc::new(Float64Array::from(vec![2.5])), DataType::Int32, false, Some("2.5")),
            (Arc::new(TimestampNanosecondArray::from(vec![1_000_000])), millis.clone(), true, None),
            (Arc::new(TimestampNanosecondArray::from(vec![1_000_001])), millis.clone(), true, Some("1970-01-01")),
            (Arc::new(TimestampNanosecondArray::from(vec![1_000_001])), millis, false, None),
            (decimals(vec![150]), DataType::Decimal128(10, 1), true, None),
            (decimals(vec![155]), DataType::Decimal128(10, 1), true, Some("1.55")),
            (Arc::new(Int64Array::from(vec![1 << 40])), DataType::Int32, true, Some("BIGINT")),
        ];
        for (column, to, exact, named) in cases {
            let converted = convert(&column, &to, exact).map_err(|error| error.to_string());
            match named {
                None => assert_eq!(converted.unwrap().data_type(), &to),
                Some(named) => {
                    let error = converted.unwrap_err();
                    assert!(error.contains(named), "{error}");
                }
            }
        }
    }

    #[test]
    fn members_go_by_name() {
        let own: Fields = vec![field("b", DataType::Int32), field("A", DataType::Int32)].into();
        let numbers = |values: Vec<i32>| -> ArrayRef { Arc::new(Int32Array::from(values)) };
        let nulls = Some(NullBuffer::from(vec![true, false, true]));
        let members = vec![numbers(vec![1, 2, 3]), numbers(vec![4, 5, 6])];
        let structs: ArrayRef = Arc::new(StructArray::try_new(own.clone(), members, nulls).unwrap());
        let fields: Fields =
            vec![field("a", DataType::Int64), field("c", DataType::Utf8), field("b", DataType::Float64)].into();
        let converted = convert(&structs, &DataType::Struct(fields.clone()), true).unwrap();
        let shown = |array: &ArrayRef| {
            let options = FormatOptions::default().with_null("-");
            let formatter = ArrayFormatter::try_new(array, &options).unwrap();
            (0..array.len()).map(|row| formatter.value(row).to_string()).collect::<Vec<_>>()
        };
        assert_eq!(shown(&converted), ["{a: 4, c: -, b: 1.0}", "-", "{a: 6, c: -, b: 3.0}"]);

        let offsets = OffsetBuffer::new(vec![0, 2, 2, 3].into());
        let list = ListArray::try_new(field("element", DataType::Struct(own)), offsets, structs, None).unwrap();
        let item = field("item", DataType::Struct(fields));
        let list: ArrayRef = Arc::new(list);
        for to in [DataType::List(Arc::clone(&item)), DataType::LargeList(item)] {
            let converted = convert(&list, &to, true).unwrap();
            assert_eq!(converted.data_type(), &to);
            assert_eq!(shown(&converted), ["[{a: 4, c: -, b: 1.0}, -]", "[]", "[{a: 6, c: -, b: 3.0}]"]);
        }
        let nothing = arrow::array::new_null_array(&DataType::Null, 2);
        assert_eq!(convert(&nothing, &DataType::Int64, true).unwrap().null_count(), 2);
    }
}
