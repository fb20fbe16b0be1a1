//! The rows of a row group that passed, on their way out.

use std::ops::Range;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, SchemaRef};
use pushdown::Result;

use super::adapt::unexpected_null;
use super::coded::Coded;
use super::decode::Batches;
use super::errors::explain;
use super::fixed::Fixed;
use crate::Reservation;
use crate::errors::from_arrow;
use crate::interrupt::check_interrupt;
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
    /// Columns that are read out of their pages.
    pub(super) direct: Vec<Direct>,
    /// A bit for each row of the row group: whether it passed.
    pub(super) passing: BooleanBuffer,
    /// The first row after those that came out, and how many did.
    pub(super) at: usize,
    pub(super) given: usize,
    /// For each column that comes out where it is from.
    pub(super) origins: Vec<Origin>,
    /// For the bits of rows, and for columns that are kept.
    pub(super) _reserved: [Reservation; 2],
}

/// A column that is read out of its pages, the rows alone that passed.
#[derive(Debug)]
pub(super) enum Direct {
    Coded(Coded),
    Fixed(Fixed),
}

impl Direct {
    /// The type of what comes out.
    pub(super) fn data_type(&self) -> DataType {
        match self {
            Self::Coded(column) => column.data_type(),
            Self::Fixed(column) => column.data_type().clone(),
        }
    }

    fn next(&mut self, runs: &[Range<usize>]) -> ::parquet::errors::Result<ArrayRef> {
        match self {
            Self::Coded(column) => column.next(runs),
            Self::Fixed(column) => column.next(runs),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// It was decoded for the predicate: its values of all rows that passed.
    Kept(ArrayRef),
    /// It is this one of those that are decoded.
    Decoded(usize),
    /// It is this one of those that are read out of their pages.
    Direct(usize),
}

impl GroupRows {
    /// The next rows, of the columns that come out.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
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

    /// The next rows of those columns that are read out of their pages.
    fn direct_columns(&mut self, rows: usize) -> Result<Vec<ArrayRef>> {
        if self.direct.is_empty() {
            return Ok(Vec::new());
        }
        let runs = runs(&self.passing, &mut self.at, rows);
        let columns = self.direct.iter_mut().map(|column| column.next(&runs));
        columns.collect::<::parquet::errors::Result<_>>().map_err(|error| explain(&self.location, error))
    }
}

/// Where the next rows lie whose bit is set, at most so many, from row `at` on, which moves past them.
pub(super) fn runs(bits: &BooleanBuffer, at: &mut usize, mut rows: usize) -> Vec<Range<usize>> {
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
