//! Grouped aggregation: a hash table of keys, with a state for each key and aggregate.
//!
//! Everything is in memory and bounded, see [`Memory`]. If groups have to be complete, it is an
//! error to exceed the number of groups or bytes in [`limits`]. If the caller merges results, a
//! full table keeps its groups. Rows of other groups are aggregated in a second, small table, which
//! is flushed whenever it is full. This is the partial group-by that PushdownDB suggests (Section
//! X, suggestion 4). Large groups tend to occur early and so stay in the table; many small groups
//! cost little more than their rows.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat, take_record_batch};
use arrow::datatypes::Field;
use pushdowndb_contract::{Error, ErrorKind, Result};

use crate::error::from_arrow;
use crate::expr::evaluator::Evaluator;
use crate::limits;
use crate::operators::aggregate_plan::{AggregatePlan, Results};
use crate::operators::group::keys::KeyTable;
use crate::operators::group::shared::Shared;
use crate::operators::group::state::{STATE_BYTES, State};
use crate::runtime::interrupt::check_interrupt;
use crate::runtime::memory::Reservation;

/// What to do when keys and states need more memory than allowed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Memory {
    /// It is an error to exceed [`limits`].
    Whole,
    /// Beyond this number of bytes, new groups are passed on. A group may then be returned several
    /// times.
    Partial(usize),
}

/// A grouped aggregation in progress.
pub(crate) struct HashAggregate {
    /// The plan, from which the table of other groups is created.
    plan: Arc<AggregatePlan>,
    memory: Memory,
    keys: Vec<(String, Evaluator)>,
    table: KeyTable,
    shared: Shared,
    calls: Vec<(String, State)>,
    /// The group of each row of the current batch.
    groups: Vec<usize>,
    /// The table of other groups, which did not fit into the full table.
    aside: Option<Box<HashAggregate>>,
    /// Memory reserved for the groups of both tables.
    reserved: Reservation,
}

impl HashAggregate {
    pub(crate) fn new(plan: Arc<AggregatePlan>, memory: Memory) -> Result<Self> {
        let keys = plan.groups.iter().map(|key| Ok((key.name.clone(), Evaluator::expr(&key.expr, &plan.schema)?)));
        let keys: Vec<(String, Evaluator)> = keys.collect::<Result<_>>()?;
        let table = KeyTable::new(keys.iter().map(|(_, key)| key.data_type().clone()).collect())?;
        let (shared, calls) = Shared::of(&plan.calls, &plan.schema)?;
        let calls = calls.into_iter().map(|call| Ok((call.name.clone(), State::new(&call, shared.schema())?)));
        let calls = calls.collect::<Result<_>>()?;
        let reserved = plan.memory.empty();
        Ok(Self { plan, memory, keys, table, shared, calls, groups: vec![], aside: None, reserved })
    }

    /// Returns the fields of the result.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let keys = self.keys.iter().map(|(name, key)| Field::new(name, key.data_type().clone(), key.nullable()));
        let calls = self.calls.iter().map(|(name, state)| state.field(name));
        keys.chain(calls).collect()
    }

    /// Adds all rows of a batch. With [`Memory::Partial`], may return groups that were flushed.
    pub(crate) fn update(&mut self, batch: &RecordBatch) -> Result<Option<Results>> {
        let unknown = self.find_groups(batch)?;
        if unknown.is_empty() {
            self.add(batch)?;
        } else {
            let unknown = UInt32Array::from(unknown);
            let mut is_known = vec![true; batch.num_rows()];
            for row in unknown.values() {
                if let Some(known) = is_known.get_mut(*row as usize) {
                    *known = false;
                }
            }
            let known: UInt32Array = (0u32..).zip(&is_known).filter_map(|(row, known)| known.then_some(row)).collect();
            self.add(&take_record_batch(batch, &known).map_err(from_arrow)?)?;
            let aside = match &mut self.aside {
                Some(aside) => aside,
                // The table of other groups accepts every group, since it is flushed when it is
                // large.
                none => none.insert(Box::new(Self::new(Arc::clone(&self.plan), Memory::Partial(usize::MAX))?)),
            };
            aside.update(&take_record_batch(batch, &unknown).map_err(from_arrow)?)?;
        }
        match self.memory {
            // The memory of the table of other groups is reserved by its owner.
            Memory::Partial(usize::MAX) => Ok(None),
            Memory::Partial(most) => self.make_room(most),
            Memory::Whole => self.check_limits().map(|()| None),
        }
    }

    /// Merges another table of the same aggregates over later rows. Both tables must hold all of
    /// their groups.
    pub(crate) fn merge(&mut self, later: Self) -> Result<()> {
        if self.memory != Memory::Whole || later.memory != Memory::Whole {
            return Err(Error::internal("groups that are not whole"));
        }
        let rows = later.len();
        if rows == 0 {
            return Ok(());
        }
        if self.len() == 0 {
            *self = later;
            return Ok(());
        }
        let keys = later.table.into_columns()?;
        self.groups.clear();
        self.table.find_values(&keys, rows, usize::MAX, 0, &mut self.groups)?;
        let count = self.table.len();
        for ((_, state), (_, later)) in self.calls.iter_mut().zip(later.calls) {
            check_interrupt()?;
            state.merge(later, &self.groups, count)?;
        }
        self.check_limits()
    }

    pub(crate) fn finish(self) -> Result<Results> {
        // Memory for keys and states, and for the columns created from them.
        self.reserve(self.held_bytes().saturating_mul(2))?;
        self.into_results()
    }

    fn into_results(mut self) -> Result<Results> {
        let aside = self.aside.take();
        let (columns, rows) = self.groups_as_columns()?;
        let Some(aside) = aside else { return Ok((columns, rows)) };
        let (others, more) = aside.groups_as_columns()?;
        let both = columns.iter().zip(&others).map(|(a, b)| concat(&[a, b]).map_err(from_arrow));
        Ok((both.collect::<Result<_>>()?, rows + more))
    }

    /// Finds the group of each row. Returns the rows of groups for which the table has no room.
    fn find_groups(&mut self, batch: &RecordBatch) -> Result<Vec<u32>> {
        let keys = self.keys.iter().map(|(_, key)| key.evaluate(batch)).collect::<Result<Vec<_>>>()?;
        let room = match self.memory {
            Memory::Partial(most) => most.saturating_sub(self.bytes()),
            Memory::Whole => usize::MAX,
        };
        self.groups.clear();
        self.table.find(&keys, batch.num_rows(), room, self.calls.len() * STATE_BYTES, &mut self.groups)
    }

    /// Adds rows to their groups, which were found before.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let count = self.table.len();
        let batch = &self.shared.extend(batch)?;
        self.calls.iter_mut().try_for_each(|(_, state)| state.update(batch, &self.groups, count))
    }

    /// Returns the number of groups.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns the approximate memory of the groups, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.table.bytes() + self.calls.iter().map(|(_, state)| state.bytes()).sum::<usize>()
    }

    /// Returns the approximate memory of the groups in bytes, including the table of other groups.
    fn held_bytes(&self) -> usize {
        self.bytes() + self.aside.as_ref().map_or(0, |aside| aside.bytes())
    }

    fn reserve(&self, bytes: usize) -> Result<()> {
        self.reserved.resize(bytes).map_err(|shortage| shortage.error("GROUP BY", "ExternalEvalException"))
    }

    fn check_limits(&self) -> Result<()> {
        if self.table.len() > limits::MAX_GROUPS {
            return Err(too_much(format!("GROUP BY finds more than {} groups", limits::MAX_GROUPS)));
        }
        if self.bytes() > limits::MAX_AGGREGATE_BYTES {
            return Err(too_much(format!("GROUP BY needs more than {} bytes", limits::MAX_AGGREGATE_BYTES)));
        }
        self.reserve(self.bytes())
    }

    /// Flushes the table of other groups if it is large, or all groups if their own states have
    /// grown.
    fn make_room(&mut self, most: usize) -> Result<Option<Results>> {
        if self.aside.as_ref().is_some_and(|aside| aside.bytes() >= most / ASIDE_SHARE) {
            return self.aside.take().map(|aside| aside.groups_as_columns()).transpose();
        }
        // All groups are flushed, too, if no more memory can be reserved.
        if self.bytes() / 2 < most && self.reserve(self.held_bytes()).is_ok() {
            return Ok(None);
        }
        let fresh = Self::new(Arc::clone(&self.plan), self.memory)?;
        std::mem::replace(self, fresh).into_results().map(Some)
    }

    fn groups_as_columns(self) -> Result<Results> {
        let count = self.table.len();
        let mut columns = self.table.into_columns()?;
        for (_, state) in self.calls {
            check_interrupt()?;
            columns.push(state.finish(count)?);
        }
        Ok((columns, count))
    }
}

/// The table of other groups is flushed when it takes one part in this number of the allowed
/// memory.
const ASIDE_SHARE: usize = 4;

pub(crate) fn too_much(message: String) -> Error {
    Error::new(ErrorKind::Limit, message).with_code("ExternalEvalException")
}
