//! Results of contestants, and their comparison.
//!
//! Contestants format values differently (`1.50`, `1.5`; a date as a timestamp), sum in different
//! orders and return rows in any order. Short results are compared value by value, long ones by
//! their number of rows and the sums of columns.

use std::cmp::Ordering;

use anyhow::{Context, Result};
use arrow::array::RecordBatch;
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde::{Deserialize, Serialize};

/// Results with more rows are reduced to a digest.
const SHORT_ROWS: usize = 1000;

/// The relative difference below which numbers count as equal: doubles are summed in different
/// orders, and averages of decimals have a fixed scale in some engines.
const TOLERANCE: f64 = 1e-6;

/// The result of a contestant.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// All rows.
    Rows(Vec<Vec<String>>),
    /// The number of rows, and the sum of each numeric column.
    Digest { rows: u64, sums: Vec<Option<f64>> },
    /// The contestant does work that has no result.
    Nothing,
}

impl Answer {
    /// Creates the result of rows of text.
    pub fn of_rows(rows: Vec<Vec<String>>) -> Self {
        if rows.len() <= SHORT_ROWS {
            return Self::Rows(rows);
        }
        let width = rows.first().map_or(0, Vec::len);
        let sum = |column: usize| rows.iter().map(|row| row.get(column)?.parse::<f64>().ok()).sum();
        Self::Digest { rows: rows.len() as u64, sums: (0..width).map(sum).collect() }
    }

    /// Creates the result of batches.
    pub fn of_batches(batches: &[RecordBatch]) -> Result<Self> {
        let mut rows = Vec::new();
        for batch in batches {
            let options = FormatOptions::default();
            let columns: Vec<ArrayFormatter<'_>> = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
                .collect::<Result<_, _>>()?;
            rows.extend(
                (0..batch.num_rows()).map(|row| columns.iter().map(|column| column.value(row).to_string()).collect()),
            );
        }
        Ok(Self::of_rows(rows))
    }

    /// Creates the result of CSV without a header, as S3 Select returns it.
    pub fn of_csv(bytes: &[u8]) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(Self::Rows(Vec::new()));
        }
        let (inferred, _) = Format::default().infer_schema(bytes, Some(1)).context("the answer of a server")?;
        let fields: Vec<Field> =
            (0..inferred.fields().len()).map(|n| Field::new(format!("_{n}"), DataType::Utf8, true)).collect();
        let reader = ReaderBuilder::new(Schema::new(fields).into()).build(bytes)?;
        let batches = reader.collect::<Result<Vec<_>, _>>().context("the answer of a server")?;
        Self::of_batches(&batches)
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Rows(rows) => rows.len() as u64,
            Self::Digest { rows, .. } => *rows,
            Self::Nothing => 0,
        }
    }

    /// Describes how this result differs from the right one; `None` if they agree.
    pub fn differs_from(&self, right: &Self) -> Option<String> {
        match (self, right) {
            (Self::Nothing, _) | (_, Self::Nothing) => None,
            (Self::Rows(ours), Self::Rows(theirs)) if ours.len() == theirs.len() => {
                let (ours, theirs) = (in_order(ours), in_order(theirs));
                ours.iter().zip(&theirs).find_map(|(a, b)| {
                    let same = a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same_cell(a, b));
                    (!same).then(|| format!("the row {} instead of {}", a.join(", "), b.join(", ")))
                })
            }
            (Self::Digest { rows: a, sums: ours }, Self::Digest { rows: b, sums: theirs }) if a == b => {
                let same = |(a, b): (&Option<f64>, &Option<f64>)| match (a, b) {
                    (Some(a), Some(b)) => near(*a, *b),
                    (a, b) => a.is_none() && b.is_none(),
                };
                let same = ours.len() == theirs.len() && ours.iter().zip(theirs).all(same);
                (!same).then(|| format!("sums of columns {ours:?} instead of {theirs:?}"))
            }
            _ => Some(format!("{} rows instead of {}", self.rows(), right.rows())),
        }
    }

    /// Describes why this is not a count of at least the right one; `None` if it is.
    pub fn is_less_than(&self, right: &Self) -> Option<String> {
        match (self.count(), right.count()) {
            (Some(ours), Some(theirs)) if ours >= theirs => None,
            (Some(ours), Some(theirs)) => Some(format!("a count of {ours}, which must be at least {theirs}")),
            _ => Some("no count".to_owned()),
        }
    }

    fn count(&self) -> Option<u64> {
        match self {
            Self::Rows(rows) => rows.first()?.first()?.parse().ok(),
            _ => None,
        }
    }
}

/// Removes the empty time from a date that is formatted as a timestamp. Returns other text
/// unchanged.
fn plain(cell: &str) -> &str {
    let date = cell.strip_suffix('T').or_else(|| cell.strip_suffix(" 00:00:00")).unwrap_or(cell);
    if date.len() == "1995-09-01".len() { date } else { cell }
}

fn same_cell(a: &str, b: &str) -> bool {
    plain(a) == plain(b) || matches!((a.parse(), b.parse()), (Ok(a), Ok(b)) if near(a, b))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()).max(1.0)
}

/// Sorts rows by their text and then by their numbers, which may be formatted in several ways.
fn in_order(rows: &[Vec<String>]) -> Vec<&Vec<String>> {
    let key = |row: &Vec<String>| {
        let numbers: Vec<Option<f64>> = row.iter().map(|cell| cell.parse().ok()).collect();
        let text = row.iter().zip(&numbers).map(|(cell, number)| number.map_or(plain(cell), |_| "").to_owned());
        (text.collect::<Vec<_>>(), numbers.into_iter().flatten().collect::<Vec<_>>())
    };
    let mut keyed: Vec<_> = rows.iter().map(|row| (key(row), row)).collect();
    keyed.sort_by(|((a, m), _), ((b, n), _)| {
        let numbers = || m.iter().zip(n).map(|(m, n)| m.total_cmp(n)).find(|order| order.is_ne());
        a.cmp(b).then_with(|| numbers().unwrap_or(Ordering::Equal))
    });
    keyed.into_iter().map(|(_, row)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Answer {
        Answer::of_csv(text.as_bytes()).unwrap()
    }

    #[test]
    fn spelling_and_order_do_not_matter() {
        let right = rows("1,1.50,1996-03-13,a\n2,0.1,1996-03-14,b\n");
        assert_eq!(rows("2,0.10000000001,1996-03-14T,b\n1,1.5,1996-03-13T,a\n").differs_from(&right), None);
        for wrong in ["1,1.50,1996-03-13,a\n", "1,1.5,1996-03-13,a\n2,0.2,1996-03-14,b\n", "1,1.5,x,a\n2,0.1,x,b\n", ""]
        {
            assert!(rows(wrong).differs_from(&right).is_some(), "{wrong}");
        }
    }

    #[test]
    fn long_answers_are_digested() {
        let text = |add: u32| (0..2000).map(|n| format!("{n},\"t,{n}\"\n")).collect::<String>() + &format!("{add},t\n");
        let right = rows(&text(1));
        assert_eq!(right, Answer::Digest { rows: 2001, sums: vec![Some(1_999_001.0), None] });
        assert_eq!(rows(&text(1)).differs_from(&right), None);
        assert!(rows(&text(9)).differs_from(&right).is_some());
        assert!(rows("1,t\n").differs_from(&right).is_some());
    }

    #[test]
    fn counts_with_false_positives() {
        assert_eq!(rows("12\n").is_less_than(&rows("10\n")), None);
        assert!(rows("9\n").is_less_than(&rows("10\n")).is_some());
        assert!(rows("").is_less_than(&rows("10\n")).is_some());
    }
}
