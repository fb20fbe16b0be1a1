//! Assumed widths of values, for columns without measured ones.

use arrow::datatypes::DataType;

/// Returns the assumed bytes of a value of this type as text, including its delimiter.
pub(crate) fn column_bytes(data_type: &DataType) -> u64 {
    match data_type {
        DataType::Boolean => 5,
        DataType::Int8 | DataType::UInt8 | DataType::Int16 | DataType::UInt16 => 4,
        DataType::Int32 | DataType::UInt32 | DataType::Int64 | DataType::UInt64 => 8,
        DataType::Date32 | DataType::Date64 => 11,
        DataType::Timestamp(..) => 24,
        DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::Float32 | DataType::Float64 => 9,
        _ => 18,
    }
}
