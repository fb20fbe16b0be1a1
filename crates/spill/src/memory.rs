//! The memory pool that the operators of all queries share.

use std::collections::HashMap;
use std::fmt;

use datafusion_common::{DataFusionError, Result};
use datafusion_execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, human_readable_size,
};
use parking_lot::Mutex;

/// One part in this number of the limit is reserved for first grants. A consumer that starts when
/// others hold the rest then gets enough memory to spill efficiently.
const HEADROOM_DIVISOR: usize = 8;

/// One part in this number of the limit is not used for first grants. It is left to consumers that
/// cannot spill, which would fail otherwise.
const FIXED_DIVISOR: usize = 32;

/// One part in this number of the limit is a first grant.
const FIRST_GRANT_DIVISOR: usize = 64;

/// A substring of the names of DataFusion's aggregates. They grow their tables first and reserve
/// the memory afterwards, so an aggregate whose reservation is refused holds twice what it
/// reserved.
const RESERVES_LATE: &str = "AggregateStream[";

/// The size of an aggregate's table up to which it need not reserve for the doubling. At that size,
/// blocks of 2 MB and the buffers of a merge matter more.
const SMALL_TABLE_BYTES: usize = 32 * 1024 * 1024;

/// A memory pool with a limit, shared by consumers that can spill and consumers that cannot.
///
/// If `n` consumers that can spill hold memory, each may grow to `1 / (n + 1)` of the memory that
/// is left by consumers that cannot spill, as far as it is free. Beyond this share, a consumer may
/// take half of the free memory, up to two thirds of the total. In contrast, DataFusion's
/// `FairSpillPool` also counts consumers that hold nothing, so the operators of a large plan get
/// only a fraction of the memory.
///
/// A consumer that cannot spill gets any free memory. An aggregate gets half of the share of other
/// consumers, since it reserves late, but its share is not reduced below 32 MiB.
#[derive(Debug)]
pub struct SharedMemoryPool {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The bytes of each consumer that can spill and holds memory, by the consumer's id.
    spillable: HashMap<usize, usize>,
    /// The total bytes of those consumers.
    spillable_bytes: usize,
    /// The total bytes of consumers that cannot spill.
    fixed_bytes: usize,
    /// The maximum number of bytes that were reserved at the same time.
    peak_bytes: usize,
}

impl State {
    fn bytes(&self) -> usize {
        self.spillable_bytes + self.fixed_bytes
    }

    fn grow(&mut self, consumer: &MemoryConsumer, bytes: usize) {
        if consumer.can_spill() {
            *self.spillable.entry(consumer.id()).or_default() += bytes;
            self.spillable_bytes += bytes;
        } else {
            self.fixed_bytes += bytes;
        }
        self.peak_bytes = self.peak_bytes.max(self.bytes());
    }

    fn shrink(&mut self, consumer: &MemoryConsumer, bytes: usize) {
        if !consumer.can_spill() {
            self.fixed_bytes = self.fixed_bytes.saturating_sub(bytes);
            return;
        }
        self.spillable_bytes = self.spillable_bytes.saturating_sub(bytes);
        if let Some(held) = self.spillable.get_mut(&consumer.id()) {
            *held = held.saturating_sub(bytes);
            if *held == 0 {
                self.spillable.remove(&consumer.id());
            }
        }
    }
}

impl SharedMemoryPool {
    /// Creates a pool of `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default() }
    }

    /// Returns the maximum number of bytes that were reserved at the same time.
    pub fn peak_bytes(&self) -> usize {
        self.state.lock().peak_bytes
    }

    /// Returns the number of bytes by which `consumer` may grow, when it requests `additional`
    /// bytes.
    fn room(&self, state: &State, consumer: &MemoryConsumer, additional: usize) -> usize {
        let free = self.limit.saturating_sub(state.bytes());
        if !consumer.can_spill() {
            return free;
        }
        let held = state.spillable.get(&consumer.id()).copied().unwrap_or_default();
        let first = (self.limit / FIRST_GRANT_DIVISOR).saturating_sub(held);
        let regular = self.limit - self.limit / HEADROOM_DIVISOR;
        let holders = state.spillable.len() + usize::from(held == 0);
        let shared = regular.saturating_sub(state.fixed_bytes);
        let regular_free = regular.saturating_sub(state.bytes());
        // A much larger request is for sorting the rows to spill, not for a table that has already
        // grown.
        let is_late = consumer.name().contains(RESERVES_LATE) && additional <= held.saturating_mul(4);
        let own = |bytes: usize| if is_late { (bytes / 2).max(bytes.min(SMALL_TABLE_BYTES)) } else { bytes };
        let share = own(shared / (holders + 1)).saturating_sub(held).min(regular_free);
        let beyond = own(shared / 3 * 2).saturating_sub(held).min(regular_free / 2);
        share.max(beyond).max(first.min(free.saturating_sub(self.limit / FIXED_DIVISOR)))
    }
}

impl MemoryPool for SharedMemoryPool {
    fn name(&self) -> &str {
        "shared"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.state.lock().grow(reservation.consumer(), additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.state.lock().shrink(reservation.consumer(), shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut state = self.state.lock();
        let consumer = reservation.consumer();
        let room = self.room(&state, consumer, additional);
        if additional <= room {
            state.grow(consumer, additional);
            return Ok(());
        }
        Err(DataFusionError::ResourcesExhausted(format!(
            "{} holds {} and needs {} more, of which {} can be had: all queries together hold {} of pushdown.memory = \
             {}; raise it, or run fewer queries or threads",
            consumer.name(),
            human_readable_size(reservation.size()),
            human_readable_size(additional),
            human_readable_size(room),
            human_readable_size(state.bytes()),
            human_readable_size(self.limit),
        )))
    }

    fn reserved(&self) -> usize {
        self.state.lock().bytes()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

impl fmt::Display for SharedMemoryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shared(limit: {})", human_readable_size(self.limit))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn consumer(pool: &Arc<dyn MemoryPool>, can_spill: bool) -> MemoryReservation {
        MemoryConsumer::new("test").with_can_spill(can_spill).register(pool)
    }

    #[test]
    fn one_share_stays_free_for_the_next() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedMemoryPool::new(6400));
        let (first, idle, second) = (consumer(&pool, true), consumer(&pool, true), consumer(&pool, true));
        assert!(first.try_grow(2801).is_err());
        first.try_grow(2800).unwrap();
        // Half of the rest, but no more than two thirds of 5600.
        first.try_grow(900).unwrap();
        assert!(first.try_grow(33).is_err());
        assert!(second.try_grow(1867).is_err());
        second.try_grow(1866).unwrap();
        assert_eq!((pool.reserved(), idle.size()), (5566, 0));
        // The idle consumer can still start.
        assert!(first.try_grow(20).is_err());
        idle.try_grow(100).unwrap();
    }

    #[test]
    fn aggregates_get_half() {
        let groups = |pool| MemoryConsumer::new("FinalHashAggregateStream[3]").with_can_spill(true).register(pool);
        let mib = 1024 * 1024;
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedMemoryPool::new(960 * mib));
        let large = groups(&pool);
        large.try_grow(100 * mib).unwrap();
        assert!(large.try_grow(180 * mib + 1).is_err());
        large.try_grow(180 * mib).unwrap();
        assert!(large.try_grow(1).is_err());
        consumer(&pool, true).try_grow(280 * mib).unwrap();
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedMemoryPool::new(16 * mib));
        groups(&pool).try_grow(7 * mib).unwrap();
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedMemoryPool::new(960 * mib));
        groups(&pool).try_grow(420 * mib).expect("to sort what is spilled");
    }

    #[test]
    fn a_first_grant_comes_from_the_headroom() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedMemoryPool::new(6400));
        let fixed = consumer(&pool, false);
        fixed.try_grow(5600).unwrap();
        let late = consumer(&pool, true);
        late.try_grow(100).unwrap();
        assert!(late.try_grow(1).is_err());
        assert!(fixed.try_grow(701).is_err(), "the limit holds for all");
        fixed.try_grow(700).unwrap();
    }

    #[test]
    fn first_grants_leave_room_to_those_that_cannot_spill() {
        let pool: Arc<dyn MemoryPool> = Arc::new(SharedMemoryPool::new(6400));
        let all: Vec<_> = (0..100).map(|_| consumer(&pool, true)).filter(|one| one.try_grow(100).is_ok()).collect();
        assert_eq!((all.len(), pool.reserved()), (62, 6200));
        let fixed = consumer(&pool, false);
        fixed.try_grow(200).unwrap();
    }

    #[test]
    fn nothing_is_left_of_a_consumer_that_ends() {
        let pool = Arc::new(SharedMemoryPool::new(1 << 20));
        let shared: Arc<dyn MemoryPool> = Arc::clone(&pool) as _;
        let held = consumer(&shared, true);
        held.try_grow(1000).unwrap();
        let part = held.split(400);
        held.shrink(100);
        drop(held);
        assert_eq!(pool.reserved(), 400);
        drop(part);
        assert_eq!((pool.reserved(), pool.peak_bytes()), (0, 1000));
        assert!(pool.state.lock().spillable.is_empty());
    }
}
