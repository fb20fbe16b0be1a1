//! Concurrency of plain reads: how many splits of a scan are read at a time.

use pushdowndb_contract::{Format, Fragment};
use pushdowndb_http::reads::PART_BYTES;

use super::cardinality::Cardinality;
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;

/// Maximum bytes of one scan's splits that are read at a time.
const BYTES_AT_ONCE: u64 = 128 * 1024 * 1024;

/// Bytes of the memory limit that are required for each byte that is read at a time.
const MEMORY_BYTES_PER_READ_BYTE: u64 = 16;

/// Maximum splits of one scan that are read at a time.
const MOST_AT_ONCE: u64 = 64;

/// Maximum splits of a scan with a limit that are read at a time.
const MOST_WITH_LIMIT: usize = 4;
/// Minimum objects of a scan with a limit for several splits to be read at a time.
const MANY_OBJECTS: u64 = 16;

/// Assumed bytes of a row group whose footer is not known yet.
const ASSUMED_ROW_GROUP_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum bytes of a row group that are read at a time.
const MOST_ROW_GROUP_BYTES: u64 = 24 * 1024 * 1024;

/// Concurrency of plain reads of a far server: splits of [`PART_BYTES`] are read, many at a time
/// regardless of the number of cores.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PlainReads {
    /// Number of splits that all partitions together read at a time.
    at_once: usize,
}

impl PlainReads {
    /// Returns the concurrency of a scan of `plan`. Returns `None` if each partition reads its
    /// splits one after the other, because the server is near, there is only one split, or a
    /// setting says so. A scan with a limit may end with the first object, so it reads whole
    /// objects, only few at a time, and one by one unless there are many.
    pub(crate) fn of(plan: &ScanPlan, context: &ScanContext, fragment: &Fragment) -> Option<Self> {
        let objects = plan.objects.len() as u64;
        let wanted = context.options.reads;
        if wanted == 1 || !context.backend.is_far() || plan.limit.is_some() && objects < MANY_OBJECTS {
            return None;
        }
        let cardinality = Cardinality::of(plan, context, fragment);
        let (bytes, read) = (cardinality.bytes(), cardinality.read_bytes());
        let of_split = match fragment.format {
            Format::Parquet => {
                let largest = plan.objects.iter().find_map(|object| context.backend.row_group_bytes(object));
                let stored = largest.unwrap_or(ASSUMED_ROW_GROUP_BYTES).max(PART_BYTES);
                let share = read as f64 / bytes.max(1) as f64;
                ((stored as f64 * share) as u64).min(MOST_ROW_GROUP_BYTES)
            }
            Format::Csv(_) | Format::Json(_) => PART_BYTES,
        };
        let most_bytes = context.options.bytes_within(BYTES_AT_ONCE, MEMORY_BYTES_PER_READ_BYTE);
        let reads = Self::sized(bytes, objects, of_split, most_bytes)?;
        let most = match wanted {
            0 if plan.limit.is_some() => MOST_WITH_LIMIT,
            0 => reads.at_once,
            wanted => wanted,
        };
        Some(Self { at_once: reads.at_once.min(most) })
    }

    /// Returns the concurrency for `objects` objects with `bytes` bytes in total, if `of_split`
    /// bytes are read of a split and `most_bytes` at a time. Returns `None` if there is only one
    /// split.
    fn sized(bytes: u64, objects: u64, of_split: u64, most_bytes: u64) -> Option<Self> {
        let splits = bytes.div_ceil(PART_BYTES).max(objects);
        let at_once = (most_bytes / of_split.max(1)).clamp(1, MOST_AT_ONCE).min(splits);
        (splits > 1).then_some(Self { at_once: usize::try_from(at_once).unwrap_or(1) })
    }

    /// Returns the number of splits that all partitions together read at a time.
    pub(crate) fn at_once(self) -> usize {
        self.at_once
    }

    /// Returns the number of splits that each of `partitions` partitions reads at a time.
    pub(crate) fn of_each(self, partitions: usize) -> usize {
        self.at_once.div_ceil(partitions.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn as_many_splits_as_memory_has_room_for() {
        let at_once = |bytes: u64, of_split: u64| {
            PlainReads::sized(bytes * MIB, 1, of_split * MIB, 128 * MIB).map(PlainReads::at_once)
        };
        assert_eq!(at_once(4, 4), None, "one split");
        assert_eq!(at_once(20, 4), Some(5));
        assert_eq!(at_once(700, 4), Some(32));
        assert_eq!(at_once(700, 1), Some(64));
        assert_eq!(at_once(7000, 24), Some(5));
        assert_eq!(at_once(7000, 500), Some(1));
        let small = PlainReads::sized(4 * MIB, 10_000, MIB, 128 * MIB);
        assert_eq!(small.map(PlainReads::at_once), Some(64));
        assert_eq!(PlainReads { at_once: 5 }.of_each(2), 3);
    }
}
