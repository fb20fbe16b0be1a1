//! The answer on the fragment route, cut anywhere.

use pushdowndb_select::{RouteDecoder, RouteEvent};

use crate::choices::Choices;

pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let piece_bytes = 1 + usize::from(choices.byte());
    let bytes = choices.rest();
    let decoded = decode(bytes, piece_bytes);
    assert_eq!(decoded, decode(bytes, bytes.len().max(1)));
    for event in decoded.0 {
        let mut decoder = RouteDecoder::default();
        decoder.feed(&event.to_bytes().expect("what was read can be written"));
        assert_eq!(decoder.next().expect("what was written can be read"), Some(event));
    }
}

/// The events up to the first error, and how it ends.
fn decode(bytes: &[u8], piece_bytes: usize) -> (Vec<RouteEvent>, Result<(), String>) {
    let mut decoder = RouteDecoder::default();
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
