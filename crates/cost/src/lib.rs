//! The meter and the price books: what a query did and what it cost.
//!
//! A [`Meter`] counts while a query runs, [`Usage`] is what it counted, and a [`PriceBook`] turns a usage into a
//! [`Bill`] in dollars. Estimates made before a query runs are usages too and go through the same
//! [`PriceBook::bill`], so what the planner compares is what the user is shown.
//!
//! No I/O but for reading a price book from a file and this process's CPU clock.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod meter;
mod price;
pub mod units;
mod usage;

pub use meter::{Meter, RequestKind};
pub use price::{Bill, PriceBook};
pub use usage::{Requests, Usage, to_json};
