//! How many splits of a scan are read plainly at a time.

use pushdowndb_contract::{Format, Fragment};
use pushdowndb_http::reads::PART_BYTES;

use super::cardinality::Cardinality;
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::ScanPlan;

/// Bytes of splits that are read at a time, of one scan.
const BYTES_AT_ONCE: u64 = 128 * 1024 * 1024;

/// Bytes of the memory limit for each byte that is read at a time.
const MEMORY_BYTES_PER_READ_BYTE: u64 = 16;

/// Splits that are read at a time, of one scan.
const MOST_AT_ONCE: u64 = 64;

/// Splits of a scan with a limit that are read at a time, and the fewest objects of such a scan.
const MOST_WITH_LIMIT: usize = 4;
const MANY_OBJECTS: u64 = 16;

/// Bytes of a row group of which the footer is not known yet, and the most that are read of one at a
/// time.
const ASSUMED_ROW_GROUP_BYTES: u64 = 16 * 1024 * 1024;
const MOST_ROW_GROUP_BYTES: u64 = 24 * 1024 * 1024;

/// Plain reads of a far server: splits of [`PART_BYTES`], many at a time whatever the number of
/// cores.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct PlainReads {
    /// Splits that are read at a time, by all partitions together.
    at_once: usize,
}

impl PlainReads {
    /// The reads of a scan by `plan`; `None` if each partition reads its splits one after the other,
    /// because the server is near or there is one split. Of a scan with a limit, which may end with
    /// the first object, objects are not cut, and few of many are read at a time.
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

    /// The reads of `objects` with `bytes` bytes in all and `of_split` in a split, with `most_bytes` at
    /// a time.
    fn sized(bytes: u64, objects: u64, of_split: u64, most_bytes: u64) -> Option<Self> {
        let splits = bytes.div_ceil(PART_BYTES).max(objects);
        let at_once = (most_bytes / of_split.max(1)).clamp(1, MOST_AT_ONCE).min(splits);
        (splits > 1).then_some(Self { at_once: usize::try_from(at_once).unwrap_or(1) })
    }

    /// Splits that are read at a time, by all partitions together.
    pub(crate) fn at_once(self) -> usize {
        self.at_once
    }

    /// The splits that each of `partitions` reads at a time.
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
