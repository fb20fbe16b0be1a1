//! Transaction blocks. They are neither isolated nor undone; they exist for clients that always
//! open one.

use super::output;
use super::state::{Session, Transaction};
use super::wire::Wire;
use crate::error::{Notice, PgError, code};
use crate::statement::command::Command;

impl Session {
    /// Refuses a statement in a failed transaction, unless the statement ends the transaction.
    pub(super) fn check_transaction(&self, command: &Command) -> Result<(), PgError> {
        let ends = matches!(command, Command::Commit | Command::Rollback | Command::RollbackTo(_));
        if self.transaction.has_failed && !ends {
            return Err(PgError::new(
                code::FAILED_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        Ok(())
    }

    /// Records that a statement has written or defined something.
    pub(super) fn changed_something(&mut self) {
        self.transaction.has_changes = self.transaction.is_open;
    }

    /// Runs a statement about the transaction. Returns its command tag.
    pub(super) async fn transact(&mut self, wire: &mut Wire, command: &Command) -> Result<&'static str, PgError> {
        let warn = |wire: &mut Wire, code, message: &str| {
            output::notice(&mut wire.out, &Notice::warning(code, message));
        };
        let in_block = |what: &str, is_open: bool| match is_open {
            true => Ok(()),
            false => Err(PgError::new(code::NO_TRANSACTION, format!("{what} can only be used in transaction blocks"))),
        };
        match command {
            Command::Begin => {
                if self.transaction.is_open {
                    warn(wire, code::IN_TRANSACTION, "there is already a transaction in progress");
                } else {
                    self.transaction = Transaction { is_open: true, ..Transaction::default() };
                }
                Ok("BEGIN")
            }
            Command::Commit | Command::Rollback => {
                let ended = std::mem::take(&mut self.transaction);
                let commits = *command == Command::Commit && !ended.has_failed;
                if !ended.is_open {
                    warn(wire, code::NO_TRANSACTION, "there is no transaction in progress");
                } else if !commits && ended.has_changes {
                    warn(wire, "01000", "what the transaction has written or defined is not undone");
                }
                self.portals.retain(|_, portal| portal.is_held);
                for (name, value) in ended.before.into_iter().rev() {
                    self.set(wire, &name, value.as_deref()).await?;
                }
                Ok(if commits { "COMMIT" } else { "ROLLBACK" })
            }
            Command::Savepoint(name) => {
                in_block("SAVEPOINT", self.transaction.is_open)?;
                self.transaction.savepoints.push(name.clone());
                Ok("SAVEPOINT")
            }
            Command::Release(name) | Command::RollbackTo(name) => {
                let is_release = matches!(command, Command::Release(_));
                in_block("savepoints", self.transaction.is_open)?;
                let found = self.transaction.savepoints.iter().rposition(|point| point == name);
                let Some(found) = found else {
                    let message = format!("savepoint \"{name}\" does not exist");
                    return Err(PgError::new(code::NO_SAVEPOINT, message));
                };
                self.transaction.savepoints.truncate(if is_release { found } else { found + 1 });
                self.transaction.has_failed &= is_release;
                Ok(if is_release { "RELEASE" } else { "ROLLBACK" })
            }
            _ => Ok(""),
        }
    }

    /// Whether a transaction block is open.
    pub(super) fn is_in_transaction(&self) -> bool {
        self.transaction.is_open
    }
}
