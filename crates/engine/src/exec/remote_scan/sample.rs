//! Sampling phases, which read some columns of some rows of the table, and the bound that they give
//! a top-k.
//!
//! Text is sampled in pieces spread over the table, because neighboring rows are often alike. Other
//! formats are sampled from the start of some splits. The sampled positions are deterministic.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use pushdowndb_contract::{Error, Expr, Format, Result};
use pushdowndb_scan::Evaluator;

use super::RemoteScanExec;
use super::placement::Sampling;
use crate::context::QueryContext;
use crate::error::from_datafusion;
use crate::exec::partition_scan::PartitionScan;
use crate::plan::lower::among;
use crate::plan::scan_plan::ScanPlan;
use crate::plan::splits::MAX_SAMPLE_PIECES;
use crate::plan::splits::ScanSplit;
use crate::plan::top_k::TopK;
use crate::strategies::top_k::{Sample, kth};

/// Minimum bytes of a piece; smaller ones cost more requests than they add randomness.
const MIN_PIECE_BYTES: u64 = 128 * 1024;

impl RemoteScanExec {
    /// Samples a bound for a top-k and returns the scan for the second phase: without its top-k,
    /// but filtered by the bound.
    pub(super) async fn bounded(
        &self,
        sampling: &Sampling,
        query: &Arc<QueryContext>,
        context: &TaskContext,
    ) -> Result<Self> {
        let bound = self.sample_bound(&sampling.top_k, sampling.sample, query, context).await?;
        let predicate = Expr::and_opt(self.plan.predicate.clone(), bound);
        self.in_place(ScanPlan { predicate, top_k: None, ..self.plan.clone() })
    }

    /// Returns a predicate that all of the first k rows fulfill, derived from a sample; `None` if
    /// the sample gives no bound.
    pub(crate) async fn sample_bound(
        &self,
        top_k: &TopK,
        sample: Sample,
        query: &Arc<QueryContext>,
        context: &TaskContext,
    ) -> Result<Option<Expr>> {
        let key_columns = top_k.key.columns();
        let (schema, mut batches) = self.sampled(&key_columns, sample, query, context)?;
        let key = Evaluator::expr(&among(&key_columns, top_k.key.clone())?, &schema)?;
        let mut first = top_k.first_keys();
        let mut sampled = 0;
        while let Some(batch) = batches.try_next().await? {
            sampled += batch.num_rows();
            first.push(key.evaluate(&batch)?)?;
        }
        let bound = kth(&mut first)?.and_then(|last| top_k.bound(&last));
        let schema = &self.fragment.schema;
        let shown = match &bound {
            Some(bound) => bound.display(schema).to_string(),
            None => "no bound, all rows are read".to_owned(),
        };
        query.meter.strategy(format!("{}: top-{} of a sample of {sampled} rows: {shown}", self.plan.name, top_k.k));
        Ok(bound)
    }

    /// Reads `columns` of a sample of the scan's rows. Also returns their schema.
    pub(crate) fn sampled(
        &self,
        columns: &[usize],
        sample: Sample,
        query: &Arc<QueryContext>,
        context: &TaskContext,
    ) -> Result<(SchemaRef, BoxStream<'static, Result<RecordBatch>>)> {
        let plan = ScanPlan { projection: columns.to_vec(), top_k: None, ..self.plan.clone() };
        let (pieces, limit) = self.planned(plan.clone())?.pieces(sample);
        let scan = self.with_plan(ScanPlan { limit, ..plan })?.first_phase();
        let (schema, query) = (Arc::clone(&scan.schema), Arc::clone(query));
        let at_once = self.context.options.requests() * context.session_config().target_partitions().max(1);
        let batches = stream::iter(pieces)
            .map(move |piece| {
                let rows = PartitionScan::start(&scan, Arc::clone(&query), vec![piece], 0);
                async move { Ok::<_, Error>(rows?.map_err(from_datafusion)) }
            })
            .buffer_unordered(at_once)
            .try_flatten_unordered(None);
        Ok((schema, batches.boxed()))
    }

    /// Returns the distinct pieces to sample, and the maximum rows to read of each, if limited.
    fn pieces(&self, sample: Sample) -> (Vec<ScanSplit>, Option<usize>) {
        let splits: Vec<&ScanSplit> = self.placement().partitions.iter().flatten().collect();
        let in_ranges = self.plan.objects.iter().all(|object| self.can_be_cut(object));
        if in_ranges && !matches!(self.fragment.format, Format::Parquet) {
            let sizes: Vec<u64> = self.plan.objects.iter().map(|object| object.size).collect();
            let wanted = self.bytes() as f64 * sample.share;
            return (spread(&sizes, wanted as u64), None);
        }
        let count = ((splits.len() as f64 * sample.share).ceil() as usize).clamp(1, splits.len().max(1));
        let picked = (0..count).filter_map(|i| splits.get(i * splits.len() / count)).map(|split| (*split).clone());
        (picked.collect(), usize::try_from(sample.rows.div_ceil(count as u64)).ok())
    }
}

/// Returns pieces of `wanted` bytes in total. The concatenated objects are divided into stretches
/// of equal size, and each stretch has one piece at a pseudorandom position.
fn spread(sizes: &[u64], wanted: u64) -> Vec<ScanSplit> {
    let total: u64 = sizes.iter().sum();
    let count = (wanted / MIN_PIECE_BYTES).clamp(1, MAX_SAMPLE_PIECES).min(total.max(1));
    let (stretch, piece) = (total / count, (wanted / count).max(MIN_PIECE_BYTES));
    let mut splits = Vec::new();
    for i in 0..count {
        let at = i * stretch + scatter(i) % (stretch.saturating_sub(piece) + 1);
        let mut before = 0;
        for (object, size) in sizes.iter().enumerate() {
            if at < before + size {
                let start = at - before;
                splits.push(ScanSplit::new(object, Some(start..(start + piece).min(*size))));
                break;
            }
            before += size;
        }
    }
    splits
}

/// Returns a pseudorandom number for `n`: the finalizer of SplitMix64 (Steele, Lea, Flood: Fast
/// Splittable Pseudorandom Number Generators, 2014).
fn scatter(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_spread_and_lie_inside() {
        let sizes = [50 << 20, 0, 7, 30 << 20];
        let pieces = spread(&sizes, 4 << 20);
        assert_eq!(pieces.len(), 32);
        for piece in &pieces {
            let range = piece.range.clone().unwrap();
            assert!(range.start < range.end && range.end <= sizes[piece.object], "{piece:?}");
        }
        assert!(pieces.iter().any(|p| p.object == 0) && pieces.iter().any(|p| p.object == 3));
        assert_eq!(pieces.iter().map(|p| p.object).collect::<Vec<_>>().windows(2).filter(|w| w[0] > w[1]).count(), 0);
    }

    #[test]
    fn a_small_table_is_one_piece() {
        let pieces = spread(&[10], 1);
        assert_eq!(pieces.len(), 1);
        assert_eq!(pieces[0].range, Some(0..10));
        assert!(spread(&[0], 5).is_empty());
    }
}
