//! The keys of joins, collected from a build side and pushed as predicates into scans of the probe
//! side.

pub(crate) mod filters;
pub(crate) mod set;
pub(crate) mod shift;
pub(crate) mod tuples;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::datatypes::DataType;
use datafusion::execution::memory_pool::MemoryReservation;
use parking_lot::Mutex;
use pushdowndb_contract::{Expr, Fingerprint};
use tokio::sync::watch;

pub(crate) use set::{KeySet, is_key};
pub(crate) use shift::{Shift, total, unshifted};
pub(crate) use tuples::TupleSet;

/// The number of a join, unique in the process.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct JoinId(pub(crate) u64);

/// A filter on the rows of a scan by one key of a join above it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeyFilter {
    /// The join whose build side has the keys.
    pub(crate) join: JoinId,
    /// The number of the join's keys.
    pub(crate) join_keys: usize,
    /// Whether NULL equals NULL in the join.
    pub(crate) nulls_match: bool,
    /// Position of this key among the keys of the join.
    pub(crate) index: usize,
    /// Type of this key in the join.
    pub(crate) key_type: DataType,
    /// Key expression of the probe side, over the columns of the scan's objects, without `shift`.
    pub(crate) key: Expr,
    /// Constant that the probe side of the join condition adds to `key`.
    pub(crate) shift: Shift,
    /// Key expression of the build side, for EXPLAIN.
    pub(crate) of: String,
    /// Fingerprint of the build side's rows, which is stable across queries, if there is one.
    pub(crate) side: Option<Fingerprint>,
}

/// The keys of one join, available once its build side has been read.
#[derive(Debug)]
pub(crate) struct BuildKeys {
    id: JoinId,
    pub(crate) types: Vec<DataType>,
    /// Whether NULL equals NULL in the join.
    pub(crate) nulls_match: bool,
    /// Maximum number of build-side rows for which keys are worth collecting.
    pub(crate) max_rows: AtomicUsize,
    /// Number of rows seen so far.
    pub(crate) rows: AtomicUsize,
    pub(crate) collected: Mutex<Collected>,
    pub(crate) outcome: watch::Sender<Outcome>,
}

#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The build side has not ended yet.
    Pending,
    Known(Arc<Keys>),
    /// The build side will not be read to its end, or has too many rows.
    Unknown,
}

/// The keys of a build side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    /// The distinct values of each key.
    pub(crate) sets: Vec<KeySet>,
    /// The distinct tuples of key values, if the join has several keys.
    pub(crate) tuples: Option<TupleSet>,
}

impl Keys {
    pub(crate) fn new(types: &[DataType], nulls_match: bool) -> Self {
        let sets = types.iter().cloned().map(KeySet::new).collect();
        Self { sets, tuples: if nulls_match { None } else { TupleSet::new(types) } }
    }

    pub(crate) fn merge(&mut self, more: Self) {
        self.sets.iter_mut().zip(more.sets).for_each(|(all, more)| all.merge(more));
        if let (Some(all), Some(more)) = (&mut self.tuples, more.tuples) {
            all.merge(more);
        }
    }

    /// Drops the collected keys, to leave their memory to the join itself.
    pub(crate) fn give_up(&mut self) {
        self.sets.iter_mut().for_each(KeySet::give_up);
        self.tuples.iter_mut().for_each(TupleSet::give_up);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let tuples = self.tuples.as_ref().map_or(0, TupleSet::memory_bytes);
        self.sets.iter().map(KeySet::memory_bytes).sum::<usize>() + tuples
    }
}

#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) partitions: usize,
    pub(crate) keys: Option<Keys>,
    pub(crate) reservations: Vec<MemoryReservation>,
}

impl BuildKeys {
    pub(crate) fn new(types: Vec<DataType>, nulls_match: bool) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = JoinId(NEXT_ID.fetch_add(1, Ordering::Relaxed));
        let outcome = watch::Sender::new(Outcome::Pending);
        let (max_rows, rows) = Default::default();
        Self { id, types, nulls_match, max_rows, rows, collected: Mutex::default(), outcome }
    }

    /// Creates the keys of a join whose build side is not read by this process. They are never
    /// available.
    pub(crate) fn unknown() -> Self {
        let keys = Self::new(vec![], false);
        keys.give_up();
        keys
    }

    pub(crate) fn id(&self) -> JoinId {
        self.id
    }

    /// Returns the maximum number of rows for which keys are worth collecting.
    pub(crate) fn max_rows(&self) -> usize {
        self.max_rows.load(Ordering::Relaxed)
    }

    /// Requests the keys for a scan, unless the build side has more than `max_rows` rows.
    pub(crate) fn want(&self, max_rows: usize) {
        self.max_rows.fetch_max(max_rows, Ordering::Relaxed);
    }

    /// Counts `more` further rows, and returns whether the keys are still worth collecting.
    pub(crate) fn are_worth(&self, more: usize) -> bool {
        let rows = self.rows.fetch_add(more, Ordering::Relaxed).saturating_add(more);
        rows <= self.max_rows.load(Ordering::Relaxed)
    }

    pub(crate) fn nulls_match(&self) -> bool {
        self.nulls_match
    }

    /// Waits until the build side has ended or is given up.
    pub(crate) async fn outcome(&self) -> Outcome {
        let mut outcome = self.outcome.subscribe();
        let ended = outcome.wait_for(|outcome| !matches!(outcome, Outcome::Pending)).await;
        ended.map_or(Outcome::Unknown, |outcome| outcome.clone())
    }

    /// Returns the number of distinct values of key `index`, or the number of rows if there were
    /// too many values to collect. Returns `None` if the keys are unknown.
    pub(crate) async fn key_count(&self, index: usize) -> Option<usize> {
        match self.outcome().await {
            Outcome::Known(keys) => keys.sets.get(index).map(|set| set.distinct().unwrap_or(set.rows())),
            Outcome::Pending | Outcome::Unknown => None,
        }
    }

    /// Adds the keys of one partition after its end. `partitions` is the total number of
    /// partitions.
    pub(crate) fn deliver(&self, keys: Keys, reservation: MemoryReservation, partitions: usize) {
        let mut collected = self.collected.lock();
        collected.partitions += 1;
        collected.reservations.push(reservation);
        match &mut collected.keys {
            None => collected.keys = Some(keys),
            Some(all) => all.merge(keys),
        }
        if collected.partitions == partitions {
            let keys = Arc::new(collected.keys.take().unwrap_or_default());
            self.outcome.send_if_modified(|outcome| {
                let pending = matches!(outcome, Outcome::Pending);
                if pending {
                    *outcome = Outcome::Known(keys);
                }
                pending
            });
        }
    }

    pub(crate) fn give_up(&self) {
        self.outcome.send_replace(Outcome::Unknown);
    }
}
