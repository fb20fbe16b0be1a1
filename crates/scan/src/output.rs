//! The last steps of a fragment: project or aggregate the rows that passed, then limit.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use pushdown::{Expr, NamedExpr, Output, Result};

use crate::aggregate::Accumulator;
use crate::errors::from_arrow;
use crate::evaluate::Evaluator;

/// What becomes of the rows that passed the predicate.
pub(crate) struct Sink {
    schema: SchemaRef,
    step: Step,
    /// Rows that may still come out.
    remaining: u64,
}

enum Step {
    Project(Vec<Evaluator>),
    Aggregate(Vec<Accumulator>),
}

impl Sink {
    /// `output` over batches of `input`. `schema` is what the fragment promises, see [`crate::output_schema`].
    pub(crate) fn new(output: &Output, input: &SchemaRef, schema: SchemaRef, limit: Option<u64>) -> Result<Self> {
        let step = match output {
            Output::Rows(columns) => {
                Step::Project(columns.iter().map(|c| Evaluator::expr(&c.expr, input)).collect::<Result<_>>()?)
            }
            Output::Aggregate(calls) => {
                Step::Aggregate(calls.iter().map(|call| Accumulator::new(call, input)).collect::<Result<_>>()?)
            }
        };
        Ok(Self { schema, step, remaining: limit.unwrap_or(u64::MAX) })
    }

    /// Whether nothing that could still come would change the result.
    pub(crate) fn is_full(&self) -> bool {
        self.remaining == 0
    }

    /// Takes rows in; a projection gives them out again.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        match &mut self.step {
            Step::Aggregate(accumulators) => {
                accumulators.iter_mut().try_for_each(|accumulator| accumulator.update(batch))?;
                Ok(None)
            }
            Step::Project(columns) => {
                let rows = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(batch.num_rows());
                if rows == 0 {
                    return Ok(None);
                }
                let batch = batch.slice(0, rows);
                self.remaining -= rows as u64;
                let columns = columns.iter().map(|c| c.evaluate(&batch)).collect::<Result<Vec<_>>>()?;
                record_batch(&self.schema, columns, rows).map(Some)
            }
        }
    }

    /// The row of an aggregate, when all rows have been taken in.
    pub(crate) fn finish(self) -> Result<Option<RecordBatch>> {
        match self.step {
            Step::Aggregate(accumulators) if self.remaining > 0 => {
                let columns = accumulators.into_iter().map(Accumulator::finish).collect::<Result<Vec<_>>>()?;
                record_batch(&self.schema, columns, 1).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// A batch that keeps its number of rows even without columns.
pub(crate) fn record_batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(from_arrow)
}

/// The schema of what comes out of `output` over `input`.
pub(crate) fn schema_of(output: &Output, input: &SchemaRef) -> Result<SchemaRef> {
    let fields: Vec<Field> = match output {
        Output::Rows(columns) => columns
            .iter()
            .map(|c| {
                let value = Evaluator::expr(&c.expr, input)?;
                Ok(Field::new(&c.name, value.data_type().clone(), value.nullable()))
            })
            .collect::<Result<_>>()?,
        Output::Aggregate(calls) => {
            calls.iter().map(|call| Ok(Accumulator::new(call, input)?.field())).collect::<Result<_>>()?
        }
    };
    Ok(Arc::new(Schema::new(fields)))
}

/// `output` with every expression replaced.
pub(crate) fn map_output(output: &Output, f: &mut impl FnMut(&Expr) -> Result<Expr>) -> Result<Output> {
    Ok(match output {
        Output::Rows(columns) => Output::Rows(
            columns.iter().map(|c| Ok(NamedExpr { expr: f(&c.expr)?, name: c.name.clone() })).collect::<Result<_>>()?,
        ),
        Output::Aggregate(calls) => Output::Aggregate(
            calls
                .iter()
                .map(|call| {
                    let mut call = call.clone();
                    call.argument = call.argument.as_ref().map(&mut *f).transpose()?;
                    Ok(call)
                })
                .collect::<Result<_>>()?,
        ),
    })
}

/// The columns an output reads, ascending.
pub(crate) fn columns_of(output: &Output) -> Vec<usize> {
    let mut columns: Vec<usize> = match output {
        Output::Rows(rows) => rows.iter().flat_map(|c| c.expr.columns()).collect(),
        Output::Aggregate(calls) => calls.iter().filter_map(|c| c.argument.as_ref()).flat_map(Expr::columns).collect(),
    };
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// `expr` with each column index replaced.
pub(crate) fn map_columns(expr: &Expr, f: &mut impl FnMut(usize) -> usize) -> Expr {
    fn walk(expr: Expr, f: &mut dyn FnMut(usize) -> usize) -> Expr {
        match expr {
            Expr::Column(index) => Expr::Column(f(index)),
            other => {
                let Ok(mapped) = other.map_children(&mut |child| Ok::<_, std::convert::Infallible>(walk(child, f)));
                mapped
            }
        }
    }
    walk(expr.clone(), f)
}
