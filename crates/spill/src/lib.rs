//! Operators whose data is larger than memory, and the files to which they spill.
//!
//! [`files`] holds spilled data: in memory until a part is full, then on a local disk within a
//! quota, and beyond the quota in an object store. DataFusion's own operators spill to these files,
//! too. [`sort`] and [`join`] are operators that spill less than DataFusion's, or where those do
//! not spill at all. [`memory`] is the memory pool that the operators of all queries share.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::fmt;

use datafusion_execution::memory_pool::human_readable_size;

pub mod files;
pub mod join;
pub mod memory;
pub mod sort;
mod views;

/// Writes to a plan that `bytes` are expected to be spilled.
fn show_expected(bytes: Option<usize>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match bytes {
        Some(bytes) => write!(f, ", expected to spill {}", human_readable_size(bytes)),
        None => Ok(()),
    }
}
