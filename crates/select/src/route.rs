//! The answer on the fragment route of our own node: the framing of S3 Select's answers with events of its own.
//!
//! | event | headers | payload |
//! | --- | --- | --- |
//! | `Batch` | `split`, `dictionaries` | a piece of the Arrow IPC messages of one batch; the pieces of a batch follow each other |
//! | `SplitEnd` | `split` | [`SplitStats`]: all rows of the split have been sent |
//! | `SplitFailed` | `split` | [`Failure`]: no more comes of the split; others may be complete |
//! | `Range` | `range` | the next bytes of this range |
//! | `Cont` | | the connection is alive |
//! | `Stats` | | [`RouteStats`] |
//! | `Failed` | | [`Failure`]: nothing more comes at all |
//! | `End` | | the answer is complete |

use aws_smithy_types::event_stream::Message;
use bytes::Bytes;
use pushdown::Result;
use pushdown::wire::{Failure, RouteStats, SplitStats};

use crate::messages::{self, MessageDecoder, corrupt};

/// One event of the answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RouteEvent {
    /// A piece of a batch of a split.
    Batch {
        /// Its place among the splits of the request.
        split: u32,
        /// Which of its columns are dictionaries, a bit each. Batches of the same columns are one stream of messages.
        dictionaries: u32,
        /// Arrow IPC messages, cut anywhere: dictionaries and a record batch, without the schema, which both sides know.
        bytes: Bytes,
    },
    /// All rows of a split have been sent.
    SplitEnd {
        /// Its place among the splits of the request.
        split: u32,
        /// What it took.
        stats: SplitStats,
    },
    /// A split failed.
    SplitFailed {
        /// Its place among the splits of the request.
        split: u32,
        /// Why.
        failure: Failure,
    },
    /// Some bytes of a range.
    Range {
        /// Its place among the ranges of the request.
        range: u32,
        /// The next of its bytes.
        bytes: Bytes,
    },
    /// The connection is alive.
    Cont,
    /// What was done in all.
    Stats(RouteStats),
    /// The request failed.
    Failed(Failure),
    /// The answer is complete.
    End,
}

impl RouteEvent {
    /// The event as a message.
    pub fn to_bytes(&self) -> Result<Bytes> {
        let empty = Bytes::new;
        match self {
            Self::Batch { split, dictionaries: 0, bytes } => {
                messages::event("Batch", &[("split", *split)], bytes.clone())
            }
            Self::Batch { split, dictionaries, bytes } => {
                messages::event("Batch", &[("split", *split), ("dictionaries", *dictionaries)], bytes.clone())
            }
            Self::SplitEnd { split, stats } => {
                messages::event("SplitEnd", &[("split", *split)], stats.to_bytes().into())
            }
            Self::SplitFailed { split, failure } => {
                messages::event("SplitFailed", &[("split", *split)], failure.to_bytes().into())
            }
            Self::Range { range, bytes } => messages::event("Range", &[("range", *range)], bytes.clone()),
            Self::Cont => messages::event("Cont", &[], empty()),
            Self::Stats(stats) => messages::event("Stats", &[], stats.to_bytes().into()),
            Self::Failed(failure) => messages::event("Failed", &[], failure.to_bytes().into()),
            Self::End => messages::event("End", &[], empty()),
        }
    }
}

/// Takes events out of the bytes of an answer, however they are cut.
#[derive(Debug, Default)]
pub struct RouteDecoder(MessageDecoder);

impl RouteDecoder {
    /// Takes the next bytes of the answer.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    /// The next event, or `None` until more bytes are fed.
    #[expect(clippy::should_implement_trait, reason = "an iterator would end where this waits for bytes")]
    pub fn next(&mut self) -> Result<Option<RouteEvent>> {
        let Some(message) = self.0.next()? else { return Ok(None) };
        let event = event(&message)?;
        if event == RouteEvent::End {
            self.0.end();
        }
        Ok(Some(event))
    }

    /// Says that no more bytes come. An answer without its End event is truncated.
    pub fn finish(&self) -> Result<()> {
        self.0.finish()
    }
}

fn event(message: &Message) -> Result<RouteEvent> {
    if messages::text(message, ":message-type") != Some("event") {
        return Err(corrupt("a frame is no event"));
    }
    let number = |name| messages::number(message, name).ok_or_else(|| corrupt(&format!("an event lacks its {name}")));
    let payload = message.payload();
    Ok(match messages::text(message, ":event-type") {
        Some("Batch") => {
            // Left out where there are none.
            let dictionaries = messages::number(message, "dictionaries").unwrap_or(0);
            RouteEvent::Batch { split: number("split")?, dictionaries, bytes: payload.clone() }
        }
        Some("SplitEnd") => RouteEvent::SplitEnd { split: number("split")?, stats: SplitStats::from_bytes(payload)? },
        Some("SplitFailed") => {
            RouteEvent::SplitFailed { split: number("split")?, failure: Failure::from_bytes(payload)? }
        }
        Some("Range") => RouteEvent::Range { range: number("range")?, bytes: payload.clone() },
        Some("Cont") => RouteEvent::Cont,
        Some("Stats") => RouteEvent::Stats(RouteStats::from_bytes(payload)?),
        Some("Failed") => RouteEvent::Failed(Failure::from_bytes(payload)?),
        Some("End") => RouteEvent::End,
        other => return Err(corrupt(&format!("an event is of type {other:?}"))),
    })
}

#[cfg(test)]
mod tests {
    use pushdown::ErrorKind;

    use super::*;

    fn events() -> Vec<RouteEvent> {
        let failure = || Failure { kind: ErrorKind::Conflict, message: "k: changed".into() };
        vec![
            RouteEvent::Cont,
            RouteEvent::Batch { split: 0, dictionaries: 0, bytes: Bytes::from_static(b"abc") },
            RouteEvent::Batch { split: 3, dictionaries: 5, bytes: Bytes::from_static(b"de") },
            RouteEvent::SplitEnd {
                split: 7,
                stats: SplitStats { rows: 3, bytes_scanned: 9, index_code: 1, places: 4, bytes_ruled_out: 5 },
            },
            RouteEvent::SplitFailed { split: 4095, failure: failure() },
            RouteEvent::Range { range: 1, bytes: Bytes::from(vec![7; 1 << 20]) },
            RouteEvent::Stats(RouteStats { cpu_ns: 5, ..RouteStats::default() }),
            RouteEvent::Failed(failure()),
            RouteEvent::End,
        ]
    }

    fn decode(bytes: &[u8], piece_bytes: usize) -> Result<Vec<RouteEvent>> {
        let mut decoder = RouteDecoder::default();
        let mut events = Vec::new();
        for piece in bytes.chunks(piece_bytes) {
            decoder.feed(piece);
            while let Some(event) = decoder.next()? {
                events.push(event);
            }
        }
        decoder.finish()?;
        Ok(events)
    }

    #[test]
    fn events_come_back_however_they_are_cut() {
        let bytes: Vec<u8> = events().iter().flat_map(|event| event.to_bytes().unwrap()).collect();
        for piece_bytes in [1, 13, 4096, bytes.len()] {
            assert_eq!(decode(&bytes, piece_bytes).unwrap(), events());
        }
    }

    #[test]
    fn what_is_cut_or_damaged_is_no_answer() {
        let bytes: Vec<u8> =
            [&RouteEvent::Cont, &events()[3], &RouteEvent::End].iter().flat_map(|e| e.to_bytes().unwrap()).collect();
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end], 64).unwrap_err().kind(), ErrorKind::Unavailable, "cut at {end}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged, 64).is_err(), "damaged at {at}");
        }
        assert!(decode(&[&bytes[..], &bytes[..]].concat(), 64).is_err(), "bytes follow the end");
    }
}
