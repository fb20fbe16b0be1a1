//! Types of DuckDB and PostgreSQL that DataFusion 55.2 lacks, replaced by types that hold their
//! values.

use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType, ExactNumberInfo, TimezoneInfo};

/// Replaces `data_type`, and the types within it, by ones that the planner has.
pub(crate) fn known(data_type: &mut DataType) {
    let plain = match data_type {
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(inner, _)
            | ArrayElemTypeDef::AngleBracket(inner)
            | ArrayElemTypeDef::Parenthesis(inner),
        ) => return known(inner),
        DataType::Struct(fields, _) => return fields.iter_mut().for_each(|field| known(&mut field.field_type)),
        DataType::JSON
        | DataType::JSONB
        | DataType::Enum(..)
        | DataType::Uuid
        | DataType::Nvarchar(_)
        | DataType::Character(_)
        | DataType::CharacterVarying(_)
        | DataType::CharVarying(_)
        | DataType::CharacterLargeObject(_)
        | DataType::CharLargeObject(_)
        | DataType::Clob(_)
        | DataType::TinyText
        | DataType::MediumText
        | DataType::LongText => DataType::Text,
        DataType::Blob(_)
        | DataType::Binary(_)
        | DataType::Varbinary(_)
        | DataType::Bytes(_)
        | DataType::TinyBlob
        | DataType::MediumBlob
        | DataType::LongBlob => DataType::Bytea,
        DataType::HugeInt | DataType::UHugeInt | DataType::Int128 => {
            DataType::Decimal(ExactNumberInfo::PrecisionAndScale(38, 0))
        }
        DataType::UTinyInt | DataType::UInt8 => DataType::TinyIntUnsigned(None),
        DataType::USmallInt | DataType::UInt16 => DataType::SmallIntUnsigned(None),
        DataType::UInt32 => DataType::IntegerUnsigned(None),
        DataType::UBigInt | DataType::UInt64 => DataType::BigIntUnsigned(None),
        DataType::Int16 => DataType::SmallInt(None),
        DataType::Signed | DataType::SignedInteger | DataType::Int32 | DataType::MediumInt(_) => {
            DataType::Integer(None)
        }
        DataType::Unsigned | DataType::UnsignedInteger => DataType::IntegerUnsigned(None),
        DataType::Int64 => DataType::BigInt(None),
        DataType::Float32 => DataType::Real,
        DataType::Float64 => DataType::DoublePrecision,
        DataType::Dec(digits) => DataType::Decimal(*digits),
        DataType::Datetime(precision) => DataType::Timestamp(*precision, TimezoneInfo::None),
        DataType::Custom(name, arguments) if arguments.is_empty() => match of_name(&name.to_string()) {
            Some(plain) => plain,
            None => return,
        },
        _ => return,
    };
    *data_type = plain;
}

/// Returns the type for a name that the parser lacks; `None` for other names.
fn of_name(name: &str) -> Option<DataType> {
    let timestamp = |precision| DataType::Timestamp(Some(precision), TimezoneInfo::None);
    Some(match name.to_ascii_uppercase().as_str() {
        "BPCHAR" => DataType::Text,
        "LONG" | "OID" => DataType::BigInt(None),
        "SHORT" => DataType::SmallInt(None),
        "INT1" => DataType::TinyInt(None),
        "UINTEGER" => DataType::IntegerUnsigned(None),
        "LOGICAL" => DataType::Boolean,
        "TIMESTAMP_S" => timestamp(0),
        "TIMESTAMP_MS" => timestamp(3),
        "TIMESTAMP_US" => timestamp(6),
        "TIMESTAMP_NS" => timestamp(9),
        _ => return None,
    })
}
