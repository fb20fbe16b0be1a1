//! Inputs of the joins: partitioned random tables, which check the order in which they are read.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{ArrayRef, Int64Array, StringArray, StringViewArray, UInt32Array};
use arrow::compute::{cast, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion_common::hash_utils::{RandomState, create_hashes};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, exec_err};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion_physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::stream;
use rand::Rng;
use rand::rngs::StdRng;

/// Records which partitions of a build side have been read to their end.
#[derive(Default)]
pub(super) struct Reading {
    ended: Vec<AtomicBool>,
}

impl Reading {
    pub(super) fn of(partitions: usize) -> Arc<Self> {
        Arc::new(Self { ended: (0..partitions).map(|_| AtomicBool::new(false)).collect() })
    }

    fn check(&self, partition: usize) -> Result<()> {
        let partition = partition.min(self.ended.len() - 1);
        if self.ended[partition].load(Ordering::SeqCst) {
            return Ok(());
        }
        exec_err!("the probe side was polled before the build side had ended")
    }
}

/// The side of a join on which a table is.
#[derive(Clone)]
pub(super) enum Role {
    /// The table records when its partitions end.
    Build(Arc<Reading>),
    /// Reading the table fails if the build side has not ended.
    Probe(Arc<Reading>),
}

/// A table in memory.
pub(super) struct TableExec {
    partitions: Vec<Vec<RecordBatch>>,
    properties: Arc<PlanProperties>,
    role: Role,
}

impl TableExec {
    /// Creates a table of `partitions`. Several partitions are declared as hashed by the columns
    /// `keys`.
    pub(super) fn new(schema: SchemaRef, partitions: Vec<Vec<RecordBatch>>, keys: &[usize], role: Role) -> Arc<Self> {
        let partitioning = match partitions.len() {
            1 => Partitioning::UnknownPartitioning(1),
            count => Partitioning::Hash(columns(&schema, keys), count),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            partitioning,
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Arc::new(Self { partitions, properties: Arc::new(properties), role })
    }
}

/// Returns the columns of `schema` at `indices`, as expressions.
pub(super) fn columns(schema: &SchemaRef, indices: &[usize]) -> Vec<Arc<dyn PhysicalExpr>> {
    indices.iter().map(|index| Arc::new(Column::new(schema.field(*index).name(), *index)) as _).collect()
}

/// Partitions the rows of `batches` as DataFusion's repartitioning does.
pub(super) fn by_hash(batches: &[RecordBatch], keys: &[usize], count: usize) -> Vec<Vec<RecordBatch>> {
    let mut partitions = vec![vec![]; count];
    for batch in batches {
        let columns: Vec<ArrayRef> = keys.iter().map(|key| Arc::clone(batch.column(*key))).collect();
        let mut hashes = vec![0; batch.num_rows()];
        create_hashes(&columns, &RandomState::with_seed(0), &mut hashes).unwrap();
        for (partition, batches) in partitions.iter_mut().enumerate() {
            let rows = (0..batch.num_rows()).filter(|row| hashes[*row] as usize % count == partition);
            let rows = UInt32Array::from_iter_values(rows.map(|row| row as u32));
            batches.push(take_record_batch(batch, &rows).unwrap());
        }
    }
    partitions
}

impl Debug for TableExec {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("TableExec")
    }
}

impl DisplayAs for TableExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("TableExec")
    }
}

impl ExecutionPlan for TableExec {
    fn name(&self) -> &str {
        "TableExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let role = self.role.clone();
        let batches = self.partitions[partition].clone().into_iter();
        let stream = stream::unfold((batches, role), move |(mut batches, role)| async move {
            // The input is not always ready, like a real one.
            tokio::task::yield_now().await;
            if let Role::Probe(reading) = &role
                && let Err(error) = reading.check(partition)
            {
                return Some((Err(error), (batches, role)));
            }
            let next = batches.next();
            if let (None, Role::Build(reading)) = (&next, &role) {
                reading.ended[partition].store(true, Ordering::SeqCst);
            }
            next.map(|batch| (Ok(batch), (batches, role)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), stream)))
    }
}

/// The Arrow type of text columns.
#[derive(Debug, Clone, Copy)]
pub(super) enum Text {
    Plain,
    Views,
    Dictionary,
}

/// The parameters of a random table.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) rows: usize,
    /// The maximum number of rows of a batch.
    pub(super) batch_rows: usize,
    /// The number of distinct values of the first key; the second key has a few.
    pub(super) keys: i64,
    /// The percentage of rows that have the same key.
    pub(super) skew: u32,
    /// The percentage of keys that are NULL.
    pub(super) nulls: u32,
    /// The maximum length of the text, in bytes.
    pub(super) text: usize,
}

/// Returns the schema of a side: two keys, a value for filters, the number of the row, and a text.
pub(super) fn schema(side: &str, text: Text) -> SchemaRef {
    let text = match text {
        Text::Plain => DataType::Utf8,
        Text::Views => DataType::Utf8View,
        Text::Dictionary => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    };
    let field = |name: &str, data_type| Field::new(format!("{side}_{name}"), data_type, true);
    Arc::new(Schema::new(vec![
        field("key", DataType::Int64),
        field("second", text.clone()),
        field("value", DataType::Int64),
        Field::new(format!("{side}_row"), DataType::Int64, false),
        field("text", text),
    ]))
}

/// Creates the batches of a random table with these parameters and this `schema`. Some of them are
/// slices of one larger batch.
pub(super) fn table(random: &mut StdRng, schema: &SchemaRef, shape: &Shape) -> Vec<RecordBatch> {
    let mut batches = vec![];
    let mut rows = 0;
    while rows < shape.rows {
        let count = random.random_range(1..=shape.batch_rows).min(shape.rows - rows);
        let batch = rows_of(random, schema, shape, rows, count);
        if random.random_range(0..4) == 0 && count > 1 {
            let at = random.random_range(1..count);
            batches.extend([batch.slice(0, at), batch.slice(at, count - at)]);
        } else {
            batches.push(batch);
        }
        rows += count;
    }
    if random.random_range(0..4) == 0 {
        batches.push(RecordBatch::new_empty(Arc::clone(schema)));
    }
    batches
}

fn rows_of(random: &mut StdRng, schema: &SchemaRef, shape: &Shape, first: usize, count: usize) -> RecordBatch {
    let mut keys: (Vec<Option<i64>>, Vec<Option<String>>) = (vec![], vec![]);
    for _ in 0..count {
        let common = random.random_range(0..100) < shape.skew;
        let key = if common { 0 } else { random.random_range(0..shape.keys) };
        let second = if common { 0 } else { random.random_range(0..3) };
        keys.0.push((random.random_range(0..100) >= shape.nulls).then_some(key));
        let text = format!("the second key, number {second}");
        keys.1.push((random.random_range(0..100) >= shape.nulls).then_some(text));
    }
    let values: Vec<_> = (0..count).map(|_| Some(random.random_range(0..100))).collect();
    let row_numbers: Vec<_> = (first..first + count).map(|row| row as i64).collect();
    let texts: Vec<_> = (0..count)
        .map(|_| {
            let length = random.random_range(0..=shape.text);
            (length % 7 != 3).then(|| char::from(random.random_range(b'a'..=b'z')).to_string().repeat(length))
        })
        .collect();
    let strings = |values: Vec<Option<String>>| -> ArrayRef {
        match schema.field(1).data_type() {
            DataType::Utf8View => Arc::new(StringViewArray::from_iter(values).gc()),
            other => cast(&StringArray::from(values), other).unwrap(),
        }
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(keys.0)),
        strings(keys.1),
        Arc::new(Int64Array::from(values)),
        Arc::new(Int64Array::from(row_numbers)),
        strings(texts),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
}
