//! Statements that the session answers itself, whichever protocol its client speaks.

use arrow::record_batch::RecordBatch;

use super::SessionCore;
use crate::catalog::queries;
use crate::error::{PgError, code};
use crate::statement::command::Command;

/// The answer to a statement about the session.
pub(crate) enum Reply {
    /// The command tag of a statement without rows.
    Done(&'static str),
    /// Rows.
    Rows(RecordBatch),
}

impl SessionCore {
    /// Answers a statement that concerns only the session. Returns `None` for other statements,
    /// which the engine answers or which differ between protocols.
    ///
    /// # Errors
    ///
    /// There is no such setting or session, or the user may not change it.
    pub async fn answer(&self, command: &Command) -> Result<Option<Reply>, PgError> {
        Ok(Some(match command {
            Command::Show(name) => Reply::Rows(self.show(name)?),
            Command::ShowAll => Reply::Rows(self.show_all()?),
            Command::ShowQueries => {
                let rows = queries(&self.shown()).map_err(|error| PgError::new("XX000", error.to_string()))?;
                Reply::Rows(rows)
            }
            Command::Kill { pid, and_end } => {
                let (user, is_admin) = (&self.entry.user, self.account.user.is_admin);
                let stopped = self.server.sessions.stop(*pid, user, is_admin, *and_end);
                match stopped.map_err(|error| PgError::from(&error))? {
                    true => Reply::Done("KILL"),
                    false => return Err(PgError::new(code::NO_OBJECT, format!("there is no session {pid}"))),
                }
            }
            Command::Reset(None) => {
                self.reset_all().await?;
                Reply::Done("RESET")
            }
            Command::Ignored(tag) => Reply::Done(tag),
            _ => return Ok(None),
        }))
    }
}
