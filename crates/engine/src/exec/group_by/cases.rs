//! GROUP BY on S3 Select, with a CASE aggregate per group (PushdownDB, Listing 4).
//!
//! ```text
//! SELECT COUNT(CASE WHEN g = 1 THEN 1 END), SUM(CASE WHEN g = 1 THEN v END),
//!        COUNT(CASE WHEN g IS NULL THEN 1 END), SUM(CASE WHEN g IS NULL THEN v END) FROM S3Object s
//! ```
//!
//! The paper writes ELSE 0, which is wrong for MIN, MAX, COUNT and AVG, and for a SUM over only
//! NULLs. Without ELSE, the rows of other groups are NULL, which aggregates skip. The row count of
//! a group shows whether the group occurs. Storage returns one row per split, which is converted to
//! one row per group that occurs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use pushdowndb_contract::{AggregateCall, AggregateFunction, Error, Expr, Literal, Result};
use pushdowndb_scan::Evaluator;

use super::keys::{Group, is_in};
use crate::error::from_datafusion;
use crate::exec::remote_scan::RemoteScanExec;
use crate::plan::lower::literal;
use crate::plan::partial_aggregate::{PartialAggregate, State};
use crate::plan::placement::Choice;
use crate::plan::scan_plan::ScanPlan;
use crate::settings::Side;

/// Maximum groups per request. If the SQL of a request is too long, its groups are halved.
const GROUPS_PER_REQUEST: usize = 256;

/// Scan in which storage computes the aggregates of some groups.
#[derive(Clone, Debug)]
pub(crate) struct CaseScan {
    /// Yields a row per split: for each group, its row count and then its aggregate states.
    pub(crate) scan: Arc<RemoteScanExec>,
    groups: Vec<Group>,
    schema: SchemaRef,
}

/// Returns the reason why storage cannot compute a CASE aggregate per group; `None` if it can.
pub(crate) fn refusal(rows: &RemoteScanExec, wanted: &PartialAggregate) -> Result<Option<String>> {
    if wanted.calls.is_empty() {
        return Ok(Some("distinct keys are read as they are".to_owned()));
    }
    let schema = &rows.fragment().schema;
    let mut literals = Vec::new();
    for key in &wanted.groups {
        let shown = key.expr.display(schema);
        if key.expr.columns().is_empty() {
            return Ok(Some(format!("{shown} is a constant")));
        }
        let data_type = Evaluator::expr(&key.expr, schema)?.data_type().clone();
        // 0 and −0 are two values to some servers, and one to others.
        if data_type.is_floating() {
            return Ok(Some(format!("{shown} is a double")));
        }
        let Some(likely) = likely(&data_type) else {
            return Ok(Some(format!("no constant is a {data_type}")));
        };
        literals.push(likely);
    }
    let likely = Group { values: vec![], literals, rows: 0 };
    Ok(match case_scan(rows, wanted, &[likely])?.choice() {
        Choice::Storage { .. } => None,
        Choice::Compute(reason) => Some(reason.clone()),
    })
}

/// Returns a typical literal of `data_type`, or `None` if there is no literal of this type.
fn likely(data_type: &DataType) -> Option<Literal> {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(Literal::Utf8("m".to_owned())),
        DataType::Boolean => Some(Literal::Boolean(true)),
        other => literal(&ScalarValue::new_zero(other).ok()?),
    }
}

/// Returns scans that aggregate `groups` in storage, and the groups that no request can express.
pub(crate) fn case_scans(
    rows: &RemoteScanExec,
    wanted: &PartialAggregate,
    groups: &[Group],
) -> Result<(Vec<CaseScan>, Vec<Group>)> {
    let (mut scans, mut others) = (Vec::new(), Vec::new());
    let mut open: Vec<&[Group]> = groups.chunks(GROUPS_PER_REQUEST).collect();
    open.reverse();
    while let Some(groups) = open.pop() {
        let scan = case_scan(rows, wanted, groups)?;
        if matches!(scan.choice(), Choice::Storage { .. }) {
            let (groups, schema) = (groups.to_vec(), Arc::clone(&wanted.schema));
            scans.push(CaseScan { scan: Arc::new(scan), groups, schema });
        } else if groups.len() > 1 {
            // The SQL is too long, or the keys of one group cannot be expressed.
            let (left, right) = groups.split_at(groups.len() / 2);
            open.extend([right, left]);
        } else {
            others.extend_from_slice(groups);
        }
    }
    Ok((scans, others))
}

fn case_scan(rows: &RemoteScanExec, wanted: &PartialAggregate, groups: &[Group]) -> Result<RemoteScanExec> {
    let (mut calls, mut states, mut fields) = (Vec::new(), Vec::new(), Vec::new());
    let state_fields: Vec<&FieldRef> = wanted.schema.fields().iter().skip(wanted.groups.len()).collect();
    for group in groups {
        let is_group = is_in(&wanted.groups, &group.literals);
        let first = calls.len();
        let mut push = |function, value: Expr| {
            let only = Expr::Case { branches: vec![(is_group.clone(), value)], otherwise: None };
            calls.push(AggregateCall { function, argument: Some(only), name: format!("c{}", calls.len()) });
        };
        push(AggregateFunction::Count, Expr::int(1));
        for call in &wanted.calls {
            push(call.function, call.argument.clone().unwrap_or(Expr::int(1)));
        }
        states.push(State { call: first, zero_is_null: false });
        // A missing count is an error.
        fields.push(Field::new(format!("c{first}"), DataType::Int64, false));
        for (state, field) in wanted.states.iter().zip(&state_fields) {
            states.push(State { call: first + 1 + state.call, ..*state });
            fields.push(field.as_ref().clone().with_nullable(true));
        }
    }
    let aggregate = PartialAggregate { groups: vec![], calls, schema: Arc::new(Schema::new(fields)), states };
    let plan = ScanPlan { aggregate: Some(aggregate), ..rows.plan().clone() };
    // The strategy was already chosen for the whole group-by, so fix it.
    let rows = rows.with_options(|options| options.aggregate = Side::Storage)?;
    Ok(rows.with_plan(plan)?.without_note())
}

impl CaseScan {
    /// Returns the aggregate states of the groups that occur. `splits` has one row per split, as
    /// yielded by the scan.
    pub(crate) fn states(&self, splits: &RecordBatch) -> Result<RecordBatch> {
        let keys = self.groups.first().map_or(0, |group| group.values.len());
        let states = self.schema.fields().len() - keys;
        // Group index and split index of each output row.
        let mut places: Vec<(usize, usize)> = Vec::new();
        for group in 0..self.groups.len() {
            let counts = column(splits, group * (states + 1))?;
            let counts = counts.as_primitive_opt::<Int64Type>().ok_or_else(misfit)?;
            let occurs = (0..counts.len()).filter(|split| counts.is_valid(*split) && counts.value(*split) > 0);
            places.extend(occurs.map(|split| (group, split)));
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(keys + states);
        for (key, field) in (0..keys).zip(self.schema.fields()) {
            if places.is_empty() {
                columns.push(arrow::array::new_empty_array(field.data_type()));
                continue;
            }
            let values = places.iter().map(|(group, _)| {
                let value = self.groups.get(*group).and_then(|group| group.values.get(key));
                value.cloned().ok_or_else(misfit)
            });
            let values = values.collect::<Result<Vec<ScalarValue>>>()?;
            columns.push(ScalarValue::iter_to_array(values).map_err(from_datafusion)?);
        }
        for state in 0..states {
            let of_groups = (0..self.groups.len()).map(|group| column(splits, group * (states + 1) + 1 + state));
            let of_groups: Vec<&ArrayRef> = of_groups.collect::<Result<_>>()?;
            let of_groups: Vec<&dyn Array> = of_groups.into_iter().map(AsRef::as_ref).collect();
            columns.push(interleave(&of_groups, &places).map_err(|e| misfit().with_source(e))?);
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|e| misfit().with_source(e))
    }

    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }
}

fn column(batch: &RecordBatch, place: usize) -> Result<&ArrayRef> {
    batch.columns().get(place).ok_or_else(misfit)
}

fn misfit() -> Error {
    Error::internal("the columns of groups do not fit what was asked for")
}
