//! `information_schema`, with PostgreSQL's names of types.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::Result;
use pushdowndb_engine::TableInfo;

use super::build::{Values, empty, nulls, same, table};
use super::tables::SessionTables;
use crate::values::types::{PgType, Scalar};

/// Tables that are always empty here, with their columns.
const EMPTY: [(&str, &[&str]); 10] = [
    (
        "table_constraints",
        &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "table_catalog",
            "table_schema",
            "table_name",
            "constraint_type",
            "is_deferrable",
            "initially_deferred",
            "enforced",
        ],
    ),
    (
        "key_column_usage",
        &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "ordinal_position",
            "position_in_unique_constraint",
        ],
    ),
    (
        "referential_constraints",
        &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "unique_constraint_catalog",
            "unique_constraint_schema",
            "unique_constraint_name",
            "match_option",
            "update_rule",
            "delete_rule",
        ],
    ),
    (
        "constraint_column_usage",
        &[
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
        ],
    ),
    ("check_constraints", &["constraint_catalog", "constraint_schema", "constraint_name", "check_clause"]),
    (
        "routines",
        &[
            "specific_catalog",
            "specific_schema",
            "specific_name",
            "routine_catalog",
            "routine_schema",
            "routine_name",
            "routine_type",
            "data_type",
            "type_udt_name",
            "routine_definition",
        ],
    ),
    (
        "parameters",
        &[
            "specific_catalog",
            "specific_schema",
            "specific_name",
            "ordinal_position",
            "parameter_mode",
            "parameter_name",
            "data_type",
            "udt_name",
        ],
    ),
    (
        "triggers",
        &[
            "trigger_catalog",
            "trigger_schema",
            "trigger_name",
            "event_manipulation",
            "event_object_schema",
            "event_object_table",
            "action_statement",
            "action_timing",
        ],
    ),
    ("sequences", &["sequence_catalog", "sequence_schema", "sequence_name", "data_type"]),
    ("domains", &["domain_catalog", "domain_schema", "domain_name", "data_type"]),
];

/// Tables that are generated from the session's tables.
const MADE: [&str; 4] = ["tables", "columns", "views", "schemata"];

/// The `information_schema` of a session.
pub(super) struct InformationSchema {
    tables: Arc<SessionTables>,
    database: String,
}

impl fmt::Debug for InformationSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InformationSchema").field("database", &self.database).finish_non_exhaustive()
    }
}

impl InformationSchema {
    /// Creates the schema that describes `tables`.
    pub fn new(tables: Arc<SessionTables>, database: String) -> Self {
        Self { tables, database }
    }

    fn list(&self, tables: &[TableInfo]) -> Result<Arc<dyn TableProvider>> {
        let rows = tables.len();
        let text = |value: fn(&TableInfo) -> &str| {
            Values::Text(tables.iter().map(|table| Some(value(table).to_owned())).collect())
        };
        table(vec![
            ("table_catalog", same(&self.database, rows)),
            ("table_schema", same("public", rows)),
            ("table_name", text(|table| &table.name)),
            ("table_type", text(|table| if table.kind == "view" { "VIEW" } else { "BASE TABLE" })),
            ("self_referencing_column_name", nulls(rows)),
            ("reference_generation", nulls(rows)),
            ("user_defined_type_catalog", nulls(rows)),
            ("user_defined_type_schema", nulls(rows)),
            ("user_defined_type_name", nulls(rows)),
            ("is_insertable_into", same("NO", rows)),
            ("is_typed", same("NO", rows)),
            ("commit_action", nulls(rows)),
        ])
    }

    async fn columns(&self) -> Result<Arc<dyn TableProvider>> {
        let mut found: Vec<(String, usize, Field)> = Vec::new();
        for table in self.tables.all() {
            let Some(schema) = self.tables.columns(&table).await else { continue };
            let fields = schema.fields().iter().enumerate();
            found.extend(fields.map(|(place, field)| (table.name.clone(), place, field.as_ref().clone())));
        }
        let rows = found.len();
        let text = |value: &dyn Fn(&Field) -> Option<String>| {
            Values::Text(found.iter().map(|(_, _, field)| value(field)).collect())
        };
        let int = |value: &dyn Fn(&Field) -> Option<i32>| {
            Values::Int(found.iter().map(|(_, _, field)| value(field)).collect())
        };
        let place = |place: usize| i32::try_from(place + 1).ok();
        table(vec![
            ("table_catalog", same(&self.database, rows)),
            ("table_schema", same("public", rows)),
            ("table_name", Values::Text(found.iter().map(|(table, ..)| Some(table.clone())).collect())),
            ("column_name", text(&|field| Some(field.name().clone()))),
            ("ordinal_position", Values::Int(found.iter().map(|(_, at, _)| place(*at)).collect())),
            ("column_default", nulls(rows)),
            ("is_nullable", text(&|field| Some(if field.is_nullable() { "YES" } else { "NO" }.to_owned()))),
            ("data_type", text(&|field| Some(type_name(PgType::of(field.data_type())).0.to_owned()))),
            ("character_maximum_length", Values::Int(vec![None; rows])),
            ("character_octet_length", Values::Int(vec![None; rows])),
            ("numeric_precision", int(&|field| precision(field.data_type()).0)),
            ("numeric_precision_radix", int(&|field| precision(field.data_type()).1)),
            ("numeric_scale", int(&|field| precision(field.data_type()).2)),
            ("datetime_precision", int(&|field| matches!(field.data_type(), DataType::Timestamp(..)).then_some(6))),
            ("interval_type", nulls(rows)),
            ("character_set_name", nulls(rows)),
            ("collation_name", nulls(rows)),
            ("domain_name", nulls(rows)),
            ("udt_catalog", same(&self.database, rows)),
            ("udt_schema", same("pg_catalog", rows)),
            ("udt_name", text(&|field| Some(type_name(PgType::of(field.data_type())).1.to_owned()))),
            ("is_self_referencing", same("NO", rows)),
            ("is_identity", same("NO", rows)),
            ("identity_generation", nulls(rows)),
            ("is_generated", same("NEVER", rows)),
            ("generation_expression", nulls(rows)),
            ("is_updatable", same("NO", rows)),
        ])
    }

    async fn views(&self) -> Result<Arc<dyn TableProvider>> {
        let views: Vec<TableInfo> = self.tables.all().into_iter().filter(|table| table.kind == "view").collect();
        for view in &views {
            // Looks up the columns first: the definition of a view is shown only to users who may
            // read it.
            self.tables.columns(view).await;
        }
        let definitions = views.iter().map(|view| self.tables.view_definition(&view.name)).collect();
        let rows = views.len();
        table(vec![
            ("table_catalog", same(&self.database, rows)),
            ("table_schema", same("public", rows)),
            ("table_name", Values::Text(views.into_iter().map(|view| Some(view.name)).collect())),
            ("view_definition", Values::Text(definitions)),
            ("check_option", same("NONE", rows)),
            ("is_updatable", same("NO", rows)),
            ("is_insertable_into", same("NO", rows)),
        ])
    }

    fn schemata(&self) -> Result<Arc<dyn TableProvider>> {
        let names = ["information_schema", "pg_catalog", "public"];
        let rows = names.len();
        table(vec![
            ("catalog_name", same(&self.database, rows)),
            ("schema_name", Values::Text(names.iter().map(|name| Some((*name).to_owned())).collect())),
            ("schema_owner", same("postgres", rows)),
            ("default_character_set_catalog", nulls(rows)),
            ("default_character_set_schema", nulls(rows)),
            ("default_character_set_name", nulls(rows)),
            ("sql_path", nulls(rows)),
        ])
    }
}

/// The names of a type: in standard SQL, and in `pg_type`.
fn type_name(pg_type: PgType) -> (&'static str, &'static str) {
    let names = match pg_type.scalar {
        Scalar::Bool => ("boolean", "bool", "_bool"),
        Scalar::Bytea => ("bytea", "bytea", "_bytea"),
        Scalar::Char => ("\"char\"", "char", "_char"),
        Scalar::Int2 => ("smallint", "int2", "_int2"),
        Scalar::Int4 => ("integer", "int4", "_int4"),
        Scalar::Int8 => ("bigint", "int8", "_int8"),
        Scalar::Text => ("text", "text", "_text"),
        Scalar::Oid(_) => ("oid", "oid", "_oid"),
        Scalar::Json => ("json", "json", "_json"),
        Scalar::Float4 => ("real", "float4", "_float4"),
        Scalar::Float8 => ("double precision", "float8", "_float8"),
        Scalar::Date => ("date", "date", "_date"),
        Scalar::Time => ("time without time zone", "time", "_time"),
        Scalar::Timestamp => ("timestamp without time zone", "timestamp", "_timestamp"),
        Scalar::TimestampTz => ("timestamp with time zone", "timestamptz", "_timestamptz"),
        Scalar::Interval => ("interval", "interval", "_interval"),
        Scalar::Numeric => ("numeric", "numeric", "_numeric"),
    };
    if pg_type.is_array { ("ARRAY", names.2) } else { (names.0, names.1) }
}

/// The precision of a number, the radix of the precision, and the scale.
fn precision(data_type: &DataType) -> (Option<i32>, Option<i32>, Option<i32>) {
    match data_type {
        DataType::Int16 => (Some(16), Some(2), Some(0)),
        DataType::Int32 => (Some(32), Some(2), Some(0)),
        DataType::Int64 => (Some(64), Some(2), Some(0)),
        DataType::Float32 => (Some(24), Some(2), None),
        DataType::Float64 => (Some(53), Some(2), None),
        DataType::Decimal128(precision, scale) => (Some(i32::from(*precision)), Some(10), Some(i32::from(*scale))),
        _ => (None, None, None),
    }
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        EMPTY.iter().map(|(name, _)| *name).chain(MADE).map(ToOwned::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match name {
            "tables" => self.list(&self.tables.all()).map(Some),
            "columns" => self.columns().await.map(Some),
            "views" => self.views().await.map(Some),
            "schemata" => self.schemata().map(Some),
            _ => EMPTY.iter().find(|(table, _)| *table == name).map(|(_, columns)| empty(columns)).transpose(),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        MADE.contains(&name) || EMPTY.iter().any(|(table, _)| *table == name)
    }
}
