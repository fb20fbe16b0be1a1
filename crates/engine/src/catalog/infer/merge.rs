//! Merging of the schemas of several objects, or an error that says where they differ.
//!
//! A sample of text need not show all values: integers in one object and decimals in the next are a
//! column of decimals, and digits that are text in one object (`01247`) are text in all. Columns of
//! a header and of Parquet are merged by name, in any order; an object may lack some. Names that
//! differ in case alone are one column, unless an object has both.

use std::collections::{HashMap, HashSet};

use arrow::datatypes::DataType;
use pushdowndb_contract::{Error, Result};
use pushdowndb_scan::sql_type;

use super::value::Looks;
use super::widen::widened;

/// A column of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// `None` if every value was NULL, or there were none.
    pub(crate) data_type: Option<DataType>,
    /// What its values look like, if objects hold them as text.
    pub(crate) seen: Looks,
    /// Whether objects or JSON records differ in its type, or some of them lack it.
    pub(crate) mixed: bool,
}

/// How objects with different columns become one table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Merging {
    pub(crate) names: Names,
    pub(crate) types: Types,
}

/// How columns of objects are matched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Names {
    /// The same columns in the same order.
    Positions,
    /// As [`Self::Positions`], but an object may have fewer or more columns at its end.
    Ragged,
    /// The same columns in any order.
    Same,
    /// All columns of all objects. Each object must share at least one with those before it.
    Related,
    /// All columns of all objects.
    Union,
}

/// Which types a column may have in different objects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Types {
    /// The same type in all objects.
    Same,
    /// Types with a common type that holds the values of all.
    Wide,
    /// Any types. Those without a common one become text, unless they are nested or binary.
    Text,
}

/// Merges the columns of one more object into the table's. `first` and `other` are the addresses of
/// the table's first object and of this one, for errors.
pub(crate) fn merge(
    table: &mut Vec<Column>,
    object: Vec<Column>,
    how: Merging,
    (first, other): (&str, &str),
) -> Result<()> {
    let way_out = match how {
        Merging { names: Names::Union, .. } => "declare the columns with CREATE EXTERNAL TABLE",
        _ => {
            "set OPTIONS ('union_by_name' 'true') to read all columns by name, and as text what has no other type in \
             common, or declare the columns"
        }
    };
    let drift = |difference: String| Error::invalid(format!("{first} and {other} differ: {difference}; {way_out}"));
    check_names(table, &object, how.names).map_err(drift)?;
    let places = match how.names {
        Names::Positions | Names::Ragged => (0..object.len()).map(Some).collect(),
        Names::Same | Names::Related | Names::Union => places(table, &object),
    };
    let mut found = vec![false; table.len()];
    for (mut column, place) in object.into_iter().zip(places) {
        let Some(known) = place.and_then(|place| table.get_mut(place)) else {
            column.mixed = true;
            table.push(column);
            continue;
        };
        if let Some(found) = place.and_then(|place| found.get_mut(place)) {
            *found = true;
        }
        known.mixed |= column.mixed || known.data_type != column.data_type || known.name != column.name;
        known.seen = known.seen.union(column.seen);
        known.data_type = match (known.data_type.take(), column.data_type) {
            (Some(_), Some(_)) if known.seen.are_digits() => known.seen.data_type(),
            (Some(a), Some(b)) if a == b => Some(a),
            (Some(a), Some(b)) => {
                let common = match how.types {
                    Types::Same => None,
                    Types::Wide => widened(&a, &b),
                    Types::Text => widened(&a, &b).or_else(|| as_text(&a, &b)),
                };
                let Some(common) = common else {
                    let (a, b) = (sql_type(&a), sql_type(&b));
                    return Err(drift(format!("column '{}' is {a} in the first and {b} in the second", known.name)));
                };
                Some(common)
            }
            (one, None) | (None, one) => one,
        };
    }
    for (known, _) in table.iter_mut().zip(&found).filter(|(_, found)| !**found) {
        known.mixed = true;
    }
    Ok(())
}

/// Checks that the column names of `object` can be merged with those of `table`. The error says how
/// they differ.
fn check_names(table: &[Column], object: &[Column], names: Names) -> Result<(), String> {
    if names == Names::Positions && table.len() != object.len() {
        return Err(format!("the first has {} columns, the second {}", table.len(), object.len()));
    }
    if let Names::Positions | Names::Ragged = names {
        for (index, (a, b)) in table.iter().zip(object).enumerate() {
            if a.name != b.name {
                let (a, b) = (&a.name, &b.name);
                return Err(format!("column {} is '{a}' in the first and '{b}' in the second", index + 1));
            }
        }
    }
    if names == Names::Same {
        let missing = |from: &[Column], in_: &[Column]| {
            from.iter().find(|a| in_.iter().all(|b| a.name != b.name)).map(|column| column.name.clone())
        };
        if let Some(name) = missing(table, object) {
            return Err(format!("the second has no column '{name}'"));
        }
        if let Some(name) = missing(object, table) {
            return Err(format!("the first has no column '{name}'"));
        }
    }
    if names == Names::Related && places(table, object).iter().all(Option::is_none) {
        // Most likely, the first record was read as a header and is none.
        let shown = object.iter().map(|column| column.name.as_str()).take(8).collect::<Vec<_>>().join("', '");
        return Err(format!("the second has none of the columns of the first, but '{shown}'"));
    }
    Ok(())
}

/// Returns for each column of `object` its index in `table`: that of the same name, or else of the
/// only name that differs in case alone, unless one of the two has both names.
fn places(table: &[Column], object: &[Column]) -> Vec<Option<usize>> {
    let known: HashMap<&str, usize> =
        table.iter().enumerate().map(|(place, column)| (column.name.as_str(), place)).collect();
    let own: HashSet<&str> = object.iter().map(|column| column.name.as_str()).collect();
    let mut folded: HashMap<String, Vec<usize>> = HashMap::new();
    for (place, column) in table.iter().enumerate() {
        folded.entry(column.name.to_lowercase()).or_default().push(place);
    }
    let mut alike: HashMap<String, usize> = HashMap::new();
    for column in object {
        *alike.entry(column.name.to_lowercase()).or_default() += 1;
    }
    let place = |column: &Column| {
        known.get(column.name.as_str()).copied().or_else(|| {
            let name = column.name.to_lowercase();
            match folded.get(&name).map(Vec::as_slice) {
                Some([place]) if alike.get(&name) == Some(&1) => {
                    table.get(*place).filter(|known| !own.contains(known.name.as_str())).map(|_| *place)
                }
                _ => None,
            }
        })
    };
    object.iter().map(place).collect()
}

/// Returns text as the common type, if neither type is nested or binary.
fn as_text(a: &DataType, b: &DataType) -> Option<DataType> {
    let is_plain = |of: &DataType| !of.is_nested() && !of.is_binary();
    (is_plain(a) && is_plain(b)).then_some(DataType::Utf8)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    const POSITIONS: Merging = Merging { names: Names::Positions, types: Types::Wide };
    const SAME: Merging = Merging { names: Names::Same, types: Types::Same };
    const RELATED: Merging = Merging { names: Names::Related, types: Types::Wide };
    const UNION: Merging = Merging { names: Names::Union, types: Types::Text };

    fn columns(all: &[(&str, Option<DataType>)]) -> Vec<Column> {
        let column = |(name, t): &(&str, Option<DataType>)| Column {
            name: name.to_string(),
            data_type: t.clone(),
            ..Column::default()
        };
        all.iter().map(column).collect()
    }

    /// The names and types alone.
    fn plain(table: Vec<Column>) -> Vec<Column> {
        table.into_iter().map(|column| Column { mixed: false, ..column }).collect()
    }

    fn merged(a: &[(&str, Option<DataType>)], b: &[(&str, Option<DataType>)], how: Merging) -> Result<Vec<Column>> {
        let mut table = columns(a);
        merge(&mut table, columns(b), how, ("s3://b/1", "s3://b/2"))?;
        Ok(plain(table))
    }

    const INT: Option<DataType> = Some(DataType::Int64);
    const FLOAT: Option<DataType> = Some(DataType::Float64);
    const TEXT: Option<DataType> = Some(DataType::Utf8);

    #[test]
    fn samples_of_one_table_widen() {
        let table = merged(&[("a", INT), ("b", None)], &[("a", FLOAT), ("b", TEXT)], POSITIONS).unwrap();
        assert_eq!(table, columns(&[("a", FLOAT), ("b", TEXT)]));
        let day = Some(DataType::Date32);
        let time = Some(DataType::Timestamp(TimeUnit::Microsecond, None));
        assert_eq!(merged(&[("a", day)], &[("a", time.clone())], POSITIONS).unwrap(), columns(&[("a", time)]));
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
            (vec![("a", INT)], vec![("a", TEXT)], "column 'a' is BIGINT in the first and VARCHAR in the second"),
        ] {
            let error = merged(&a, &b, POSITIONS).unwrap_err().to_string();
            assert!(
                error.contains(part) && error.contains("s3://b/1 and s3://b/2") && error.contains("union_by_name"),
                "{error}"
            );
        }
        let error = merged(&[("a", INT)], &[("b", INT)], SAME).unwrap_err().to_string();
        assert!(error.contains("the second has no column 'a'"), "{error}");
        assert!(merged(&[("a", INT)], &[("a", FLOAT)], SAME).is_err());
        assert!(merged(&[("a", INT), ("b", INT)], &[("b", INT), ("a", INT)], SAME).is_ok());
    }

    #[test]
    fn a_union_has_every_column() {
        let table = merged(&[("a", INT), ("b", INT)], &[("c", TEXT), ("a", TEXT)], UNION).unwrap();
        assert_eq!(table, columns(&[("a", TEXT), ("b", INT), ("c", TEXT)]));
        let decimals = |p, s| Some(DataType::Decimal128(p, s));
        let table = merged(&[("a", decimals(10, 2))], &[("a", decimals(12, 5))], UNION).unwrap();
        assert_eq!(table, columns(&[("a", decimals(13, 5))]));
        let table = merged(&[("a", INT)], &[("a", decimals(10, 2))], UNION).unwrap();
        assert_eq!(table, columns(&[("a", decimals(21, 2))]));
    }

    #[test]
    fn columns_are_found_by_name() {
        let table = merged(&[("Fee", INT), ("b", TEXT)], &[("b", None), ("fee", FLOAT)], RELATED).unwrap();
        assert_eq!(table, columns(&[("Fee", FLOAT), ("b", TEXT)]));
        // An object with both keeps them apart.
        let table = merged(&[("a", INT)], &[("A", TEXT), ("a", INT)], RELATED).unwrap();
        assert_eq!(table, columns(&[("a", INT), ("A", TEXT)]));
        let table = merged(&[("a", INT), ("A", TEXT)], &[("a", INT)], RELATED).unwrap();
        assert_eq!(table, columns(&[("a", INT), ("A", TEXT)]));
        let error = merged(&[("id", INT), ("name", TEXT)], &[("7", INT), ("x", TEXT)], RELATED).unwrap_err();
        assert!(error.to_string().contains("s3://b/1 and s3://b/2 differ: the second has none of the columns"));
        let error = merged(&[("a", INT)], &[("a", TEXT)], RELATED).unwrap_err().to_string();
        assert!(error.contains("column 'a' is BIGINT in the first and VARCHAR in the second"), "{error}");
    }

    #[test]
    fn what_differs_is_marked() {
        let marks = |a: &[(&str, Option<DataType>)], b: &[(&str, Option<DataType>)]| {
            let mut table = columns(a);
            merge(&mut table, columns(b), RELATED, ("1", "2")).unwrap();
            merge(&mut table, columns(b), RELATED, ("1", "3")).unwrap();
            table.into_iter().filter(|column| column.mixed).map(|column| column.name).collect::<Vec<_>>()
        };
        assert!(marks(&[("a", INT), ("b", TEXT)], &[("b", TEXT), ("a", INT)]).is_empty());
        assert_eq!(marks(&[("a", INT), ("b", TEXT), ("c", None)], &[("a", FLOAT), ("c", INT), ("d", INT)]).len(), 4);
        assert_eq!(marks(&[("a", INT), ("b", INT)], &[("b", INT), ("A", INT)]), ["a"]);
    }

    #[test]
    fn digits_are_numbers_or_text_in_all_objects() {
        let column = |values: &[&str]| {
            let mut seen = Looks::default();
            values.iter().for_each(|value| seen.add(value));
            vec![Column { name: "a".into(), data_type: seen.data_type(), seen, mixed: false }]
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
            for how in [POSITIONS, UNION] {
                let mut table = column(&first);
                merge(&mut table, column(&second), how, ("1", "2")).unwrap();
                assert_eq!(table[0].data_type, expected, "{first:?} {second:?}");
            }
        }
        assert!(merge(&mut column(&["1"]), column(&["x"]), POSITIONS, ("1", "2")).is_err());
    }
}
