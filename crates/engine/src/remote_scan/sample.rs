//! The first phase of a strategy that samples: some columns of some of the table's rows; and what a top-k learns so.
//!
//! Text is sampled in pieces spread over the table, because neighbouring rows are often alike; what cannot be read in
//! pieces is sampled from the start of some of its splits. The same table is always sampled in the same places.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::TaskContext;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use pushdown::{Error, Expr, Format, Result};
use pushdowndb_scan::Evaluator;

use super::run::Run;
use super::splits::ScanSplit;
use super::{RemoteScanExec, ScanSpec};
use crate::error::from_datafusion;
use crate::query::QueryContext;
use crate::strategies::top_k::{Sample, TopK, kth};

/// Smaller pieces cost more in requests than they bring in randomness.
const SMALLEST_PIECE_BYTES: u64 = 128 * 1024;

/// The most pieces a table is sampled in.
pub(crate) const PIECES: u64 = 32;

impl RemoteScanExec {
    /// What a row must fulfil to be among the first k, learned from a sample; `None` if that taught nothing.
    pub(super) async fn learn_bound(
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
        let told = match &bound {
            Some(bound) => bound.display(schema).to_string(),
            None => "no bound, all rows are read".to_owned(),
        };
        query.meter.strategy(format!("{}: top-{} of a sample of {sampled} rows: {told}", self.spec.name, top_k.k));
        Ok(bound)
    }

    /// These columns of a sample of the rows that the scan would yield, and their schema.
    pub(crate) fn sampled(
        &self,
        columns: &[usize],
        sample: Sample,
        query: &Arc<QueryContext>,
        context: &TaskContext,
    ) -> Result<(SchemaRef, BoxStream<'static, Result<RecordBatch>>)> {
        let spec = ScanSpec { projection: columns.to_vec(), top_k: None, ..self.spec.clone() };
        let (pieces, limit) = Self::new(spec.clone())?.pieces(sample);
        let scan = self.with_spec(ScanSpec { limit, ..spec })?.first_phase();
        let (schema, query) = (Arc::clone(&scan.schema), Arc::clone(query));
        let at_once = self.spec.options.requests() * context.session_config().target_partitions().max(1);
        let batches = stream::iter(pieces)
            .map(move |piece| {
                let rows = Run::start(&scan, Arc::clone(&query), vec![piece], 0);
                async move { Ok::<_, Error>(rows?.map_err(from_datafusion)) }
            })
            .buffer_unordered(at_once)
            .try_flatten_unordered(None);
        Ok((schema, batches.boxed()))
    }

    /// The pieces of this scan to sample, none of them twice, and at most how many rows of each.
    fn pieces(&self, sample: Sample) -> (Vec<ScanSplit>, Option<usize>) {
        let splits: Vec<&ScanSplit> = self.partitions.iter().flatten().collect();
        let in_ranges = self.spec.objects.iter().all(|object| self.can_be_cut(object));
        if in_ranges && !matches!(self.fragment.format, Format::Parquet) {
            let sizes: Vec<u64> = self.spec.objects.iter().map(|object| object.size).collect();
            let wanted = self.bytes() as f64 * sample.share;
            return (spread(&sizes, wanted as u64), None);
        }
        let count = ((splits.len() as f64 * sample.share).ceil() as usize).clamp(1, splits.len().max(1));
        let picked = (0..count).filter_map(|i| splits.get(i * splits.len() / count)).map(|split| (*split).clone());
        (picked.collect(), usize::try_from(sample.rows.div_ceil(count as u64)).ok())
    }
}

/// An expression over the table's columns as one over only these, ascending.
pub(crate) fn among(columns: &[usize], expr: Expr) -> Result<Expr> {
    expr.replace_columns(&mut |column| {
        let place = columns.binary_search(&column).map(Expr::Column);
        place.map_err(|_| Error::internal("an expression over a column that was not read"))
    })
}

/// Pieces of `wanted` bytes in all, one at some place in each of as many equal stretches of the objects' bytes.
fn spread(sizes: &[u64], wanted: u64) -> Vec<ScanSplit> {
    let total: u64 = sizes.iter().sum();
    let count = (wanted / SMALLEST_PIECE_BYTES).clamp(1, PIECES).min(total.max(1));
    let (stretch, piece) = (total / count, (wanted / count).max(SMALLEST_PIECE_BYTES));
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

/// A number without pattern for each number: the finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable
/// Pseudorandom Number Generators, 2014).
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
