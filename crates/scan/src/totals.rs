//! What aggregates have taken in, with groups or without. Rows may be taken in at several places, whose totals are merged.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use pushdown::{AggregateCall, Error, NamedExpr, Result};

use crate::MemoryBudget;
use crate::aggregate::Accumulator;
use crate::evaluate::weight::RowWeight;
use crate::evaluate::work::Work;
use crate::group::{HashAggregate, Memory};

/// The columns of some results, and how many rows they have.
pub(crate) type Results = (Vec<ArrayRef>, usize);

/// What is aggregated.
pub(crate) struct TotalsPlan {
    /// None: all rows are one group, which is there without rows, too.
    pub(crate) groups: Vec<NamedExpr>,
    pub(crate) calls: Vec<AggregateCall>,
    /// Of the batches that are taken in.
    pub(crate) schema: SchemaRef,
    /// What groups are held in.
    pub(crate) memory: MemoryBudget,
    /// What a row adds to the texts that are made of it on the way.
    weight: Option<RowWeight>,
    /// What taking a row in costs.
    pub(crate) work: Work,
}

impl TotalsPlan {
    /// For batches of `schema`.
    pub(crate) fn new(
        groups: &[NamedExpr],
        calls: &[AggregateCall],
        schema: &SchemaRef,
        memory: &MemoryBudget,
    ) -> Arc<Self> {
        let arguments = calls.iter().filter_map(|call| call.argument.as_ref());
        let all = || groups.iter().map(|group| &group.expr).chain(arguments.clone());
        let (weight, work) = (RowWeight::of(all()), Work::of_read(all()));
        let (groups, calls, schema) = (groups.to_vec(), calls.to_vec(), Arc::clone(schema));
        Arc::new(Self { groups, calls, schema, memory: memory.clone(), weight, work })
    }
}

/// Aggregates under way.
pub(crate) enum Totals {
    OfAll(Vec<Accumulator>),
    OfGroups(Box<HashAggregate>),
}

impl Totals {
    pub(crate) fn new(plan: &Arc<TotalsPlan>, memory: Memory) -> Result<Self> {
        if plan.groups.is_empty() {
            let all = plan.calls.iter().map(|call| Accumulator::new(call, &plan.schema));
            return all.collect::<Result<_>>().map(Self::OfAll);
        }
        HashAggregate::new(Arc::clone(plan), memory).map(|groups| Self::OfGroups(Box::new(groups)))
    }

    /// The columns of the result.
    pub(crate) fn fields(&self) -> Vec<Field> {
        match self {
            Self::OfAll(all) => all.iter().map(Accumulator::field).collect(),
            Self::OfGroups(groups) => groups.fields(),
        }
    }

    /// Takes in all rows of a batch. Partial memory may be full: then groups come out that are no longer held.
    pub(crate) fn update(&mut self, batch: &RecordBatch) -> Result<Option<Results>> {
        match self {
            Self::OfAll(all) => all.iter_mut().try_for_each(|one| one.update(batch)).map(|()| None),
            Self::OfGroups(groups) => groups.update(batch),
        }
    }

    /// Takes in what others of the same aggregates, in memory that holds all groups, have taken in of later rows.
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

/// Totals of a piece of an object, before they are handed on.
pub(crate) struct PieceTotals {
    plan: Arc<TotalsPlan>,
    totals: Totals,
    /// Of how many rows.
    rows: usize,
}

impl PieceTotals {
    pub(crate) fn new(plan: &Arc<TotalsPlan>) -> Result<Self> {
        Ok(Self { totals: Totals::new(plan, Memory::Whole)?, plan: Arc::clone(plan), rows: 0 })
    }

    pub(crate) fn update(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        self.rows += rows;
        let at_once = self.plan.weight.as_ref().map_or(rows, |weight| weight.rows_at_once(batch)).clamp(1, rows.max(1));
        // Memory that holds all groups passes none on.
        let totals = &mut self.totals;
        (0..rows).step_by(at_once).try_for_each(|first| {
            let piece = batch.slice(first, at_once.min(rows - first));
            self.plan.work.in_pieces(&piece, &mut |piece| totals.update(piece).map(|_| ()))
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        match &self.totals {
            Totals::OfAll(all) => all.iter().map(Accumulator::bytes).sum(),
            Totals::OfGroups(groups) => groups.bytes(),
        }
    }

    /// Whether so many rows have a group of their own that others would better be handed on as they are.
    pub(crate) fn are_many(&self) -> bool {
        match &self.totals {
            Totals::OfAll(_) => false,
            Totals::OfGroups(groups) => groups.len() > self.rows / 4 * 3,
        }
    }

    pub(crate) fn into_totals(self) -> Totals {
        self.totals
    }
}
