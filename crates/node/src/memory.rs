//! The memory of a node: one budget that requests draw from, and the shares of it.
//!
//! ```text
//! memory_bytes        what the process holds altogether: the bound that an operator sets
//! └ budget            that, less what does not depend on requests, and less a fifth for what cannot be reserved
//!   ├ blocks          transfers under way: what the others leave, and that is always something
//!   ├ bodies          memory_bodies percent: requests that are read whole
//!   │ └ of one key    memory_key percent of that
//!   └ scans           memory_scans percent
//!     └ of one key    memory_key percent of that
//!       └ one scan    memory_scan percent of that
//! ```
//!
//! A fifth is left for what libraries allocate on their way, what the allocator has freed and not given back yet, and stacks.
//! Should that not do, nothing more is given while the process holds nearly `memory_bytes`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pushdowndb_scan::{MemoryBudget, Reservation, Shortage};
use tokio::time::timeout;

use crate::Limits;

/// A node without any request: code, threads, the index.
const PROCESS_BYTES: usize = 64 << 20;

/// What the head of a request may take of an open connection, in fifths of `head_bytes`: buffers grow in steps.
const HEAD_FIFTHS: usize = 6;

/// What a scan holds that it does not reserve: blocks of text, batches under way, frames of its answer.
const SCAN_BYTES: usize = 24 << 20;

/// Blocks that a transfer of an object holds.
const TRANSFER_BLOCKS: usize = 2;

/// The least budget that a node is started with.
const LEAST_BYTES: usize = 64 << 20;

/// The budgets of a node.
#[derive(Debug)]
pub(crate) struct NodeMemory {
    limits: Limits,
    all: MemoryBudget,
    scans: Shares,
    bodies: Shares,
}

/// A part of the memory, with a share for each key that uses it.
#[derive(Debug)]
struct Shares {
    all: MemoryBudget,
    /// What one key may take, in bytes.
    of_key: usize,
    keys: Mutex<HashMap<String, MemoryBudget>>,
}

impl Shares {
    fn new(all: MemoryBudget, of_key: usize) -> Self {
        let of_key = percent(all.limit(), of_key);
        Self { all, of_key, keys: Mutex::default() }
    }

    /// The share of a key.
    fn of(&self, key: &str) -> MemoryBudget {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.retain(|other, budget| other == key || !budget.is_idle());
        keys.entry(key.to_owned()).or_insert_with(|| self.all.share(self.of_key)).clone()
    }
}

/// What a scan may take.
#[derive(Debug)]
pub(crate) struct ScanMemory {
    /// What it draws from.
    pub budget: MemoryBudget,
    /// What every scan takes.
    _own: Reservation,
}

impl NodeMemory {
    pub fn new(limits: &Limits) -> Self {
        let all = MemoryBudget::of_process(budget_bytes(limits), percent(limits.memory_bytes, 95), resident);
        let share = |of: usize| Shares::new(all.share(percent(all.limit(), of)), limits.memory_key);
        let (scans, bodies) = (share(limits.memory_scans), share(limits.memory_bodies));
        Self { limits: limits.clone(), all, scans, bodies }
    }

    /// What all requests draw from.
    pub fn budget(&self) -> &MemoryBudget {
        &self.all
    }

    /// Memory for a scan of this key, as soon as there is any.
    pub async fn scan(&self, key: &str) -> Result<ScanMemory, Shortage> {
        let budget = self.share_of(key);
        Ok(ScanMemory { _own: budget.reserve(SCAN_BYTES.min(budget.limit() / 2)).await?, budget })
    }

    /// Memory for one more task of a scan that draws from `budget`, if there is any.
    pub fn helper(&self, budget: &MemoryBudget) -> Result<ScanMemory, Shortage> {
        Ok(ScanMemory { _own: budget.try_reserve(SCAN_BYTES.min(budget.limit() / 2))?, budget: budget.clone() })
    }

    /// The share of one scan within that of its key.
    fn share_of(&self, key: &str) -> MemoryBudget {
        let of_key = self.scans.of(key);
        of_key.share(percent(of_key.limit(), self.limits.memory_scan))
    }

    /// What bodies of this key that are read whole draw from.
    pub fn bodies(&self, key: &str) -> MemoryBudget {
        self.bodies.of(key)
    }

    /// Memory for the blocks of a transfer, waited for as long as requests wait for others.
    pub async fn transfer(&self) -> Result<Reservation, Shortage> {
        let bytes = self.limits.block_bytes.saturating_mul(TRANSFER_BLOCKS).min(self.all.limit() / 2);
        // Others leave room for it, unless there are very many.
        if let Ok(reserved) = self.all.try_reserve(bytes) {
            return Ok(reserved);
        }
        match timeout(self.limits.request_wait, self.all.reserve(bytes)).await {
            Ok(reserved) => reserved,
            Err(_) => self.all.try_reserve(bytes),
        }
    }
}

/// What requests may take together of what the process may hold.
pub(crate) fn budget_bytes(limits: &Limits) -> usize {
    percent(limits.memory_bytes.saturating_sub(fixed_bytes(limits)), 80).max(LEAST_BYTES)
}

/// The least `memory_bytes` that a node with these limits is started with.
pub(crate) fn least_memory_bytes(limits: &Limits) -> usize {
    fixed_bytes(limits).saturating_add(LEAST_BYTES / 4 * 5)
}

/// What does not depend on requests.
fn fixed_bytes(limits: &Limits) -> usize {
    let connections = limits.connections.saturating_mul(connection_bytes(limits));
    let caches = limits.zone_bytes.saturating_add(limits.footer_cache_bytes);
    let sends = limits.upstream_sends.saturating_mul(part_bytes(limits));
    PROCESS_BYTES.saturating_add(connections).saturating_add(caches).saturating_add(sends)
}

fn part_bytes(limits: &Limits) -> usize {
    usize::try_from(limits.upstream_part_bytes).unwrap_or(usize::MAX)
}

fn connection_bytes(limits: &Limits) -> usize {
    (limits.head_bytes / 5).saturating_mul(HEAD_FIFTHS)
}

/// The limits with as many connections as a quarter of the memory has room for the heads of, and as many sends to a server
/// behind a gateway as an eighth has room for; without a gateway none.
pub(crate) fn fitting(limits: &Limits, is_gateway: bool) -> Limits {
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

/// The memory that the process holds, in bytes, where the system tells.
fn resident() -> Option<usize> {
    kib_after(&std::fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// The bytes of a line of `/proc` that begins so.
fn kib_after(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse::<usize>().ok()?.checked_mul(1024)
}

/// A quarter of the machine's memory, or half of what its container may have, within reason.
pub(crate) fn default_bytes() -> usize {
    const LEAST: usize = 512 << 20;
    const MOST: usize = 16 << 30;
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| kib_after(&text, "MemTotal:"));
    let machine = machine.map(|bytes| bytes / 4);
    let container = container().map(|bytes| bytes / 2);
    let own = machine.into_iter().chain(container).min().unwrap_or(LEAST * 2);
    own.clamp(LEAST, MOST)
}

/// The least limit of the control groups that the process is in, of version 2 or 1.
fn container() -> Option<usize> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut files = vec!["/sys/fs/cgroup/memory/memory.limit_in_bytes".to_owned()];
    for line in groups.lines() {
        let mut path = line.strip_prefix("0::").unwrap_or_default().trim_end_matches('/');
        while !path.is_empty() {
            files.push(format!("/sys/fs/cgroup{path}/memory.max"));
            path = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        }
    }
    files.push("/sys/fs/cgroup/memory.max".to_owned());
    let limit = |file: String| std::fs::read_to_string(file).ok()?.trim().parse::<usize>().ok();
    files.into_iter().filter_map(limit).filter(|bytes| *bytes > 0).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(memory_bytes: usize) -> NodeMemory {
        NodeMemory::new(&Limits { memory_bytes, request_wait: std::time::Duration::ZERO, ..Limits::default() })
    }

    #[test]
    fn the_budget_leaves_room_for_what_is_not_reserved() {
        let limits = fitting(&Limits { memory_bytes: 1 << 30, ..Limits::default() }, false);
        let small = Limits { memory_bytes: 512 << 20, ..Limits::default() };
        assert_eq!(fitting(&small, true).upstream_sends, 4, "parts of 16 MiB in 64 MiB");
        let budget = budget_bytes(&limits);
        assert!(budget > 400 << 20 && budget < 800 << 20, "{budget}");
        assert!(limits.connections > 500, "{}", limits.connections);
        let least = Limits { memory_bytes: least_memory_bytes(&limits), ..limits };
        assert!(budget_bytes(&least) >= LEAST_BYTES && least.memory_bytes < 512 << 20);
        assert!((512 << 20..=16 << 30).contains(&default_bytes()));
        assert!(resident().is_none_or(|bytes| bytes > 1 << 20));
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
        assert!(memory.scans.keys.lock().unwrap().len() <= 2);
        assert_eq!(memory.budget().used(), 0);
    }
}
