//! The rows of a row group that passed, on their way out.

use std::ops::Range;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use pushdown::Result;

use super::adapt::unexpected_null;
use super::coded::Coded;
use super::decode::Batches;
use super::errors::explain;
use crate::errors::from_arrow;
use crate::output::record_batch;

/// The rows of a row group that passed.
#[derive(Debug)]
pub(super) struct GroupRows {
    pub(super) location: String,
    pub(super) schema: SchemaRef,
    /// Columns that are decoded, with rows between those that passed.
    pub(super) batches: Batches,
    /// Which of the rows that are decoded passed; all of them without.
    pub(super) wanted: Option<BooleanArray>,
    /// How many were decoded.
    pub(super) decoded: usize,
    /// Columns that are read as places in their dictionaries.
    pub(super) coded: Vec<Coded>,
    /// A bit for each row of the row group: whether it passed.
    pub(super) passing: BooleanBuffer,
    /// The first row after those that came out, and how many did.
    pub(super) at: usize,
    pub(super) given: usize,
    /// For each column that comes out where it is from.
    pub(super) origins: Vec<Origin>,
}

#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// It was decoded for the predicate: its values of all rows that passed.
    Kept(ArrayRef),
    /// It is this one of those that are decoded.
    Decoded(usize),
    /// It is this one of those that are read as places in a dictionary.
    Coded(usize),
}

impl GroupRows {
    /// The next rows, of the columns that come out.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(mut batch) = self.batches.next()? {
            if let Some(wanted) = &self.wanted {
                let own = wanted.slice(self.decoded, batch.num_rows());
                self.decoded += batch.num_rows();
                if own.true_count() < own.len() {
                    batch = filter_record_batch(&batch, &own).map_err(from_arrow)?;
                }
            }
            let rows = batch.num_rows();
            if rows == 0 {
                continue;
            }
            let coded = self.coded_columns(rows)?;
            let column = |(origin, field): (&Origin, &arrow::datatypes::FieldRef)| match origin {
                Origin::Kept(column) => Ok(Some(column.slice(self.given, rows))),
                Origin::Decoded(place) => Ok(batch.columns().get(*place).cloned()),
                Origin::Coded(place) => match coded.get(*place) {
                    Some(column) if column.null_count() > 0 && !field.is_nullable() => {
                        Err(unexpected_null(&self.location, field))
                    }
                    column => Ok(column.cloned()),
                },
            };
            let columns = self.origins.iter().zip(self.schema.fields()).map(column);
            let columns = columns.filter_map(Result::transpose).collect::<Result<_>>()?;
            self.given += rows;
            return record_batch(&self.schema, columns, rows).map(Some);
        }
        Ok(None)
    }

    /// The next rows of those columns that are read as places in their dictionaries.
    fn coded_columns(&mut self, rows: usize) -> Result<Vec<ArrayRef>> {
        if self.coded.is_empty() {
            return Ok(Vec::new());
        }
        let runs = self.runs(rows);
        let columns = self.coded.iter_mut().map(|column| column.next(&runs));
        columns.collect::<::parquet::errors::Result<_>>().map_err(|error| explain(&self.location, error))
    }

    /// Where the next rows lie that passed.
    fn runs(&mut self, mut rows: usize) -> Vec<Range<usize>> {
        let (from, mut runs) = (self.at, Vec::new());
        for (start, end) in self.passing.slice(from, self.passing.len() - from).set_slices() {
            let end = end.min(start + rows);
            rows -= end - start;
            runs.push(from + start..from + end);
            self.at = from + end;
            if rows == 0 {
                break;
            }
        }
        runs
    }
}
