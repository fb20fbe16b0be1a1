//! Top-k: the first k rows in an order, for ORDER BY … LIMIT.
//!
//! Rows are collected until there are twice as many as needed, and then all but the first k are
//! dropped. From then on, only rows that sort before the k-th are collected. Memory is bounded by k
//! and by bytes.
//!
//! Scans that compute the same top-k share a [`Threshold`]: one of them has k rows up to it, so the
//! others drop rows that are equal to it or sort after it. Sources evaluate the bound of
//! [`crate::operators::top_k::live`] before they decode the other columns of a row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch, UInt32Array};
use arrow::compute::{SortOptions, concat_batches, filter_record_batch, take_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::row::{OwnedRow, RowConverter, Rows, SortField};
use pushdowndb_contract::{Error, Result, SortKey};

use crate::batch::compact;
use crate::error::from_arrow;
use crate::expr::evaluator::Evaluator;
use crate::expr::weight::text_bytes;
use crate::limits;
use crate::operators::group::hash_aggregate::too_much;
use crate::operators::top_k::sorted::sorted;
use crate::operators::top_k::threshold::Threshold;
use crate::runtime::memory::{MemoryBudget, Reservation};

/// The maximum number of keys that are copied for a comparison at a time.
const MAX_COPIED_KEYS: usize = 1024;

fn too_many_bytes() -> Error {
    too_much(format!("ORDER BY needs more than {} bytes", limits::MAX_TOP_K_BYTES))
}

pub(crate) struct TopK {
    schema: SchemaRef,
    keys: Vec<Evaluator>,
    first: SortOptions,
    converter: RowConverter,
    k: usize,
    gathered: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    /// The bytes of the sort keys of the collected rows.
    key_bytes: usize,
    /// Memory reserved for the collected rows.
    reserved: Reservation,
    /// The last of the first k rows so far.
    threshold: Option<OwnedRow>,
    /// The bound shared with other scans.
    shared: Arc<Threshold>,
    /// True if rows that take too much memory are returned early, even if later rows might sort
    /// before them.
    passes_on: bool,
}

impl TopK {
    /// Creates a top-k over batches of `schema`.
    pub(crate) fn new(
        order: &[SortKey],
        k: u64,
        schema: &SchemaRef,
        shared: Arc<Threshold>,
        passes_on: bool,
        memory: &MemoryBudget,
    ) -> Result<Self> {
        let k = match usize::try_from(k) {
            Ok(k) if k as u64 <= pushdowndb_contract::limits::TOP_K_ROWS => k,
            _ => {
                return Err(too_much(format!(
                    "ORDER BY takes a LIMIT of at most {}",
                    pushdowndb_contract::limits::TOP_K_ROWS
                )));
            }
        };
        let keys = order.iter().map(|key| Evaluator::expr(&key.expr, schema)).collect::<Result<Vec<_>>>()?;
        let options = |key: &SortKey| SortOptions { descending: key.descending, nulls_first: key.nulls_first };
        let fields = keys
            .iter()
            .zip(order)
            .map(|(value, key)| SortField::new_with_options(value.data_type().clone(), options(key)));
        let converter = RowConverter::new(fields.collect()).map_err(from_arrow)?;
        let schema = Arc::clone(schema);
        let first = order.first().map(options).unwrap_or_default();
        Ok(Self {
            schema,
            keys,
            first,
            converter,
            k,
            gathered: vec![],
            rows: 0,
            bytes: 0,
            key_bytes: 0,
            reserved: memory.empty(),
            threshold: None,
            shared,
            passes_on,
        })
    }

    fn keys_of(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let (mut bytes, mut keys) = (0, Vec::with_capacity(self.keys.len()));
        for key in &self.keys {
            let values = key.evaluate(batch)?;
            bytes += if key.is_column() { 0 } else { values.get_array_memory_size() };
            if bytes > limits::MAX_TOP_K_BYTES {
                return Err(too_many_bytes());
            }
            keys.push(values);
        }
        Ok(keys)
    }

    fn sort_rows(&self, batch: &RecordBatch) -> Result<Rows> {
        self.converter.convert_columns(&self.keys_of(batch)?).map_err(from_arrow)
    }

    /// Returns for each row whether it sorts before the threshold. Keys are compared a few at a
    /// time, since they are copied.
    fn earlier(&self, batch: &RecordBatch, threshold: &OwnedRow) -> Result<BooleanArray> {
        let mut earlier = BooleanBufferBuilder::new(batch.num_rows());
        let mut first = 0;
        while first < batch.num_rows() {
            let piece = batch.slice(first, MAX_COPIED_KEYS.min(batch.num_rows() - first));
            let rows = self.sort_rows(&piece)?;
            rows.iter().for_each(|row| earlier.append(row < threshold.row()));
            first += piece.num_rows();
        }
        Ok(BooleanArray::new(earlier.finish(), None))
    }

    /// Adds all rows of a batch. May return rows to release memory.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        if self.k == 0 {
            return Ok(None);
        }
        // The threshold is the scan's own k-th row, or that of another scan, whichever sorts first.
        if let Some(known) = self.shared.known().filter(|known| self.threshold.as_ref().is_none_or(|own| known < own)) {
            self.threshold = Some(known);
        }
        let batch = match &self.threshold {
            None => batch,
            Some(threshold) => {
                let earlier = self.earlier(&batch, threshold)?;
                filter_record_batch(&batch, &earlier).map_err(from_arrow)?
            }
        };
        if batch.num_rows() == 0 {
            return Ok(None);
        }
        let bytes = batch.get_array_memory_size();
        self.rows += batch.num_rows();
        self.bytes += bytes;
        self.key_bytes += self.keys_of(&batch)?.iter().map(text_bytes).sum::<usize>();
        self.gathered.push(batch);
        let is_much = self.bytes > limits::MAX_TOP_K_BYTES || self.key_bytes > limits::MAX_TOP_K_BYTES;
        if self.rows >= 2 * self.k.max(limits::GROUP_RECORDS) || is_much {
            self.cut()?;
            return self.too_many();
        }
        self.reserve(self.bytes)?;
        Ok(None)
    }

    fn reserve(&self, bytes: usize) -> Result<()> {
        self.reserved.resize(bytes).map_err(|shortage| shortage.error("ORDER BY", "ExternalEvalException"))
    }

    /// Takes the collected rows, to return them early, if they take too much memory.
    fn too_many(&mut self) -> Result<Option<RecordBatch>> {
        if self.bytes <= limits::MAX_TOP_K_BYTES && self.key_bytes <= limits::MAX_TOP_K_BYTES {
            return Ok(None);
        }
        if !self.passes_on {
            return Err(too_many_bytes());
        }
        (self.rows, self.bytes, self.key_bytes) = (0, 0, 0);
        self.reserve(0)?;
        Ok(self.gathered.pop())
    }

    /// Sorts the collected rows and drops all but the first k.
    fn cut(&mut self) -> Result<()> {
        // Memory for the collected rows, a copy of them, their keys, and the first k rows.
        self.reserve(self.bytes.saturating_mul(3).saturating_add(self.key_bytes))?;
        let all = concat_batches(&self.schema, &self.gathered).map_err(from_arrow)?;
        self.gathered.clear();
        let rows = self.sort_rows(&all)?;
        let mut order = sorted(all.num_rows(), &|a, b| rows.row(a as usize).cmp(&rows.row(b as usize)))?;
        order.truncate(self.k);
        // Some rows were collected before another scan found a bound that excludes them.
        if let Some(known) = self.shared.known() {
            let keep = order.partition_point(|row| rows.row(*row as usize) <= known.row());
            order.truncate(keep);
        }
        if order.len() == self.k
            && let Some(last) = order.last()
        {
            if let Some(key) = self.keys.first() {
                let last = all.slice(*last as usize, 1);
                self.shared.offer_key(&key.evaluate(&last)?, self.first)?;
            }
            let last = rows.row(*last as usize).owned();
            self.shared.offer(&last);
            self.threshold = Some(last);
        }
        let first = compact(&take_record_batch(&all, &UInt32Array::from(order)).map_err(from_arrow)?)?;
        self.rows = first.num_rows();
        self.bytes = first.get_array_memory_size();
        self.key_bytes = self.keys_of(&first)?.iter().map(text_bytes).sum::<usize>();
        self.gathered = vec![first];
        self.reserve(self.bytes)
    }

    /// Returns the first k rows in order, without those that were already returned.
    pub(crate) fn finish(mut self) -> Result<Option<RecordBatch>> {
        if self.gathered.is_empty() {
            return Ok(None);
        }
        self.cut()?;
        let first = self.too_many()?;
        Ok(first.or_else(|| self.gathered.pop()))
    }
}
