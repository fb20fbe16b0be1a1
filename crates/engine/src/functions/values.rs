//! Functions of values of any type: `typeof`, `len`, `hash`, `bit_count`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray, UInt64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type, UInt64Type};
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::functions::unicode::character_length;
use datafusion::functions_nested::length::array_length_udf;
use datafusion::logical_expr::simplify::ExprSimplifyResult;
use datafusion::logical_expr::{ScalarUDF, cast as cast_to};
use pushdowndb_scan::{nested_type, sql_type};

use super::simple::Simple;

/// Returns the functions of this module.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let one = |types: &[DataType]| match types {
        [_] => Ok(types.to_vec()),
        _ => plan_err!("one argument is expected, not {}", types.len()),
    };
    let type_of = Simple {
        name: "typeof",
        takes: one,
        returns: |_| Ok(DataType::Utf8),
        compute: |args, rows| {
            let name = args.first().map(|values| type_name(values.data_type()));
            Ok(Arc::new(StringArray::from(vec![name; rows])))
        },
        simplify: None,
    };
    let len = Simple {
        name: "len",
        takes: |types| match types {
            [own] if own.is_list() => Ok(vec![own.clone()]),
            [DataType::Dictionary(_, own)] if own.is_string() => Ok(vec![own.as_ref().clone()]),
            [own] if own.is_string() => Ok(vec![own.clone()]),
            [DataType::Map(..) | DataType::Struct(_)] => {
                plan_err!("length takes a text or a list; cardinality takes a map")
            }
            [_] => Ok(vec![DataType::Utf8]),
            _ => plan_err!("length takes one text or list"),
        },
        returns: |types| match types {
            [own] => length_type(own),
            _ => plan_err!("length takes one text or list"),
        },
        compute: lengths,
        // Scans support the functions that a call is simplified to.
        simplify: Some(|args, info| {
            let [value] = args.as_slice() else { return Ok(ExprSimplifyResult::Original(args)) };
            Ok(ExprSimplifyResult::Simplified(match info.get_data_type(value)?.is_list() {
                true => cast_to(array_length_udf().call(args), DataType::Int64),
                false => character_length().call(args),
            }))
        }),
    };
    let hash = Simple {
        name: "hash",
        takes: |types| if types.is_empty() { plan_err!("hash takes one value or more") } else { Ok(types.to_vec()) },
        returns: |_| Ok(DataType::UInt64),
        compute: |args, rows| {
            let mut hashes = vec![0; rows];
            create_hashes(args, &RandomState::default(), &mut hashes)?;
            Ok(Arc::new(UInt64Array::from(hashes)))
        },
        simplify: None,
    };
    let bits = Simple {
        name: "bit_count",
        takes: |types| match types {
            [own] if own.is_integer() => Ok(types.to_vec()),
            [DataType::Null] => Ok(vec![DataType::Int64]),
            _ => plan_err!("bit_count takes a whole number"),
        },
        returns: |_| Ok(DataType::Int64),
        compute: bits,
        simplify: None,
    };
    vec![type_of.function(), len.function(), hash.function(), bits.function()]
}

/// Returns the SQL name of a type, including the types within it.
fn type_name(data_type: &DataType) -> String {
    nested_type(data_type, &|plain| match plain {
        DataType::Int32 => "INTEGER".to_owned(),
        other => sql_type(other),
    })
}

/// Returns the type of the length of a value: that of the function that computes the length.
fn length_type(data_type: &DataType) -> Result<DataType> {
    match data_type.is_list() {
        true => Ok(DataType::Int64),
        false => character_length().return_type(std::slice::from_ref(data_type)),
    }
}

fn lengths(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let Some(values) = args.first() else { return plan_err!("length takes one value") };
    let length = |row: usize| match values.data_type() {
        own if own.is_list() => match ScalarValue::try_from_array(values, row)? {
            ScalarValue::List(list) => Ok(Some(list.value(0).len())),
            ScalarValue::LargeList(list) => Ok(Some(list.value(0).len())),
            ScalarValue::FixedSizeList(list) => Ok(Some(list.value(0).len())),
            _ => Ok(None),
        },
        _ => match cast(&values.slice(row, 1), &DataType::Utf8)?.as_string::<i32>() {
            text if text.is_valid(0) => Ok(Some(text.value(0).chars().count())),
            _ => Ok(None),
        },
    };
    let lengths = (0..values.len()).map(|row| if values.is_null(row) { Ok(None) } else { length(row) });
    let lengths = lengths.map(|length| length.map(|length| length.and_then(|length| i64::try_from(length).ok())));
    let lengths = lengths.collect::<Result<Int64Array>>()?;
    Ok(cast(&lengths, &length_type(values.data_type())?)?)
}

fn bits(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let Some(values) = args.first() else { return plan_err!("bit_count takes one value") };
    // A negative number has as many bits as its own type.
    let width: u32 = match values.data_type() {
        DataType::Int8 => 8,
        DataType::Int16 => 16,
        DataType::Int32 => 32,
        _ => 64,
    };
    let unused = 64 - width;
    let count = |value: u64| i64::from((value << unused).count_ones());
    let counts: Int64Array = match values.data_type() {
        DataType::UInt64 => values.as_primitive::<UInt64Type>().unary(|value| i64::from(value.count_ones())),
        _ => cast(values, &DataType::Int64)?.as_primitive::<Int64Type>().unary(|value| count(value.cast_unsigned())),
    };
    Ok(Arc::new(counts))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Field;

    use super::*;

    #[test]
    fn types_have_names_of_sql() {
        let list = DataType::new_list(DataType::Int64, true);
        let fields = vec![Field::new("a", list, true), Field::new("b", DataType::Utf8View, true)];
        assert_eq!(type_name(&DataType::Struct(fields.into())), "STRUCT(a BIGINT[], b VARCHAR)");
        assert_eq!(type_name(&DataType::Decimal128(5, 2)), "DECIMAL(5,2)");
    }

    #[test]
    fn bits_are_those_of_the_type() {
        let counted = |values: ArrayRef| bits(&[values], 1).unwrap().as_primitive::<Int64Type>().value(0);
        assert_eq!(counted(Arc::new(datafusion::arrow::array::Int32Array::from(vec![-1]))), 32);
        assert_eq!(counted(Arc::new(Int64Array::from(vec![7]))), 3);
        assert_eq!(counted(Arc::new(UInt64Array::from(vec![u64::MAX]))), 64);
    }
}
