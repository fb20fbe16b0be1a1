//! The last steps of a fragment: project or aggregate the rows that passed, order, limit, and project once more.

use std::convert::Infallible;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use pushdown::{Error, ErrorKind, Expr, Fragment, NamedExpr, Output, Result};

use crate::errors::from_arrow;
use crate::evaluate::Evaluator;
use crate::evaluate::token_functions::too_large;
use crate::evaluate::weight::RowWeight;
use crate::group::Memory;
use crate::scan::ScanOptions;
use crate::top_k::TopK;
use crate::totals::{Totals, TotalsPlan};
use crate::{MemoryBudget, limits};

/// What becomes of the rows that passed the predicate.
pub(crate) struct Sink {
    /// Of the output, before the last projection.
    schema: SchemaRef,
    step: Step,
    top: Option<TopK>,
    /// Rows that may still come out.
    remaining: u64,
    last: Option<Last>,
    /// What a row adds to the texts that are made of it on the way.
    weight: Option<RowWeight>,
}

enum Step {
    Project(Vec<Evaluator>),
    Aggregate(Totals, Arc<TotalsPlan>),
}

/// The last projection.
struct Last {
    schema: SchemaRef,
    columns: Vec<Evaluator>,
}

impl Sink {
    /// The fragment's `output`, rewritten to batches of `input`. `schema` is what the fragment promises, see
    /// [`crate::output_schema`].
    pub(crate) fn new(
        fragment: &Fragment,
        output: &Output,
        input: &SchemaRef,
        schema: SchemaRef,
        options: &ScanOptions,
    ) -> Result<Self> {
        // What orders, limits or computes with whole groups needs them whole.
        let whole = !fragment.order.is_empty() || fragment.limit.is_some() || fragment.project.is_some();
        let memory = options.partial_group_bytes.filter(|_| !whole).map_or(Memory::Whole, Memory::Partial);
        let evaluators = |columns: &[NamedExpr], over: &SchemaRef| -> Result<Vec<Evaluator>> {
            columns.iter().map(|c| Evaluator::expr(&c.expr, over)).collect()
        };
        let step = match output {
            Output::Rows(columns) => Step::Project(evaluators(columns, input)?),
            Output::Aggregate { groups, calls } => {
                let plan = TotalsPlan::new(groups, calls, input, &options.memory);
                Step::Aggregate(Totals::new(&plan, memory)?, plan)
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

    /// Whether nothing that could still come would change the result.
    pub(crate) fn is_full(&self) -> bool {
        self.remaining == 0
    }

    /// How many rows of the batch are taken in at a time.
    pub(crate) fn rows_at_once(&self, batch: &RecordBatch) -> usize {
        let rows = match &self.step {
            Step::Aggregate(_, plan) => plan.work.rows_at_once(batch),
            // Evaluators take pieces by themselves.
            Step::Project(_) => batch.num_rows(),
        };
        self.weight.as_ref().map_or(rows, |weight| weight.rows_at_once(batch).min(rows))
    }

    /// Takes rows in; a projection without an order gives them out again, and so does what holds too much.
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
                // Columns as they are share their bytes.
                if !column.is_column() {
                    bytes += value.get_array_memory_size();
                }
                if bytes > limits::VALUE_BYTES {
                    return Err(too_large());
                }
                values.push(value);
            }
            record_batch(&self.schema, values, batch.num_rows())
        };
        if let Some(top) = &mut self.top {
            let passed_on = top.push(project(batch)?)?;
            // The rows are taken in: they must not be pushed again.
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

    /// Takes in what was aggregated of rows elsewhere.
    pub(crate) fn merge(&mut self, later: Totals) -> Result<()> {
        match &mut self.step {
            Step::Aggregate(totals, _) => totals.merge(later),
            Step::Project(_) => Err(Error::internal("totals for rows")),
        }
    }

    /// Whether the rows that failed with this error may be pushed again, fewer at a time.
    pub(crate) fn may_retry(&self, error: &Error) -> bool {
        matches!(self.step, Step::Project(_)) && error.kind() == ErrorKind::Limit && error.code() == too_large().code()
    }

    /// What comes out only when all rows have been taken in.
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

/// The same error, not to be met with fewer rows.
fn for_good(error: Error) -> Error {
    Error::new(error.kind(), error.message().to_owned()).with_source(error)
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
        Output::Aggregate { groups, calls } => {
            let plan = TotalsPlan::new(groups, calls, input, &MemoryBudget::unbounded());
            Totals::new(&plan, Memory::Whole)?.fields()
        }
    };
    Ok(Arc::new(Schema::new(fields)))
}

/// The schema of what comes out of the fragment.
pub(crate) fn result_schema(fragment: &Fragment) -> Result<SchemaRef> {
    let output = schema_of(&fragment.output, &fragment.schema)?;
    match &fragment.project {
        None => Ok(output),
        Some(columns) => schema_of(&Output::Rows(columns.clone()), &output),
    }
}

/// `output` with every expression replaced.
pub(crate) fn map_output(output: &Output, f: &mut impl FnMut(&Expr) -> Result<Expr>) -> Result<Output> {
    let mut named = |columns: &[NamedExpr]| -> Result<Vec<NamedExpr>> {
        columns.iter().map(|c| Ok(NamedExpr { expr: f(&c.expr)?, name: c.name.clone() })).collect()
    };
    Ok(match output {
        Output::Rows(columns) => Output::Rows(named(columns)?),
        Output::Aggregate { groups, calls } => {
            let groups = named(groups)?;
            let calls = calls.iter().map(|call| {
                let mut call = call.clone();
                call.argument = call.argument.as_ref().map(&mut *f).transpose()?;
                Ok(call)
            });
            Output::Aggregate { groups, calls: calls.collect::<Result<_>>()? }
        }
    })
}

/// What an output computes.
pub(crate) fn expressions(output: &Output) -> Vec<&Expr> {
    match output {
        Output::Rows(columns) => columns.iter().map(|column| &column.expr).collect(),
        Output::Aggregate { groups, calls } => {
            let arguments = calls.iter().filter_map(|call| call.argument.as_ref());
            groups.iter().map(|group| &group.expr).chain(arguments).collect()
        }
    }
}

/// The columns an output reads, ascending.
pub(crate) fn columns_of(output: &Output) -> Vec<usize> {
    let mut columns: Vec<usize> = match output {
        Output::Rows(rows) => rows.iter().flat_map(|c| c.expr.columns()).collect(),
        Output::Aggregate { groups, calls } => {
            let arguments = calls.iter().filter_map(|c| c.argument.as_ref());
            groups.iter().map(|g| &g.expr).chain(arguments).flat_map(Expr::columns).collect()
        }
    };
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// The columns an output reads for nothing but to group by them as they are.
pub(crate) fn only_keys(output: &Output) -> Vec<usize> {
    let Output::Aggregate { groups, calls } = output else { return Vec::new() };
    let arguments = calls.iter().filter_map(|call| call.argument.as_ref());
    let computed = groups.iter().map(|group| &group.expr).filter(|expr| !matches!(expr, Expr::Column(_)));
    let others: Vec<usize> = arguments.chain(computed).flat_map(Expr::columns).collect();
    let keys = groups.iter().flat_map(|group| group.expr.columns());
    keys.filter(|column| !others.contains(column)).collect()
}

/// `expr` over only these columns, ascending, which hold all that it reads.
pub(crate) fn renumber(expr: &Expr, columns: &[usize]) -> Expr {
    map_columns(expr, &mut |index| place(columns, index))
}

/// Where `index` is among these columns, ascending, which hold it.
pub(crate) fn place(columns: &[usize], index: usize) -> usize {
    columns.binary_search(&index).unwrap_or(usize::MAX)
}

/// `expr` with each column index replaced.
pub(crate) fn map_columns(expr: &Expr, f: &mut impl FnMut(usize) -> usize) -> Expr {
    let Ok(mapped) = expr.clone().replace_columns(&mut |index| Ok::<_, Infallible>(Expr::Column(f(index))));
    mapped
}
