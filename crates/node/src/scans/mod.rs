//! Running scans: permits and a bounded queue, threads of their own, CPU accounting, cached zones.

mod keep_alive;
mod scheduler;
mod threads;
mod zone_cache;

pub(crate) use keep_alive::KeepAlive;
pub(crate) use scheduler::{ScanPermit, ScanScheduler};
pub(crate) use threads::CpuAccount;
pub(crate) use zone_cache::ZoneCache;
