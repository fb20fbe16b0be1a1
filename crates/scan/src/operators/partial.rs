//! Partial aggregates, with groups or without, and how they are merged.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Field;
use pushdowndb_contract::{Error, Result};

use crate::operators::aggregate::accumulator::Accumulator;
use crate::operators::aggregate_plan::{AggregatePlan, Results};
use crate::operators::group::hash_aggregate::{HashAggregate, Memory};

/// An aggregation in progress.
pub(crate) enum PartialAggregate {
    OfAll(Vec<Accumulator>),
    OfGroups(Box<HashAggregate>),
}

impl PartialAggregate {
    pub(crate) fn new(plan: &Arc<AggregatePlan>, memory: Memory) -> Result<Self> {
        if plan.groups.is_empty() {
            let all = plan.calls.iter().map(|call| Accumulator::new(call, &plan.schema));
            return all.collect::<Result<_>>().map(Self::OfAll);
        }
        HashAggregate::new(Arc::clone(plan), memory).map(|groups| Self::OfGroups(Box::new(groups)))
    }

    /// Returns the fields of the result.
    pub(crate) fn fields(&self) -> Vec<Field> {
        match self {
            Self::OfAll(all) => all.iter().map(Accumulator::field).collect(),
            Self::OfGroups(groups) => groups.fields(),
        }
    }

    /// Adds all rows of a batch. With [`Memory::Partial`](super::group::hash_aggregate::Memory),
    /// may return groups that were flushed.
    pub(crate) fn update(&mut self, batch: &RecordBatch) -> Result<Option<Results>> {
        match self {
            Self::OfAll(all) => all.iter_mut().try_for_each(|one| one.update(batch)).map(|()| None),
            Self::OfGroups(groups) => groups.update(batch),
        }
    }

    /// Merges a partial aggregate of later rows, which must hold all of its groups.
    pub(crate) fn merge(&mut self, later: Self) -> Result<()> {
        match (self, later) {
            (Self::OfAll(all), Self::OfAll(later)) => all.iter_mut().zip(later).try_for_each(|(a, b)| a.merge(b)),
            (Self::OfGroups(groups), Self::OfGroups(later)) => groups.merge(*later),
            _ => Err(Error::internal("totals of other aggregates")),
        }
    }

    pub(crate) fn finish(self) -> Result<Results> {
        match self {
            Self::OfAll(all) => Ok((all.into_iter().map(Accumulator::finish).collect::<Result<_>>()?, 1)),
            Self::OfGroups(groups) => groups.finish(),
        }
    }
}

/// The partial aggregate of a piece of an object.
pub(crate) struct PieceAggregate {
    plan: Arc<AggregatePlan>,
    totals: PartialAggregate,
    /// The number of rows of the piece.
    rows: usize,
}

impl PieceAggregate {
    pub(crate) fn new(plan: &Arc<AggregatePlan>) -> Result<Self> {
        Ok(Self { totals: PartialAggregate::new(plan, Memory::Whole)?, plan: Arc::clone(plan), rows: 0 })
    }

    pub(crate) fn update(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        self.rows += rows;
        let at_once = self.plan.weight.as_ref().map_or(rows, |weight| weight.rows_at_once(batch)).clamp(1, rows.max(1));
        // With memory for all groups, no groups are passed on.
        let totals = &mut self.totals;
        (0..rows).step_by(at_once).try_for_each(|first| {
            let piece = batch.slice(first, at_once.min(rows - first));
            self.plan.work.in_pieces(&piece, &mut |piece| totals.update(piece).map(|_| ()))
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        match &self.totals {
            PartialAggregate::OfAll(all) => all.iter().map(Accumulator::bytes).sum(),
            PartialAggregate::OfGroups(groups) => groups.bytes(),
        }
    }

    /// Returns whether most rows have a group of their own, so that further rows should be passed
    /// on without aggregation.
    pub(crate) fn are_many(&self) -> bool {
        match &self.totals {
            PartialAggregate::OfAll(_) => false,
            PartialAggregate::OfGroups(groups) => groups.len() > self.rows / 4 * 3,
        }
    }

    pub(crate) fn into_totals(self) -> PartialAggregate {
        self.totals
    }
}
