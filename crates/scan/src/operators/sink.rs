//! The last steps of a fragment: projection or aggregation, order, limit, and a final projection.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use pushdowndb_contract::{Error, ErrorKind, Fragment, NamedExpr, Output, Result};

use crate::batch::record_batch;
use crate::expr::columns::expressions;
use crate::expr::evaluator::Evaluator;
use crate::expr::functions::json::too_large;
use crate::expr::weight::RowWeight;
use crate::limits;
use crate::operators::aggregate_plan::AggregatePlan;
use crate::operators::group::hash_aggregate::Memory;
use crate::operators::partial::PartialAggregate;
use crate::operators::top_k::operator::TopK;
use crate::operators::top_k::threshold::Threshold;
use crate::runtime::memory::MemoryBudget;

/// Options of the last steps.
pub(crate) struct SinkOptions {
    /// The maximum bytes of groups. Beyond it, groups are returned partially aggregated.
    pub(crate) partial_group_bytes: Option<usize>,
    /// Whether more rows than the limit may be returned if the first rows take too much memory.
    pub(crate) passes_on_first_rows: bool,
    /// Shared by scans that compute the same ORDER BY … LIMIT.
    pub(crate) threshold: Arc<Threshold>,
    /// The memory budget for groups and first rows.
    pub(crate) memory: MemoryBudget,
}

/// The last steps for the rows that passed the predicate.
pub(crate) struct Sink {
    /// The schema before the final projection.
    schema: SchemaRef,
    step: Step,
    top: Option<TopK>,
    /// The number of rows that may still be returned.
    remaining: u64,
    last: Option<Last>,
    /// The bytes of intermediate text per row.
    weight: Option<RowWeight>,
}

enum Step {
    Project(Vec<Evaluator>),
    Aggregate(PartialAggregate, Arc<AggregatePlan>),
}

struct Last {
    schema: SchemaRef,
    columns: Vec<Evaluator>,
}

impl Sink {
    /// Creates the steps for `output`, which must be rewritten to batches of `input`. `schema` is
    /// the schema of the results, see [`crate::output_schema`].
    pub(crate) fn new(
        fragment: &Fragment,
        output: &Output,
        input: &SchemaRef,
        schema: SchemaRef,
        options: &SinkOptions,
    ) -> Result<Self> {
        // Order, limit and final projection require complete groups.
        let whole = !fragment.order.is_empty() || fragment.limit.is_some() || fragment.project.is_some();
        let memory = options.partial_group_bytes.filter(|_| !whole).map_or(Memory::Whole, Memory::Partial);
        let evaluators = |columns: &[NamedExpr], over: &SchemaRef| -> Result<Vec<Evaluator>> {
            columns.iter().map(|c| Evaluator::expr(&c.expr, over)).collect()
        };
        let step = match output {
            Output::Rows(columns) => Step::Project(evaluators(columns, input)?),
            Output::Aggregate { groups, calls } => {
                let plan = AggregatePlan::new(groups, calls, input, &options.memory);
                Step::Aggregate(PartialAggregate::new(&plan, memory)?, plan)
            }
        };
        let (inner, last) = match &fragment.project {
            None => (schema, None),
            Some(columns) => {
                let inner = schema_of(&fragment.output, &fragment.schema)?;
                let columns = evaluators(columns, &inner)?;
                (inner, Some(Last { schema, columns }))
            }
        };
        let top = match (fragment.order.as_slice(), fragment.limit) {
            ([], _) => None,
            (order, Some(limit)) => {
                let passes_on = options.passes_on_first_rows && matches!(step, Step::Project(_));
                let threshold = Arc::clone(&options.threshold);
                Some(TopK::new(order, limit, &inner, threshold, passes_on, &options.memory)?)
            }
            (_, None) => return Err(Error::invalid("ORDER BY needs a LIMIT")),
        };
        let weight = RowWeight::of(expressions(output));
        Ok(Self { schema: inner, step, top, remaining: fragment.limit.unwrap_or(u64::MAX), last, weight })
    }

    /// Returns whether further rows cannot change the result.
    pub(crate) fn is_full(&self) -> bool {
        self.remaining == 0
    }

    /// Returns the number of rows of the batch to process at a time.
    pub(crate) fn rows_at_once(&self, batch: &RecordBatch) -> usize {
        let rows = match &self.step {
            Step::Aggregate(_, plan) => plan.work.rows_at_once(batch),
            // Evaluators split batches themselves.
            Step::Project(_) => batch.num_rows(),
        };
        self.weight.as_ref().map_or(rows, |weight| weight.rows_at_once(batch).min(rows))
    }

    /// Processes a batch. Returns results for a projection without an order, and when a step had to
    /// release memory.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let columns = match &mut self.step {
            Step::Aggregate(totals, _) => {
                let passed_on = totals.update(batch)?;
                return passed_on.map(|(columns, rows)| record_batch(&self.schema, columns, rows)).transpose();
            }
            Step::Project(columns) => columns,
        };
        let project = |batch: &RecordBatch| {
            let mut bytes = 0;
            let mut values = Vec::with_capacity(columns.len());
            for column in columns.iter() {
                let value = column.evaluate(batch)?;
                // Plain columns share their memory with the batch.
                if !column.is_column() {
                    bytes += value.get_array_memory_size();
                }
                if bytes > limits::MAX_VALUE_BYTES {
                    return Err(too_large());
                }
                values.push(value);
            }
            record_batch(&self.schema, values, batch.num_rows())
        };
        if let Some(top) = &mut self.top {
            let passed_on = top.push(project(batch)?)?;
            // The rows were already added, so they must not be pushed again.
            return passed_on.map(|batch| self.last(batch).map_err(for_good)).transpose();
        }
        let rows = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(batch.num_rows());
        if rows == 0 {
            return Ok(None);
        }
        let batch = project(&batch.slice(0, rows))?;
        let batch = self.last(batch)?;
        self.remaining -= rows as u64;
        Ok(Some(batch))
    }

    /// Merges a partial aggregate.
    pub(crate) fn merge(&mut self, later: PartialAggregate) -> Result<()> {
        match &mut self.step {
            Step::Aggregate(totals, _) => totals.merge(later),
            Step::Project(_) => Err(Error::internal("totals for rows")),
        }
    }

    /// Returns whether rows that failed with this error may be pushed again, fewer at a time.
    pub(crate) fn may_retry(&self, error: &Error) -> bool {
        matches!(self.step, Step::Project(_)) && error.kind() == ErrorKind::Limit && error.code() == too_large().code()
    }

    /// Returns the results that depend on all rows.
    pub(crate) fn finish(mut self) -> Result<Option<RecordBatch>> {
        let step = std::mem::replace(&mut self.step, Step::Project(vec![]));
        let (columns, rows) = match step {
            _ if self.remaining == 0 => return Ok(None),
            Step::Project(_) => {
                let first = self.top.take().map_or(Ok(None), TopK::finish)?;
                return first.map(|batch| self.last(batch)).transpose();
            }
            Step::Aggregate(totals, _) => totals.finish()?,
        };
        let mut batch = record_batch(&self.schema, columns, rows)?;
        if let Some(mut top) = self.top.take() {
            let first = top.push(batch)?;
            let first = first.map_or_else(|| top.finish(), |first| Ok(Some(first)))?;
            return first.map(|batch| self.last(batch)).transpose();
        }
        let rows = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(rows);
        batch = batch.slice(0, rows);
        if rows == 0 { Ok(None) } else { self.last(batch).map(Some) }
    }

    fn last(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let Some(last) = &self.last else { return Ok(batch) };
        let columns = last.columns.iter().map(|c| c.evaluate(&batch)).collect::<Result<Vec<_>>>()?;
        record_batch(&last.schema, columns, batch.num_rows())
    }
}

/// Returns the same error without the code that allows a retry.
fn for_good(error: Error) -> Error {
    Error::new(error.kind(), error.message().to_owned()).with_source(error)
}

/// Returns the schema of `output` over `input`.
pub(crate) fn schema_of(output: &Output, input: &SchemaRef) -> Result<SchemaRef> {
    let fields: Vec<Field> = match output {
        Output::Rows(columns) => columns
            .iter()
            .map(|c| {
                let value = Evaluator::expr(&c.expr, input)?;
                Ok(Field::new(&c.name, value.data_type().clone(), value.nullable()))
            })
            .collect::<Result<_>>()?,
        Output::Aggregate { groups, calls } => {
            let plan = AggregatePlan::new(groups, calls, input, &MemoryBudget::unbounded());
            PartialAggregate::new(&plan, Memory::Whole)?.fields()
        }
    };
    Ok(Arc::new(Schema::new(fields)))
}

/// Returns the schema of the fragment's results.
pub(crate) fn result_schema(fragment: &Fragment) -> Result<SchemaRef> {
    let output = schema_of(&fragment.output, &fragment.schema)?;
    match &fragment.project {
        None => Ok(output),
        Some(columns) => schema_of(&Output::Rows(columns.clone()), &output),
    }
}
