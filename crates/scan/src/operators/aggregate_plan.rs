//! The plan of an aggregation, and its results.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use pushdowndb_contract::{AggregateCall, NamedExpr};

use crate::expr::weight::RowWeight;
use crate::expr::work::Work;
use crate::runtime::memory::MemoryBudget;

pub(crate) struct AggregatePlan {
    /// Empty: all rows are one group, which exists without rows, too.
    pub(crate) groups: Vec<NamedExpr>,
    pub(crate) calls: Vec<AggregateCall>,
    /// Schema of the batches that are aggregated.
    pub(crate) schema: SchemaRef,
    /// Accounts for groups.
    pub(crate) memory: MemoryBudget,
    /// Bytes of intermediate text per row.
    pub(crate) weight: Option<RowWeight>,
    /// Work per row.
    pub(crate) work: Work,
}

impl AggregatePlan {
    /// Returns the plan for batches of `schema`.
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

/// Result columns, and their number of rows.
pub(crate) type Results = (Vec<ArrayRef>, usize);
