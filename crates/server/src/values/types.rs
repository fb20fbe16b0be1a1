//! PostgreSQL's types of columns and parameters.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};

/// The key in the metadata of a field that names an alias of `oid`, such as `regclass`.
const OID_ALIAS: &str = "pg.oid_alias";

/// The key in the metadata of a field that marks PostgreSQL's type `"char"`.
const CHAR: &str = "pg.char";

/// A scalar type.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scalar {
    Bool,
    Bytea,
    /// One byte, `"char"`.
    Char,
    Int8,
    Int2,
    Int4,
    Text,
    /// `oid` and its aliases such as `regclass`, with the `oid` of the type itself.
    Oid(u32),
    Json,
    Float4,
    Float8,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
    Numeric,
}

/// The type of a column or parameter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PgType {
    /// The type of the values, or of the elements of an array.
    pub scalar: Scalar,
    /// Whether it is an array.
    pub is_array: bool,
    /// The type modifier: precision and scale of a decimal, -1 for other types.
    pub modifier: i32,
}

impl Scalar {
    fn oid(self) -> u32 {
        match self {
            Self::Bool => 16,
            Self::Bytea => 17,
            Self::Char => 18,
            Self::Int8 => 20,
            Self::Int2 => 21,
            Self::Int4 => 23,
            Self::Text => 25,
            Self::Oid(oid) => oid,
            Self::Json => 114,
            Self::Float4 => 700,
            Self::Float8 => 701,
            Self::Date => 1082,
            Self::Time => 1083,
            Self::Timestamp => 1114,
            Self::TimestampTz => 1184,
            Self::Interval => 1186,
            Self::Numeric => 1700,
        }
    }

    fn array_oid(self) -> u32 {
        match self {
            Self::Bool => 1000,
            Self::Bytea => 1001,
            Self::Char => 1002,
            Self::Int2 => 1005,
            Self::Int4 => 1007,
            Self::Text => 1009,
            Self::Int8 => 1016,
            Self::Float4 => 1021,
            Self::Float8 => 1022,
            Self::Oid(_) => 1028,
            Self::Timestamp => 1115,
            Self::Date => 1182,
            Self::Time => 1183,
            Self::TimestampTz => 1185,
            Self::Interval => 1187,
            Self::Numeric => 1231,
            Self::Json => 199,
        }
    }

    /// Bytes of a value; -1 for types of variable length.
    fn size(self) -> i16 {
        match self {
            Self::Bool | Self::Char => 1,
            Self::Int2 => 2,
            Self::Int4 | Self::Float4 | Self::Date | Self::Oid(_) => 4,
            Self::Int8 | Self::Float8 | Self::Time | Self::Timestamp | Self::TimestampTz => 8,
            Self::Interval => 16,
            Self::Bytea | Self::Text | Self::Json | Self::Numeric => -1,
        }
    }

    /// The PostgreSQL type for values of an Arrow type.
    fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Bool,
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => Self::Int2,
            DataType::UInt16 | DataType::Int32 => Self::Int4,
            DataType::UInt32 | DataType::Int64 => Self::Int8,
            DataType::Float16 | DataType::Float32 => Self::Float4,
            DataType::Float64 => Self::Float8,
            DataType::UInt64
            | DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => Self::Numeric,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Self::Bytea
            }
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Time32(_) | DataType::Time64(_) => Self::Time,
            DataType::Timestamp(_, None) => Self::Timestamp,
            DataType::Timestamp(_, Some(_)) => Self::TimestampTz,
            DataType::Interval(_) | DataType::Duration(_) => Self::Interval,
            DataType::Dictionary(_, values) => Self::of(values),
            DataType::RunEndEncoded(_, values) => Self::of(values.data_type()),
            DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            // Structures, maps and lists of lists.
            _ => Self::Json,
        }
    }
}

impl PgType {
    /// A scalar type.
    pub const fn scalar(scalar: Scalar) -> Self {
        Self { scalar, is_array: false, modifier: -1 }
    }

    /// The type of a column.
    pub fn of_field(field: &Field) -> Self {
        if let Some(alias) = field.metadata().get(OID_ALIAS).filter(|_| *field.data_type() == DataType::Int32) {
            return Self::scalar(Scalar::Oid(alias_oid(alias)));
        }
        if field.metadata().contains_key(CHAR) {
            return Self::scalar(Scalar::Char);
        }
        Self::of(field.data_type())
    }

    /// The PostgreSQL type for values of an Arrow type.
    pub fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::List(element)
            | DataType::LargeList(element)
            | DataType::FixedSizeList(element, _)
            | DataType::ListView(element)
            | DataType::LargeListView(element) => match Scalar::of(element.data_type()) {
                Scalar::Json => Self::scalar(Scalar::Json),
                scalar if element.data_type().is_nested() => {
                    // Queries do not return dictionaries of lists.
                    debug_assert!(false, "{data_type}");
                    Self::scalar(scalar)
                }
                scalar => Self { scalar, is_array: true, modifier: -1 },
            },
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale)
                if *scale >= 0 =>
            {
                let modifier = ((i32::from(*precision) << 16) | i32::from(*scale)) + 4;
                Self { scalar: Scalar::Numeric, is_array: false, modifier }
            }
            other => Self::scalar(Scalar::of(other)),
        }
    }

    /// The `oid` of the type in `pg_type`.
    pub fn oid(self) -> u32 {
        if self.is_array { self.scalar.array_oid() } else { self.scalar.oid() }
    }

    /// Bytes of a value; -1 for types of variable length.
    pub fn size(self) -> i16 {
        if self.is_array { -1 } else { self.scalar.size() }
    }
}

fn alias_oid(alias: &str) -> u32 {
    match alias {
        "regproc" => 24,
        "regprocedure" => 2202,
        "regoper" => 2203,
        "regoperator" => 2204,
        "regclass" => 2205,
        "regtype" => 2206,
        "regconfig" => 3734,
        "regdictionary" => 3769,
        "regnamespace" => 4089,
        "regrole" => 4096,
        "regcollation" => 4191,
        _ => 26,
    }
}

/// The type of a decimal parameter whose precision and scale are unknown.
const ANY_DECIMAL: DataType = DataType::Decimal128(38, 10);

/// The Arrow type for a parameter of PostgreSQL's type `oid`. Returns `None` for 0, `unknown` and
/// other types that only the statement determines.
pub(crate) fn of_parameter(oid: u32) -> Option<DataType> {
    let list = |element: DataType| DataType::List(Arc::new(Field::new_list_field(element, true)));
    Some(match oid {
        16 => DataType::Boolean,
        17 => DataType::Binary,
        20 | 26 => DataType::Int64,
        21 => DataType::Int16,
        23 => DataType::Int32,
        18 | 19 | 25 | 114 | 1042 | 1043 | 2950 | 3802 => DataType::Utf8,
        700 => DataType::Float32,
        701 => DataType::Float64,
        1082 => DataType::Date32,
        1083 => DataType::Time64(TimeUnit::Nanosecond),
        1114 => DataType::Timestamp(TimeUnit::Microsecond, None),
        1184 => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        1186 => DataType::Interval(IntervalUnit::MonthDayNano),
        1700 => ANY_DECIMAL,
        1000 => list(DataType::Boolean),
        1005 => list(DataType::Int16),
        1007 => list(DataType::Int32),
        1016 | 1028 => list(DataType::Int64),
        1002 | 1003 | 1009 | 1014 | 1015 | 2951 => list(DataType::Utf8),
        1021 => list(DataType::Float32),
        1022 => list(DataType::Float64),
        1231 => list(ANY_DECIMAL),
        1182 => list(DataType::Date32),
        1115 => list(DataType::Timestamp(TimeUnit::Microsecond, None)),
        1185 => list(DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_postgres_types() {
        let oid = |data_type: DataType| PgType::of(&data_type).oid();
        assert_eq!(oid(DataType::UInt64), 1700, "int8 has no room for it");
        assert_eq!(oid(DataType::new_list(DataType::Int64, true)), 1016);
        assert_eq!(oid(DataType::new_list(DataType::new_list(DataType::Int64, true), true)), 114);
        assert_eq!(oid(DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))), 1184);
        assert_eq!(PgType::of(&DataType::Decimal128(15, 2)).modifier, (15 << 16 | 2) + 4);
    }

    #[test]
    fn types_of_parameters_are_types_of_columns() {
        for oid in [16, 17, 20, 21, 23, 25, 700, 701, 1082, 1083, 1114, 1184, 1186, 1700, 1007, 1009, 1016, 1231] {
            assert_eq!(PgType::of(&of_parameter(oid).unwrap()).oid(), oid);
        }
        assert_eq!(of_parameter(0), None);
        assert_eq!(of_parameter(705), None);
    }
}
