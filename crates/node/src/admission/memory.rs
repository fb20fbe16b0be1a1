//! Memory budgets of a node: one that all requests draw from, and shares of it.
//!
//! ```text
//! memory_bytes        bound of the process, set by the operator
//! └ budget            what is left after fixed costs, less a fifth for allocations not reserved
//!   ├ blocks          transfers in progress: the rest, never empty
//!   ├ bodies          memory_bodies percent: request bodies read whole
//!   │ └ of one key    memory_key percent of that
//!   └ scans           memory_scans percent
//!     └ of one key    memory_key percent of that
//!       └ one scan    memory_scan percent of that
//! ```
//!
//! The fifth covers allocations of libraries, memory that the allocator has not returned yet, and
//! stacks. If the resident memory of the process comes close to `memory_bytes` nevertheless,
//! reservations fail.

use std::collections::HashMap;

use parking_lot::Mutex;
use pushdowndb_scan::{MemoryBudget, Reservation, Shortage};
use tokio::time::timeout;

use crate::Limits;
use crate::process::resident_bytes;

/// Memory of a node without requests: code, threads, the index.
const IDLE_PROCESS_BYTES: usize = 64 << 20;

/// Buffer memory for the request head of an open connection, in fifths of `head_bytes`. It is more
/// than five fifths, since buffers grow in steps.
const HEAD_FIFTHS: usize = 6;

/// Memory that a scan uses without reserving it: text blocks, batches, frames of its response.
const UNRESERVED_SCAN_BYTES: usize = 24 << 20;

/// Number of blocks that the transfer of an object holds in memory at once.
const TRANSFER_BLOCKS: usize = 2;

/// Minimum budget that a node starts with.
const MIN_BUDGET_BYTES: usize = 64 << 20;

/// The budgets of a node.
#[derive(Debug)]
pub(crate) struct NodeMemory {
    limits: Limits,
    all: MemoryBudget,
    scans: KeyedBudget,
    bodies: KeyedBudget,
}

/// A share of the memory, with a sub-share for each key that uses it.
#[derive(Debug)]
struct KeyedBudget {
    all: MemoryBudget,
    /// Maximum bytes of one key.
    of_key: usize,
    keys: Mutex<HashMap<String, MemoryBudget>>,
}

impl KeyedBudget {
    fn new(all: MemoryBudget, of_key: usize) -> Self {
        let of_key = percent(all.limit(), of_key);
        Self { all, of_key, keys: Mutex::default() }
    }

    /// Returns the budget of the access key `key`, a child of the budget that all keys share.
    fn of(&self, key: &str) -> MemoryBudget {
        let mut keys = self.keys.lock();
        keys.retain(|other, budget| other == key || !budget.is_idle());
        keys.entry(key.to_owned()).or_insert_with(|| self.all.share(self.of_key)).clone()
    }
}

/// The memory of one scan.
#[derive(Debug)]
pub(crate) struct ScanMemory {
    /// The budget that the scan draws from.
    pub budget: MemoryBudget,
    /// Memory that is reserved from the start of the scan to its end.
    _own: Reservation,
}

impl NodeMemory {
    pub fn new(limits: &Limits) -> Self {
        let all = MemoryBudget::of_process(budget_bytes(limits), percent(limits.memory_bytes, 95), resident_bytes);
        let share = |of: usize| KeyedBudget::new(all.share(percent(all.limit(), of)), limits.memory_key);
        let (scans, bodies) = (share(limits.memory_scans), share(limits.memory_bodies));
        Self { limits: limits.clone(), all, scans, bodies }
    }

    /// The budget of all requests.
    pub fn budget(&self) -> &MemoryBudget {
        &self.all
    }

    /// Waits for the initial memory of a scan for the access key `key` and reserves it.
    pub async fn scan(&self, key: &str) -> Result<ScanMemory, Shortage> {
        let budget = self.share_of(key);
        Ok(ScanMemory { _own: budget.reserve(UNRESERVED_SCAN_BYTES.min(budget.limit() / 2)).await?, budget })
    }

    /// Reserves memory for one more task of a scan that draws from `budget`.
    pub fn helper(&self, budget: &MemoryBudget) -> Result<ScanMemory, Shortage> {
        Ok(ScanMemory {
            _own: budget.try_reserve(UNRESERVED_SCAN_BYTES.min(budget.limit() / 2))?,
            budget: budget.clone(),
        })
    }

    /// Returns a new budget for one scan, within the scan budget of `key`.
    fn share_of(&self, key: &str) -> MemoryBudget {
        let of_key = self.scans.of(key);
        of_key.share(percent(of_key.limit(), self.limits.memory_scan))
    }

    /// Returns the budget for bodies of `key` that are read whole.
    pub fn bodies(&self, key: &str) -> MemoryBudget {
        self.bodies.of(key)
    }

    /// Reserves the blocks of a transfer; waits up to `request_wait`.
    pub async fn transfer(&self) -> Result<Reservation, Shortage> {
        let bytes = self.limits.block_bytes.saturating_mul(TRANSFER_BLOCKS).min(self.all.limit() / 2);
        // This succeeds unless there are very many transfers, since the other budgets leave room.
        if let Ok(reserved) = self.all.try_reserve(bytes) {
            return Ok(reserved);
        }
        match timeout(self.limits.request_wait, self.all.reserve(bytes)).await {
            Ok(reserved) => reserved,
            Err(_) => self.all.try_reserve(bytes),
        }
    }
}

/// The part of the process memory that requests may use together.
pub(crate) fn budget_bytes(limits: &Limits) -> usize {
    percent(limits.memory_bytes.saturating_sub(fixed_bytes(limits)), 80).max(MIN_BUDGET_BYTES)
}

/// The smallest `memory_bytes` that a node with these limits starts with.
pub(crate) fn min_memory_bytes(limits: &Limits) -> usize {
    fixed_bytes(limits).saturating_add(MIN_BUDGET_BYTES / 4 * 5)
}

/// Memory that a node needs regardless of its requests.
fn fixed_bytes(limits: &Limits) -> usize {
    let connections = limits.connections.saturating_mul(connection_bytes(limits));
    let caches = limits.zone_bytes.saturating_add(limits.footer_cache_bytes);
    let sends = limits.upstream_sends.saturating_mul(part_bytes(limits));
    IDLE_PROCESS_BYTES.saturating_add(connections).saturating_add(caches).saturating_add(sends)
}

fn part_bytes(limits: &Limits) -> usize {
    usize::try_from(limits.upstream_part_bytes).unwrap_or(usize::MAX)
}

fn connection_bytes(limits: &Limits) -> usize {
    (limits.head_bytes / 5).saturating_mul(HEAD_FIFTHS)
}

/// Reduces `connections` to what fits a quarter of the memory, and `upstream_sends` to what fits an
/// eighth; without a gateway there are no sends.
pub(crate) fn fit_to_memory(limits: &Limits, is_gateway: bool) -> Limits {
    let connections = (limits.memory_bytes / 4 / connection_bytes(limits).max(1)).max(1);
    let sends = (limits.memory_bytes / 8 / part_bytes(limits).max(1)).max(1);
    Limits {
        connections: limits.connections.min(connections),
        upstream_sends: if is_gateway { limits.upstream_sends.min(sends) } else { 0 },
        ..limits.clone()
    }
}

fn percent(of: usize, percent: usize) -> usize {
    of / 100 * percent.min(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(memory_bytes: usize) -> NodeMemory {
        NodeMemory::new(&Limits { memory_bytes, request_wait: std::time::Duration::ZERO, ..Limits::default() })
    }

    #[test]
    fn the_budget_leaves_room_for_what_is_not_reserved() {
        let limits = fit_to_memory(&Limits { memory_bytes: 1 << 30, ..Limits::default() }, false);
        let small = Limits { memory_bytes: 512 << 20, ..Limits::default() };
        assert_eq!(fit_to_memory(&small, true).upstream_sends, 4, "parts of 16 MiB in 64 MiB");
        let budget = budget_bytes(&limits);
        assert!(budget > 400 << 20 && budget < 800 << 20, "{budget}");
        assert!(limits.connections > 500, "{}", limits.connections);
        let least = Limits { memory_bytes: min_memory_bytes(&limits), ..limits };
        assert!(budget_bytes(&least) >= MIN_BUDGET_BYTES && least.memory_bytes < 512 << 20);
    }

    #[tokio::test]
    async fn a_key_does_not_take_what_others_need() {
        let memory = memory(1 << 30);
        let _greedy = memory.scan("greedy").await.unwrap();
        let mut taken = Vec::new();
        for _ in 0..2 {
            let scan = memory.share_of("greedy");
            taken.extend(std::iter::from_fn(|| scan.try_reserve(1 << 20).ok()));
        }
        assert!(memory.share_of("greedy").try_reserve(1 << 20).is_err(), "the share of its key is taken");
        let other = memory.scan("other").await.unwrap();
        assert!(other.budget.try_reserve(other.budget.limit() / 2).is_ok());
        let bodies = memory.bodies("greedy");
        let _bodies = bodies.try_reserve(bodies.limit()).unwrap();
        assert!(memory.bodies("greedy").try_reserve(1).is_err());
        assert!(memory.bodies("other").try_reserve(4 << 20).is_ok());
        assert!(memory.transfer().await.is_ok());
    }

    #[tokio::test]
    async fn keys_without_scans_are_forgotten() {
        let memory = memory(1 << 30);
        for key in 0..100 {
            drop(memory.scan(&key.to_string()).await.unwrap());
        }
        assert!(memory.scans.keys.lock().len() <= 2);
        assert_eq!(memory.budget().used(), 0);
    }
}
