//! Work stealing for local scans (guided self-scheduling: Polychronopoulos and Kuck, 1987).
//!
//! Cores differ in speed, and matching rows are spread unevenly. Each partition owns a share of the
//! bytes in pieces of decreasing size, and steals pieces of other partitions once its own are done.
//! Remote scans do not steal: their pieces are requests, and the network link is the bottleneck.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;
use pushdowndb_contract::Fragment;

use super::adaptive::MAX_REPEATED_BYTES;
use super::row_groups::RowGroups;
use crate::catalog::DataObject;
use crate::cost::cardinality::Cardinality;
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;
use crate::plan::splits::ScanSplit;

/// Minimum bytes of a piece. The smaller the last pieces, the shorter the wait at the end of a
/// scan. Files stay open, so a piece costs little more than its bytes, except for the dictionaries
/// of a row group that is cut.
const MIN_PIECE_BYTES: u64 = 4 * 1024 * 1024;

/// Work-stealing state shared by the partitions of a scan. A plan may run several times; each run
/// is a round in which every partition starts once. A plan whose run may have ended early is reset
/// before it runs again.
#[derive(Debug, Default)]
pub(crate) struct WorkStealing(Mutex<Round>);

/// One run of all partitions.
#[derive(Debug, Default)]
struct Round {
    queue: Arc<WorkQueue>,
    /// Whether each partition has started; empty before the first round.
    begun: Vec<bool>,
}

/// Remaining pieces of each partition, with their bytes.
#[derive(Debug, Default)]
pub(crate) struct WorkQueue(Mutex<Vec<VecDeque<(ScanSplit, u64)>>>);

/// Returns whether `partitions` partitions should steal work: they must read local files, and the
/// pieces must not each return many groups of their own.
pub(crate) fn is_worth_it(plan: &ScanPlan, context: &ScanContext, fragment: &Fragment, partitions: usize) -> bool {
    partitions > 1
        && context.is_local()
        && Cardinality::of(plan, context, fragment).repeated_bytes() <= MAX_REPEATED_BYTES
}

impl WorkStealing {
    /// Returns the queue for `partition`. If the partition has already started in the current
    /// round, a new round with a new queue begins. A run drains its queue, so each round processes
    /// every piece exactly once.
    pub(crate) fn join(
        &self,
        partition: usize,
        partitions: &[Vec<ScanSplit>],
        objects: &[DataObject],
    ) -> Arc<WorkQueue> {
        let mut round = self.0.lock();
        if round.begun.get(partition) != Some(&false) {
            *round =
                Round { queue: Arc::new(WorkQueue::new(partitions, objects)), begun: vec![false; partitions.len()] };
        }
        if let Some(begun) = round.begun.get_mut(partition) {
            *begun = true;
        }
        Arc::clone(&round.queue)
    }
}

impl WorkQueue {
    fn new(partitions: &[Vec<ScanSplit>], objects: &[DataObject]) -> Self {
        let sized = |split: &ScanSplit| (split.clone(), split.bytes(objects));
        Self(Mutex::new(partitions.iter().map(|splits| splits.iter().map(sized).collect()).collect()))
    }

    /// Removes the next piece for `partition`: its own, or else one of the partition with the most
    /// bytes left.
    pub(crate) fn next(&self, partition: usize) -> Option<ScanSplit> {
        let mut left = self.0.lock();
        let own = left.get_mut(partition).and_then(VecDeque::pop_front);
        let (split, _) = own.or_else(|| {
            let bytes = |pieces: &VecDeque<(ScanSplit, u64)>| pieces.iter().map(|(_, bytes)| *bytes).sum::<u64>();
            left.iter_mut().filter(|pieces| !pieces.is_empty()).max_by_key(|pieces| bytes(pieces))?.pop_front()
        })?;
        Some(split)
    }
}

/// Cuts the splits of each partition into pieces of at most about half of the bytes that remain in
/// the partition. If `groups` returns the row groups of a Parquet object, its pieces are row
/// ranges, since a byte range does not determine which rows of a row group belong to it.
pub(crate) fn guided_pieces(
    partitions: Vec<Vec<ScanSplit>>,
    objects: &[DataObject],
    is_splittable: impl Fn(&DataObject) -> bool,
    groups: impl Fn(&DataObject) -> Option<RowGroups>,
) -> Vec<Vec<ScanSplit>> {
    let is_cut = |object: &DataObject| object.size > MIN_PIECE_BYTES && is_splittable(object);
    let known: Vec<_> = objects.iter().map(|object| is_cut(object).then(|| groups(object))).collect();
    let cut_partition = |splits: Vec<ScanSplit>| {
        let mut left: u64 = splits.iter().map(|split| split.bytes(objects)).sum();
        let mut pieces = Vec::with_capacity(splits.len());
        for split in splits {
            match (objects.get(split.object), known.get(split.object)) {
                (Some(object), Some(Some(groups))) => {
                    let range = split.range.clone().unwrap_or(0..object.size);
                    let ranges = cut(range, &mut left, groups.as_ref());
                    if split.range.is_none() && ranges.len() == 1 {
                        pieces.push(split);
                        continue;
                    }
                    for range in ranges {
                        let rows = groups.as_ref().map(|groups| groups.rows(&range));
                        pieces.push(ScanSplit { object: split.object, range: Some(range), rows });
                    }
                }
                _ => {
                    left = left.saturating_sub(split.bytes(objects));
                    pieces.push(split);
                }
            }
        }
        pieces
    };
    partitions.into_iter().map(cut_partition).collect()
}

/// Cuts `range` into pieces and subtracts them from `left`, the bytes that remain in the partition.
fn cut(range: Range<u64>, left: &mut u64, groups: Option<&RowGroups>) -> Vec<Range<u64>> {
    let bound = |byte: u64| groups.map_or(byte, |groups| groups.near(byte));
    let (mut start, last) = (bound(range.start), bound(range.end));
    let mut pieces = Vec::new();
    while start < last {
        let piece = left.div_ceil(2).max(MIN_PIECE_BYTES);
        let end = match last - start < piece + MIN_PIECE_BYTES {
            true => last,
            false => groups.map_or(start + piece, |groups| groups.end(start, start + piece)).min(last),
        };
        pieces.push(start..end);
        *left = left.saturating_sub(end - start);
        start = end;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use pushdowndb_scan::RowGroupPlace;

    use super::*;
    use crate::plan::splits::tests::object;

    const MIB: u64 = 1 << 20;

    struct Scan {
        objects: Vec<DataObject>,
        partitions: Vec<Vec<ScanSplit>>,
        work_stealing: WorkStealing,
    }

    impl Scan {
        fn new(sizes: &[u64], partitions: usize, splittable: bool) -> Self {
            let objects: Vec<DataObject> = sizes.iter().map(|size| object(*size)).collect();
            let assigned = crate::plan::splits::assign_splits(&objects, |_| splittable, None, partitions);
            let partitions = guided_pieces(assigned, &objects, |_| splittable, |_| None);
            Self { objects, partitions, work_stealing: WorkStealing::default() }
        }

        fn join(&self, partition: usize) -> Arc<WorkQueue> {
            self.work_stealing.join(partition, &self.partitions, &self.objects)
        }
    }

    /// Object, start and end of each piece.
    fn ranges(splits: &[ScanSplit]) -> Vec<(usize, u64, u64)> {
        let range = |split: &ScanSplit| split.range.clone().unwrap_or(0..0);
        let mut all: Vec<_> = splits.iter().map(|s| (s.object, range(s).start, range(s).end)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn pieces_become_smaller_and_cover_everything_once() {
        let scan = Scan::new(&[800 * MIB], 2, true);
        let sizes = |splits: &[ScanSplit]| -> Vec<u64> {
            splits.iter().map(|split| split.range.as_ref().map_or(0, |range| range.end - range.start) / MIB).collect()
        };
        assert_eq!(sizes(&scan.partitions[0]), [200, 100, 50, 25, 12, 6, 6]);
        let all = ranges(&scan.partitions.concat());
        assert_eq!((all[0].1, all[all.len() - 1].2), (0, 800 * MIB));
        assert!(all.windows(2).all(|pair| pair[0].2 == pair[1].1), "{all:?}");
        let whole = Scan::new(&[800 * MIB, 3 * MIB], 2, false);
        assert_eq!(whole.partitions.concat().len(), 2, "what cannot be cut");
        assert_eq!(Scan::new(&[9 * MIB], 2, true).partitions.concat().len(), 2, "not worth it");
    }

    #[test]
    fn all_partitions_get_rows_of_few_row_groups() {
        let groups = |sizes: &[u64]| {
            let first_bytes = sizes.iter().scan(4, |at, size| Some(std::mem::replace(at, *at + size * MIB)));
            let places: Vec<_> = first_bytes.map(|first_byte| RowGroupPlace { first_byte, rows: 1000 }).collect();
            move |object: &DataObject| RowGroups::new(&places, object.size, 4)
        };
        let pieces = |sizes: &[u64]| -> Vec<Vec<Range<u64>>> {
            let objects = [object(sizes.iter().sum::<u64>() * MIB + 4)];
            let assigned = crate::plan::splits::assign_splits(&objects, |_| true, None, 4);
            let guided_pieces = guided_pieces(assigned, &objects, |_| true, groups(sizes));
            guided_pieces.iter().map(|pieces| pieces.iter().filter_map(|piece| piece.rows.clone()).collect()).collect()
        };
        for sizes in [&[100][..], &[300, 20], &[40, 40, 40], &[9; 40], &[1, 80, 1]] {
            let pieces = pieces(sizes);
            assert!(pieces.len() == 4 && pieces.iter().all(|own| !own.is_empty()), "{sizes:?} {pieces:?}");
            let all = pieces.concat();
            assert!(all.first().is_some_and(|first| first.start == 0), "{all:?}");
            assert!(all.last().is_some_and(|last| last.end == 1000 * sizes.len() as u64), "{all:?}");
            assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start), "{all:?}");
        }
        let of_many = pieces(&[9; 40]).concat();
        assert!(of_many.iter().all(|rows| rows.start % 1000 == 0 && rows.end % 1000 == 0), "whole ones: {of_many:?}");
    }

    #[test]
    fn idle_partitions_steal_pieces() {
        let scan = Scan::new(&[800 * MIB], 2, true);
        let (fast, slow) = (scan.join(0), scan.join(1));
        let first = slow.next(1).unwrap();
        let rest: Vec<ScanSplit> = std::iter::from_fn(|| fast.next(0)).collect();
        assert!(slow.next(1).is_none());
        let all = [vec![first], rest].concat();
        assert_eq!(ranges(&all), ranges(&scan.partitions.concat()), "each piece once");
    }

    #[test]
    fn each_run_has_all_pieces() {
        let scan = Scan::new(&[100 * MIB], 2, true);
        let drain = |queue: &WorkQueue, partition| std::iter::from_fn(|| queue.next(partition)).count();
        let pieces = scan.partitions.concat().len();
        // Two rounds in order; then the first partition again before the second.
        for _ in 0..2 {
            let (one, two) = (scan.join(0), scan.join(1));
            assert_eq!(drain(&one, 0) + drain(&two, 1), pieces);
        }
        let (one, again, two) = (scan.join(0), scan.join(0), scan.join(1));
        assert_eq!(drain(&one, 0), pieces);
        assert_eq!(drain(&again, 0) + drain(&two, 1), pieces);
    }
}
