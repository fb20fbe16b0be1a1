//! Percent-encoding of texts for URLs.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::plan_err;
use datafusion::logical_expr::ScalarUDF;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::super::simple::Simple;

/// The characters that are percent-encoded: all but the unreserved ones of RFC 3986.
const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Returns the functions of this module.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let of_text = |name, compute| Simple {
        name,
        takes: |types| match types {
            [own] if own.is_string() || own.is_null() => Ok(vec![DataType::Utf8]),
            _ => plan_err!("one text is expected"),
        },
        returns: |_| Ok(DataType::Utf8),
        compute,
        simplify: None,
    };
    let encode = of_text("url_encode", |args: &[ArrayRef], _| {
        let [texts] = args else { return plan_err!("url_encode takes one text") };
        let encoded = |text: &str| utf8_percent_encode(text, &ENCODED).to_string();
        let texts = texts.as_string::<i32>().iter().map(|text| text.map(encoded));
        Ok(Arc::new(texts.collect::<StringArray>()))
    });
    let decode = of_text("url_decode", |args: &[ArrayRef], _| {
        let [texts] = args else { return plan_err!("url_decode takes one text") };
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let texts = texts.as_string::<i32>().iter().map(|text| text.map(decoded));
        Ok(Arc::new(texts.collect::<StringArray>()))
    });
    vec![encode.function(), decode.function()]
}
