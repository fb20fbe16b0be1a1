//! Estimated costs.

use std::fmt;
use std::ops::Add;

/// The estimated cost of a strategy, or of one of its phases.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    /// Bytes over the network.
    pub(crate) bytes: u64,
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    /// Dollars by the session's price book.
    pub(crate) usd: f64,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.bytes as f64 / 1e6;
        write!(f, "{megabytes:.1} MB, {} requests, {:.2} s, {:.6} $", self.requests, self.seconds, self.usd)
    }
}

impl Add for Estimate {
    type Output = Self;

    /// Adds a phase that runs after this one.
    fn add(self, next: Self) -> Self {
        Self {
            bytes: self.bytes + next.bytes,
            requests: self.requests + next.requests,
            seconds: self.seconds + next.seconds,
            usd: self.usd + next.usd,
        }
    }
}
