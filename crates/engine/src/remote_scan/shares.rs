//! Plain reads of files of this machine, which all cores take part in until the end.
//!
//! Cores are not equally fast, and matches are not spread evenly: with a half each, one of two cores waits for the other.
//! Each partition has a share of the bytes, in pieces that become smaller (guided self-scheduling: Polychronopoulos and
//! Kuck, 1987), and goes on with those of others when it is done. Elsewhere pieces are requests, and it is the link that
//! is waited for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use pushdown::Fragment;

use super::balance::MUCH_BYTES;
use super::splits::ScanSplit;
use super::{Figures, ScanSpec};
use crate::table::DataObject;

/// The smallest piece: whoever is done waits about as long as one takes. A file is open already, and a piece costs little besides
/// its bytes; row groups of Parquet stay whole.
const SMALLEST_BYTES: u64 = 4 * 1024 * 1024;

/// What the partitions of a scan share.
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

/// The splits of a partition, of which each has at most about half of the bytes from it to the end, as far as objects can be cut.
pub(super) fn tapered(
    splits: Vec<ScanSplit>,
    objects: &[DataObject],
    is_splittable: impl Fn(&DataObject) -> bool,
) -> Vec<ScanSplit> {
    let mut left: u64 = splits.iter().map(|split| split.bytes(objects)).sum();
    let mut pieces = Vec::with_capacity(splits.len());
    for mut split in splits {
        while let Some(object) = objects.get(split.object).filter(|object| is_splittable(object)) {
            let (bytes, range) = (split.bytes(objects), split.range.clone().unwrap_or(0..object.size));
            let piece = left.div_ceil(2).max(SMALLEST_BYTES);
            if bytes < piece + SMALLEST_BYTES {
                break;
            }
            let middle = range.start + piece;
            pieces.push(ScanSplit { object: split.object, range: Some(range.start..middle) });
            split.range = Some(middle..range.end);
            left -= piece;
        }
        left = left.saturating_sub(split.bytes(objects));
        pieces.push(split);
    }
    pieces
}

#[cfg(test)]
mod tests {
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
            let partitions = dealt.into_iter().map(|splits| tapered(splits, &objects, |_| splittable)).collect();
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
