//! Index lookups on the wire. A node makes them for each split before it scans the split.

use std::ops::Range;

use prost::Message;

use super::expr::{read_expr, write_expr};
use super::split::{RangeMessage, SplitMessage, lies_in, read_split, write_range, write_split};
use super::{missing, read_list, write_list};
use crate::{Error, Expr, Result, Split, index, limits};

/// The index lookups of a request. They change the cost of a split, never its rows: an index that
/// is missing, stale or returns too many rows is ignored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lookups {
    /// The predicates to look up, each in the indexes of one column.
    pub probes: Vec<Probe>,
    /// The index objects to search. For each split, the rows at the positions that all of its index
    /// objects return are read; a split without index objects is scanned.
    pub objects: Vec<IndexObject>,
}

/// A predicate to look up in the indexes on one column. It must hold for every row that passes the
/// fragment's predicate.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The index of the column in the schema.
    pub column: usize,
    /// The predicate, over the columns of an index ([`index::schema`]).
    pub predicate: Expr,
}

/// The index of one data object on one column.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexObject {
    /// The index of the split in the request. The split must be a whole object.
    pub split: usize,
    /// The index of the probe in [`Lookups::probes`].
    pub probe: usize,
    /// The index object; its range is ignored.
    pub object: Split,
    /// The byte ranges of the index object that may contain matches. A record belongs to the range
    /// that contains its first byte.
    pub ranges: Vec<Range<u64>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LookupsMessage {
    /// A list of [`ProbeMessage`].
    #[prost(bytes = "vec", tag = "1")]
    probes: Vec<u8>,
    /// A list of [`IndexObjectMessage`].
    #[prost(bytes = "vec", tag = "2")]
    objects: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct ProbeMessage {
    #[prost(uint32, tag = "1")]
    column: u32,
    #[prost(bytes = "vec", tag = "2")]
    predicate: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct IndexObjectMessage {
    #[prost(uint32, tag = "1")]
    split: u32,
    #[prost(uint32, tag = "2")]
    probe: u32,
    #[prost(message, optional, tag = "3")]
    object: Option<SplitMessage>,
    /// A list of [`RangeMessage`].
    #[prost(bytes = "vec", tag = "4")]
    ranges: Vec<u8>,
}

impl Lookups {
    /// Returns whether there are no lookups.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Checks that the lookups refer to existing splits and columns and are within the limits.
    pub(super) fn check(&self, splits: &[Split], columns: usize) -> Result<()> {
        if self.probes.len() > limits::FRAGMENT_PROBES || self.objects.len() > limits::FRAGMENT_SPLITS {
            return Err(Error::invalid(format!(
                "a request has at most {} probes and {} index objects",
                limits::FRAGMENT_PROBES,
                limits::FRAGMENT_SPLITS
            )));
        }
        if self.probes.iter().any(|probe| probe.column >= columns) {
            return Err(Error::invalid("an index is on a column that there is not"));
        }
        let mut ranges = 0;
        for index in &self.objects {
            let whole = splits.get(index.split).is_some_and(|split| split.range.is_none());
            if !whole || index.probe >= self.probes.len() {
                return Err(Error::invalid("an index object is of no split and probe of the request"));
            }
            ranges += index.ranges.len();
            if !index.ranges.iter().all(|range| lies_in(range, index.object.size)) {
                return Err(Error::invalid(format!("a range of '{}' does not lie in the object", index.object.key)));
            }
        }
        match ranges <= limits::FRAGMENT_RANGES {
            true => Ok(()),
            false => Err(Error::invalid(format!("index objects have at most {} ranges", limits::FRAGMENT_RANGES))),
        }
    }
}

pub(super) fn write_lookups(lookups: &Lookups) -> Result<LookupsMessage> {
    let number = |n: usize| u32::try_from(n).map_err(|_| Error::invalid("a place is too large"));
    let probes = lookups
        .probes
        .iter()
        .map(|probe| Ok(ProbeMessage { column: number(probe.column)?, predicate: write_expr(&probe.predicate)? }));
    let objects = lookups.objects.iter().map(|index| {
        Ok(IndexObjectMessage {
            split: number(index.split)?,
            probe: number(index.probe)?,
            object: Some(write_split(&index.object)),
            ranges: write_list(index.ranges.iter().map(write_range))?,
        })
    });
    Ok(LookupsMessage {
        probes: write_list(probes.collect::<Result<Vec<_>>>()?)?,
        objects: write_list(objects.collect::<Result<Vec<_>>>()?)?,
    })
}

pub(super) fn read_lookups(message: &LookupsMessage) -> Result<Lookups> {
    let columns = index::COLUMNS.len();
    let probes = read_list::<ProbeMessage>(&message.probes, limits::FRAGMENT_PROBES, "probes")?;
    let probe = |probe: ProbeMessage| {
        Ok(Probe { column: probe.column as usize, predicate: read_expr(&probe.predicate, columns)? })
    };
    let mut ranges_left = limits::FRAGMENT_RANGES;
    let objects = read_list::<IndexObjectMessage>(&message.objects, limits::FRAGMENT_SPLITS, "index objects")?;
    let object = |index: IndexObjectMessage| {
        let ranges = read_list::<RangeMessage>(&index.ranges, ranges_left, "ranges of index objects")?;
        ranges_left -= ranges.len();
        Ok(IndexObject {
            split: index.split as usize,
            probe: index.probe as usize,
            object: read_split(index.object.ok_or_else(|| missing("an index object"))?)?,
            ranges: ranges.into_iter().map(|range| range.start..range.end).collect(),
        })
    };
    Ok(Lookups {
        probes: probes.into_iter().map(probe).collect::<Result<_>>()?,
        objects: objects.into_iter().map(object).collect::<Result<_>>()?,
    })
}
