//! The loop of a session that handles its messages.

use tokio::sync::watch;

use super::failure::Failure;
use super::input::{self, Message, Target};
use super::output::{self, Status};
use super::state::Session;
use super::wire::{Lost, Wire};
use crate::activity::sessions::Phase;
use crate::error::{PgError, code};

impl Session {
    /// Handles messages until the client ends the session or the server stops. Returns the last
    /// error to send to the client, if any.
    pub async fn run(&mut self, wire: &mut Wire, mut stopped: watch::Receiver<bool>) -> Option<PgError> {
        let started_settings = self.core.apply_started_settings().await;
        if let Err(error) = started_settings {
            return Some(PgError { is_fatal: true, ..error });
        }
        // After an error, the rest of an extended-protocol sequence is skipped up to Sync.
        let mut is_skipping = false;
        loop {
            self.wait();
            let message = tokio::select! {
                message = wire.message() => message,
                _ = stopped.wait_for(|is_stopped| *is_stopped) => {
                    return Some(PgError::fatal(code::SHUTDOWN, "the server is stopping"));
                }
            };
            let done = match message {
                Ok((tag, fields)) => match input::message(tag, &fields) {
                    Ok(Message::Terminate) => return None,
                    Ok(message) => self.handle(wire, message, &mut is_skipping).await,
                    Err(error) => return Some(PgError::fatal(code::PROTOCOL, error.to_string())),
                },
                Err(lost) => Err(lost),
            };
            match done {
                Ok(()) => {}
                Err(Lost::Gone) => return None,
                Err(Lost::Protocol(error)) => return Some(PgError::fatal(code::PROTOCOL, error.to_string())),
            }
        }
    }

    fn wait(&self) {
        let phase = if self.transaction.is_open { Phase::IdleInTransaction } else { Phase::Idle };
        if self.core.entry.activity().phase != phase {
            self.core.entry.change(|activity| activity.phase = phase);
        }
    }

    async fn handle(&mut self, wire: &mut Wire, message: Message, is_skipping: &mut bool) -> Result<(), Lost> {
        let done = match message {
            Message::Query(text) => {
                *is_skipping = false;
                let done = self.query(wire, &text).await;
                if let Err(Failure::Error(error)) = &done {
                    self.failed(wire, error);
                }
                output::ready(&mut wire.out, self.status());
                wire.flush().await?;
                return match done {
                    Err(Failure::Lost(lost)) => Err(lost),
                    _ => Ok(()),
                };
            }
            Message::Sync => {
                *is_skipping = false;
                if !self.transaction.is_open {
                    self.portals.retain(|_, portal| portal.is_held);
                }
                output::ready(&mut wire.out, self.status());
                return wire.flush().await;
            }
            _ if *is_skipping => return Ok(()),
            Message::Parse { name, query, types } => self.parse(wire, name, query, types),
            Message::Bind(bind) => self.bind(wire, bind).await,
            Message::Describe(Target::Statement, name) => self.describe_statement(wire, &name).await,
            Message::Describe(Target::Portal, name) => self.describe_portal(wire, &name).await,
            Message::Execute { portal, max_rows } => self.execute(wire, &portal, max_rows).await,
            Message::Close(target, name) => {
                match target {
                    Target::Statement => drop(self.statements.remove(&name)),
                    Target::Portal => drop(self.portals.remove(&name)),
                }
                output::bare(&mut wire.out, b'3');
                Ok(())
            }
            Message::Flush => return wire.flush().await,
            Message::Copy | Message::Terminate => Ok(()),
        };
        match done {
            Ok(()) => Ok(()),
            Err(Failure::Error(error)) => {
                *is_skipping = true;
                self.failed(wire, &error);
                // The client may wait for the response before it sends more.
                wire.flush().await
            }
            Err(Failure::Lost(lost)) => Err(lost),
        }
    }

    fn failed(&mut self, wire: &mut Wire, error: &PgError) {
        output::error(&mut wire.out, error);
        self.transaction.has_failed = self.transaction.is_open;
    }

    fn status(&self) -> Status {
        match (self.transaction.is_open, self.transaction.has_failed) {
            (false, _) => Status::Idle,
            (true, false) => Status::InTransaction,
            (true, true) => Status::Failed,
        }
    }
}
