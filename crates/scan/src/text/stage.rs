//! A stage through which text passes before it is cut into records.

use bytes::Bytes;
use pushdowndb_contract::Result;

/// Translates text piece by piece.
pub(crate) trait Stage: Send {
    /// Translates the next piece. Some of it may be held back.
    fn feed(&mut self, piece: &[u8]) -> Result<Bytes>;

    /// Translates the text that was held back, at the end.
    fn finish(&mut self) -> Result<Bytes>;
}
