//! Functions of JSON text, and the operators `->` and `->>`.
//!
//! As in DuckDB and PostgreSQL, a text that is not JSON is an error, and a path that finds nothing
//! gives NULL. The functions `json_get_str` and the like of `datafusion-functions-json` give NULL
//! for text that is not JSON.
//!
//! ```text
//! text       JSON text: checked, cut into its parts
//! path       paths, and the values they lead to
//! extract    functions of a document and a path
//! encode     SQL values as JSON: to_json, json_array
//! ```

mod encode;
mod extract;
mod path;
mod text;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use datafusion_functions_json::udfs;

/// Returns `json_extract`, which also reads `column.key` of a text column.
pub(crate) fn extract() -> Arc<ScalarUDF> {
    Arc::new(extract::json_extract())
}

/// Returns the functions of JSON.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let lenient = [
        udfs::json_as_text_udf(),
        udfs::json_get_bool_udf(),
        udfs::json_get_float_udf(),
        udfs::json_get_int_udf(),
        udfs::json_get_json_udf(),
        udfs::json_get_str_udf(),
    ];
    extract::functions().into_iter().chain(encode::functions()).map(Arc::new).chain(lenient).collect()
}
