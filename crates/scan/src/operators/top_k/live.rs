//! A live bound: a condition that rows must satisfy to be among the first k, judged by the rows so
//! far.
//!
//! Scans evaluate it on the columns of the first sort key, after the predicate and before other
//! columns are decoded, so that for most rows only that key is decoded. The bound becomes tighter
//! while the scan runs. It never drops a row that sorts before the k-th row of the result.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch, Scalar};
use arrow::compute::kernels::cmp;
use arrow::compute::{SortOptions, filter, filter_record_batch, is_not_null, is_null, or, prep_null_mask_filter};
use arrow::datatypes::{DataType, SchemaRef};
use parking_lot::Mutex;
use pushdowndb_contract::{Expr, Fragment, NamedExpr, Output, Result, SortKey};

use crate::error::from_arrow;
use crate::expr::columns::map_columns;
use crate::expr::evaluator::Evaluator;
use crate::expr::weight::text_bytes;
use crate::expr::work::Work;
use crate::operators::top_k::first_keys::FirstKeys;
use crate::operators::top_k::threshold::Threshold;
use crate::runtime::interrupt::check_interrupt;

/// A sort order of which only the first rows are needed.
#[derive(Clone, Debug)]
pub(crate) struct FirstRows {
    /// The first sort key, over the columns of the object.
    pub(crate) key: Expr,
    order: Vec<SortKey>,
    k: u64,
    shared: Arc<Threshold>,
}

impl FirstRows {
    /// Returns the order of the fragment; `None` if all rows are needed, or if no column decides
    /// their order.
    pub(crate) fn of(fragment: &Fragment, shared: &Arc<Threshold>) -> Option<Self> {
        let Output::Rows(columns) = &fragment.output else { return None };
        let first = fragment.order.first()?;
        let k = fragment.limit.filter(|k| *k > 0)?;
        let key = computed(first.expr.clone(), columns).filter(|key| !key.columns().is_empty())?;
        Some(Self { key, order: fragment.order.clone(), k, shared: Arc::clone(shared) })
    }

    /// Rewrites the key by `rewrite`, to refer to other columns.
    pub(crate) fn with_key(self, rewrite: impl FnOnce(&Expr) -> Result<Expr>) -> Result<Self> {
        Ok(Self { key: rewrite(&self.key)?, ..self })
    }

    /// Returns the bound for batches of `schema`, in which `place` locates the columns of the key.
    /// Returns `None` if keys of this type are not compared.
    pub(crate) fn bound(
        &self,
        schema: &SchemaRef,
        place: &mut impl FnMut(usize) -> usize,
    ) -> Result<Option<LiveBound>> {
        let expr = map_columns(&self.key, place);
        let (key, work) = (Evaluator::expr(&expr, schema)?, Work::of_read([&expr]));
        let (Some(first), data_type) = (self.order.first(), key.data_type()) else { return Ok(None) };
        let compared = (data_type.is_primitive() && !matches!(data_type, DataType::Interval(_)))
            || data_type.is_string()
            || *data_type == DataType::Boolean;
        let (ties, shared) = (self.order.len() > 1, Arc::clone(&self.shared));
        let order = SortOptions { descending: first.descending, nulls_first: first.nulls_first };
        Ok(compared.then(|| LiveBound { key, work, order, ties, shared, seen: None }))
    }

    /// Like [`Self::bound`], but the bound also becomes tighter by the keys that pass it. Their
    /// rows must be among the rows that the scan returns. For scans that evaluate the bound on many
    /// rows before they return the first rows.
    pub(crate) fn learning_bound(
        &self,
        schema: &SchemaRef,
        place: &mut impl FnMut(usize) -> usize,
    ) -> Result<Option<LiveBound>> {
        let bound = self.bound(schema, place)?;
        let k = usize::try_from(self.k).unwrap_or(usize::MAX);
        Ok(bound.map(|bound| LiveBound { seen: Some(Mutex::new(FirstKeys::new(bound.order, k))), ..bound }))
    }
}

/// Replaces each column of `expr` by the expression in `columns` that computes it.
fn computed(expr: Expr, columns: &[NamedExpr]) -> Option<Expr> {
    match expr {
        Expr::Column(index) => columns.get(index).map(|column| column.expr.clone()),
        other => other.map_children(&mut |child| computed(child, columns).ok_or(())).ok(),
    }
}

/// The maximum bytes of the keys of a batch by which a bound is tightened.
const MAX_LEARNED_BYTES: usize = 1 << 20;

/// A bound on the first key of an order.
#[derive(Debug)]
pub(crate) struct LiveBound {
    key: Evaluator,
    work: Work,
    order: SortOptions,
    /// True if rows with the same first key as the k-th row may sort before it.
    ties: bool,
    shared: Arc<Threshold>,
    /// The first k keys that passed this bound, if it is tightened by them.
    seen: Option<Mutex<FirstKeys>>,
}

impl LiveBound {
    /// Returns for each row whether it may be among the first k. The result has no NULLs.
    pub(crate) fn matches(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        check_interrupt()?;
        if self.work.fits(batch) {
            return self.matches_at_once(batch);
        }
        let mut matches = BooleanBufferBuilder::new(batch.num_rows());
        self.work.in_pieces(batch, &mut |piece| {
            matches.append_buffer(self.matches_at_once(piece)?.values());
            Ok(())
        })?;
        Ok(BooleanArray::new(matches.finish(), None))
    }

    fn matches_at_once(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let all = || BooleanArray::from(vec![true; batch.num_rows()]);
        let known = self.shared.key().filter(|known| known.data_type() == self.key.data_type());
        if known.is_none() && self.seen.is_none() {
            return Ok(all());
        }
        let keys = self.key.evaluate(batch)?;
        let matches = known.map_or_else(|| Ok(all()), |known| self.up_to(&keys, known))?;
        if let Some(seen) = &self.seen {
            let passed = filter(&keys, &matches).map_err(from_arrow)?;
            let mut seen = seen.lock();
            // Long keys are not sorted to tighten a bound.
            if !passed.is_empty() && text_bytes(&passed) <= MAX_LEARNED_BYTES {
                seen.push(passed)?;
                if let Some(kth) = seen.kth()? {
                    self.shared.offer_key(&kth, self.order)?;
                }
            }
        }
        Ok(matches)
    }

    /// Like [`Self::matches`], for the rows that `passed` selects. The key may have no value for
    /// other rows.
    pub(crate) fn matches_among(&self, batch: &RecordBatch, passed: &BooleanArray) -> Result<BooleanArray> {
        if passed.true_count() == batch.num_rows() {
            return self.matches(batch);
        }
        let among = self.matches(&filter_record_batch(batch, passed).map_err(from_arrow)?)?;
        let mut among = among.values().iter();
        let passed = passed.values().iter();
        Ok(BooleanArray::from(passed.map(|passed| passed && among.next() == Some(true)).collect::<Vec<bool>>()))
    }

    /// Returns whether a row whose key is between `smallest` and `largest` may be among the first
    /// k. Both are arrays with one value, which is NULL if unknown.
    pub(crate) fn may_match(&self, smallest: &ArrayRef, largest: &ArrayRef, may_be_null: bool) -> Result<bool> {
        let best = if self.order.descending { largest } else { smallest };
        if best.is_null(0) || (self.order.nulls_first && may_be_null) {
            return Ok(true);
        }
        match self.shared.key().filter(|known| known.data_type() == best.data_type()) {
            Some(known) => Ok(self.up_to(best, known)?.value(0)),
            None => Ok(true),
        }
    }

    /// Selects the keys that sort before the k-th key, or are equal to it if ties count. Floats are
    /// in total order, as in the sort.
    fn up_to(&self, keys: &ArrayRef, kth: ArrayRef) -> Result<BooleanArray> {
        if kth.is_null(0) {
            return match (self.order.nulls_first, self.ties) {
                (true, true) => is_null(keys).map_err(from_arrow),
                (true, false) => Ok(BooleanArray::from(vec![false; keys.len()])),
                (false, true) => Ok(BooleanArray::from(vec![true; keys.len()])),
                (false, false) => is_not_null(keys).map_err(from_arrow),
            };
        }
        let kth = Scalar::new(kth);
        let compared = match (self.order.descending, self.ties) {
            (false, true) => cmp::lt_eq(keys, &kth),
            (false, false) => cmp::lt(keys, &kth),
            (true, true) => cmp::gt_eq(keys, &kth),
            (true, false) => cmp::gt(keys, &kth),
        };
        let compared = compared.map_err(from_arrow)?;
        if compared.null_count() == 0 {
            return Ok(compared);
        }
        let compared = prep_null_mask_filter(&compared);
        if self.order.nulls_first {
            return or(&compared, &is_null(keys).map_err(from_arrow)?).map_err(from_arrow);
        }
        Ok(compared)
    }
}
