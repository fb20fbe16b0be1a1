//! Writes the rows of Arrow batches as records in CSV or JSON.

use arrow::array::RecordBatch;
use pushdowndb_contract::{CsvOptions, Error, Result};

use super::csv::CsvWriter;
use super::json::JsonWriter;
use super::values::Column;

/// A writer of records.
#[derive(Clone, Debug)]
pub(super) enum RowWriter {
    Csv(CsvWriter),
    Json(JsonWriter),
}

/// The rules for writing rows.
#[derive(Clone, Debug)]
pub(super) struct RowRules {
    pub writer: RowWriter,
    /// The CSV dialect of the last column, if that column holds the remaining fields of CSV
    /// records.
    pub rest: Option<CsvOptions>,
    /// Maximum length of a record, in bytes.
    pub record_bytes: usize,
}

/// The rows of one batch that are being written.
pub(super) struct Rows {
    columns: Vec<Column>,
    count: usize,
    at: usize,
}

impl Rows {
    /// Prepares the rows of `batch` to be written by `rules`.
    pub fn new(batch: &RecordBatch, rules: &RowRules) -> Result<Self> {
        let (data, rest) = match (&rules.rest, batch.columns().split_last()) {
            (Some(options), Some((rest, data))) => (data, Some(Column::rest(rest, options)?)),
            _ => (batch.columns(), None),
        };
        let is_plain = |text: &[u8]| rules.writer.is_plain(text);
        let data = data.iter().map(|array| Column::new(array, &is_plain));
        let columns = data.chain(rest.map(Ok)).collect::<Result<_>>()?;
        Ok(Self { columns, count: batch.num_rows(), at: 0 })
    }

    /// Writes rows until `out` holds `enough` bytes. Returns whether rows are left.
    pub fn fill(&mut self, rules: &RowRules, out: &mut Vec<u8>, enough: usize) -> Result<bool> {
        while self.at < self.count && out.len() < enough {
            let start = out.len();
            let max_bytes = rules.record_bytes;
            match &rules.writer {
                RowWriter::Csv(csv) => csv.record(out, &self.columns, self.at, max_bytes),
                RowWriter::Json(json) => json.record(out, &self.columns, self.at, max_bytes),
            }
            if out.len() - start > rules.record_bytes {
                out.truncate(start);
                let message = format!("a record of the result is longer than {} bytes", rules.record_bytes);
                return Err(Error::invalid(message).with_code("OverMaxRecordSize"));
            }
            self.at += 1;
        }
        Ok(self.at < self.count)
    }
}

impl RowWriter {
    /// Whether `text` is written unchanged.
    fn is_plain(&self, text: &[u8]) -> bool {
        match self {
            Self::Csv(csv) => csv.is_plain(text),
            Self::Json(json) => json.is_plain(text),
        }
    }
}

#[cfg(test)]
mod tests;
