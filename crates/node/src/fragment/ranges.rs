//! Many byte ranges of one object in one answer: what an index points to, or the pages of a Parquet object.

use std::ops::Range;

use bytes::Bytes;
use futures::StreamExt;
use pushdown::wire::{RangesRequest, RouteStats};
use pushdown::{Error, Result};
use pushdowndb_scan::ObjectReader;
use pushdowndb_select::RouteEvent;

use super::stream::{Gone, Out};
use crate::store::ObjectData;

/// Short ranges are read together up to so many bytes, which are then in memory.
const READ_BYTES: u64 = 4 * 1024 * 1024;

/// Short ranges are read together up to so many.
const READ_RANGES: usize = 256;

/// Answers with the ranges in the order they were asked for.
pub(super) async fn send(mut out: Out, request: RangesRequest) -> Result<(), Gone> {
    let desk = &out.desk;
    let object = match desk.objects.open(&request.object, &desk.turn.bill()).await {
        Ok(object) => object.data,
        Err(error) => return out.fail(&error).await,
    };
    let mut first = 0;
    while let Some(rest) = request.ranges.get(first..).filter(|rest| !rest.is_empty()) {
        let together = together(rest);
        let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        if let [long] = together {
            let mut pieces = object.stream(long.clone());
            while let Some(piece) = out.wait(pieces.next()).await? {
                match piece {
                    Ok(bytes) => {
                        out.scanned += bytes.len() as u64;
                        let range = number(first);
                        out.send_cut(bytes, |bytes| RouteEvent::Range { range, bytes }).await?;
                    }
                    Err(error) => return out.fail(&error).await,
                }
            }
        } else {
            match out.wait(read(&object, together)).await? {
                Ok(all) => {
                    for (index, bytes) in all.into_iter().enumerate() {
                        out.scanned += bytes.len() as u64;
                        let range = number(first + index);
                        out.send_cut(bytes, |bytes| RouteEvent::Range { range, bytes }).await?;
                    }
                }
                Err(error) => return out.fail(&error).await,
            }
        }
        first += together.len();
    }
    out.finish(RouteStats { bytes_scanned: out.scanned, ..RouteStats::default() }).await
}

/// The first of these ranges that are read together, at least one.
fn together(ranges: &[Range<u64>]) -> &[Range<u64>] {
    let mut bytes = 0;
    let fits = |range: &&Range<u64>| {
        bytes += range.end - range.start;
        bytes <= READ_BYTES
    };
    let count = ranges.iter().take(READ_RANGES).take_while(fits).count().max(1);
    ranges.get(..count).unwrap_or(ranges)
}

async fn read(object: &ObjectData, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
    let all = object.read_ranges(ranges.to_vec()).await?;
    if all.len() == ranges.len() {
        return Ok(all);
    }
    Err(Error::internal("a read gave too few ranges"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ranges_are_read_together() {
        assert_eq!(together(&[0..1, 5..6, 7..9]).len(), 3);
        assert_eq!(together(&[0..READ_BYTES, 5..6]).len(), 1);
        assert_eq!(together(&[0..READ_BYTES + 1, 5..6]).len(), 1);
        assert_eq!(together(&vec![0..1; 1000]).len(), READ_RANGES);
    }
}
