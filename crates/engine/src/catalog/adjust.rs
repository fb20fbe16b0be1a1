//! Columns that options declare in place of inferred ones: `columns`, `types`, `names`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use pushdowndb_contract::{CsvOptions, DECLARED, Error, Format, JsonOptions, Result};

use super::infer::Inferred;
use super::{TableLocation, TableOptions};
use crate::nearest::nearest;

/// The columns of the option `columns`; `None` if it is not given.
pub(crate) async fn declared_columns(options: &TableOptions) -> Result<Option<SchemaRef>> {
    if options.columns.is_empty() {
        return Ok(None);
    }
    let mut fields = Vec::with_capacity(options.columns.len());
    let mut seen = HashSet::new();
    for (name, text) in &options.columns {
        if !seen.insert(name) {
            return Err(Error::invalid(format!("option 'columns': the column '{name}' stands twice")));
        }
        let data_type = data_type(text).await.map_err(|error| error.context("option 'columns'"))?;
        fields.push(Field::new(name, data_type, true));
    }
    Ok(Some(Arc::new(Schema::new(fields))))
}

/// Replaces inferred names and types by those that `options` declare. `columns` is the result of
/// [`declared_columns`].
pub(crate) async fn adjust(
    inferred: Inferred,
    options: &TableOptions,
    columns: Option<SchemaRef>,
    location: &TableLocation,
) -> Result<Inferred> {
    let Inferred { format, mut schema, by_name, headers } = inferred;
    let is_renamed = columns.is_some() || !options.names.is_empty() || options.normalize_names;
    if let Some(columns) = columns {
        if matches!(format, Format::Csv(_)) && columns.fields().len() > schema.fields().len() {
            return Err(Error::invalid(format!(
                "{location}: has {} columns, and 'columns' names {}",
                schema.fields().len(),
                columns.fields().len()
            )));
        }
        schema = columns;
    }
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    if options.names.len() > fields.len() {
        let (found, names) = (fields.len(), options.names.len());
        return Err(Error::invalid(format!("{location}: has {found} columns, and 'names' names {names}")));
    }
    for (field, name) in fields.iter_mut().zip(&options.names) {
        field.set_name(name);
    }
    if options.normalize_names {
        for field in &mut fields {
            let name = normalized(field.name());
            field.set_name(name);
        }
    }
    if options.all_varchar {
        fields.iter_mut().for_each(|field| declare(field, DataType::Utf8));
    }
    for (place, (name, text)) in options.types.iter().enumerate() {
        let data_type = data_type(text).await.map_err(|error| error.context("option 'types'"))?;
        let field = match name {
            Some(name) => find(&mut fields, name).ok_or(name),
            None => fields.get_mut(place).ok_or(text),
        };
        match field {
            Ok(field) => declare(field, data_type),
            Err(text) => {
                let names = schema.fields().iter().map(|field| field.name().as_str());
                let hint = nearest(text, names.clone()).map(|name| format!("did you mean '{name}'? "));
                return Err(Error::invalid(format!(
                    "{location}: option 'types': there is no column for '{text}': {}there are {}",
                    hint.unwrap_or_default(),
                    names.collect::<Vec<_>>().join(", ")
                )));
            }
        }
    }
    let mut seen = HashSet::new();
    if let Some(twice) = fields.iter().find(|field| !seen.insert(field.name().as_str())) {
        let name = twice.name();
        return Err(Error::invalid(format!("{location}: two columns are called '{name}'; give other 'names'")));
    }
    // Headers are compared with inferred names only.
    let format = match format {
        Format::Csv(csv) if is_renamed => Format::Csv(CsvOptions { inferred: false, ..csv }),
        // Fields without a column are left out on purpose.
        Format::Json(json) if is_renamed => Format::Json(JsonOptions { inferred: false, ..json }),
        format => format,
    };
    // New names are given by position, so the objects' headers cannot be matched with them.
    Ok(Inferred { format, schema: Arc::new(Schema::new(fields)), by_name: by_name && !is_renamed, headers })
}

/// Gives partition columns the types of the option `hive_types`. If `hive_types_autocast` is off,
/// the other ones become text.
pub(crate) async fn partitions(
    columns: Vec<FieldRef>,
    options: &TableOptions,
    location: &TableLocation,
) -> Result<Vec<FieldRef>> {
    let mut fields: Vec<Field> = columns.iter().map(|field| field.as_ref().clone()).collect();
    if options.hive_types_autocast == Some(false) {
        fields.iter_mut().for_each(|field| field.set_data_type(DataType::Utf8));
    }
    for (name, text) in &options.hive_types {
        let data_type = data_type(text).await.map_err(|error| error.context("option 'hive_types'"))?;
        let field = find(&mut fields, name).ok_or_else(|| {
            Error::invalid(format!("{location}: option 'hive_types': the paths have no column '{name}'"))
        })?;
        field.set_data_type(data_type);
    }
    Ok(fields.into_iter().map(Arc::new).collect())
}

/// Gives `field` a declared type and drops the metadata of inference.
fn declare(field: &mut Field, data_type: DataType) {
    field.set_data_type(data_type);
    field.set_metadata(HashMap::from([(DECLARED.to_owned(), String::new())]));
}

/// Returns the field called `name`, or else the only one whose name differs in case alone.
fn find<'a>(fields: &'a mut [Field], name: &str) -> Option<&'a mut Field> {
    let exact = fields.iter().position(|field| field.name() == name);
    let mut alike =
        fields.iter().enumerate().filter(|(_, field)| field.name().eq_ignore_ascii_case(name)).map(|(place, _)| place);
    let place = exact.or_else(|| alike.next().filter(|_| alike.next().is_none()))?;
    fields.get_mut(place)
}

/// A name of letters, digits and underscores, in lower case: `Größe (cm)` -> `größe_cm`.
fn normalized(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let plain = words.collect::<Vec<_>>().join("_").to_lowercase();
    match plain.chars().next() {
        None => "_".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("_{plain}"),
        Some(_) => plain,
    }
}

/// Parses the SQL text of a column's type, such as `BIGINT`.
async fn data_type(text: &str) -> Result<DataType> {
    let usual = match text.trim().to_ascii_uppercase().as_str() {
        "HUGEINT" | "INT128" => "DECIMAL(38, 0)".to_owned(),
        "JSON" | "UUID" => "VARCHAR".to_owned(),
        "TIMESTAMPTZ" => "TIMESTAMP WITH TIME ZONE".to_owned(),
        "UTINYINT" => "TINYINT UNSIGNED".to_owned(),
        "USMALLINT" => "SMALLINT UNSIGNED".to_owned(),
        "UINTEGER" => "INT UNSIGNED".to_owned(),
        "UBIGINT" => "BIGINT UNSIGNED".to_owned(),
        _ => text.to_owned(),
    };
    let state = SessionStateBuilder::new_with_default_features().build();
    let declaration = format!("CREATE EXTERNAL TABLE t (c {usual}) STORED AS CSV LOCATION 't.csv'");
    let plan = state.create_logical_plan(&declaration).await;
    let Ok(LogicalPlan::Ddl(DdlStatement::CreateExternalTable(table))) = plan else {
        return Err(Error::invalid(format!("'{text}' is no type; write VARCHAR, BIGINT, DOUBLE, DATE and the like")));
    };
    match table.schema.fields().as_ref() {
        [column] => Ok(match column.data_type() {
            DataType::Utf8View => DataType::Utf8,
            other => other.clone(),
        }),
        _ => Err(Error::invalid(format!("'{text}' is not one type"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn types_are_those_of_sql() {
        for (text, expected) in [
            ("VARCHAR", DataType::Utf8),
            ("text", DataType::Utf8),
            ("integer", DataType::Int32),
            ("DECIMAL(10,2)", DataType::Decimal128(10, 2)),
            ("HUGEINT", DataType::Decimal128(38, 0)),
            ("DATE", DataType::Date32),
            ("UBIGINT", DataType::UInt64),
        ] {
            assert_eq!(data_type(text).await.unwrap(), expected, "{text}");
        }
        for text in ["NUMERO", "INT, d INT", "INT) STORED AS CSV LOCATION 'x'; SELECT 1", ""] {
            assert!(data_type(text).await.unwrap_err().to_string().contains(text), "{text}");
        }
    }

    #[test]
    fn names_need_no_quotes() {
        assert_eq!(normalized("Größe (cm)"), "größe_cm");
        assert_eq!(normalized("2024 total"), "_2024_total");
        assert_eq!(normalized("--"), "_");
    }
}
