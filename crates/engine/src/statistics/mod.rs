//! What is known of a table's rows before a query reads them.
//!
//! ```text
//! draw        few ranges of a table's objects -> Looked            one round of requests, in parallel
//!   TableSample   of text: rows, with the piece and the block each came from
//!   Footers       of Parquet: rows, bytes and bounds of columns
//! statement   ANALYZE TABLE -> Totals                              all rows, counted
//! seen        earlier queries -> Seen                              bytes storage read, their time, rows that passed, keys of joins
//! columns     what DataFusion's optimizer takes of a column        NULLs, distinct values
//! catalogue   kept by the ETags of the objects                     a table that did not change is not looked at again
//! ```
//!
//! The share of rows that a query's own predicate keeps is measured on the sample rather than guessed from figures of
//! its columns (YourSQL, Section 3.2.1: the sampler), so that conditions that depend on each other are right. Parquet
//! has no place where some rows of all columns are, but footers.

mod catalogue;
mod columns;
mod draw;
mod footers;
mod sample;
mod seen;
mod statement;
mod totals;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::stats::ColumnStatistics;
use pushdown::Expr;

pub(crate) use catalogue::{Catalogue, Key, totals_from_json, totals_to_json};
pub(crate) use columns::ColumnFigures;
pub(crate) use draw::draw;
pub(crate) use footers::Footers;
pub(crate) use sample::{Kept, TableSample};
pub(crate) use seen::{Core, Seen, hash_of};
pub(crate) use statement::parse;
pub(crate) use totals::Totals;

/// What is known of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct TableStatistics {
    /// From a few ranges of its objects.
    looked: Option<Looked>,
    /// From all of its rows.
    totals: Option<Totals>,
    /// From earlier queries.
    seen: Arc<Seen>,
}

/// What a few ranges of a table's objects tell.
#[derive(Clone, Debug)]
pub(crate) enum Looked {
    /// Some of its rows.
    Sample(TableSample),
    /// Its footers, and the columns that they are about.
    Footers(Footers, SchemaRef),
}

impl TableStatistics {
    /// The same with all rows counted.
    fn with_totals(&self, totals: Totals) -> Self {
        Self { looked: self.looked.clone(), totals: Some(totals), seen: Arc::clone(&self.seen) }
    }

    /// What earlier queries found out.
    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Bytes of the objects for each row.
    pub(crate) fn row_bytes(&self) -> f64 {
        match (&self.totals, &self.looked) {
            (Some(totals), _) => totals.row_bytes(),
            (None, Some(Looked::Sample(sample))) => sample.row_bytes,
            (None, Some(Looked::Footers(footers, _))) => footers.row_bytes(),
            (None, None) => 1.0,
        }
    }

    /// What the predicate keeps; `None` where nobody can tell.
    pub(crate) fn kept(&self, predicate: &Expr) -> Option<Kept> {
        match self.looked.as_ref()? {
            Looked::Sample(sample) => sample.kept(predicate),
            Looked::Footers(footers, schema) => {
                let (rows, blocks) = (footers.kept(predicate, schema), footers.groups_kept(predicate, schema));
                Some(Kept { rows, blocks })
            }
        }
    }

    /// How many groups these keys make of the rows that fulfil the predicate.
    pub(crate) fn groups(&self, keys: &[Expr], predicate: Option<&Expr>) -> Option<f64> {
        if let ([Expr::Column(column)], None, Some(totals)) = (keys, predicate, &self.totals) {
            return totals.distinct(*column);
        }
        match self.looked.as_ref()? {
            Looked::Sample(sample) => sample.distinct(keys, predicate),
            // Keys of one table are seldom independent, but how they depend no footer tells.
            Looked::Footers(footers, schema) => {
                let distinct = keys.iter().map(|key| match key {
                    Expr::Column(column) => footers.distinct_of(*column, schema.fields().get(*column)?.data_type()),
                    _ => None,
                });
                distinct.product()
            }
        }
    }

    /// The shares of the rows that fulfil the predicate which the most frequent values of the keys have, where that is
    /// at least `share`, falling; `None` where nobody can tell.
    pub(crate) fn frequent(&self, keys: &[Expr], predicate: Option<&Expr>, share: f64) -> Option<Vec<f64>> {
        match self.looked.as_ref()? {
            Looked::Sample(sample) => Some(sample.frequent(keys, predicate, share)),
            Looked::Footers(..) => None,
        }
    }

    /// Bytes of a value of the column as storage sends it.
    pub(crate) fn value_bytes(&self, column: usize) -> Option<f64> {
        match self.looked.as_ref()? {
            Looked::Sample(sample) => sample.text_bytes(column),
            Looked::Footers(footers, schema) => footers.value_bytes(column, schema.fields().get(column)?.data_type()),
        }
    }

    /// How many stretches of row groups these columns make of objects of so many bytes, where stretches no further apart
    /// than `gap` are one; `None` of text, which is read whole.
    pub(crate) fn stretches(&self, columns: &[usize], bytes: f64, gap: f64) -> Option<f64> {
        match self.looked.as_ref()? {
            Looked::Sample(_) => None,
            Looked::Footers(footers, _) => footers.stretches(columns, bytes, gap),
        }
    }

    /// The share of the objects' bytes that these columns have; `None` of text.
    pub(crate) fn stored_share(&self, columns: &[usize]) -> Option<f64> {
        match self.looked.as_ref()? {
            Looked::Sample(_) => None,
            Looked::Footers(footers, _) => footers.stored_share(columns),
        }
    }

    /// What DataFusion's optimizer takes of a column, for so many rows.
    pub(crate) fn column(&self, column: usize, rows: f64) -> Option<ColumnStatistics> {
        if let Some(figures) = self.totals.as_ref().and_then(|totals| totals.column(column)) {
            return Some(figures.statistics(rows));
        }
        match self.looked.as_ref()? {
            Looked::Sample(sample) => Some(sample.column(column)?.statistics(rows)),
            Looked::Footers(footers, schema) => {
                let distinct = footers.distinct_of(column, schema.fields().get(column)?.data_type())?;
                let null_share = footers.null_share(column)?;
                Some(ColumnFigures { null_share, distinct }.statistics(rows))
            }
        }
    }
}

/// Shared by the scans of a table.
pub(crate) type SharedStatistics = Arc<TableStatistics>;
