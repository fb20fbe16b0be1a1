//! Names and properties of types.

use arrow::datatypes::{DataType, FieldRef, Fields};

/// Returns the SQL name of a type, such as `DECIMAL(15,2)` or `DATE`.
pub fn sql_type(data_type: &DataType) -> String {
    nested_type(data_type, &plain_type)
}

/// Returns the SQL name of a type, such as `STRUCT(a BIGINT, b VARCHAR[])`. `plain` returns the
/// names of the types without nested types.
pub fn nested_type(data_type: &DataType, plain: &dyn Fn(&DataType) -> String) -> String {
    let list = |item: &DataType, length: &str| format!("{}[{length}]", nested_type(item, plain));
    let fields = |fields: &Fields, named: bool| {
        let field = |field: &FieldRef| match (named, nested_type(field.data_type(), plain)) {
            (true, own) => format!("{} {own}", field.name()),
            (false, own) => own,
        };
        fields.iter().map(field).collect::<Vec<_>>().join(", ")
    };
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::ListView(item) | DataType::LargeListView(item) => {
            list(item.data_type(), "")
        }
        DataType::FixedSizeList(item, length) => list(item.data_type(), &length.to_string()),
        DataType::Struct(own) => format!("STRUCT({})", fields(own, true)),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(own) => format!("MAP({})", fields(own, false)),
            other => format!("MAP({})", nested_type(other, plain)),
        },
        DataType::Dictionary(_, values) => nested_type(values, plain),
        other => plain(other),
    }
}

/// Returns the SQL name of a type without nested types.
fn plain_type(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::UInt8 => "TINYINT UNSIGNED".into(),
        DataType::UInt16 => "SMALLINT UNSIGNED".into(),
        DataType::UInt32 => "INT UNSIGNED".into(),
        DataType::UInt64 => "BIGINT UNSIGNED".into(),
        DataType::Float32 => "REAL".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => format!("DECIMAL({p},{s})"),
        DataType::Date32 | DataType::Date64 => "DATE".into(),
        DataType::Timestamp(_, None) => "TIMESTAMP".into(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".into(),
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL".into(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "BYTEA".into()
        }
        DataType::Null => "NULL".into(),
        other => other.to_string(),
    }
}

/// Returns whether the type is an integer or a decimal; these are compared with each other without
/// rounding.
pub(crate) fn is_exact_number(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Decimal128(..))
}
