//! The first k rows in an order: what ORDER BY … LIMIT asks for.
//!
//! Rows are gathered until there are twice as many as wanted, then all but the first k are dropped; after that only
//! rows before the last of those are gathered. Memory is bounded by k and by bytes.
//!
//! Scans that work on one top-k together share a [`Threshold`]. Some scan has k rows up to it, and keeps them unless
//! another has k rows before it; so rows of other scans that sort like it or after it need not come out.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{SortOptions, concat_batches, filter_record_batch, take_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::row::{OwnedRow, RowConverter, Rows, SortField};
use pushdown::{Result, SortKey};

use crate::compact::compact;
use crate::errors::from_arrow;
use crate::evaluate::Evaluator;
use crate::group::too_much;
use crate::limits;

/// What the scans of one top-k know together: the last of some scan's first k rows so far, the least of these.
#[derive(Debug, Default)]
pub struct Threshold(Mutex<Option<OwnedRow>>);

impl Threshold {
    fn offer(&self, row: &OwnedRow) {
        let mut known = self.lock();
        if known.as_ref().is_none_or(|known| row < known) {
            *known = Some(row.clone());
        }
    }

    fn known(&self) -> Option<OwnedRow> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<OwnedRow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A top-k under way.
pub(crate) struct TopK {
    schema: SchemaRef,
    keys: Vec<Evaluator>,
    converter: RowConverter,
    k: usize,
    gathered: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
    /// The last of the first k so far.
    threshold: Option<OwnedRow>,
    /// What other scans found out.
    shared: Arc<Threshold>,
}

impl TopK {
    /// Over batches of `schema`.
    pub(crate) fn new(order: &[SortKey], k: u64, schema: &SchemaRef, shared: Arc<Threshold>) -> Result<Self> {
        let k = match usize::try_from(k) {
            Ok(k) if k as u64 <= pushdown::limits::TOP_K_ROWS => k,
            _ => return Err(too_much(format!("ORDER BY takes a LIMIT of at most {}", pushdown::limits::TOP_K_ROWS))),
        };
        let keys = order.iter().map(|key| Evaluator::expr(&key.expr, schema)).collect::<Result<Vec<_>>>()?;
        let fields = keys.iter().zip(order).map(|(value, key)| {
            let options = SortOptions { descending: key.descending, nulls_first: key.nulls_first };
            SortField::new_with_options(value.data_type().clone(), options)
        });
        let converter = RowConverter::new(fields.collect()).map_err(from_arrow)?;
        let schema = Arc::clone(schema);
        Ok(Self { schema, keys, converter, k, gathered: vec![], rows: 0, bytes: 0, threshold: None, shared })
    }

    fn sort_rows(&self, batch: &RecordBatch) -> Result<Rows> {
        let keys = self.keys.iter().map(|key| key.evaluate(batch)).collect::<Result<Vec<_>>>()?;
        self.converter.convert_columns(&keys).map_err(from_arrow)
    }

    /// Takes in all rows of a batch.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        if self.k == 0 {
            return Ok(());
        }
        // Its own last row, or that of a scan which has k rows before it.
        if let Some(known) = self.shared.known().filter(|known| self.threshold.as_ref().is_none_or(|own| known < own)) {
            self.threshold = Some(known);
        }
        let batch = match &self.threshold {
            None => batch,
            Some(threshold) => {
                let rows = self.sort_rows(&batch)?;
                let earlier: BooleanArray = rows.iter().map(|row| Some(row < threshold.row())).collect();
                filter_record_batch(&batch, &earlier).map_err(from_arrow)?
            }
        };
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.rows += batch.num_rows();
        self.bytes += batch.get_array_memory_size();
        self.gathered.push(batch);
        if self.rows >= 2 * self.k.max(limits::GROUP_RECORDS) || self.bytes > limits::TOP_K_BYTES {
            self.cut()?;
        }
        Ok(())
    }

    /// Drops all but the first k, and puts those in order.
    fn cut(&mut self) -> Result<()> {
        let all = concat_batches(&self.schema, &self.gathered).map_err(from_arrow)?;
        let rows = self.sort_rows(&all)?;
        let mut order: Vec<u32> = (0..u32::try_from(all.num_rows()).unwrap_or(u32::MAX)).collect();
        // Equal rows stay as they came.
        order.sort_by(|a, b| rows.row(*a as usize).cmp(&rows.row(*b as usize)));
        order.truncate(self.k);
        // What another scan has k rows before was gathered too early.
        if let Some(known) = self.shared.known() {
            let keep = order.partition_point(|row| rows.row(*row as usize) <= known.row());
            order.truncate(keep);
        }
        if order.len() == self.k
            && let Some(last) = order.last()
        {
            let last = rows.row(*last as usize).owned();
            self.shared.offer(&last);
            self.threshold = Some(last);
        }
        let first = compact(&take_record_batch(&all, &UInt32Array::from(order)).map_err(from_arrow)?)?;
        self.rows = first.num_rows();
        self.bytes = first.get_array_memory_size();
        if self.bytes > limits::TOP_K_BYTES {
            return Err(too_much(format!("ORDER BY needs more than {} bytes", limits::TOP_K_BYTES)));
        }
        self.gathered = vec![first];
        Ok(())
    }

    /// The first k rows, in order.
    pub(crate) fn finish(mut self) -> Result<Option<RecordBatch>> {
        if self.gathered.is_empty() {
            return Ok(None);
        }
        self.cut()?;
        Ok(self.gathered.pop())
    }
}
