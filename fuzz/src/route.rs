//! The answer on the fragment route, cut anywhere.

use pushdowndb_select::RouteDecoder;

use crate::choices::Choices;
use crate::frames::decoded;

pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let piece_bytes = 1 + usize::from(choices.byte());
    let bytes = choices.rest();
    let answer = decoded!(RouteDecoder, bytes, piece_bytes);
    assert_eq!(answer, decoded!(RouteDecoder, bytes, bytes.len().max(1)));
    for event in answer.0 {
        let mut decoder = RouteDecoder::default();
        decoder.feed(&event.to_bytes().expect("what was read can be written"));
        assert_eq!(decoder.next().expect("what was written can be read"), Some(event));
    }
}
