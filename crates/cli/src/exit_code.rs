//! Exit codes, one for each kind of error, so that scripts can distinguish a wrong query from a
//! failure to retry.

use std::error::Error as StdError;

use pushdowndb_contract::{Error, ErrorKind};

/// Returns the exit code for a `kind` of error. 1 is for bugs and for errors without a kind; 2 is
/// also used by clap.
pub fn of_kind(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Invalid => 2,
        ErrorKind::NotFound => 3,
        ErrorKind::Denied => 4,
        ErrorKind::Conflict => 5,
        ErrorKind::Limit => 6,
        ErrorKind::Unsupported => 7,
        ErrorKind::Throttled => 8,
        ErrorKind::Unavailable => 9,
        ErrorKind::Corrupt => 10,
        // 128 + SIGINT, as shells report it.
        ErrorKind::Cancelled => 130,
        _ => 1,
    }
}

/// Returns the exit code for an error.
pub fn of(error: &anyhow::Error) -> u8 {
    kind(error).map_or(1, of_kind)
}

/// The kind of the first [`Error`] in a chain of causes.
pub fn kind(error: &anyhow::Error) -> Option<ErrorKind> {
    error.chain().find_map(|cause: &(dyn StdError + 'static)| cause.downcast_ref::<Error>()).map(Error::kind)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use anyhow::Context;

    use super::*;

    #[test]
    fn every_kind_has_a_code_of_its_own() {
        let mut seen = HashMap::new();
        for kind in ErrorKind::ALL {
            let code = of_kind(kind);
            assert_ne!(code, 0, "{kind:?}");
            assert_eq!(seen.insert(code, kind), None, "{kind:?}");
            assert_eq!(code == 1, kind == ErrorKind::Internal, "{kind:?}");
        }
    }

    #[test]
    fn the_kind_is_found_below_context() {
        let error = Err::<(), _>(Error::new(ErrorKind::Denied, "no")).context("opening").unwrap_err();
        assert_eq!(of(&error), 4);
        assert_eq!(of(&anyhow::anyhow!("something else")), 1);
    }
}
