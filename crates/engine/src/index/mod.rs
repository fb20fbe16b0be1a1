//! Indexes: tables of `value, first_byte_offset, last_byte_offset` beside the data (PushdownDB,
//! Section IV-A).
//!
//! ```text
//! t/_pushdowndb/indexes/by_day/l_shipdate/manifest.json       the indexed objects and their versions; written last
//! t/_pushdowndb/indexes/by_day/l_shipdate/00000-18a9c3.csv    the index of one data object
//! ```
//!
//! An index object ([`pushdowndb_contract::index`]) is CSV that every S3 Select server reads,
//! sorted by value. For each data object the manifest holds the ETag and size when it was indexed,
//! and the first byte, least and greatest value of each part of its index. A look-up reads only the
//! parts that may match.
//!
//! An index may be incomplete (objects were added), stale (objects were replaced) or gone: the scan
//! then reads those objects as it would without an index. The whole predicate is evaluated again on
//! the rows found. So an index must satisfy only one condition: if it is up to date, no row that
//! may pass is missing from it.
//!
//! ```text
//! manifest    written last, read first
//! find        the indexes of a table on columns of a query's filters
//! location    the folders of indexes
//! ```
//!
//! `sql/create_index` builds indexes.

pub(crate) mod find;
pub(crate) mod location;
pub(crate) mod manifest;

use arrow::datatypes::DataType;
use pushdowndb_contract::{Compression, CsvOptions, Error, Format, Result};
use pushdowndb_scan::sql_type;

use crate::catalog::TableDefinition;

pub(crate) use find::{TableIndex, find};
pub(crate) use manifest::Expected;

/// Name of the folder of indexes below [`crate::catalog::PRIVATE_FOLDER`].
pub(crate) const INDEX_FOLDER: &str = "indexes";

/// Maximum bytes of a value that is indexed. An index of longer values would not be much smaller
/// than the table.
pub(crate) const MAX_VALUE_BYTES: usize = 64 * 1024;

/// Returns the position of the column `name`, or an error if there is no such column or it cannot
/// be indexed.
pub(crate) fn column(table: &TableDefinition, name: &str) -> Result<usize> {
    let schema = &table.file_schema;
    let Some((index, field)) = schema.column_with_name(name) else {
        if table.partition_columns.iter().any(|column| column.name() == name) {
            return Err(Error::invalid(format!(
                "{name} is a column of the path, which already rules objects out without being read"
            )));
        }
        let known: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        return Err(Error::invalid(format!("there is no column {name}; the columns are {}", known.join(", "))));
    };
    let indexable = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Boolean => true,
        DataType::Date32 | DataType::Timestamp(..) | DataType::Decimal128(..) => true,
        other => other.is_integer() || matches!(other, DataType::Float32 | DataType::Float64),
    };
    match indexable {
        true => Ok(index),
        false => Err(Error::unsupported(format!(
            "the column {name} is of type {}, which cannot be indexed",
            sql_type(field.data_type())
        ))),
    }
}

/// Returns an error if records in `format` cannot be read one by one.
pub(crate) fn check_format(format: &Format, address: &str) -> Result<()> {
    if format.compression() != Compression::None {
        return Err(Error::unsupported(format!(
            "{address} is compressed, so its records cannot be read one by one: store it uncompressed, or as Parquet"
        )));
    }
    match format {
        Format::Csv(csv) if csv.translation.is_some() || csv.wide.is_some() => Err(Error::unsupported(format!(
            "{address}: its text is translated as it is read, so its records cannot be read one by one"
        ))),
        Format::Json(json) if json.shape != pushdowndb_contract::JsonShape::Lines => Err(Error::unsupported(format!(
            "{address} is a JSON document, and only records that are a line each can be indexed"
        ))),
        _ => Ok(()),
    }
}

/// Describes the encoding of a column's values. An index is used only if the description is the
/// same as when it was built.
pub(crate) fn meaning(table: &TableDefinition, column: usize) -> String {
    let field = table.file_schema.field(column);
    let values = field.data_type();
    match &table.format {
        Format::Csv(csv) => {
            let csv = CsvOptions { compression: Compression::None, ..csv.clone() };
            // By position, unless each object has its own order of columns.
            let place = if table.is_by_name() { "by name".to_owned() } else { format!("field {column}") };
            // Translated text has no index, and descriptions in older indexes do not mention
            // translation.
            format!("{values} {place} {csv:?}").replace(", translation: None", "")
        }
        other => format!("{values} {}", other.name()),
    }
}

/// Encodes a name as one segment of a path: any byte but a letter, digit, `_` or `-` becomes `=`
/// and two hex digits.
fn encode(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => text.push(char::from(byte)),
            other => text.push_str(&format!("={other:02x}")),
        }
    }
    text
}

/// Returns the name that [`encode`] turned into `segment`; `None` if it cannot have been made by
/// it.
fn decode(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'=' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_paths() {
        for name in ["l_orderkey", "a b/c", "é=%", "", "_x-1"] {
            let segment = encode(name);
            assert!(!segment.contains('/') && segment.is_ascii(), "{segment}");
            assert_eq!(decode(&segment).as_deref(), Some(name));
        }
        assert_eq!(decode("a=2"), None);
        assert_eq!(decode("=ff"), None);
    }
}
