//! Plain reads of files of this machine, which all cores take part in until the end.
//!
//! Cores are not equally fast, and matches are not spread evenly: with a half each, one of two cores waits for the other.
//! Each partition has a share of the bytes, in pieces that become smaller (guided self-scheduling: Polychronopoulos and
//! Kuck, 1987), and goes on with those of others when it is done. Elsewhere pieces are requests, and it is the link that
//! is waited for.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use pushdown::Fragment;

use super::balance::MUCH_BYTES;
use super::row_groups::RowGroups;
use super::splits::ScanSplit;
use super::{Figures, ScanSpec};
use crate::table::DataObject;

/// The smallest piece: whoever is done waits about as long as one takes. A file is open already, and a piece costs little besides
/// its bytes, but for a piece of a row group, which needs its dictionaries.
const SMALLEST_BYTES: u64 = 4 * 1024 * 1024;

/// What the partitions of a scan share: all of them run once, and then once more. Where a run may have ended before some
/// began, the plan is reset in between, and has new ones.
#[derive(Debug, Default)]
pub(super) struct Shares(Mutex<Round>);

/// A round of all partitions.
#[derive(Debug, Default)]
struct Round {
    board: Arc<Board>,
    /// Which partitions have begun; empty before the first round.
    begun: Vec<bool>,
}

/// The pieces that are left of each partition, and their bytes.
#[derive(Debug, Default)]
pub(super) struct Board(Mutex<Vec<VecDeque<(ScanSplit, u64)>>>);

/// Whether so many partitions should share what they read plainly: files of this machine, and not where each piece makes
/// many groups of its own.
pub(super) fn is_worth_it(spec: &ScanSpec, fragment: &Fragment, partitions: usize) -> bool {
    partitions > 1 && spec.is_local() && Figures::of(spec, fragment).repeated_bytes() <= MUCH_BYTES
}

impl Shares {
    /// The board for a run of this partition of these: that of the others, or a new one if it has begun before. Whoever runs
    /// leaves nothing behind on its board, so that each run of all partitions has all pieces, once.
    pub(super) fn join(&self, partition: usize, partitions: &[Vec<ScanSplit>], objects: &[DataObject]) -> Arc<Board> {
        let mut round = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if round.begun.get(partition) != Some(&false) {
            *round = Round { board: Arc::new(Board::new(partitions, objects)), begun: vec![false; partitions.len()] };
        }
        if let Some(begun) = round.begun.get_mut(partition) {
            *begun = true;
        }
        Arc::clone(&round.board)
    }
}

impl Board {
    fn new(partitions: &[Vec<ScanSplit>], objects: &[DataObject]) -> Self {
        let sized = |split: &ScanSplit| (split.clone(), split.bytes(objects));
        Self(Mutex::new(partitions.iter().map(|splits| splits.iter().map(sized).collect()).collect()))
    }

    /// The next piece for a partition: of its own, or else of the one that has most left.
    pub(super) fn next(&self, partition: usize) -> Option<ScanSplit> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = left.get_mut(partition).and_then(VecDeque::pop_front);
        let (split, _) = own.or_else(|| {
            let bytes = |pieces: &VecDeque<(ScanSplit, u64)>| pieces.iter().map(|(_, bytes)| *bytes).sum::<u64>();
            left.iter_mut().filter(|pieces| !pieces.is_empty()).max_by_key(|pieces| bytes(pieces))?.pop_front()
        })?;
        Some(split)
    }
}

/// The splits of the partitions in pieces, of which each has at most about half of the bytes from it to the end of its
/// partition, as far as objects can be cut. Those of a Parquet object whose row groups are known are ranges of rows, all of
/// them: which row group belongs to a range of bytes is another matter than which rows do.
pub(super) fn tapered(
    partitions: Vec<Vec<ScanSplit>>,
    objects: &[DataObject],
    is_splittable: impl Fn(&DataObject) -> bool,
    groups: impl Fn(&DataObject) -> Option<RowGroups>,
) -> Vec<Vec<ScanSplit>> {
    let is_cut = |object: &DataObject| object.size > SMALLEST_BYTES && is_splittable(object);
    let known: Vec<_> = objects.iter().map(|object| is_cut(object).then(|| groups(object))).collect();
    let of_partition = |splits: Vec<ScanSplit>| {
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
    partitions.into_iter().map(of_partition).collect()
}

/// The pieces of a range, where so many bytes are `left` of its partition.
fn cut(range: Range<u64>, left: &mut u64, groups: Option<&RowGroups>) -> Vec<Range<u64>> {
    let bound = |byte: u64| groups.map_or(byte, |groups| groups.near(byte));
    let (mut start, last) = (bound(range.start), bound(range.end));
    let mut pieces = Vec::new();
    while start < last {
        let piece = left.div_ceil(2).max(SMALLEST_BYTES);
        let end = match last - start < piece + SMALLEST_BYTES {
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

    use super::super::splits::tests::object;
    use super::*;

    const MIB: u64 = 1 << 20;

    struct Scan {
        objects: Vec<DataObject>,
        partitions: Vec<Vec<ScanSplit>>,
        shares: Shares,
    }

    impl Scan {
        fn new(sizes: &[u64], partitions: usize, splittable: bool) -> Self {
            let objects: Vec<DataObject> = sizes.iter().map(|size| object(*size)).collect();
            let dealt = super::super::splits::deal(&objects, |_| splittable, None, partitions);
            let partitions = tapered(dealt, &objects, |_| splittable, |_| None);
            Self { objects, partitions, shares: Shares::default() }
        }

        fn join(&self, partition: usize) -> Arc<Board> {
            self.shares.join(partition, &self.partitions, &self.objects)
        }
    }

    /// Where pieces begin and end, by object.
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
    fn of_few_row_groups_all_have_rows() {
        let groups = |sizes: &[u64]| {
            let first_bytes = sizes.iter().scan(4, |at, size| Some(std::mem::replace(at, *at + size * MIB)));
            let places: Vec<_> = first_bytes.map(|first_byte| RowGroupPlace { first_byte, rows: 1000 }).collect();
            move |object: &DataObject| RowGroups::new(&places, object.size, 4)
        };
        let pieces = |sizes: &[u64]| -> Vec<Vec<Range<u64>>> {
            let objects = [object(sizes.iter().sum::<u64>() * MIB + 4)];
            let dealt = super::super::splits::deal(&objects, |_| true, None, 4);
            let tapered = tapered(dealt, &objects, |_| true, groups(sizes));
            tapered.iter().map(|pieces| pieces.iter().filter_map(|piece| piece.rows.clone()).collect()).collect()
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
    fn who_is_done_goes_on_with_what_others_have() {
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
        let drain = |board: &Board, partition| std::iter::from_fn(|| board.next(partition)).count();
        let pieces = scan.partitions.concat().len();
        // One after the other, then the first again before the second.
        for _ in 0..2 {
            let (one, two) = (scan.join(0), scan.join(1));
            assert_eq!(drain(&one, 0) + drain(&two, 1), pieces);
        }
        let (one, again, two) = (scan.join(0), scan.join(0), scan.join(1));
        assert_eq!(drain(&one, 0), pieces);
        assert_eq!(drain(&again, 0) + drain(&two, 1), pieces);
    }
}
