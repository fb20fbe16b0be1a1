//! Operators whose data is larger than memory, and the files they spill to.
//!
//! [`files`] are where spilled data lies: in memory until a part is full, on a local disk within a
//! quota, and beyond it in an object store. They are what DataFusion's own operators spill to as
//! well. [`sort`] and [`join`] are operators that spill less, or where DataFusion's do not spill at
//! all. [`memory`] is the pool that the operators of all queries share.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::fmt;

use datafusion_execution::memory_pool::human_readable_size;

pub mod files;
pub mod join;
pub mod memory;
pub mod sort;

/// Shows in a plan that `bytes` are expected to be spilled.
fn show_expected(bytes: Option<usize>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match bytes {
        Some(bytes) => write!(f, ", expected to spill {}", human_readable_size(bytes)),
        None => Ok(()),
    }
}
