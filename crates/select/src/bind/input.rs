//! The columns of an input.

use arrow_schema::SchemaRef;
use pushdowndb_contract::{CsvOptions, JsonOptions};

/// The input of a statement, before its rows are read.
#[derive(Clone, Debug)]
pub enum InputColumns {
    /// A CSV object. S3 Select has no NULL in CSV and takes records of any length, whatever
    /// `options` say.
    Csv {
        /// The dialect.
        options: CsvOptions,
        /// The names in the header, if the request said USE.
        names: Option<Vec<String>>,
        /// The number of fields of the first record; further ones are named `_N`.
        count: usize,
    },
    /// A JSON object, which has any path.
    Json(JsonOptions),
    /// A Parquet object with this schema.
    Parquet(SchemaRef),
}
