//! The indexes of a request: where to look for the rows of a split before it is scanned.

use std::ops::Range;

use prost::Message;

use super::expr::{read_expr, write_expr};
use super::request::{RangeMessage, SplitMessage, lies_in, read_split, write_range, write_split};
use super::{missing, read_list, write_list};
use crate::{Error, Expr, Result, Split, index, limits};

/// Indexes to use. They change what a split costs, never its rows: one that is gone, or stale, or leads to too much,
/// is as if it had not been named.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lookups {
    /// What is looked for, each in the indexes of one column.
    pub probes: Vec<Probe>,
    /// Where. The rows of a split are at the places that all of its index objects lead to; a split without any is
    /// scanned.
    pub objects: Vec<IndexObject>,
}

/// What is looked for in the indexes of a column. Every row that the fragment's predicate keeps fulfils it.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The indexed column, by its place in the schema.
    pub column: usize,
    /// Over the columns of an index on it ([`index::schema`]).
    pub predicate: Expr,
}

/// The index of one data object on one column.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexObject {
    /// The split that it is about, by its place in the request; it is a whole object.
    pub split: usize,
    /// What is looked for in it, by its place among the probes.
    pub probe: usize,
    /// The index object; its range has no meaning.
    pub object: Split,
    /// Those of its bytes that can hold what is looked for; the first byte of a record decides.
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
    /// Whether nothing is looked up.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Whether it fits these splits and this schema.
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
