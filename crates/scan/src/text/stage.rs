//! A stage that text passes before it is cut into records.

use bytes::Bytes;
use pushdowndb_contract::Result;

/// Text that is translated piece by piece.
pub(crate) trait Stage: Send {
    /// Translates the next piece; some of it may be held back.
    fn feed(&mut self, piece: &[u8]) -> Result<Bytes>;

    /// Translates what was held back, at the end of the text.
    fn finish(&mut self) -> Result<Bytes>;
}
