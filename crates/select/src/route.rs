//! Frames of the fragment route: the framing of S3 Select, with a [`RouteEvent`] in each frame.

use aws_smithy_types::event_stream::Message;
use bytes::Bytes;
use pushdowndb_contract::Result;
use pushdowndb_contract::wire::{EventParts, RouteEvent};

use crate::messages::{self, FrameEvent, corrupt};

/// Encodes `event` as one frame.
pub fn frame(event: &RouteEvent) -> Result<Bytes> {
    let EventParts { kind, headers, payload } = event.to_parts();
    messages::event(kind, &headers, payload)
}

impl FrameEvent for RouteEvent {
    fn read(message: &Message) -> Result<Self> {
        if messages::text(message, ":message-type") != Some("event") {
            return Err(corrupt("a frame is no event"));
        }
        let kind = messages::text(message, ":event-type").ok_or_else(|| corrupt("an event has no type"))?;
        Self::from_parts(kind, |name| messages::number(message, name), message.payload())
    }

    fn is_end(&self) -> bool {
        *self == Self::End
    }
}

#[cfg(test)]
mod tests {
    use pushdowndb_contract::ErrorKind;
    use pushdowndb_contract::wire::{Failure, RouteStats, SplitStats};

    use super::*;
    use crate::EventDecoder;

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
        let mut decoder = EventDecoder::default();
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
        let bytes: Vec<u8> = events().iter().flat_map(|event| frame(event).unwrap()).collect();
        for piece_bytes in [1, 13, 4096, bytes.len()] {
            assert_eq!(decode(&bytes, piece_bytes).unwrap(), events());
        }
    }

    #[test]
    fn what_is_cut_or_damaged_is_no_answer() {
        let bytes: Vec<u8> =
            [&RouteEvent::Cont, &events()[3], &RouteEvent::End].iter().flat_map(|e| frame(e).unwrap()).collect();
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
