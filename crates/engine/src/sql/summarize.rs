//! `SUMMARIZE t` and `SUMMARIZE SELECT …`: figures about each column.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use pushdowndb_contract::{Error, Result};
use pushdowndb_scan::sql_type;

use super::words::Words;

/// A SUMMARIZE.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Summarize {
    /// The table, or the query in brackets, after FROM.
    source: String,
}

/// The figures of a column as SQL, in which `{c}` is its name.
const FIGURES: [&str; 10] = [
    "CAST(min({c}) AS VARCHAR)",
    "CAST(max({c}) AS VARCHAR)",
    "approx_distinct({c})",
    "CAST(avg({c}) AS VARCHAR)",
    "CAST(stddev({c}) AS VARCHAR)",
    "CAST(approx_percentile_cont({c}, 0.25) AS VARCHAR)",
    "CAST(approx_percentile_cont({c}, 0.5) AS VARCHAR)",
    "CAST(approx_percentile_cont({c}, 0.75) AS VARCHAR)",
    "count(*)",
    "count({c})",
];

/// Index of the figure that estimates the number of distinct values.
const DISTINCT: usize = 2;

/// Parses `SUMMARIZE`; `None` for other statements.
pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Result<Option<Summarize>> {
    let mut words = Words::new(tokens, "SUMMARIZE table or SUMMARIZE SELECT …");
    if !words.takes(&["SUMMARIZE"]) {
        return Ok(None);
    }
    let mut rest = tokens.iter().map(|token| &token.token).skip_while(|token| matches!(token, Token::Whitespace(_)));
    rest.next();
    let source: String = rest.map(ToString::to_string).collect();
    let source = source.trim();
    let first = source.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default().to_ascii_uppercase();
    match first.as_str() {
        _ if source.is_empty() => Err(words.expected("a table or a query")),
        "SELECT" | "FROM" | "WITH" | "VALUES" => Ok(Some(Summarize { source: format!("({source})") })),
        _ => Ok(Some(Summarize { source: source.to_owned() })),
    }
}

impl Summarize {
    /// Returns the query that has the columns to summarize.
    pub(crate) fn columns(&self) -> String {
        format!("SELECT * FROM {}", self.source)
    }

    /// Returns the query that computes all figures of the columns of `schema`, in one row.
    pub(crate) fn figures(&self, schema: &Schema) -> Result<String> {
        if schema.fields().is_empty() {
            return Err(Error::invalid("SUMMARIZE: there are no columns"));
        }
        let mut selected = Vec::new();
        for field in schema.fields() {
            let column = format!("\"{}\"", field.name().replace('"', "\"\""));
            for (at, figure) in FIGURES.iter().enumerate() {
                let column = match field.data_type() {
                    // `approx_distinct` does not support these types.
                    own if at == DISTINCT && (own.is_floating() || own.is_decimal()) => {
                        format!("CAST({column} AS VARCHAR)")
                    }
                    _ => column.clone(),
                };
                selected.push(match applies(at, field.data_type()) {
                    true => figure.replace("{c}", &column),
                    false => "CAST(NULL AS VARCHAR)".to_owned(),
                });
            }
        }
        let mut sql = String::from("SELECT ");
        for (at, figure) in selected.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(sql, "{comma}{figure} AS f{at}").map_err(|error| Error::internal(error.to_string()))?;
        }
        Ok(format!("{sql} FROM {}", self.source))
    }

    /// Converts the row of figures to the rows of SUMMARIZE.
    pub(crate) fn shown(&self, schema: &Schema, figures: &[RecordBatch]) -> Result<RecordBatch> {
        let row = figures.iter().find(|batch| batch.num_rows() > 0);
        let row = row.ok_or_else(|| Error::internal("SUMMARIZE computed no row"))?;
        let of_column = |place: usize, figure: usize| row.columns().get(place * FIGURES.len() + figure);
        let texts = |figure: usize| -> Result<ArrayRef> {
            let text = |place: usize| -> Result<Option<String>> {
                let Some(values) = of_column(place, figure) else { return Ok(None) };
                let values = cast(values, &DataType::Utf8).map_err(|error| Error::internal(error.to_string()))?;
                let values = values.as_string::<i32>();
                Ok(values.is_valid(0).then(|| values.value(0).to_owned()))
            };
            let all = (0..schema.fields().len()).map(text).collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(StringArray::from(all)))
        };
        let counts = |figure: usize| -> Vec<i64> {
            let count = |place: usize| {
                let values = cast(of_column(place, figure)?, &DataType::Int64).ok()?;
                let values = values.as_primitive::<Int64Type>();
                values.is_valid(0).then(|| values.value(0))
            };
            (0..schema.fields().len()).map(|place| count(place).unwrap_or(0)).collect()
        };
        let names = schema.fields().iter().map(|field| Some(field.name().clone()));
        let types = schema.fields().iter().map(|field| Some(sql_type(field.data_type())));
        let (rows, valid) = (counts(8), counts(9));
        let nulls = rows.iter().zip(&valid).map(|(rows, valid)| match rows {
            0 => None,
            // A percentage with two places.
            rows => Some(format!("{:.2}", (rows - valid) as f64 * 100.0 / *rows as f64)),
        });
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("column_name", Arc::new(names.collect::<StringArray>())),
            ("column_type", Arc::new(types.collect::<StringArray>())),
            ("min", texts(0)?),
            ("max", texts(1)?),
            ("approx_unique", Arc::new(Int64Array::from(counts(2)))),
            ("avg", texts(3)?),
            ("std", texts(4)?),
            ("q25", texts(5)?),
            ("q50", texts(6)?),
            ("q75", texts(7)?),
            ("count", Arc::new(Int64Array::from(rows.clone()))),
            ("null_percentage", Arc::new(nulls.collect::<StringArray>())),
        ];
        let fields: Vec<_> =
            columns.iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), true)).collect();
        let arrays = columns.into_iter().map(|(_, values)| values).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|error| Error::internal(error.to_string()))
    }
}

/// Returns whether a figure applies to values of this type.
fn applies(figure: usize, data_type: &DataType) -> bool {
    let is_number = data_type.is_numeric();
    let is_scalar = is_number
        || data_type.is_string()
        || data_type.is_temporal()
        || matches!(data_type, DataType::Boolean | DataType::Dictionary(..));
    match figure {
        0 | 1 => is_scalar,
        DISTINCT => is_scalar && *data_type != DataType::Boolean,
        3..=7 => is_number,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse_with;

    #[test]
    fn tables_and_queries_are_summarized() {
        let source = |sql| parse_with(sql, parse).unwrap().map(|summarize| summarize.source);
        assert_eq!(source("SUMMARIZE 's3://b/x.csv'").as_deref(), Some("'s3://b/x.csv'"));
        assert_eq!(source("summarize SELECT a FROM t;").as_deref(), Some("(SELECT a FROM t)"));
        assert_eq!(source("SELECT 1"), None);
        assert!(parse_with("SUMMARIZE", parse).is_err());
    }
}
