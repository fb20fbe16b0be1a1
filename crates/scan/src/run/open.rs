//! Opening the source of an object, depending on its format.

use pushdowndb_contract::{Expr, Format, Fragment, Output, Result};

use crate::parquet::scan::{ParquetOptions, ParquetScan};
use crate::source::{BatchSource, ScanInput};
use crate::text::csv::scan::CsvScan;
use crate::text::json::scan::JsonScan;
use crate::text::{csv, json};
use crate::zones::zone::{ZoneColumn, can_be_zoned};

/// A source of rows, and the fragment's output rewritten to the source's batches.
pub(crate) type Opened = (Box<dyn BatchSource>, Output);

/// Opens the source for the part of an object that `input` describes.
pub(crate) fn open_source(fragment: &Fragment, input: ScanInput, parquet: ParquetOptions) -> Result<Opened> {
    fn boxed<S: BatchSource + 'static>((source, output): (S, Output)) -> Opened {
        (Box::new(source), output)
    }
    match &fragment.format {
        Format::Csv(options) => CsvScan::new(fragment, options, input).map(boxed),
        Format::Json(options) => JsonScan::new(fragment, options, input).map(boxed),
        Format::Parquet => ParquetScan::new(fragment, parquet, input).map(boxed),
    }
}

/// Returns the condition by which zones can be pruned, and its columns; `None` if there is no such
/// condition.
pub(crate) fn zoned(fragment: &Fragment) -> Result<Option<(Expr, Vec<ZoneColumn>)>> {
    if !can_be_zoned(fragment) {
        return Ok(None);
    }
    match &fragment.format {
        Format::Csv(options) => csv::scan::zoned(fragment, options),
        Format::Json(options) => json::scan::zoned(fragment, options),
        Format::Parquet => Ok(None),
    }
}
