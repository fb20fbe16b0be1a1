//! Why statements fail, and how they are stopped.

use super::wire::{Lost, Wire};
use crate::activity::sessions::Cancellations;
use crate::error::PgError;

/// Why a statement failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// With an error for the client.
    Error(PgError),
    /// The connection has ended.
    Lost(Lost),
}

impl From<PgError> for Failure {
    fn from(error: PgError) -> Self {
        Self::Error(error)
    }
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

impl Failure {
    /// The outcome for the log.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Error(error) => error.code,
            Self::Lost(_) => "client gone",
        }
    }
}

/// Waits for `work`, unless it is canceled or the client disconnects.
pub(super) async fn interruptible<T>(
    wire: &mut Wire,
    cancellations: &mut Cancellations,
    work: impl Future<Output = Result<T, PgError>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = cancellations.requested() => Err(Failure::Error(PgError::cancelled())),
        done = work => done.map_err(Failure::Error),
        () = wire.gone() => Err(Failure::Lost(Lost::Gone)),
    }
}
