//! Values of parameters from Arrow batches.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, IntervalUnit, Schema};
use pushdowndb_contract::{Error, Result};
use pushdowndb_engine::ParameterValue;

/// The types to plan a statement with, if its parameters get values from these columns. `None`, for
/// text and NULL, takes the type from the parameter's place in the statement. Other values keep
/// their own type, so that 5.5 is compared with integers as it is.
pub(super) fn types(columns: &Schema) -> Vec<Option<DataType>> {
    let known = columns.fields().iter().map(|field| match unpacked(field.data_type()) {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => None,
        DataType::Duration(_) => Some(DataType::Interval(IntervalUnit::MonthDayNano)),
        other => Some(other.clone()),
    });
    known.collect()
}

/// Converts the values of a row.
///
/// # Errors
///
/// A value has a type that SQL lacks.
pub(super) fn row(rows: &RecordBatch, row: usize) -> Result<Vec<ParameterValue>> {
    rows.columns().iter().map(|column| value(column, row)).collect()
}

fn unpacked(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => unpacked(values),
        other => other,
    }
}

fn value(column: &ArrayRef, row: usize) -> Result<ParameterValue> {
    let failed = |error: arrow::error::ArrowError| Error::invalid(format!("a value of a parameter: {error}"));
    if column.is_null(row) {
        return Ok(ParameterValue::Null);
    }
    let one = column.slice(row, 1);
    match column.data_type() {
        DataType::Null => Ok(ParameterValue::Null),
        DataType::Dictionary(_, values) => value(&cast(&one, values).map_err(failed)?, 0),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let bytes = cast(&one, &DataType::Binary).map_err(failed)?;
            Ok(ParameterValue::Bytes(bytes.as_binary::<i32>().value(0).to_vec()))
        }
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            let list = cast(&one, &DataType::LargeList(element.clone())).map_err(failed)?;
            let elements = list.as_list::<i64>().value(0);
            let values = (0..elements.len()).map(|at| value(&elements, at));
            Ok(ParameterValue::List(values.collect::<Result<_>>()?))
        }
        DataType::Duration(_) => {
            let interval = cast(&one, &DataType::Interval(IntervalUnit::MonthDayNano)).map_err(failed)?;
            value(&interval, 0)
        }
        _ => {
            let text = cast(&one, &DataType::Utf8).map_err(failed)?;
            Ok(ParameterValue::Text(text.as_string::<i32>().value(0).to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BinaryArray, Decimal128Array, Float64Array, Int64Array, ListArray, StringArray};
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn values_are_exact() {
        let decimals = Decimal128Array::from(vec![-1205]).with_precision_and_scale(5, 2).unwrap();
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1), None])]);
        let columns: [(&str, ArrayRef); 6] = [
            ("i", Arc::new(Int64Array::from(vec![i64::MIN]))),
            ("f", Arc::new(Float64Array::from(vec![0.1]))),
            ("d", Arc::new(decimals)),
            ("t", Arc::new(StringArray::from(vec!["it's"]))),
            ("b", Arc::new(BinaryArray::from(vec![b"\x00\xff".as_slice()]))),
            ("l", Arc::new(lists)),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let text = |text: &str| ParameterValue::Text(text.to_owned());
        assert_eq!(
            row(&rows, 0).unwrap(),
            [
                text("-9223372036854775808"),
                text("0.1"),
                text("-12.05"),
                text("it's"),
                ParameterValue::Bytes(vec![0, 255]),
                ParameterValue::List(vec![text("1"), ParameterValue::Null]),
            ]
        );
        assert_eq!(types(rows.schema_ref())[..2], [Some(DataType::Int64), Some(DataType::Float64)]);
        assert_eq!(types(rows.schema_ref())[3], None, "a text has the type of its place");
    }
}
