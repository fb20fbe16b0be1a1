//! The meter and the price books: the work of a query and its cost.
//!
//! A [`Meter`] counts while a query runs, [`Usage`] is a snapshot of its counters, and a
//! [`PriceBook`] turns a usage into a [`Bill`] in dollars. Estimates before a query runs are usages
//! too and use the same [`PriceBook::bill`], so the planner compares the amounts that the user
//! sees.
//!
//! No I/O but for reading a price book from a file and this process's CPU clock.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod caps;
mod json;
mod meter;
mod price;
mod requests;
pub mod units;
mod usage;

pub use caps::{Caps, OVERRUN_BYTES};
pub use json::to_json;
pub use meter::Meter;
pub use price::{Bill, PriceBook};
pub use requests::{RequestKind, Requests};
pub use usage::{Spill, Usage};
