//! Samples of tables for TABLESAMPLE SYSTEM, which select stretches of objects.
//!
//! Objects are cut into stretches of equal size. Whether a stretch is in the sample depends on a
//! hash of the object's path, the number of the stretch, and a seed. So a seed gives the same
//! sample wherever the scan runs, and stretches outside of the sample are not read.

use pushdowndb_contract::Fingerprint;

use super::splits::ScanSplit;
use crate::catalog::DataObject;

/// Bytes of a stretch. An object that cannot be cut is a single stretch, whatever its size.
const STRETCH_BYTES: u64 = 1024 * 1024;

/// Denominator of [`SplitSample::share`].
pub(crate) const WHOLE: u64 = 1_000_000_000;

/// Selection of the stretches in a sample.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SplitSample {
    /// Probability that a stretch is selected, in units of 1 / [`WHOLE`].
    pub(crate) share: u64,
    pub(crate) seed: u64,
}

impl SplitSample {
    /// Returns the splits of each of at most `partitions` partitions: the selected stretches of
    /// `objects`, with adjacent ones joined. `can_be_cut` returns whether an object has several
    /// stretches.
    pub(crate) fn splits(
        self,
        objects: &[DataObject],
        can_be_cut: impl Fn(&DataObject) -> bool,
        partitions: usize,
    ) -> Vec<Vec<ScanSplit>> {
        let mut dealt: Vec<Vec<ScanSplit>> = vec![Vec::new(); partitions.max(1)];
        let all = objects.iter().enumerate();
        let all = all.flat_map(|(index, object)| self.of_object(index, object, can_be_cut(object)));
        for (number, split) in all.enumerate() {
            let place = number % dealt.len();
            if let Some(partition) = dealt.get_mut(place) {
                partition.push(split);
            }
        }
        dealt.retain(|partition| !partition.is_empty());
        if dealt.is_empty() { vec![Vec::new()] } else { dealt }
    }

    /// Returns the selected splits of one object.
    fn of_object(self, index: usize, object: &DataObject, can_be_cut: bool) -> Vec<ScanSplit> {
        let stretches = if can_be_cut { object.size.div_ceil(STRETCH_BYTES).max(1) } else { 1 };
        if stretches == 1 {
            return self.takes(object, 0).then(|| ScanSplit::new(index, None)).into_iter().collect();
        }
        let mut splits: Vec<ScanSplit> = Vec::new();
        for stretch in (0..stretches).filter(|stretch| self.takes(object, *stretch)) {
            let (start, end) = (stretch * STRETCH_BYTES, ((stretch + 1) * STRETCH_BYTES).min(object.size));
            match splits.last_mut().and_then(|last| last.range.as_mut()) {
                Some(last) if last.end == start => last.end = end,
                _ => splits.push(ScanSplit::new(index, Some(start..end))),
            }
        }
        splits
    }

    fn takes(self, object: &DataObject, stretch: u64) -> bool {
        let print = Fingerprint::builder("sampled stretch", 1).text(object.path.as_ref());
        let print = print.number(stretch).number(self.seed).finish();
        print.to_number() % WHOLE < self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::splits::tests::object as object_of;

    fn object(path: &str, size: u64) -> DataObject {
        DataObject { path: path.into(), ..object_of(size) }
    }

    #[test]
    fn a_share_of_the_stretches_is_taken_and_the_same_by_each_seed() {
        let large = object("a", 4000 * STRETCH_BYTES + 5);
        let bytes = |share: u64, seed| -> u64 {
            let splits = SplitSample { share, seed }.of_object(0, &large, true);
            splits.iter().filter_map(|split| split.range.as_ref()).map(|range| range.end - range.start).sum()
        };
        let tenth = bytes(WHOLE / 10, 7);
        assert!((300 * STRETCH_BYTES..500 * STRETCH_BYTES).contains(&tenth), "{tenth}");
        assert_eq!(tenth, bytes(WHOLE / 10, 7));
        assert_ne!(tenth, bytes(WHOLE / 10, 8));
        assert_eq!((bytes(0, 1), bytes(WHOLE, 1)), (0, large.size));
        let whole = SplitSample { share: WHOLE / 2, seed: 1 };
        let taken = (0..1000).filter(|n| whole.of_object(0, &object(&n.to_string(), 9), false).len() == 1).count();
        assert!((400..600).contains(&taken), "{taken}");
    }
}
