//! JSON that arrives in pieces and is not an object: responses of S3 Select, which Arrow's reader
//! decodes.

use arrow::datatypes::Schema;
use pushdowndb_contract::{Format, Fragment, JsonOptions, JsonShape, Output, Result};

use super::cut::{Cut, Cutter};
use super::surplus::Surplus;

/// Finds values in responses that the columns cannot represent: fields without a column, and
/// integers and fractions that would be rounded.
pub struct JsonAnswer {
    surplus: Surplus,
    cutter: Cutter,
    cut: Cut,
    /// Text that has arrived and is not checked yet.
    text: Vec<u8>,
    location: String,
}

impl JsonAnswer {
    /// Creates a check of responses to `request` with the columns of `schema`. Errors refer to the
    /// response as `location`.
    ///
    /// Returns `None` if the columns can represent all values, and for aggregates, which storage
    /// computes, so that the response does not show their input.
    pub fn new(request: &Fragment, schema: &Schema, location: &str) -> Option<Self> {
        let Format::Json(JsonOptions { inferred, .. }) = request.format else { return None };
        let Output::Rows(_) = &request.output else { return None };
        let surplus = Surplus::of_answer(schema, inferred, request.refuses_surplus());
        let cutter = Cutter::new(JsonShape::Document, &[], false);
        surplus.map(|surplus| Self {
            surplus,
            cutter,
            cut: Cut::default(),
            text: Vec::new(),
            location: location.to_owned(),
        })
    }

    /// Checks the records that `bytes`, the next piece, completes. Text that is not JSON is left to
    /// the decoder.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        self.text.extend_from_slice(bytes);
        let Self { surplus, cutter, cut, text, location } = self;
        if cutter.cut(text, false, usize::MAX, usize::MAX, cut).is_err() {
            return Ok(());
        }
        let checked = surplus.check(text, &cut.records);
        text.drain(..cut.consumed);
        checked.map_err(|(_, error)| error.context(location.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field};

    use super::*;

    fn request(inferred: bool) -> Fragment {
        let schema = Schema::new(vec![
            Field::new("f", DataType::Float64, true),
            Field::new("l", DataType::new_list(DataType::Int64, true), true),
        ]);
        Fragment::all(Format::Json(JsonOptions { inferred, ..JsonOptions::default() }), Arc::new(schema))
    }

    /// Returns what is found, wherever the text is cut in two.
    fn found(request: &Fragment, schema: &Schema, text: &str) -> Option<String> {
        let found = (0..text.len()).map(|at| {
            let mut answer = JsonAnswer::new(request, schema, "s3://b/a.json").unwrap();
            let (one, other) = text.as_bytes().split_at(at);
            answer.feed(one).and_then(|()| answer.feed(other)).err().map(|error| error.to_string())
        });
        let mut found: Vec<_> = found.collect();
        found.dedup();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn what_has_no_place_is_found_in_pieces() {
        for (record, of_inferred, of_declared) in [
            (r#"{"f":1.5,"l":[1,\n2.0]}"#, None, None),
            (r#"{"f":9007199254740993}"#, Some("field \"f\""), None),
            (r#"{"x":"}\n{"}"#, Some("the field \"x\""), None),
            (r#"{"l":[1,2.5]}"#, Some("field \"l\""), Some("cannot parse '2.5' as BIGINT")),
        ] {
            let text = format!("{{\"f\":1}}\n{}\n{{\"f\":2}}\n", record.replace("\\n", "\n"));
            for (inferred, named) in [(true, of_inferred), (false, of_declared)] {
                let request = request(inferred);
                let error = found(&request, &request.schema, &text);
                let is_right = error.as_ref().map(|error| named.is_some_and(|named| error.contains(named)));
                assert_eq!(is_right, named.map(|_| true), "{record}, {inferred}: {error:?}");
            }
        }
    }
}
