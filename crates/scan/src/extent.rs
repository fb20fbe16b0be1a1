//! What of an object is scanned.

use std::ops::Range;

use pushdown::{Compression, Error, Format, Fragment, JsonShape, Output, Result};

/// Which records of an object are scanned.
#[derive(Clone, Debug)]
pub enum Extent {
    /// Those whose first byte lies in the range, of Parquet the row groups whose first column chunk starts in it; all of them
    /// without one.
    Range(Option<Range<u64>>),
    /// All of them, with where each row's record lies in two more columns ([`crate::POSITION_COLUMNS`]): of text that is one
    /// record a line or may be cut into records one by one, and of Parquet without a predicate.
    Positions,
    /// Of Parquet about these rows, by number: a bound among the rows of a row group is moved to where a page begins, the same
    /// way for all ranges of one fragment. So ranges that touch have each row once, and no page is read for two of them, but
    /// where pages of several columns begin with different rows.
    About(Range<u64>),
    /// Those in these parts, in their order. Of text each part is of bytes, from where a record begins to where one ends, with
    /// or without its line end; of Parquet it is of row numbers.
    Parts(Vec<Range<u64>>),
}

impl From<Option<Range<u64>>> for Extent {
    fn from(range: Option<Range<u64>>) -> Self {
        Self::Range(range)
    }
}

impl Extent {
    pub(crate) fn range(&self) -> Option<Range<u64>> {
        match self {
            Self::Range(range) => range.clone(),
            Self::Positions | Self::About(_) | Self::Parts(_) => None,
        }
    }

    pub(crate) fn has_positions(&self) -> bool {
        matches!(self, Self::Positions)
    }

    pub(crate) fn parts(&self) -> Option<&[Range<u64>]> {
        match self {
            Self::Parts(parts) => Some(parts),
            Self::Range(_) | Self::About(_) | Self::Positions => None,
        }
    }

    /// Refuses objects whose records have no place of their own, and fragments whose rows are no records.
    pub(crate) fn check(&self, fragment: &Fragment, location: &str) -> Result<()> {
        match self {
            Self::Range(_) => return Ok(()),
            Self::About(_) if fragment.format == Format::Parquet => return Ok(()),
            Self::About(_) => return Err(Error::internal(format!("{location}: its rows have no numbers"))),
            Self::Positions | Self::Parts(_) => {}
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
