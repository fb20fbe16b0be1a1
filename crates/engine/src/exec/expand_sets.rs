//! Operator that repeats the rows of its input for each grouping set.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, ScalarValue, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Aggregate;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::aggregates::PhysicalGroupBy;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt, stream};

/// Operator that yields each row of `input` once for each of the grouping sets `sets`.
///
/// The leading columns of `input` are the group keys. Each output row starts with the same keys,
/// with NULL for the keys outside its grouping set. The grouping ID follows, as [`AggregateExec`]
/// defines it, and then the other columns of `input`. An aggregate over the output groups by the
/// keys and the grouping ID, and so has no grouping sets of its own. An aggregate with grouping
/// sets could not read its spill files back, since DataFusion 55 omits the grouping ID from them.
///
/// [`AggregateExec`]: datafusion::physical_plan::aggregates::AggregateExec
#[derive(Clone, Debug)]
pub(crate) struct ExpandSetsExec {
    input: Arc<dyn ExecutionPlan>,
    sets: PhysicalGroupBy,
    /// For each grouping set, the expressions of all output columns.
    columns: Arc<[Vec<Arc<dyn PhysicalExpr>>]>,
    properties: Arc<PlanProperties>,
}

impl ExpandSetsExec {
    /// Returns the grouping sets.
    pub(crate) fn sets(&self) -> &PhysicalGroupBy {
        &self.sets
    }

    /// Creates the operator. The leading output columns take the names of the keys of `sets`, in
    /// order.
    pub(crate) fn try_new(input: Arc<dyn ExecutionPlan>, sets: &PhysicalGroupBy) -> DfResult<Self> {
        let states = input.schema();
        let keys = sets.expr().len();
        let Some((key_fields, others)) = states.fields().split_at_checked(keys) else {
            return internal_err!("{} columns for {keys} keys of grouping sets", states.fields().len());
        };
        let mut occurrences: HashMap<&[bool], u64> = HashMap::new();
        let numbered: Vec<(&Vec<bool>, u64)> = sets
            .groups()
            .iter()
            .map(|nulls| {
                let earlier = occurrences.entry(nulls.as_slice()).or_default();
                *earlier += 1;
                (nulls, *earlier - 1)
            })
            .collect();
        let most = numbered.iter().map(|(_, earlier)| *earlier).max().unwrap_or(0);
        let number_type = Aggregate::grouping_id_type(keys, usize::try_from(most).unwrap_or(usize::MAX));

        let mut columns = Vec::with_capacity(numbered.len());
        for (nulls, earlier) in numbered {
            let mut row: Vec<Arc<dyn PhysicalExpr>> = Vec::with_capacity(states.fields().len() + 1);
            for (place, (field, is_null)) in key_fields.iter().zip(nulls).enumerate() {
                row.push(match is_null {
                    true => Arc::new(Literal::new(ScalarValue::try_from(field.data_type())?)),
                    false => Arc::new(Column::new(field.name(), place)),
                });
            }
            // The low bits mark the NULL keys, the first key in the highest of these bits. The bits
            // above them count the earlier occurrences of the same set.
            let bits = nulls.iter().fold(0u64, |bits, is_null| (bits << 1) | u64::from(*is_null));
            let number = bits | earlier.checked_shl(keys as u32).unwrap_or(0);
            row.push(Arc::new(Literal::new(ScalarValue::UInt64(Some(number)).cast_to(&number_type)?)));
            let column = |place: usize| Arc::new(Column::new(states.field(place).name(), place)) as _;
            row.extend((keys..states.fields().len()).map(column));
            columns.push(row);
        }

        let is_ever_null = |place: usize| sets.groups().iter().any(|nulls| nulls[place]);
        let keys = key_fields.iter().zip(sets.expr()).enumerate().map(|(place, (field, (_, name)))| {
            let field = field.as_ref().clone().with_name(name);
            let nullable = field.is_nullable() || is_ever_null(place);
            Arc::new(field.with_nullable(nullable))
        });
        let number = Arc::new(Field::new(Aggregate::INTERNAL_GROUPING_ID, number_type, false));
        let fields: Vec<_> = keys.chain([number]).chain(others.iter().cloned()).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, states.metadata().clone()));
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            input.pipeline_behavior(),
            input.boundedness(),
        ));
        Ok(Self { input, sets: sets.clone(), columns: columns.into(), properties })
    }
}

/// Returns the rows of `batch` for one grouping set, whose output expressions are `columns`.
fn in_set(batch: &RecordBatch, columns: &[Arc<dyn PhysicalExpr>], schema: SchemaRef) -> DfResult<RecordBatch> {
    let rows = batch.num_rows();
    let arrays = columns.iter().map(|column| column.evaluate(batch)?.into_array(rows)).collect::<DfResult<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
}

impl DisplayAs for ExpandSetsExec {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExpandSetsExec: sets={}", self.columns.len())
    }
}

impl ExecutionPlan for ExpandSetsExec {
    fn name(&self) -> &str {
        "ExpandSetsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        let mut next = TreeNodeRecursion::Continue;
        for expr in self.columns.iter().flatten() {
            next = next.visit_sibling(|| f(expr))?;
        }
        Ok(next)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(Self::try_new(input, &self.sets)?))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let (columns, schema) = (Arc::clone(&self.columns), self.schema());
        let output = Arc::clone(&schema);
        let expanded = rows
            .map_ok(move |batch| {
                let (columns, schema) = (Arc::clone(&columns), Arc::clone(&schema));
                let sets = (0..columns.len()).map(move |set| in_set(&batch, &columns[set], Arc::clone(&schema)));
                stream::iter(sets)
            })
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(output, expanded.boxed())))
    }
}
