//! What aggregates have taken in, with groups or without. Rows may be taken in at several places, whose totals are merged.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use pushdown::{AggregateCall, Error, NamedExpr, Output, Result};

use crate::aggregate::Accumulator;
use crate::group::{HashAggregate, Memory};

/// The columns of some results, and how many rows they have.
pub(crate) type Results = (Vec<ArrayRef>, usize);

/// Aggregates under way.
pub(crate) enum Totals {
    OfAll(Vec<Accumulator>),
    OfGroups(Box<HashAggregate>),
}

impl Totals {
    /// For batches of `schema`.
    pub(crate) fn new(
        groups: &[NamedExpr],
        calls: &[AggregateCall],
        schema: &SchemaRef,
        memory: Memory,
    ) -> Result<Self> {
        if groups.is_empty() {
            return calls.iter().map(|call| Accumulator::new(call, schema)).collect::<Result<_>>().map(Self::OfAll);
        }
        HashAggregate::new(groups, calls, schema, memory).map(|groups| Self::OfGroups(Box::new(groups)))
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

/// How rows of a piece of an object are aggregated before they are handed on.
pub(crate) struct PieceTotals {
    groups: Vec<NamedExpr>,
    calls: Vec<AggregateCall>,
    schema: SchemaRef,
}

impl PieceTotals {
    /// For the output over batches of `schema`, if it aggregates.
    pub(crate) fn of(output: &Output, schema: &SchemaRef) -> Option<Self> {
        let Output::Aggregate { groups, calls } = output else { return None };
        Some(Self { groups: groups.clone(), calls: calls.clone(), schema: SchemaRef::clone(schema) })
    }

    pub(crate) fn start(&self) -> Result<Taken> {
        let totals = Totals::new(&self.groups, &self.calls, &self.schema, Memory::Whole)?;
        Ok(Taken { totals, rows: 0 })
    }
}

/// Totals of a piece under way.
pub(crate) struct Taken {
    totals: Totals,
    /// Of how many rows.
    rows: usize,
}

impl Taken {
    pub(crate) fn update(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        // Memory that holds all groups passes none on.
        self.totals.update(batch).map(|_| ())
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
