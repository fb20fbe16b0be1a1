//! One schema for several objects, or an error that says where they drift apart.
//!
//! Text shows only what its sample holds: a column of integers in one object and of decimals in the next is a column
//! of decimals, not drift. Names that differ, and types that only text could hold both of, are drift: reading on
//! would give rows that mean something else. `union_by_name` asks for all columns of all objects, by name.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use pushdown::{Error, Result};

/// A column as one object shows it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    /// `None` if every value was NULL, or there were none.
    pub(super) data_type: Option<DataType>,
}

/// How objects with different columns become one table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Merging {
    /// The same columns in the same order: CSV without names to go by.
    Positions,
    /// The same columns in any order: Parquet.
    SameNames,
    /// Records may lack fields anyway: JSON.
    Fields,
    /// `union_by_name`: all columns of all objects, widened to text if need be.
    Union,
}

const WAY_OUT: &str = "set OPTIONS ('union_by_name' 'true') to read all columns by name, or declare the columns";

/// Takes the columns of one more object into the table's; `first` and `other` are addresses.
pub(super) fn merge(
    table: &mut Vec<Column>,
    object: Vec<Column>,
    how: Merging,
    (first, other): (&str, &str),
) -> Result<()> {
    let drift = |difference: String| Error::invalid(format!("{first} and {other} differ: {difference}; {WAY_OUT}"));
    if how == Merging::Positions {
        if table.len() != object.len() {
            let counts = format!("the first has {} columns, the second {}", table.len(), object.len());
            return Err(drift(counts));
        }
        for (index, (a, b)) in table.iter().zip(&object).enumerate() {
            if a.name != b.name {
                let (a, b) = (&a.name, &b.name);
                return Err(drift(format!("column {} is '{a}' in the first and '{b}' in the second", index + 1)));
            }
        }
    }
    if how == Merging::SameNames {
        let missing = |from: &[Column], in_: &[Column]| {
            from.iter().find(|a| in_.iter().all(|b| a.name != b.name)).map(|column| column.name.clone())
        };
        if let Some(name) = missing(table, &object) {
            return Err(drift(format!("the second has no column '{name}'")));
        }
        if let Some(name) = missing(&object, table) {
            return Err(drift(format!("the first has no column '{name}'")));
        }
    }
    for column in object {
        let Some(known) = table.iter_mut().find(|known| known.name == column.name) else {
            table.push(column);
            continue;
        };
        known.data_type = match (known.data_type.take(), column.data_type) {
            (Some(a), Some(b)) if a == b => Some(a),
            (Some(a), Some(b)) => {
                let common = match how {
                    // Parquet declares its types: another type is another column, however near.
                    Merging::SameNames => None,
                    Merging::Union => widened(&a, &b).or_else(|| as_text(&a, &b)),
                    Merging::Positions | Merging::Fields => widened(&a, &b),
                };
                let Some(common) = common else {
                    return Err(drift(format!("column '{}' is {a} in the first and {b} in the second", column.name)));
                };
                Some(common)
            }
            (one, None) | (None, one) => one,
        };
    }
    Ok(())
}

/// The type that holds the values of both without loss of meaning.
fn widened(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::{Date32, Decimal128, Float64, Int64, Struct, Timestamp, UInt64};
    Some(match (a, b) {
        _ if a == b => a.clone(),
        _ if a.is_unsigned_integer() && b.is_unsigned_integer() => UInt64,
        (UInt64, other) | (other, UInt64) if other.is_signed_integer() => Decimal128(20, 0),
        _ if a.is_integer() && b.is_integer() => Int64,
        (Decimal128(p, s), Decimal128(q, t)) => {
            let scale = *s.max(t);
            let whole = (i16::from(*p) - i16::from(*s)).max(i16::from(*q) - i16::from(*t));
            Decimal128(u8::try_from(whole + i16::from(scale)).ok().filter(|precision| *precision <= 38)?, scale)
        }
        (decimal @ Decimal128(..), other) | (other, decimal @ Decimal128(..)) if other.is_integer() => {
            return widened(decimal, &Decimal128(20, 0));
        }
        _ if a.is_numeric() && b.is_numeric() => Float64,
        (Date32, Timestamp(unit, None)) | (Timestamp(unit, None), Date32) => Timestamp(*unit, None),
        (Timestamp(u, zone), Timestamp(v, other)) if zone == other => Timestamp(finer(*u, *v), zone.clone()),
        (Struct(a), Struct(b)) => {
            let mut fields: Vec<_> = a.iter().cloned().collect();
            for field in b {
                match fields.iter_mut().find(|known| known.name() == field.name()) {
                    Some(known) => {
                        let data_type = widened(known.data_type(), field.data_type())?;
                        *known = Arc::new(known.as_ref().clone().with_data_type(data_type));
                    }
                    None => fields.push(Arc::clone(field)),
                }
            }
            Struct(fields.into())
        }
        _ if a.is_string() && b.is_string() => DataType::Utf8,
        _ => return None,
    })
}

/// Text, which holds any plain value.
fn as_text(a: &DataType, b: &DataType) -> Option<DataType> {
    (!a.is_nested() && !b.is_nested()).then_some(DataType::Utf8)
}

fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    let order = [TimeUnit::Nanosecond, TimeUnit::Microsecond, TimeUnit::Millisecond, TimeUnit::Second];
    order.into_iter().find(|unit| *unit == a || *unit == b).unwrap_or(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(all: &[(&str, Option<DataType>)]) -> Vec<Column> {
        all.iter().map(|(name, t)| Column { name: name.to_string(), data_type: t.clone() }).collect()
    }

    fn merged(a: &[(&str, Option<DataType>)], b: &[(&str, Option<DataType>)], how: Merging) -> Result<Vec<Column>> {
        let mut table = columns(a);
        merge(&mut table, columns(b), how, ("s3://b/1", "s3://b/2"))?;
        Ok(table)
    }

    const INT: Option<DataType> = Some(DataType::Int64);
    const FLOAT: Option<DataType> = Some(DataType::Float64);
    const TEXT: Option<DataType> = Some(DataType::Utf8);

    #[test]
    fn samples_of_one_table_widen() {
        let table = merged(&[("a", INT), ("b", None)], &[("a", FLOAT), ("b", TEXT)], Merging::Positions).unwrap();
        assert_eq!(table, columns(&[("a", FLOAT), ("b", TEXT)]));
        let day = Some(DataType::Date32);
        let time = Some(DataType::Timestamp(TimeUnit::Microsecond, None));
        assert_eq!(merged(&[("a", day)], &[("a", time.clone())], Merging::Positions).unwrap(), columns(&[("a", time)]));
    }

    #[test]
    fn drift_names_both_and_the_way_out() {
        for (a, b, part) in [
            (vec![("a", INT)], vec![("a", INT), ("b", INT)], "the first has 1 columns, the second 2"),
            (
                vec![("a", INT), ("b", INT)],
                vec![("b", INT), ("a", INT)],
                "column 1 is 'a' in the first and 'b' in the second",
            ),
            (vec![("a", INT)], vec![("a", TEXT)], "column 'a' is Int64 in the first and Utf8 in the second"),
        ] {
            let error = merged(&a, &b, Merging::Positions).unwrap_err().to_string();
            assert!(
                error.contains(part) && error.contains("s3://b/1 and s3://b/2") && error.contains("union_by_name"),
                "{error}"
            );
        }
        let error = merged(&[("a", INT)], &[("b", INT)], Merging::SameNames).unwrap_err().to_string();
        assert!(error.contains("the second has no column 'a'"), "{error}");
        assert!(merged(&[("a", INT)], &[("a", FLOAT)], Merging::SameNames).is_err());
        assert!(merged(&[("a", INT), ("b", INT)], &[("b", INT), ("a", INT)], Merging::SameNames).is_ok());
    }

    #[test]
    fn a_union_has_every_column() {
        let table = merged(&[("a", INT), ("b", INT)], &[("c", TEXT), ("a", TEXT)], Merging::Union).unwrap();
        assert_eq!(table, columns(&[("a", TEXT), ("b", INT), ("c", TEXT)]));
        let decimals = |p, s| Some(DataType::Decimal128(p, s));
        let table = merged(&[("a", decimals(10, 2))], &[("a", decimals(12, 5))], Merging::Union).unwrap();
        assert_eq!(table, columns(&[("a", decimals(13, 5))]));
        let table = merged(&[("a", INT)], &[("a", decimals(10, 2))], Merging::Union).unwrap();
        assert_eq!(table, columns(&[("a", decimals(22, 2))]));
    }

    #[test]
    fn json_objects_may_lack_fields() {
        let object =
            |name: &str| Some(DataType::Struct(vec![arrow::datatypes::Field::new(name, DataType::Int64, true)].into()));
        let table = merged(&[("o", object("x"))], &[("o", object("y")), ("n", INT)], Merging::Fields).unwrap();
        assert_eq!(table.len(), 2);
        assert!(merged(&[("o", object("x"))], &[("o", INT)], Merging::Fields).is_err());
    }
}
