//! The tables: columns, row counts, and the SQL that declares them.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pushdowndb_contract::{Error, ErrorKind, Result};
use tpchgen::generators::{CustomerGenerator, OrderGenerator, PartGenerator, PartSuppGenerator, SupplierGenerator};

use crate::format::Format;
use crate::synthetic;

/// TPC-H's tables, smallest first.
pub const TABLES: [&str; 8] = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];

/// A set of tables that are generated together.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum DataSet {
    /// The eight tables of TPC-H.
    Tpch,
    /// `groups` and `skewed`: integers to group by and decimals to sum, as in Section VI-C of the
    /// PushdownDB paper.
    Groups,
    /// `floats_1`, `floats_10` and `floats_20`: doubles, as in Section IX of the paper.
    Floats,
}

impl DataSet {
    /// The tables of the set, smallest first.
    pub fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Tpch => &TABLES,
            Self::Groups => &synthetic::GROUPS,
            Self::Floats => &synthetic::FLOATS,
        }
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tpch => "tpch",
            Self::Groups => "groups",
            Self::Floats => "floats",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Tpch => "TPC-H",
            Self::Groups => "Groups",
            Self::Floats => "Floats",
        }
    }
}

/// The smallest scale; below it a table would be empty.
pub(crate) const MIN_SCALE: f64 = 0.001;

const KEY: DataType = DataType::Int64;
const INT: DataType = DataType::Int32;
const MONEY: DataType = DataType::Decimal128(15, 2);
const DATE: DataType = DataType::Date32;
const TEXT: DataType = DataType::Utf8;

/// Returns the schema of a table. No column holds NULL.
pub fn schema(table: &str) -> Result<SchemaRef> {
    if let Some(schema) = synthetic::schema(table) {
        return Ok(schema);
    }
    let columns: &[(&str, DataType)] = match table {
        "region" => &[("r_regionkey", KEY), ("r_name", TEXT), ("r_comment", TEXT)],
        "nation" => &[("n_nationkey", KEY), ("n_name", TEXT), ("n_regionkey", KEY), ("n_comment", TEXT)],
        "supplier" => &[
            ("s_suppkey", KEY),
            ("s_name", TEXT),
            ("s_address", TEXT),
            ("s_nationkey", KEY),
            ("s_phone", TEXT),
            ("s_acctbal", MONEY),
            ("s_comment", TEXT),
        ],
        "customer" => &[
            ("c_custkey", KEY),
            ("c_name", TEXT),
            ("c_address", TEXT),
            ("c_nationkey", KEY),
            ("c_phone", TEXT),
            ("c_acctbal", MONEY),
            ("c_mktsegment", TEXT),
            ("c_comment", TEXT),
        ],
        "part" => &[
            ("p_partkey", KEY),
            ("p_name", TEXT),
            ("p_mfgr", TEXT),
            ("p_brand", TEXT),
            ("p_type", TEXT),
            ("p_size", INT),
            ("p_container", TEXT),
            ("p_retailprice", MONEY),
            ("p_comment", TEXT),
        ],
        "partsupp" => &[
            ("ps_partkey", KEY),
            ("ps_suppkey", KEY),
            ("ps_availqty", INT),
            ("ps_supplycost", MONEY),
            ("ps_comment", TEXT),
        ],
        "orders" => &[
            ("o_orderkey", KEY),
            ("o_custkey", KEY),
            ("o_orderstatus", TEXT),
            ("o_totalprice", MONEY),
            ("o_orderdate", DATE),
            ("o_orderpriority", TEXT),
            ("o_clerk", TEXT),
            ("o_shippriority", INT),
            ("o_comment", TEXT),
        ],
        "lineitem" => &[
            ("l_orderkey", KEY),
            ("l_partkey", KEY),
            ("l_suppkey", KEY),
            ("l_linenumber", INT),
            ("l_quantity", MONEY),
            ("l_extendedprice", MONEY),
            ("l_discount", MONEY),
            ("l_tax", MONEY),
            ("l_returnflag", TEXT),
            ("l_linestatus", TEXT),
            ("l_shipdate", DATE),
            ("l_commitdate", DATE),
            ("l_receiptdate", DATE),
            ("l_shipinstruct", TEXT),
            ("l_shipmode", TEXT),
            ("l_comment", TEXT),
        ],
        other => {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("no TPC-H table '{other}'; the tables are {}", TABLES.join(", ")),
            ));
        }
    };
    let fields: Vec<_> = columns.iter().map(|(name, kind)| Field::new(*name, kind.clone(), false)).collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// Returns the number of rows of a table at a `scale`. It is approximate for lineitem, whose rows
/// are drawn per order.
pub(crate) fn row_count(table: &str, scale: f64) -> u64 {
    let rows = match table {
        "region" => 5,
        "nation" => 25,
        "supplier" => SupplierGenerator::calculate_row_count(scale, 1, 1),
        "customer" => CustomerGenerator::calculate_row_count(scale, 1, 1),
        "part" => PartGenerator::calculate_row_count(scale, 1, 1),
        // The generator counts parts; each has four suppliers.
        "partsupp" => PartSuppGenerator::calculate_row_count(scale, 1, 1).saturating_mul(4),
        "orders" => OrderGenerator::calculate_row_count(scale, 1, 1),
        "lineitem" => OrderGenerator::calculate_row_count(scale, 1, 1).saturating_mul(4),
        other => return synthetic::row_count(other, scale),
    };
    u64::try_from(rows).unwrap_or(0)
}

/// Returns the statements that declare all tables of a `set` in subfolders of a URL or folder.
pub fn schema_sql(set: DataSet, url: &str, format: Format, scale: f64) -> Result<String> {
    schema_sql_over(set, |table| vec![format!("{}/{table}/", url.trim_end_matches('/'))], format, scale)
}

/// Returns the statements that declare all tables of a set; `places` returns the folders of each
/// table.
pub(crate) fn schema_sql_over(
    set: DataSet,
    places: impl Fn(&str) -> Vec<String>,
    format: Format,
    scale: f64,
) -> Result<String> {
    let mut sql = format!("-- {} at scale {scale}, {}\n", set.title(), format.sql());
    for table in set.tables() {
        sql.push('\n');
        sql.push_str(&create_table(table, &places(table), format)?);
    }
    Ok(sql)
}

fn create_table(table: &str, places: &[String], format: Format) -> Result<String> {
    let mut sql = format!("CREATE OR REPLACE EXTERNAL TABLE {table} (\n");
    let schema = schema(table)?;
    for (index, field) in schema.fields().iter().enumerate() {
        let comma = if index + 1 < schema.fields().len() { "," } else { "" };
        let _ = writeln!(sql, "    {} {} NOT NULL{comma}", field.name(), sql_type(field.data_type()));
    }
    let quoted = |place: &String| format!("'{}'", place.replace('\'', "''"));
    let location = match places {
        [one] => quoted(one),
        several => format!("({})", several.iter().map(quoted).collect::<Vec<_>>().join(", ")),
    };
    let _ = write!(sql, ") STORED AS {} LOCATION {location}", format.sql());
    if format == Format::Csv {
        sql.push_str(" OPTIONS ('format.has_header' 'true')");
    }
    sql.push_str(";\n");
    Ok(sql)
}

fn sql_type(kind: &DataType) -> String {
    match kind {
        DataType::Int64 => "BIGINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Date32 => "DATE".into(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        _ => "VARCHAR".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_the_scale() {
        assert_eq!(row_count("orders", 1.0), 1_500_000);
        assert_eq!(row_count("supplier", MIN_SCALE), 10);
        assert_eq!(row_count("partsupp", 0.1), 80_000);
        assert!(TABLES.iter().all(|table| row_count(table, MIN_SCALE) > 0));
    }

    #[test]
    fn declarations_name_types_and_place() {
        let sql = schema_sql(DataSet::Tpch, "s3://bucket/tpch/", Format::Csv, 1.0).unwrap();
        assert!(sql.contains("CREATE OR REPLACE EXTERNAL TABLE region (\n    r_regionkey BIGINT NOT NULL,\n"), "{sql}");
        assert!(sql.contains("    l_tax DECIMAL(15, 2) NOT NULL,\n"), "{sql}");
        assert!(sql.contains("    l_comment VARCHAR NOT NULL\n) STORED AS CSV LOCATION 's3://bucket/tpch/lineitem/' OPTIONS ('format.has_header' 'true');\n"), "{sql}");
        let sql = schema_sql(DataSet::Tpch, "/data/it's", Format::Parquet, 1.0).unwrap();
        assert!(sql.contains(") STORED AS PARQUET LOCATION '/data/it''s/orders/';\n"), "{sql}");
    }

    #[test]
    fn an_unknown_table_names_the_known() {
        assert!(schema("order").unwrap_err().to_string().contains("orders"));
    }
}
