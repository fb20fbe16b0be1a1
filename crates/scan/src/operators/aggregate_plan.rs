//! The plan of an aggregation, and its results.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use pushdowndb_contract::{AggregateCall, NamedExpr};

use crate::expr::weight::RowWeight;
use crate::expr::work::Work;
use crate::runtime::memory::MemoryBudget;

pub(crate) struct AggregatePlan {
    /// The group keys. If empty, all rows form one group, which exists even without rows.
    pub(crate) groups: Vec<NamedExpr>,
    pub(crate) calls: Vec<AggregateCall>,
    /// The schema of the batches that are aggregated.
    pub(crate) schema: SchemaRef,
    /// The memory budget for groups.
    pub(crate) memory: MemoryBudget,
    /// The bytes of intermediate text per row.
    pub(crate) weight: Option<RowWeight>,
    /// The work per row.
    pub(crate) work: Work,
}

impl AggregatePlan {
    /// Creates the plan for batches of `schema`.
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

/// The columns of a result, and their number of rows.
pub(crate) type Results = (Vec<ArrayRef>, usize);
