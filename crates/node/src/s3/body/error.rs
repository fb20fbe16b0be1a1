//! Conversion of errors of a request's body, which arrive boxed and nested.

use std::error::Error;
use std::io;

use s3s::StdError;

use crate::store::StoreError;
use crate::transport::PeerStalled;

/// Converts an error of a body: of its decoder, of a stalled peer, or of the connection.
pub(crate) fn body_error(error: StdError) -> StoreError {
    match error.downcast::<StoreError>() {
        Ok(error) => *error,
        Err(error) if is_stall(&*error) => StoreError::Stalled,
        Err(error) => StoreError::Body(error.to_string()),
    }
}

/// Whether `error`, or one of those that caused it, is a [`PeerStalled`].
fn is_stall(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<PeerStalled>() {
            return true;
        }
        // The source of an `io::Error` is that of the error it holds.
        next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(held) => Some(held),
            None => error.source(),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_found_in_their_boxes() {
        let stalled = io::Error::new(io::ErrorKind::TimedOut, PeerStalled);
        assert!(matches!(body_error(Box::new(io::Error::other(stalled))), StoreError::Stalled));
        assert!(matches!(body_error(Box::new(StoreError::ChunkSignature)), StoreError::ChunkSignature));
        let said = io::Error::other(PeerStalled.to_string());
        assert!(matches!(body_error(Box::new(said)), StoreError::Body(_)), "text is not looked at");
    }
}
