//! Counters, access log and CPU accounting.

mod access_log;
mod counters;
mod cpu_meter;

pub(crate) use access_log::{Outcome, RequestRecord, Target, UNKNOWN_OPERATION, nanos};
pub use counters::Counters;
pub(crate) use counters::{Gauge, LiveCounters};
pub(crate) use cpu_meter::CpuMeter;
