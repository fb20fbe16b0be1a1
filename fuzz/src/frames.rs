//! The answer to SelectObjectContent, cut anywhere.

use pushdowndb_select::{Event, FrameDecoder};

use crate::choices::Choices;

pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let piece_bytes = 1 + usize::from(choices.byte());
    let bytes = choices.rest();
    assert_eq!(decode(bytes, piece_bytes), decode(bytes, bytes.len().max(1)));
}

/// The events up to the first error, and how it ends.
fn decode(bytes: &[u8], piece_bytes: usize) -> (Vec<Event>, Result<(), String>) {
    let mut decoder = FrameDecoder::new();
    let mut events = Vec::new();
    for piece in bytes.chunks(piece_bytes) {
        decoder.feed(piece);
        loop {
            match decoder.next() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Err(error.to_string())),
            }
        }
    }
    (events, decoder.finish().map_err(|error| error.to_string()))
}
