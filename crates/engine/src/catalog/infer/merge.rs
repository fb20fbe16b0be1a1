//! Merging of the schemas of several objects, or an error that says where they differ.
//!
//! A sample of text need not show all values: integers in one object and decimals in the next are a
//! column of decimals, and digits that are text in one object (`01247`) are text in all. Different
//! names, and types that only text could hold both of, are an error: rows would mean something
//! else. `union_by_name` asks for all columns of all objects, by name.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use pushdowndb_contract::{Error, Result};

use super::value::Looks;

/// A column of one object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// `None` if every value was NULL, or there were none.
    pub(crate) data_type: Option<DataType>,
    /// The looks of its values, if they are text.
    pub(crate) seen: Looks,
}

/// How objects with different columns become one table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Merging {
    /// The same columns in the same order: CSV without a header.
    Positions,
    /// The same columns in any order: Parquet.
    SameNames,
    /// `union_by_name`: all columns of all objects, widened to text if need be.
    Union,
}

const WAY_OUT: &str = "set OPTIONS ('union_by_name' 'true') to read all columns by name, or declare the columns";

/// Merges the columns of one more object into the table's; `first` and `other` are addresses.
pub(crate) fn merge(
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
        known.seen = known.seen.union(column.seen);
        known.data_type = match (known.data_type.take(), column.data_type) {
            (Some(_), Some(_)) if known.seen.are_digits() => known.seen.data_type(),
            (Some(a), Some(b)) if a == b => Some(a),
            (Some(a), Some(b)) => {
                let common = match how {
                    // Parquet declares its types, so similar types are different columns.
                    Merging::SameNames => None,
                    Merging::Union => widened(&a, &b).or_else(|| as_text(&a, &b)),
                    Merging::Positions => widened(&a, &b),
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
        let column = |(name, t): &(&str, Option<DataType>)| Column {
            name: name.to_string(),
            data_type: t.clone(),
            seen: Looks::default(),
        };
        all.iter().map(column).collect()
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
    fn digits_are_numbers_or_text_in_all_objects() {
        let column = |values: &[&str]| {
            let mut seen = Looks::default();
            values.iter().for_each(|value| seen.add(value));
            vec![Column { name: "a".into(), data_type: seen.data_type(), seen }]
        };
        for (first, second, expected) in [
            (vec!["94107"], vec!["01247"], TEXT),
            (vec!["01247"], vec!["94107"], TEXT),
            (vec!["1.5"], vec!["007"], TEXT),
            (vec!["1"], vec!["9223372036854775808"], TEXT),
            (vec!["1.5"], vec!["9007199254740993"], TEXT),
            (vec!["1"], vec!["9007199254740993"], INT),
            (vec!["1.5"], vec!["2"], FLOAT),
        ] {
            for how in [Merging::Positions, Merging::Union] {
                let mut table = column(&first);
                merge(&mut table, column(&second), how, ("1", "2")).unwrap();
                assert_eq!(table[0].data_type, expected, "{first:?} {second:?}");
            }
        }
        assert!(merge(&mut column(&["1"]), column(&["x"]), Merging::Positions, ("1", "2")).is_err());
    }
}
