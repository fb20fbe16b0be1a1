//! The columns of an input.

use arrow_schema::SchemaRef;
use pushdowndb_contract::{CsvOptions, JsonOptions};

/// The input of a statement and its columns, before rows are read.
#[derive(Clone, Debug)]
pub enum InputColumns {
    /// A CSV object. S3 Select has no NULL in CSV and accepts records of any length; what `options`
    /// say about both is ignored.
    Csv {
        /// The dialect.
        options: CsvOptions,
        /// The column names in the header, if the request has `FileHeaderInfo` USE.
        names: Option<Vec<String>>,
        /// The number of fields of the first record. Fields after those are named `_N`.
        count: usize,
    },
    /// A JSON object, in which any path is a column.
    Json(JsonOptions),
    /// A Parquet object with this schema.
    Parquet(SchemaRef),
}
