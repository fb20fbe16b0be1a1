//! Slicing of large row groups, so that only some pages of each column are in memory at a time.

use std::ops::Range;

use ::parquet::errors::Result;

use crate::parquet::read::chunks::Chunks;
use crate::parquet::read::page_place::PagePlace;
use crate::parquet::row_group::RowGroupSlice;

/// Returns whether one of these row groups has more than `most` stored bytes in these columns.
pub(crate) fn any_larger(parts: &[RowGroupSlice], leaves: &[usize], chunks: &Chunks, most: u64) -> Result<bool> {
    for part in parts {
        if stored_bytes(part.group, leaves, chunks)? > most {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Cuts row groups into slices of about `part_bytes`, if there is a page index. A slice begins at a
/// page of the largest column. A page of another column may belong to two slices, and is then read
/// for both.
pub(crate) fn cut(
    parts: Vec<RowGroupSlice>,
    leaves: &[usize],
    chunks: &Chunks,
    part_bytes: u64,
) -> Result<Vec<RowGroupSlice>> {
    let mut all = Vec::new();
    for part in parts {
        let pieces = stored_bytes(part.group, leaves, chunks)?.div_ceil(part_bytes.max(1));
        match largest(part.group, leaves, chunks)?.filter(|_| pieces > 1) {
            None => all.push(part),
            Some(pages) => {
                let ranges = begin_with_pages(&pages, usize::try_from(pieces).unwrap_or(usize::MAX));
                let rows = ranges.into_iter().map(|range| part.rows.within(range)).filter(|rows| !rows.is_empty());
                all.extend(rows.enumerate().map(|(place, rows)| RowGroupSlice {
                    group: part.group,
                    rows,
                    is_first: place == 0,
                }));
            }
        }
    }
    Ok(all)
}

/// Moves the bounds of the rows to the next start of a page in the largest column, if there is a
/// page index.
pub(crate) fn moved(part: RowGroupSlice, leaves: &[usize], chunks: &Chunks) -> Result<RowGroupSlice> {
    if part.rows.are_all() {
        return Ok(part);
    }
    let Some(pages) = largest(part.group, leaves, chunks)? else { return Ok(part) };
    Ok(RowGroupSlice { rows: part.rows.moved(|row| next_page(&pages, row)), ..part })
}

/// Returns the first row of the first page that begins at or after `row`, or the end of the pages.
fn next_page(pages: &[PagePlace], row: usize) -> usize {
    let next = pages.partition_point(|page| page.rows.start < row);
    pages
        .get(next)
        .or(pages.last())
        .map_or(row, |page| if page.rows.start < row { page.rows.end } else { page.rows.start })
}

fn stored_bytes(group: usize, leaves: &[usize], chunks: &Chunks) -> Result<u64> {
    let stored = |leaf: &usize| Ok(u64::try_from(chunks.chunk(group, *leaf)?.compressed_size()).unwrap_or_default());
    leaves.iter().map(stored).sum()
}

/// Returns the pages of the largest of these columns; `None` if the page index does not cover all
/// columns.
fn largest(group: usize, leaves: &[usize], chunks: &Chunks) -> Result<Option<Vec<PagePlace>>> {
    let mut largest = None;
    let mut most = 0;
    for leaf in leaves {
        let Some(places) = chunks.places(group, *leaf)? else { return Ok(None) };
        let stored = chunks.chunk(group, *leaf)?.compressed_size();
        if largest.is_none() || stored > most {
            (largest, most) = (Some(places), stored);
        }
    }
    Ok(largest)
}

/// Returns up to `pieces` ranges of about equal numbers of rows, each of which begins at a page.
fn begin_with_pages(pages: &[PagePlace], pieces: usize) -> Vec<Range<usize>> {
    let end = pages.last().map_or(0, |last| last.rows.end);
    let step = end.div_ceil(pieces.max(1)).max(1);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for page in pages.iter().skip(1) {
        if page.rows.start - start >= step {
            ranges.push(start..page.rows.start);
            start = page.rows.start;
        }
    }
    ranges.push(start..end);
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_move_on_to_pages() {
        let pages = [page(0..30), page(30..60), page(60..100)];
        assert_eq!([0, 1, 30, 31, 60, 61, 100].map(|row| next_page(&pages, row)), [0, 30, 30, 60, 60, 100, 100]);
        assert_eq!(next_page(&[], 7), 7);
    }

    fn page(rows: Range<usize>) -> PagePlace {
        PagePlace { bytes: 0..0, rows }
    }

    #[test]
    fn parts_begin_with_pages() {
        let pages = [page(0..30), page(30..60), page(60..70), page(70..100)];
        assert_eq!(begin_with_pages(&pages, 2), [0..60, 60..100]);
        assert_eq!(begin_with_pages(&pages, 100), [0..30, 30..60, 60..70, 70..100]);
        assert_eq!(begin_with_pages(&pages, 1), [0..100]);
        assert_eq!(begin_with_pages(&[page(0..5)], 3), [0..5]);
    }
}
