//! The memory of one output partition of a join, and estimates of what a join needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion_common::config::ConfigOptions;
use datafusion_execution::TaskContext;
use datafusion_execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use parking_lot::Mutex;

/// The memory reservation of one output partition, and the upper bound that applies to it once
/// memory is short.
pub(super) struct Budget {
    /// Locked because resizing is not atomic.
    reservation: Mutex<MemoryReservation>,
    /// True once a reservation failed in any output partition of the same run.
    short: Arc<AtomicBool>,
    /// The upper bound on growth, in bytes, once memory is `short`. It leaves memory to output
    /// partitions that start late, where the pool itself has no fair shares.
    fair_share: usize,
}

impl Budget {
    /// Registers a consumer `name` with the pool of `context`. It is one of `count` budgets that
    /// share the flag `short`.
    pub(super) fn new(name: String, context: &TaskContext, count: usize, short: Arc<AtomicBool>) -> Self {
        let pool = context.memory_pool();
        let fair_share = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / count.max(1),
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let reservation = MemoryConsumer::new(name).with_can_spill(true).register(pool);
        Self { reservation: Mutex::new(reservation), short, fair_share }
    }

    /// Resizes the reservation to `bytes` if possible, and returns whether it was. Shrinking always
    /// succeeds.
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

    /// Shrinks the reservation to `bytes` if it is larger.
    pub(super) fn shrink_to(&self, bytes: usize) {
        let reservation = self.reservation.lock();
        let more = reservation.size().saturating_sub(bytes);
        if more > 0 {
            reservation.shrink(more);
        }
    }
}

/// Estimates the memory that a `HashJoinExec` needs for its build side, from the session's
/// settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct JoinMemory {
    /// A range of keys up to this size is looked up in an array instead of a hash table.
    array_range: usize,
    /// The maximum number of array slots per row for a larger range.
    array_slots_per_row: usize,
}

/// Bytes of a hash table entry: the hash, the index of the row, and a control byte.
const TABLE_ENTRY_BYTES: usize = 17;
/// Additional bytes per row: the chain of rows with equal hashes, the hashes while the table is
/// built, and the bit that marks a row with a match.
const ROW_BYTES: usize = 4 + 8 + 1;
/// Bytes per slot, and per row, of an array of keys.
const ARRAY_SLOT_BYTES: usize = 4;
/// Bytes of the hash table's fixed part.
const TABLE_BYTES: usize = 256;

impl JoinMemory {
    /// Takes the settings of the perfect hash join from `options`.
    pub(super) fn new(options: &ConfigOptions) -> Self {
        let execution = &options.execution;
        let density = execution.perfect_hash_join_min_key_density;
        let slots = if density > 0.0 { (1.0 / density).ceil() } else { f64::MAX };
        Self { array_range: execution.perfect_hash_join_small_build_threshold, array_slots_per_row: slots as usize }
    }

    /// Returns the memory of a join in bytes, once its build side is built. The build side has
    /// `rows` rows, whose buffers take `bytes`; the batches that they are copied from are not
    /// included.
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

    /// Returns the memory of a join in bytes while its build side is built: as [`Self::joined`],
    /// and the rows once more, since the join copies them into one batch.
    pub(super) fn building(&self, bytes: usize, rows: usize) -> usize {
        self.joined(bytes, rows).saturating_add(bytes)
    }
}
