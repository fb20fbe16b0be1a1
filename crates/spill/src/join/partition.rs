//! Hash partitioning of rows by their join keys.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use arrow::compute::take_arrays;
use arrow::datatypes::DataType;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion_common::Result;
use datafusion_common::hash_utils::{RandomState, create_hashes};
use datafusion_physical_expr::PhysicalExprRef;

/// The number of partitions at one level.
pub(super) const PARTITIONS: usize = 16;

/// The number of levels of partitions within partitions. Each level has a separate hash seed. The
/// seeds differ from those of DataFusion's repartitioning (0) and hash tables, so that rows with
/// equal hashes there are still spread here.
pub(super) const LEVELS: usize = LEVEL_SEEDS.len();

const LEVEL_SEEDS: [u64; 3] = [0x6a09_e667_f3bc_c908, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b];

/// Partitions the rows of one side of a join by the hash of `keys`.
///
/// Both sides agree, since DataFusion hashes equal values equally, including NULL. Rows with a NULL
/// key are in one partition, where they match or not as the join specifies.
pub(super) struct Partitioner {
    keys: Vec<PhysicalExprRef>,
    state: RandomState,
    hashes: Vec<u64>,
}

impl Partitioner {
    /// Creates the partitioner of a `level`, which must be below [`LEVELS`].
    pub(super) fn new(keys: Vec<PhysicalExprRef>, level: usize) -> Self {
        let state = RandomState::with_seed(LEVEL_SEEDS[level % LEVELS]);
        Self { keys, state, hashes: vec![] }
    }

    /// Splits `batch` by target: a row of partition `p` goes to the target `targets[p]`.
    ///
    /// The result has an element for each target up to the largest; `None` if the target gets no
    /// rows. The batches do not keep the buffers of `batch` alive.
    pub(super) fn split(
        &mut self,
        batch: &RecordBatch,
        targets: &[usize; PARTITIONS],
    ) -> Result<Vec<Option<RecordBatch>>> {
        let rows = batch.num_rows();
        let keys = (self.keys.iter()).map(|key| key.evaluate(batch)?.into_array(rows)).collect::<Result<Vec<_>>>()?;
        self.hashes.clear();
        self.hashes.resize(rows, 0);
        create_hashes(&keys, &self.state, &mut self.hashes)?;

        let count = targets.iter().max().map_or(0, |largest| largest + 1);
        let mut indices = vec![Vec::new(); count];
        for (row, hash) in self.hashes.iter().enumerate() {
            indices[targets[partition_of(*hash)]].push(row as u32);
        }
        (indices.into_iter()).map(|rows| (!rows.is_empty()).then(|| take_rows(batch, rows)).transpose()).collect()
    }
}

/// Returns the partition of a hash, by its upper bits.
fn partition_of(hash: u64) -> usize {
    ((u128::from(hash) * PARTITIONS as u128) >> 64) as usize
}

/// Returns targets that map each partition to itself.
pub(super) fn each_its_own() -> [usize; PARTITIONS] {
    std::array::from_fn(|partition| partition)
}

fn take_rows(batch: &RecordBatch, rows: Vec<u32>) -> Result<RecordBatch> {
    let count = rows.len();
    let columns = take_arrays(batch.columns(), &UInt32Array::from(rows), None)?;
    let columns = columns.into_iter().map(compact_views).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

/// Copies the data of view arrays, which would otherwise keep the buffers of the original array
/// alive.
fn compact_views(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => array,
    }
}
