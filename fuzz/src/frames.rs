//! Responses to SelectObjectContent, split at any position.

use pushdowndb_select::{Event, EventDecoder, FrameEvent};

use crate::choices::Choices;

/// The events of a response up to the first error, and how the response ends.
type Decoded<E> = (Vec<E>, Result<(), String>);

/// Decodes a response whose bytes arrive in pieces of `piece_bytes`.
fn decode<E: FrameEvent>(bytes: &[u8], piece_bytes: usize) -> Decoded<E> {
    let mut decoder = EventDecoder::default();
    let mut events = Vec::new();
    let mut read = || -> pushdowndb_contract::Result<()> {
        for piece in bytes.chunks(piece_bytes) {
            decoder.feed(piece);
            while let Some(event) = decoder.next()? {
                events.push(event);
            }
        }
        decoder.finish()
    };
    let ended = read().map_err(|error| error.to_string());
    (events, ended)
}

/// Decodes `input` as a whole and in pieces, checks that both agree, and returns its events.
pub fn decode_both_ways<E: FrameEvent + std::fmt::Debug + PartialEq>(input: &[u8]) -> Vec<E> {
    let mut choices = Choices::new(input);
    let piece_bytes = 1 + usize::from(choices.byte());
    let bytes = choices.rest();
    let answer = decode(bytes, piece_bytes);
    assert_eq!(answer, decode(bytes, bytes.len().max(1)));
    answer.0
}

pub fn run(input: &[u8]) {
    decode_both_ways::<Event>(input);
}
