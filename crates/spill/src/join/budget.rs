//! The memory of one output partition of a join, and what a join of given rows needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion_common::config::ConfigOptions;
use datafusion_execution::TaskContext;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use parking_lot::Mutex;

/// The memory that one output partition has reserved, and the part of the pool that it may keep
/// once memory is short.
pub(super) struct Budget {
    /// Locked while it is resized, which is not atomic.
    reservation: Mutex<MemoryReservation>,
    /// Whether a reservation has failed in any output partition of the same run.
    short: Arc<AtomicBool>,
    /// Bytes that are not exceeded any more once memory is `short`, so that the output partitions
    /// that came late get some of a pool without shares.
    fair_share: usize,
}

impl Budget {
    /// Registers a consumer `name` with the pool of `context`, as one of `count` that share the
    /// flag `short`.
    pub(super) fn new(name: String, context: &TaskContext, count: usize, short: Arc<AtomicBool>) -> Self {
        let pool = context.memory_pool();
        let fair_share = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / count.max(1),
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let reservation = MemoryConsumer::new(name).with_can_spill(true).register(pool);
        Self { reservation: Mutex::new(reservation), short, fair_share }
    }

    /// Changes the reservation to `bytes` if that is possible, and returns whether it was. It
    /// always is when `bytes` are not more than now.
    pub(super) fn try_resize(&self, bytes: usize) -> bool {
        let reservation = self.reservation.lock();
        let grows = bytes > reservation.size();
        if grows && bytes > self.fair_share && self.short.load(Ordering::Relaxed) {
            return false;
        }
        let resized = reservation.try_resize(bytes).is_ok();
        if !resized {
            self.short.store(true, Ordering::Relaxed);
        }
        resized
    }

    /// Shrinks the reservation to at most `bytes`.
    pub(super) fn shrink_to(&self, bytes: usize) {
        let reservation = self.reservation.lock();
        let more = reservation.size().saturating_sub(bytes);
        if more > 0 {
            reservation.shrink(more);
        }
    }
}

/// Bytes that a `HashJoinExec` needs for its build side, by the settings of a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct JoinMemory {
    /// Ranges of keys up to this are looked up in an array.
    array_range: usize,
    /// Slots of such an array per row, at most, when the range is larger.
    array_slots_per_row: usize,
}

/// Bytes of an entry of the hash table: its hash, the row it leads to, and a control byte.
const TABLE_ENTRY_BYTES: usize = 17;
/// Bytes per row beside the table: the chain of rows with equal hashes, the hashes while it is
/// built, and the bit of a row that has a match.
const ROW_BYTES: usize = 4 + 8 + 1;
/// Bytes of a slot, and of a row, of an array of keys.
const ARRAY_SLOT_BYTES: usize = 4;
/// Bytes of the hash table itself, with its fields.
const TABLE_BYTES: usize = 256;

impl JoinMemory {
    /// Reads the settings of the perfect hash join from `options`.
    pub(super) fn new(options: &ConfigOptions) -> Self {
        let execution = &options.execution;
        let density = execution.perfect_hash_join_min_key_density;
        let slots = if density > 0.0 { (1.0 / density).ceil() } else { f64::MAX };
        Self { array_range: execution.perfect_hash_join_small_build_threshold, array_slots_per_row: slots as usize }
    }

    /// Returns the bytes of a join whose build side has `rows` with `bytes` of buffers, without the
    /// copy of them that it makes.
    pub(super) fn joined(&self, bytes: usize, rows: usize) -> usize {
        if rows == 0 {
            return bytes;
        }
        let entries = (rows.saturating_mul(8) / 7).max(1).checked_next_power_of_two().unwrap_or(usize::MAX);
        let table = entries.saturating_mul(TABLE_ENTRY_BYTES).saturating_add(TABLE_BYTES);
        let slots = self.array_range.max(rows.saturating_mul(self.array_slots_per_row));
        let array = slots.saturating_add(rows).saturating_add(2).saturating_mul(ARRAY_SLOT_BYTES);
        bytes.saturating_add(table.max(array)).saturating_add(rows.saturating_mul(ROW_BYTES))
    }

    /// Returns the bytes of such a join while it is made: as [`Self::joined`], and the rows once
    /// more, since it copies them into one batch.
    pub(super) fn building(&self, bytes: usize, rows: usize) -> usize {
        self.joined(bytes, rows).saturating_add(bytes)
    }
}
