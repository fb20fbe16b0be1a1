//! The output of a row group: batches of the rows that passed.

use std::ops::Range;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, SchemaRef};
use pushdowndb_contract::Result;
use tokio::sync::OwnedSemaphorePermit;

use crate::batch::record_batch;
use crate::error::from_arrow;
use crate::parquet::decode::adapt::unexpected_null;
use crate::parquet::decode::batches::Batches;
use crate::parquet::decode::dictionary_codes::DictionaryCodes;
use crate::parquet::decode::fixed_width::FixedWidth;
use crate::parquet::errors::explain;
use crate::runtime::interrupt::check_interrupt;
use crate::runtime::memory::Reservation;

#[derive(Debug)]
pub(crate) struct RowGroupOutput {
    pub(crate) location: String,
    pub(crate) schema: SchemaRef,
    /// Columns that are decoded, including rows in gaps between those that passed.
    pub(crate) batches: Batches,
    /// For each decoded row, whether it passed; `None` if all of them did.
    pub(crate) wanted: Option<BooleanArray>,
    /// The number of rows decoded so far.
    pub(crate) decoded: usize,
    /// Columns that are read directly from their pages.
    pub(crate) direct: Vec<Direct>,
    /// For each row of the row group, whether it passed.
    pub(crate) passing: BooleanBuffer,
    /// The index of the row after the last returned one, and the number of rows returned.
    pub(crate) at: usize,
    pub(crate) given: usize,
    /// The source of each output column.
    pub(crate) origins: Vec<Origin>,
    /// Memory for the bits of rows, and for columns held since the predicate.
    pub(crate) _reserved: [Reservation; 2],
    /// The permit to decode, until all rows are returned.
    pub(crate) _permit: Option<OwnedSemaphorePermit>,
}

/// A column of which only the rows that passed are read, directly from its pages.
#[derive(Debug)]
pub(crate) enum Direct {
    DictionaryCodes(DictionaryCodes),
    FixedWidth(FixedWidth),
}

impl Direct {
    /// Returns the type of the output column.
    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Self::DictionaryCodes(column) => column.data_type(),
            Self::FixedWidth(column) => column.data_type().clone(),
        }
    }

    fn next(&mut self, runs: &[Range<usize>]) -> ::parquet::errors::Result<ArrayRef> {
        match self {
            Self::DictionaryCodes(column) => column.next(runs),
            Self::FixedWidth(column) => column.next(runs),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// The values of all rows that passed, which were decoded for the predicate.
    Kept(ArrayRef),
    /// The index among the decoded columns.
    Decoded(usize),
    /// The index among the columns that are read directly.
    Direct(usize),
}

impl RowGroupOutput {
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(mut batch) = self.batches.next()? {
            check_interrupt()?;
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
            let direct = self.direct_columns(rows)?;
            let column = |(origin, field): (&Origin, &arrow::datatypes::FieldRef)| match origin {
                Origin::Kept(column) => Ok(Some(column.slice(self.given, rows))),
                Origin::Decoded(place) => Ok(batch.columns().get(*place).cloned()),
                Origin::Direct(place) => match direct.get(*place) {
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

    /// Returns the next rows of the columns that are read directly.
    fn direct_columns(&mut self, rows: usize) -> Result<Vec<ArrayRef>> {
        if self.direct.is_empty() {
            return Ok(Vec::new());
        }
        let runs = runs(&self.passing, &mut self.at, rows);
        let columns = self.direct.iter_mut().map(|column| column.next(&runs));
        columns.collect::<::parquet::errors::Result<_>>().map_err(|error| explain(&self.location, error))
    }
}

/// Returns the ranges of the next `rows` set bits from row `at` on, and moves `at` past them.
pub(crate) fn runs(bits: &BooleanBuffer, at: &mut usize, mut rows: usize) -> Vec<Range<usize>> {
    let (from, mut runs) = (*at, Vec::new());
    for (start, end) in bits.slice(from, bits.len() - from).set_slices() {
        let end = end.min(start + rows);
        rows -= end - start;
        runs.push(from + start..from + end);
        *at = from + end;
        if rows == 0 {
            break;
        }
    }
    runs
}
