//! SET, RESET and SET LOCAL, and the ParameterStatus messages about them.

use super::output;
use super::state::Session;
use super::wire::Wire;
use crate::error::{Notice, PgError, code};

impl Session {
    /// Sets a setting; `None` resets it to its default.
    pub(super) async fn set(&mut self, wire: &mut Wire, name: &str, value: Option<&str>) -> Result<(), PgError> {
        if let Some((name, value)) = self.core.set(name, value).await? {
            output::parameter_status(&mut wire.out, name, &value);
        }
        Ok(())
    }

    /// Sets a setting until the end of the transaction.
    pub(super) async fn set_local(&mut self, wire: &mut Wire, name: &str, value: Option<&str>) -> Result<(), PgError> {
        if !self.is_in_transaction() {
            let message = "SET LOCAL can only be used in transaction blocks";
            output::notice(&mut wire.out, &Notice::warning(code::NO_TRANSACTION, message));
            return Ok(());
        }
        let before = self.core.shown_value(name);
        self.set(wire, name, value).await?;
        self.transaction.before.push((name.to_owned(), before));
        Ok(())
    }

    /// Sends the settings that clients track as ParameterStatus messages.
    pub(super) fn report_settings(&self, wire: &mut Wire) {
        for (name, value) in self.core.variables.reported() {
            output::parameter_status(&mut wire.out, name, &value);
        }
    }
}
