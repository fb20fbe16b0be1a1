//! `ANALYZE TABLE t`: reads and counts all rows of a table.
//!
//! ```sql
//! ANALYZE [TABLE] table [WITH (beside = true)]
//! ```
//!
//! The counts are cached for as long as the table's objects do not change. With `beside` they are
//! also written to the table's own `_pushdowndb/` folder, for all other sessions.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Column, TableReference};
use datafusion::functions_aggregate::expr_fn::{approx_distinct, count, max, min};
use datafusion::logical_expr::{Expr, cast as cast_to, lit};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use pushdowndb_contract::{Error, Result};
use pushdowndb_scan::sql_type;

use super::words::Words;
use crate::context::QueryContext;
use crate::error::from_datafusion;
use crate::provider::ObjectTable;
use crate::statistics::Totals;
use crate::statistics::totals::ColumnTotals;

const USAGE: &str = "ANALYZE [TABLE] table [WITH (beside = true)], or EXPLAIN ANALYZE query";

/// An ANALYZE statement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct AnalyzeTable {
    table: TableReference,
    /// Whether the counts are also written beside the data.
    beside: bool,
}

/// Parses ANALYZE; `None` for other statements.
pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Result<Option<AnalyzeTable>> {
    let mut words = Words::new(tokens, USAGE);
    if !words.takes(&["ANALYZE"]) {
        return Ok(None);
    }
    words.takes(&["TABLE"]);
    let table = words.table()?;
    let beside = words.takes(&["WITH"]);
    if beside && !(words.takes_mark(&Token::LParen) && words.takes(&["BESIDE"]) && words.takes_mark(&Token::Eq)) {
        return Err(words.expected("(beside = true)"));
    }
    if beside && !(words.takes(&["TRUE"]) && words.takes_mark(&Token::RParen)) {
        return Err(words.expected("true and ')'"));
    }
    words.end()?;
    Ok(Some(AnalyzeTable { table, beside }))
}

impl AnalyzeTable {
    /// Counts the rows and caches the counts; returns a row for each column.
    pub(crate) async fn run(&self, query: &Arc<QueryContext>, context: &SessionContext) -> Result<RecordBatch> {
        let provider = context.table_provider(self.table.clone()).await.map_err(from_datafusion)?;
        let Some(table) = provider.downcast_ref::<ObjectTable>() else {
            return Err(Error::unsupported(format!(
                "{} is no table over objects, so nothing is kept of it",
                self.table
            )));
        };
        let fields = table.definition().file_schema.fields();
        // For each column: its values that are not NULL, its distinct values, and its bounds if it
        // has an order.
        let mut wanted = vec![count(lit(1_i64))];
        for field in fields {
            let column = || Expr::Column(Column::new_unqualified(field.name()));
            let countable = match field.data_type() {
                DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => column(),
                other if other.is_integer() => column(),
                _ => cast_to(column(), DataType::Utf8),
            };
            wanted.extend([count(column()), approx_distinct(countable)]);
            if is_ordered(field.data_type()) {
                wanted.extend([min(column()), max(column())]);
            }
        }
        let frame = context.read_table(Arc::clone(&provider)).map_err(from_datafusion)?;
        let counted = frame.aggregate(vec![], wanted).map_err(from_datafusion)?.collect().await;
        let counted = counted.map_err(from_datafusion)?;
        let Some(counted) = counted.first().filter(|batch| batch.num_rows() == 1) else {
            return Err(Error::internal("a count without a row"));
        };
        let mut counts = counted.columns().iter();
        let mut next = |to: &DataType| -> Result<ArrayRef> {
            let column = counts.next().ok_or_else(|| Error::internal("a count that is missing"))?;
            cast(column, to).map_err(|error| from_datafusion(error.into()))
        };
        let number = |column: ArrayRef| {
            column.as_primitive_opt::<Int64Type>().map_or(0, |column| column.values().first().copied().unwrap_or(0))
        };
        let text = |column: ArrayRef| {
            let column = column.as_string_opt::<i32>()?;
            column.is_valid(0).then(|| column.value(0).to_owned())
        };
        let rows = number(next(&DataType::Int64)?);
        let (mut names, mut types, mut nulls, mut distinct) = (vec![], vec![], vec![], vec![]);
        let (mut least, mut greatest) = (vec![], vec![]);
        for field in fields {
            names.push(field.name().clone());
            types.push(sql_type(field.data_type()).to_string());
            nulls.push(rows - number(next(&DataType::Int64)?));
            distinct.push(number(next(&DataType::Int64)?));
            let has_order = is_ordered(field.data_type());
            least.push(if has_order { text(next(&DataType::Utf8)?) } else { None });
            greatest.push(if has_order { text(next(&DataType::Utf8)?) } else { None });
        }
        let columns = nulls.iter().zip(&distinct);
        let columns =
            columns.map(|(nulls, distinct)| ColumnTotals { nulls: *nulls as f64, distinct: *distinct as f64 });
        let totals = Totals { rows: rows as f64, bytes: 0.0, columns: columns.collect() };
        table.keep_totals(query, totals, self.beside).await?;
        let told: [(&str, ArrayRef, bool); 7] = [
            ("column", Arc::new(StringArray::from(names)), false),
            ("type", Arc::new(StringArray::from(types)), false),
            ("rows", Arc::new(Int64Array::from(vec![rows; nulls.len()])), false),
            ("nulls", Arc::new(Int64Array::from(nulls)), false),
            ("distinct", Arc::new(Int64Array::from(distinct)), false),
            ("least", Arc::new(StringArray::from(least)), true),
            ("greatest", Arc::new(StringArray::from(greatest)), true),
        ];
        RecordBatch::try_from_iter_with_nullable(told)
            .map_err(|e| Error::internal("columns of different lengths").with_source(e))
    }
}

fn is_ordered(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8
            | DataType::Utf8View
            | DataType::LargeUtf8
            | DataType::Date32
            | DataType::Timestamp(..)
            | DataType::Decimal128(..)
            | DataType::Float32
            | DataType::Float64
    ) || data_type.is_integer()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse_with;

    fn parse(sql: &str) -> Result<Option<AnalyzeTable>> {
        parse_with(sql, super::parse)
    }

    #[test]
    fn statements_that_count_are_read() {
        let analyze = |table: &str, beside| Some(AnalyzeTable { table: TableReference::parse_str(table), beside });
        assert_eq!(parse("ANALYZE TABLE t;").unwrap(), analyze("t", false));
        assert_eq!(parse("analyze s.\"T\"").unwrap(), analyze("s.\"T\"", false));
        assert_eq!(parse("ANALYZE TABLE t WITH (beside = true)").unwrap(), analyze("t", true));
        assert_eq!(parse("ANALYZE 's3://b/t/'").unwrap(), analyze("\"s3://b/t/\"", false));
        assert_eq!(parse("EXPLAIN ANALYZE SELECT 1").unwrap(), None);
        assert_eq!(parse("SELECT 'analyze'").unwrap(), None);
    }

    #[test]
    fn mistakes_are_named() {
        for (sql, part) in [
            ("ANALYZE", "found the end"),
            ("ANALYZE TABLE t (a)", "found '('"),
            ("ANALYZE TABLE t WITH (somewhere = 'x')", "expected (beside = true)"),
        ] {
            let error = parse(sql).unwrap_err().to_string();
            assert!(error.contains(part), "{sql}: {error}");
        }
    }
}
