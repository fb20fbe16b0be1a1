//! The part of an object that is scanned.

use std::ops::Range;

use pushdowndb_contract::{Compression, Error, Format, Fragment, JsonShape, Output, Result};

/// Selects the records of an object that are scanned.
#[derive(Clone, Debug)]
pub enum ScanRange {
    /// Text: the records whose first byte lies in the range. Parquet: the row groups whose first
    /// column chunk starts in the range. `None` selects all.
    Bytes(Option<Range<u64>>),
    /// All records, each with its position in two additional columns ([`crate::POSITION_COLUMNS`]).
    /// Only for text that can be cut into records one by one, and for Parquet without a predicate.
    WithPositions,
    /// Parquet: the rows with these numbers. A bound inside a row group is moved to the start of a
    /// page, in the same way for all ranges of a fragment. So adjacent ranges yield each row once,
    /// and no page is read twice unless pages of different columns start at different rows.
    Rows(Range<u64>),
    /// The records in these parts, in this order. Text: byte ranges from the start of a record to
    /// the end of a record, with or without its line end. Parquet: ranges of row numbers.
    Records(Vec<Range<u64>>),
}

impl From<Option<Range<u64>>> for ScanRange {
    fn from(range: Option<Range<u64>>) -> Self {
        Self::Bytes(range)
    }
}

impl ScanRange {
    pub(crate) fn range(&self) -> Option<Range<u64>> {
        match self {
            Self::Bytes(range) => range.clone(),
            Self::WithPositions | Self::Rows(_) | Self::Records(_) => None,
        }
    }

    pub(crate) fn has_positions(&self) -> bool {
        matches!(self, Self::WithPositions)
    }

    pub(crate) fn parts(&self) -> Option<&[Range<u64>]> {
        match self {
            Self::Records(parts) => Some(parts),
            Self::Bytes(_) | Self::Rows(_) | Self::WithPositions => None,
        }
    }

    /// Returns an error if the object's records have no positions, or if the fragment's rows are
    /// not records.
    pub(crate) fn check(&self, fragment: &Fragment, location: &str) -> Result<()> {
        match self {
            Self::Bytes(_) => return Ok(()),
            Self::Rows(_) if fragment.format == Format::Parquet => return Ok(()),
            Self::Rows(_) => return Err(Error::internal(format!("{location}: its rows have no numbers"))),
            Self::WithPositions | Self::Records(_) => {}
        }
        let records = matches!(fragment.output, Output::Rows(_))
            && fragment.order.is_empty()
            && fragment.project.is_none()
            && (fragment.predicate.is_none() || fragment.format != Format::Parquet);
        let why = match &fragment.format {
            _ if self.has_positions() && !records => "the rows asked for are no records of it",
            other if other.compression() != Compression::None => "it is compressed",
            Format::Csv(options) if options.wide.is_some() => "its marks are longer than one byte",
            Format::Json(options) if options.shape != JsonShape::Lines || options.raw_tokens => {
                "its records are no lines"
            }
            _ => return Ok(()),
        };
        Err(Error::unsupported(format!("{location}: its records cannot be read one by one: {why}")))
    }
}
