//! Splits of a table's objects, and their assignment to partitions.

use std::ops::Range;

use crate::catalog::DataObject;

/// Maximum pieces of a table that a sample reads.
pub(crate) const MAX_SAMPLE_PIECES: u64 = 32;

/// The unit of scan work: an object, or a range of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScanSplit {
    /// The position in the scan's objects.
    pub(crate) object: usize,
    /// Byte range in which the records of the split begin; `None` for the whole object.
    pub(crate) range: Option<Range<u64>>,
    /// Row numbers of a Parquet object that are scanned in place of `range`.
    pub(crate) rows: Option<Range<u64>>,
}

impl ScanSplit {
    pub(crate) fn new(object: usize, range: Option<Range<u64>>) -> Self {
        Self { object, range, rows: None }
    }

    pub(crate) fn bytes(&self, objects: &[DataObject]) -> u64 {
        match (&self.range, objects.get(self.object)) {
            (Some(range), _) => range.end - range.start,
            (None, Some(object)) => object.size,
            (None, None) => 0,
        }
    }
}

/// Minimum bytes of a range; smaller ranges cost more in requests than their parallelism saves.
pub(crate) const MIN_RANGE_BYTES: u64 = 8 * 1024 * 1024;

/// Cuts objects into splits of about `split_bytes` bytes and assigns them to at most `partitions`
/// partitions of about equal bytes. Without `split_bytes`, makes as few splits as keep every
/// partition busy.
pub(crate) fn assign_splits(
    objects: &[DataObject],
    splittable: impl Fn(&DataObject) -> bool,
    split_bytes: Option<u64>,
    partitions: usize,
) -> Vec<Vec<ScanSplit>> {
    let partitions = partitions.max(1);
    let total: u64 = objects.iter().map(|object| object.size).sum();
    let target = split_bytes.unwrap_or_else(|| total.div_ceil(partitions as u64).max(MIN_RANGE_BYTES)).max(1);
    let mut splits = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        let pieces = if splittable(object) { object.size.div_ceil(target).max(1) } else { 1 };
        if pieces == 1 {
            splits.push(ScanSplit::new(index, None));
            continue;
        }
        let step = object.size.div_ceil(pieces);
        let ranges = (0..pieces).map(|piece| piece * step..((piece + 1) * step).min(object.size));
        splits.extend(ranges.map(|range| ScanSplit::new(index, Some(range))));
    }
    dealt(objects, splits, partitions)
}

/// Assigns `splits` of `objects` to at most `partitions` partitions of about equal bytes.
pub(crate) fn dealt(objects: &[DataObject], splits: Vec<ScanSplit>, partitions: usize) -> Vec<Vec<ScanSplit>> {
    // Rows that pass often lie together, so consecutive splits go to different partitions.
    let mut dealt: Vec<(u64, Vec<ScanSplit>)> = vec![(0, Vec::new()); partitions.min(splits.len()).max(1)];
    for split in splits {
        let bytes = split.bytes(objects).max(1);
        if let Some(least) = dealt.iter_mut().min_by_key(|(bytes, _)| *bytes) {
            least.0 += bytes;
            least.1.push(split);
        }
    }
    dealt.into_iter().map(|(_, splits)| splits).collect()
}

/// Moves the splits that `is_first` selects to the front of the first partition, and drops empty
/// partitions.
pub(crate) fn gathered(dealt: Vec<Vec<ScanSplit>>, is_first: impl Fn(&ScanSplit) -> bool) -> Vec<Vec<ScanSplit>> {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for partition in dealt {
        let (gathered, others): (Vec<_>, Vec<_>) = partition.into_iter().partition(&is_first);
        first.extend(gathered);
        rest.push(others);
    }
    rest.retain(|others| !others.is_empty());
    match rest.first_mut() {
        Some(others) => others.splice(0..0, first).for_each(drop),
        None => rest.push(first),
    }
    rest
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn object(size: u64) -> DataObject {
        DataObject {
            path: "a".into(),
            size,
            etag: None,
            last_modified: chrono::DateTime::UNIX_EPOCH,
            partition_values: vec![],
            columns: None,
            replicas: vec![],
        }
    }

    #[test]
    fn ranges_cover_each_object_once() {
        let objects = [object(100 << 20), object(3), object(17 << 20)];
        for split_bytes in [None, Some(16 << 20), Some(1 << 16)] {
            let dealt = assign_splits(&objects, |_| true, split_bytes, 3);
            for (index, object) in objects.iter().enumerate() {
                let mut ranges: Vec<_> = dealt
                    .iter()
                    .flatten()
                    .filter(|s| s.object == index)
                    .map(|s| s.range.clone().unwrap_or(0..object.size))
                    .collect();
                ranges.sort_by_key(|r| r.start);
                assert_eq!(ranges.first().unwrap().start, 0);
                assert_eq!(ranges.last().unwrap().end, object.size);
                assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            }
        }
    }

    #[test]
    fn no_objects_leave_one_empty_partition() {
        let dealt = assign_splits(&[], |_| true, None, 4);
        assert_eq!(dealt.len(), 1);
        assert!(dealt[0].is_empty());
    }

    #[test]
    fn unsplittable_objects_stay_whole() {
        let dealt = assign_splits(&[object(1 << 30)], |_| false, Some(1 << 20), 4);
        assert_eq!(dealt.iter().flatten().count(), 1);
    }
}
