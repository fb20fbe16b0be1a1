//! The answer to SelectObjectContent, cut anywhere.

use pushdowndb_select::FrameDecoder;

use crate::choices::Choices;

/// The events of an answer that comes in pieces, up to the first error, and how it ends: of either kind of answer.
macro_rules! decoded {
    ($decoder:ty, $bytes:expr, $piece_bytes:expr) => {{
        let mut decoder = <$decoder>::default();
        let mut events = Vec::new();
        let mut read = || -> pushdown::Result<()> {
            for piece in $bytes.chunks($piece_bytes) {
                decoder.feed(piece);
                while let Some(event) = decoder.next()? {
                    events.push(event);
                }
            }
            decoder.finish()
        };
        let ended = read().map_err(|error| error.to_string());
        (events, ended)
    }};
}
pub(crate) use decoded;

pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let piece_bytes = 1 + usize::from(choices.byte());
    let bytes = choices.rest();
    assert_eq!(decoded!(FrameDecoder, bytes, piece_bytes), decoded!(FrameDecoder, bytes, bytes.len().max(1)));
}
