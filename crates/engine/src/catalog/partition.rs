//! Partition columns, whose values stand in the path: `year=2024/month=01/part-0.csv`.
//!
//! Columns come from the folders below the location's prefix. If the location is an object or a
//! glob, the folders of the prefix give columns, too, unless the objects have a column of the name.
//! Values are percent-decoded. `__HIVE_DEFAULT_PARTITION__` is NULL, and so is an empty value
//! unless the column is text. Undeclared columns are BIGINT or DATE if every value keeps its
//! digits, else text: `zip=01234` is text, and so is `month=01`, which `month = 1` finds
//! nevertheless. All objects of a table have the same keys: an object without a declared one is an
//! error.
//!
//! Predicates over these columns alone are exact, and objects that they rule out are never
//! requested.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use chrono::NaiveDate;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::datasource::listing::helpers::expr_applicable_for_cols;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::physical_expr::{PhysicalExprRef, create_physical_expr};
use percent_encoding::percent_decode_str;
use pushdowndb_contract::{Error, Result};

use super::{DataObject, TableLocation};
use crate::error::from_datafusion;

/// Hive's spelling of NULL in a path.
pub(crate) const HIVE_NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Returns the `key=value` folders of a path below the location. The value NULL is `None`.
fn pairs(location: &TableLocation, object: &DataObject) -> Vec<(String, Option<String>)> {
    let below = location.relative(&object.path).unwrap_or_default();
    pairs_in(below.rsplit_once('/').map_or("", |(folders, _)| folders))
}

/// The `key=value` folders among `folders`.
fn pairs_in(folders: &str) -> Vec<(String, Option<String>)> {
    folders
        .split('/')
        .filter_map(|folder| folder.split_once('='))
        .filter(|(key, _)| !key.is_empty())
        .map(|(key, value)| (percent_decoded(key), (value != HIVE_NULL).then(|| percent_decoded(value))))
        .collect()
}

/// Returns the columns of the folders in a location's prefix, whose values all objects share,
/// except those whose names are `taken`.
pub(crate) fn fixed(location: &TableLocation, taken: &dyn Fn(&str) -> bool) -> Vec<FieldRef> {
    let pairs = pairs_in(&location.written_folders());
    let mut columns: Vec<FieldRef> = Vec::new();
    for (name, value) in pairs {
        if !taken(&name) && columns.iter().all(|column| *column.name() != name) {
            let values = value.as_deref().into_iter().filter(|value| !value.is_empty());
            columns.push(Arc::new(Field::new(name, type_of(values), true)));
        }
    }
    columns
}

/// Returns the columns that the objects' paths have, with their types; empty if no path has any.
/// Fails if the paths differ in their columns.
pub(crate) fn discover(location: &TableLocation, objects: &[DataObject]) -> Result<Vec<FieldRef>> {
    let all: Vec<_> = objects.iter().map(|object| pairs(location, object)).collect();
    let Some((first, rest)) = all.split_first() else { return Ok(Vec::new()) };
    let names = |pairs: &[(String, Option<String>)]| pairs.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let expected = names(first);
    for (found, object) in rest.iter().zip(objects.iter().skip(1)) {
        if names(found) != expected {
            let shown = |names: Vec<String>| if names.is_empty() { "none".into() } else { names.join(", ") };
            let first = objects.first().map(|o| location.address(&o.path)).unwrap_or_default();
            return Err(Error::invalid(format!(
                "{first} has the partition columns {}, {} has {}: narrow the location with a glob, or set OPTIONS \
                 ('hive_partitioning' 'false') to read them without",
                shown(expected),
                location.address(&object.path),
                shown(names(found)),
            )));
        }
    }
    let mut seen = HashSet::new();
    if let Some(twice) = expected.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(Error::invalid(format!("{location}: the partition column '{twice}' stands twice in the path")));
    }
    let field = |(index, name): (usize, &String)| {
        let values = all.iter().filter_map(|pairs| pairs.get(index)?.1.as_deref()).filter(|value| !value.is_empty());
        Arc::new(Field::new(name, type_of(values), true))
    };
    Ok(expected.iter().enumerate().map(field).collect())
}

/// Returns the narrowest type that holds all values.
fn type_of<'a>(values: impl Iterator<Item = &'a str> + Clone) -> DataType {
    let mut some = values.clone().peekable();
    if some.peek().is_none() {
        DataType::Utf8
    } else if values.clone().all(is_integer) {
        DataType::Int64
    } else if values.clone().all(|value| value.len() == 10 && value.parse::<NaiveDate>().is_ok()) {
        DataType::Date32
    } else {
        DataType::Utf8
    }
}

/// Returns whether a value is an integer in canonical form, such as `7`, but not `07` or `+7`.
fn is_integer(value: &str) -> bool {
    value.parse::<i64>().is_ok_and(|integer| integer.to_string() == value)
}

/// Sets each object's values of the partition columns.
///
/// The column `filename`, if there is one, holds each object's address.
pub(crate) fn assign(
    location: &TableLocation,
    objects: &mut [DataObject],
    columns: &[FieldRef],
    filename: Option<&str>,
) -> Result<()> {
    let above = pairs_in(&location.written_folders());
    for object in objects {
        let mut pairs = pairs(location, object);
        pairs.extend_from_slice(&above);
        object.partition_values = columns
            .iter()
            .map(|column| {
                if filename == Some(column.name()) {
                    return Ok(ScalarValue::Utf8(Some(location.address(&object.path))));
                }
                let found = pairs.iter().find(|(key, _)| key == column.name());
                let place = || location.address(&object.path);
                match found {
                    None => Err(Error::invalid(format!(
                        "{}: the table is partitioned by '{name}', but there is no folder '{name}=…' in this path; \
                         narrow the location with a glob",
                        place(),
                        name = column.name(),
                    ))),
                    Some((_, Some(text))) if text.is_empty() && !column.data_type().is_string() => {
                        ScalarValue::try_new_null(column.data_type()).map_err(from_datafusion)
                    }
                    Some((_, None)) => ScalarValue::try_new_null(column.data_type()).map_err(from_datafusion),
                    Some((_, Some(text))) => {
                        ScalarValue::try_from_string(text.clone(), column.data_type()).map_err(|e| {
                            let message = format!("{}: '{text}' is no {}", place(), column.data_type());
                            Error::invalid(message).with_source(e)
                        })
                    }
                }
            })
            .collect::<Result<_>>()?;
    }
    Ok(())
}

/// Whether a predicate reads only partition columns, so that [`prune`] evaluates it exactly.
pub fn only_on_partitions(filter: &Expr, columns: &[FieldRef]) -> bool {
    let names: Vec<&str> = columns.iter().map(|column| column.name().as_str()).collect();
    !filter.column_refs().is_empty() && expr_applicable_for_cols(&names, filter)
}

/// Drops the objects whose partition values the predicates exclude. Predicates over other columns
/// are ignored.
pub fn prune(objects: Vec<DataObject>, filters: &[Expr], columns: &[FieldRef]) -> Result<Vec<DataObject>> {
    let filters: Vec<_> = filters.iter().filter(|filter| only_on_partitions(filter, columns)).collect();
    if filters.is_empty() || objects.is_empty() {
        return Ok(objects);
    }
    let schema = partition_schema(columns);
    let named =
        DFSchema::from_unqualified_fields(schema.fields().clone(), Default::default()).map_err(from_datafusion)?;
    let filters = filters
        .into_iter()
        .map(|filter| {
            // Columns may be qualified by the table's name.
            let filter = datafusion::logical_expr::expr_rewriter::unnormalize_col(filter.clone());
            create_physical_expr(&filter, &named, &ExecutionProps::new(), &Default::default()).map_err(from_datafusion)
        })
        .collect::<Result<Vec<_>>>()?;
    keep(objects, &filters, &schema)
}

fn partition_schema(columns: &[FieldRef]) -> Arc<Schema> {
    Arc::new(Schema::new(columns.to_vec()))
}

/// Evaluates the predicates over one batch that has a row for each object.
fn keep(objects: Vec<DataObject>, filters: &[PhysicalExprRef], schema: &Arc<Schema>) -> Result<Vec<DataObject>> {
    if filters.is_empty() || objects.is_empty() {
        return Ok(objects);
    }
    let column = |index: usize| -> Result<ArrayRef> {
        let values = objects.iter().map(|object| object.partition_values.get(index).cloned());
        let values: Option<Vec<ScalarValue>> = values.collect();
        let values =
            values.ok_or_else(|| Error::internal("an object was pruned before its partition values were read"))?;
        ScalarValue::iter_to_array(values).map_err(from_datafusion)
    };
    let columns = (0..schema.fields().len()).map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(objects.len()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|e| Error::internal("partition values do not have their columns' types").with_source(e))?;
    let mut keep = vec![true; objects.len()];
    for filter in filters {
        let passed = filter.evaluate(&batch).and_then(|v| v.into_array(objects.len())).map_err(from_datafusion)?;
        let Some(passed) = passed.as_boolean_opt() else {
            return Err(Error::internal(format!("the predicate {filter} is not BOOLEAN")));
        };
        for (keep, passed) in keep.iter_mut().zip(passed) {
            *keep &= passed == Some(true);
        }
    }
    Ok(objects.into_iter().zip(keep).filter_map(|(object, keep)| keep.then_some(object)).collect())
}

/// Percent-decodes a text, unless the result would not be UTF-8.
fn percent_decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), Into::into)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use datafusion::prelude::{col, lit};
    use object_store::path::Path;

    use super::*;
    use crate::access::Access;

    fn objects(paths: &[&str]) -> Vec<DataObject> {
        let object = |path: &&str| DataObject {
            path: Path::parse(path).unwrap(),
            size: 1,
            etag: None,
            last_modified: DateTime::UNIX_EPOCH,
            partition_values: Vec::new(),
            columns: None,
            replicas: vec![],
        };
        paths.iter().map(object).collect()
    }

    fn table(paths: &[&str]) -> Result<(Vec<DataObject>, Vec<FieldRef>)> {
        let location = TableLocation::parse("s3://b/t/", &Access::everything()).unwrap();
        let mut objects = objects(paths);
        let columns = discover(&location, &objects)?;
        assign(&location, &mut objects, &columns, None)?;
        Ok((objects, columns))
    }

    #[test]
    fn columns_come_from_paths() {
        let (objects, columns) = table(&[
            "t/year=2024/day=2024-01-31/name=a%20b%2Fc/x.csv",
            "t/year=-5/day=2024-02-01/name=__HIVE_DEFAULT_PARTITION__/x=1.csv",
        ])
        .unwrap();
        let types: Vec<_> = columns.iter().map(|c| (c.name().as_str(), c.data_type().clone())).collect();
        assert_eq!(types, [("year", DataType::Int64), ("day", DataType::Date32), ("name", DataType::Utf8)]);
        assert_eq!(objects[0].partition_values[0], ScalarValue::Int64(Some(2024)));
        assert_eq!(objects[0].partition_values[2], ScalarValue::Utf8(Some("a b/c".into())));
        assert_eq!(objects[1].partition_values[2], ScalarValue::Utf8(None));
        assert!(table(&["t/x.csv", "t/deep/y.csv"]).unwrap().1.is_empty());
    }

    #[test]
    fn folders_of_an_object_or_a_glob_count() {
        let location = TableLocation::parse("s3://b/t/year=2024/*/x.csv", &Access::everything()).unwrap();
        let mut objects = objects(&["t/year=2024/m=1/x.csv", "t/year=2024/m=2/x.csv"]);
        let mut columns = discover(&location, &objects).unwrap();
        columns.extend(fixed(&location, &|name| name == "m"));
        assign(&location, &mut objects, &columns, None).unwrap();
        let values = [ScalarValue::Int64(Some(2)), ScalarValue::Int64(Some(2024))];
        assert_eq!(objects[1].partition_values, values);
        for (place, count) in [("s3://b/t/year=2024/x.csv", 1), ("s3://b/t/year=2024/", 0), ("s3://b/y=1.csv", 0)] {
            let location = TableLocation::parse(place, &Access::everything()).unwrap();
            assert_eq!(fixed(&location, &|_| false).len(), count, "{place}");
        }
    }

    #[test]
    fn values_keep_their_digits() {
        for (values, data_type) in [
            (["1", "-20"], DataType::Int64),
            (["20000", "01234"], DataType::Utf8),
            (["1", "+5"], DataType::Utf8),
            (["1", "9223372036854775808"], DataType::Utf8),
            (["1", ""], DataType::Int64),
            (["1", "__HIVE_DEFAULT_PARTITION__"], DataType::Int64),
        ] {
            let paths = values.map(|value| format!("t/k={value}/x"));
            let (_, columns) = table(&paths.each_ref().map(String::as_str)).unwrap();
            assert_eq!(columns[0].data_type(), &data_type, "{values:?}");
        }
    }

    #[test]
    fn null_is_not_the_empty_text() {
        let (objects, columns) =
            table(&["t/k=a/x", "t/k=/x", "t/k=__HIVE_DEFAULT_PARTITION__/x", "t/k=%5F_HIVE_DEFAULT_PARTITION__/x"])
                .unwrap();
        let values: Vec<_> = objects.iter().map(|object| object.partition_values[0].clone()).collect();
        let text = |text: Option<&str>| ScalarValue::Utf8(text.map(str::to_owned));
        assert_eq!(values, [text(Some("a")), text(Some("")), text(None), text(Some("__HIVE_DEFAULT_PARTITION__"))]);
        let left = |filter: Expr| prune(objects.clone(), &[filter], &columns).unwrap().len();
        assert_eq!((left(col("k").is_null()), left(col("k").eq(lit(""))), left(col("k").not_eq(lit("a")))), (1, 1, 2));
    }

    #[test]
    fn disagreement_is_an_error() {
        let error = table(&["t/a=1/x.csv", "t/x.csv"]).unwrap_err().to_string();
        assert!(error.contains("s3://b/t/a=1/x.csv has the partition columns a, s3://b/t/x.csv has none"), "{error}");
        assert!(table(&["t/a=1/a=2/x.csv"]).is_err());
        let location = TableLocation::parse("s3://b/t/", &Access::everything()).unwrap();
        let declared = [Arc::new(Field::new("a", DataType::Int64, true))];
        let error = assign(&location, &mut objects(&["t/a=x/y.csv"]), &declared, None).unwrap_err().to_string();
        assert!(error.contains("s3://b/t/a=x/y.csv: 'x' is no Int64"), "{error}");
        let error = assign(&location, &mut objects(&["t/y.csv"]), &declared, None).unwrap_err().to_string();
        assert!(error.contains("no folder 'a=…'"), "{error}");
    }

    #[test]
    fn predicates_prune_objects() {
        let (objects, columns) = table(&["t/y=1/m=1/x", "t/y=1/m=2/x", "t/y=2/m=1/x", "t/y=/m=3/x"]).unwrap();
        let left = |filters: &[Expr]| {
            let left = prune(objects.clone(), filters, &columns).unwrap();
            left.iter().map(|o| o.path.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(left(&[col("y").eq(lit(1_i64))]), ["t/y=1/m=1/x", "t/y=1/m=2/x"]);
        assert_eq!(left(&[col("t.y").eq(lit(1_i64)), col("m").gt(lit(1_i64))]), ["t/y=1/m=2/x"]);
        assert_eq!(left(&[col("y").is_null()]), ["t/y=/m=3/x"]);
        // NULL is not TRUE.
        assert_eq!(left(&[col("y").not_eq(lit(1_i64))]), ["t/y=2/m=1/x"]);
        // A predicate on other columns rules nothing out.
        assert_eq!(left(&[col("other").eq(lit(1_i64))]).len(), 4);
        assert_eq!(left(&[col("y").eq(lit(1_i64)).or(col("other").eq(lit(1_i64)))]).len(), 4);
        assert!(only_on_partitions(&col("y").eq(lit(1_i64)), &columns));
        assert!(!only_on_partitions(&col("y").eq(col("other")), &columns));
        assert!(!only_on_partitions(&lit(true), &columns));
    }

    #[test]
    fn escapes_that_are_none_stay() {
        assert_eq!(percent_decoded("100%"), "100%");
        assert_eq!(percent_decoded("%zz%41%"), "%zzA%");
        assert_eq!(percent_decoded("%ff"), "%ff");
    }
}
