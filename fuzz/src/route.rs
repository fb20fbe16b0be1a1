//! Responses of the fragment route, split at any position.

use pushdowndb_contract::wire::RouteEvent;
use pushdowndb_select::{EventDecoder, frame};

use crate::frames::decode_both_ways;

pub fn run(input: &[u8]) {
    for event in decode_both_ways::<RouteEvent>(input) {
        let mut decoder = EventDecoder::<RouteEvent>::default();
        decoder.feed(&frame(&event).expect("what was read can be written"));
        assert_eq!(decoder.next().expect("what was written can be read"), Some(event));
    }
}
