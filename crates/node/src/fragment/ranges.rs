//! Many byte ranges of one object in one response: records that an index points to, or Parquet
//! pages.

use std::ops::Range;

use bytes::Bytes;
use futures::StreamExt;
use pushdowndb_contract::wire::{RangesRequest, RouteEvent, RouteStats};
use pushdowndb_contract::{Error, Result};
use pushdowndb_scan::ObjectReader;

use super::stream::{Ended, EventSender};
use crate::store::ObjectData;

/// Maximum bytes of short ranges that are read together, and held in memory.
const MAX_READ_BYTES: u64 = 4 * 1024 * 1024;

/// Maximum short ranges that are read together.
const MAX_READ_RANGES: usize = 256;

/// Sends the ranges in the order of the request.
pub(super) async fn send(mut out: EventSender, request: RangesRequest) -> Result<(), Ended> {
    let context = &out.context;
    let object = match context.objects.open(&request.object, &context.permit.account(), context.permit.memory()).await {
        Ok(object) => object.data,
        Err(error) => return out.fail(&error).await,
    };
    let mut first = 0;
    while let Some(rest) = request.ranges.get(first..).filter(|rest| !rest.is_empty()) {
        let together = together(rest);
        let number = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        if let [long] = together {
            let mut pieces = object.stream(long.clone());
            while let Some(piece) = out.wait_for(pieces.next()).await? {
                match piece {
                    Ok(bytes) => {
                        out.scanned += bytes.len() as u64;
                        let range = number(first);
                        out.send_in_frames(bytes, |bytes| RouteEvent::Range { range, bytes }).await?;
                    }
                    Err(error) => return out.fail(&error).await,
                }
            }
        } else {
            match out.wait_for(read(&object, together)).await? {
                Ok(all) => {
                    for (index, bytes) in all.into_iter().enumerate() {
                        out.scanned += bytes.len() as u64;
                        let range = number(first + index);
                        out.send_in_frames(bytes, |bytes| RouteEvent::Range { range, bytes }).await?;
                    }
                }
                Err(error) => return out.fail(&error).await,
            }
        }
        first += together.len();
    }
    out.finish(RouteStats { bytes_scanned: out.scanned, ..RouteStats::default() }).await
}

/// The leading ranges that are read together, at least one.
fn together(ranges: &[Range<u64>]) -> &[Range<u64>] {
    let mut bytes = 0;
    let fits = |range: &&Range<u64>| {
        bytes += range.end - range.start;
        bytes <= MAX_READ_BYTES
    };
    let count = ranges.iter().take(MAX_READ_RANGES).take_while(fits).count().max(1);
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
        assert_eq!(together(&[0..MAX_READ_BYTES, 5..6]).len(), 1);
        assert_eq!(together(&[0..MAX_READ_BYTES + 1, 5..6]).len(), 1);
        assert_eq!(together(&vec![0..1; 1000]).len(), MAX_READ_RANGES);
    }
}
