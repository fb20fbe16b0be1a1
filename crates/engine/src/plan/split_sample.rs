//! A sample of a table by stretches of its objects, as TABLESAMPLE SYSTEM takes it.
//!
//! Objects are cut into stretches, and each stretch is taken or not by a number made of the object's
//! path, the stretch and a seed. So the sample of one seed is the same wherever the scan runs, and
//! what is not taken is not read.

use pushdowndb_contract::Fingerprint;

use super::splits::ScanSplit;
use crate::catalog::DataObject;

/// The bytes of a stretch. Objects that cannot be cut are one, whatever their size.
const STRETCH_BYTES: u64 = 1024 * 1024;

/// The shares of a whole that [`SplitSample::share`] counts.
pub(crate) const WHOLE: u64 = 1_000_000_000;

/// Which stretches are taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SplitSample {
    /// How many of [`WHOLE`] are taken on average.
    pub(crate) share: u64,
    pub(crate) seed: u64,
}

impl SplitSample {
    /// The splits of each of at most `partitions` partitions: the stretches of `objects` that are
    /// taken, joined where they touch. `can_be_cut` says of which objects there are several.
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

    /// The splits of an object.
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
