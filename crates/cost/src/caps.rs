//! Caps: the upper bounds on what a query may use.

use std::sync::Arc;

use pushdowndb_contract::{Error, ErrorKind, Result};

use crate::price::PriceBook;
use crate::units::dollars;
use crate::usage::Usage;

/// Bytes by which the last request of a query may exceed [`Caps::max_bytes`].
pub const OVERRUN_BYTES: u64 = 64 * 1024;

/// The upper bounds on what a query may use.
#[derive(Clone, Debug)]
pub struct Caps {
    /// Bytes over the network, both ways; 0 for no cap.
    pub max_bytes: u64,
    /// Dollars; 0 for no cap.
    pub max_usd: f64,
    /// The prices that convert a usage into dollars.
    pub prices: Arc<PriceBook>,
}

impl Caps {
    /// Checks `usage` against both caps.
    ///
    /// # Errors
    ///
    /// Returns an error if `usage` exceeds a cap.
    pub fn check(&self, usage: &Usage) -> Result<()> {
        self.check_bytes(usage.bytes_network)?;
        let spent = if self.max_usd > 0.0 { self.prices.bill(usage).total() } else { 0.0 };
        if spent > self.max_usd {
            let message = format!("stopped after {}: pushdown.max_usd is {}", dollars(spent), self.max_usd);
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(())
    }

    /// Checks `used` bytes over the network against [`max_bytes`](Self::max_bytes).
    ///
    /// # Errors
    ///
    /// Returns an error if `used` exceeds the cap.
    pub fn check_bytes(&self, used: u64) -> Result<()> {
        if self.max_bytes == 0 || used <= self.max_bytes {
            return Ok(());
        }
        let message = format!("stopped after {used} bytes over the network: pushdown.max_bytes is {}", self.max_bytes);
        Err(Error::new(ErrorKind::Limit, message))
    }

    /// Checks whether a request of `next` bytes may be sent, after `used` bytes and while requests
    /// in flight are expected to transfer `under_way` bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if their sum exceeds the cap by more than [`OVERRUN_BYTES`].
    pub(crate) fn check_next(&self, used: u64, under_way: u64, next: u64) -> Result<()> {
        let after = used.saturating_add(under_way).saturating_add(next);
        if self.max_bytes == 0 || after <= self.max_bytes.saturating_add(OVERRUN_BYTES) {
            return Ok(());
        }
        let message = format!(
            "stopped after {used} bytes over the network, before a request of {next} more: pushdown.max_bytes is {}",
            self.max_bytes
        );
        Err(Error::new(ErrorKind::Limit, message))
    }
}
