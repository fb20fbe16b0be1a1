//! Partial states that a scan yields in place of rows, for a final aggregate to merge.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::{CastOptions, cast_with_options, nullif};
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;
use pushdowndb_contract::{AggregateCall, NamedExpr};

/// Aggregates that the scan yields as partial states: at least one row per split and group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PartialAggregate {
    /// The keys, over the object's columns.
    pub(crate) groups: Vec<NamedExpr>,
    pub(crate) calls: Vec<AggregateCall>,
    /// The columns of the result: those of the keys, then those of `states`.
    pub(crate) schema: SchemaRef,
    pub(crate) states: Vec<State>,
}

/// A column of partial states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct State {
    /// Position of the aggregate call whose result it holds.
    pub(crate) call: usize,
    /// Whether 0 is converted to NULL, as in the count of an AVG by group: DataFusion divides by a
    /// count of 0, but not by a NULL count.
    pub(crate) zero_is_null: bool,
}

impl PartialAggregate {
    /// Returns whether `other` has the same states.
    pub(crate) fn computes_the_same(&self, other: &Self) -> bool {
        let Self { groups, calls, schema, states } = self;
        (groups, calls, states) == (&other.groups, &other.calls, &other.states) && *schema == other.schema
    }

    /// Converts `computed`, the keys and call results of a fragment, to the columns of `schema`.
    pub(crate) fn columns(&self, computed: &RecordBatch) -> std::result::Result<Vec<ArrayRef>, ArrowError> {
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let keys = (0..self.groups.len()).map(|place| (place, false));
        let states = self.states.iter().map(|state| (self.groups.len() + state.call, state.zero_is_null));
        let column = |((place, zero_is_null), field): ((usize, bool), &FieldRef)| {
            let column = computed
                .columns()
                .get(place)
                .ok_or_else(|| ArrowError::SchemaError(format!("{place} columns where aggregates should have more")))?;
            let column = cast_with_options(column, field.data_type(), &strict)?;
            if !zero_is_null {
                return Ok(column);
            }
            let zero = ScalarValue::new_zero(field.data_type())?.to_scalar()?;
            nullif(&column, &eq(&column, &zero)?)
        };
        keys.chain(states).zip(self.schema.fields()).map(column).collect()
    }
}
