//! The events of a response on the fragment route.
//!
//! | event | headers | payload |
//! | --- | --- | --- |
//! | `Batch` | `split`, `dictionaries` | a piece of the Arrow IPC messages of one batch, in order |
//! | `SplitEnd` | `split` | [`SplitStats`]: all rows of the split have been sent |
//! | `SplitFailed` | `split` | [`Failure`]: the split ends here; others may be complete |
//! | `Range` | `range` | the next bytes of this range |
//! | `Cont` | | keep-alive |
//! | `Stats` | | [`RouteStats`] |
//! | `Failed` | | [`Failure`]: the request ends here |
//! | `End` | | the answer is complete |
//!
//! Each event is sent as one frame, with the framing of S3 Select (crate `pushdowndb-select`).

use bytes::Bytes;

use super::{Failure, RouteStats, SplitStats};
use crate::{Error, ErrorKind, Result};

/// One event of the response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RouteEvent {
    /// A piece of a batch of a split.
    Batch {
        /// The index of the split in the request.
        split: u32,
        /// A bit mask of the columns that are encoded as dictionaries. Batches with the same mask
        /// form one stream of messages.
        dictionaries: u32,
        /// Part of the Arrow IPC messages of the batch, which may be cut at any byte: dictionaries
        /// and a record batch. The schema is not sent, since both sides derive it from the request.
        bytes: Bytes,
    },
    /// All rows of a split have been sent.
    SplitEnd {
        /// The index of the split in the request.
        split: u32,
        /// Statistics of the work for the split.
        stats: SplitStats,
    },
    /// A split failed.
    SplitFailed {
        /// The index of the split in the request.
        split: u32,
        /// The reason.
        failure: Failure,
    },
    /// The next bytes of a range.
    Range {
        /// The index of the range in the request.
        range: u32,
        /// The next bytes of the range.
        bytes: Bytes,
    },
    /// Keep-alive.
    Cont,
    /// Statistics of the work for the request.
    Stats(RouteStats),
    /// The request failed.
    Failed(Failure),
    /// The answer is complete.
    End,
}

/// A [`RouteEvent`] split into the parts of its frame: type, headers and payload.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EventParts {
    /// The type of the event.
    pub kind: &'static str,
    /// Its headers, all of them numbers.
    pub headers: Vec<(&'static str, u32)>,
    /// Its payload.
    pub payload: Bytes,
}

impl RouteEvent {
    /// Returns the event as the parts of its frame.
    pub fn to_parts(&self) -> EventParts {
        let (kind, headers, payload) = match self {
            // The header is omitted for zero, the default of `dictionaries`.
            Self::Batch { split, dictionaries: 0, bytes } => ("Batch", vec![("split", *split)], bytes.clone()),
            Self::Batch { split, dictionaries, bytes } => {
                ("Batch", vec![("split", *split), ("dictionaries", *dictionaries)], bytes.clone())
            }
            Self::SplitEnd { split, stats } => ("SplitEnd", vec![("split", *split)], stats.to_bytes().into()),
            Self::SplitFailed { split, failure } => ("SplitFailed", vec![("split", *split)], failure.to_bytes().into()),
            Self::Range { range, bytes } => ("Range", vec![("range", *range)], bytes.clone()),
            Self::Cont => ("Cont", vec![], Bytes::new()),
            Self::Stats(stats) => ("Stats", vec![], stats.to_bytes().into()),
            Self::Failed(failure) => ("Failed", vec![], failure.to_bytes().into()),
            Self::End => ("End", vec![], Bytes::new()),
        };
        EventParts { kind, headers, payload }
    }

    /// Decodes an event of type `kind` from the headers, looked up by `header`, and the `payload`
    /// of its frame.
    pub fn from_parts(kind: &str, header: impl Fn(&str) -> Option<u32>, payload: &Bytes) -> Result<Self> {
        let corrupt = |what: String| Error::new(ErrorKind::Corrupt, format!("the answer of storage: {what}"));
        let number = |name| header(name).ok_or_else(|| corrupt(format!("an event lacks its {name}")));
        Ok(match kind {
            "Batch" => {
                let dictionaries = header("dictionaries").unwrap_or(0);
                Self::Batch { split: number("split")?, dictionaries, bytes: payload.clone() }
            }
            "SplitEnd" => Self::SplitEnd { split: number("split")?, stats: SplitStats::from_bytes(payload)? },
            "SplitFailed" => Self::SplitFailed { split: number("split")?, failure: Failure::from_bytes(payload)? },
            "Range" => Self::Range { range: number("range")?, bytes: payload.clone() },
            "Cont" => Self::Cont,
            "Stats" => Self::Stats(RouteStats::from_bytes(payload)?),
            "Failed" => Self::Failed(Failure::from_bytes(payload)?),
            "End" => Self::End,
            other => return Err(corrupt(format!("an event is of type '{other}'"))),
        })
    }
}
