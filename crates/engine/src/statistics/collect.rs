//! Collection of a table's statistics from a few ranges of its objects, all requested at once.
//!
//! For text, pieces spread over the table's bytes are fetched, and the complete records in each
//! piece are decoded. Compressed text, and text whose values may contain line ends, cannot be
//! decoded from the middle, so it has no sample. For Parquet, footers are read.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use bytes::{Bytes, BytesMut};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use pushdowndb_contract::{CsvOptions, Error, Format, Fragment, JsonOptions, JsonShape, Result};
use pushdowndb_scan::{InMemory, POSITION_COLUMNS, ScanCounters, ScanOptions, ScanRange, scan};

use super::{Footers, Sampled, TableSample};
use crate::catalog::{DataObject, TableDefinition};
use crate::endpoints::{Backend, Meters};
use crate::error::from_datafusion;
use crate::settings::PushdownOptions;

/// Minimum bytes of a text table that is sampled. For a smaller table, a wrong choice costs about
/// as much as a sample.
const MIN_TEXT_BYTES: u64 = 16 * 1024 * 1024;

/// Minimum bytes of a Parquet table whose footers are read, with one request each.
const MIN_PARQUET_BYTES: u64 = 4 * 1024 * 1024;

/// Maximum footers that are read. If the table has more objects, the footers read stand for all.
const MAX_FOOTERS: usize = 32;

/// Maximum bytes of a footer that is fetched for statistics.
const MAX_FOOTER_BYTES: u64 = 16 * 1024 * 1024;

/// The share of a table's bytes that is sampled, within the limits below.
const SAMPLE_SHARE: f64 = 0.0025;

/// Maximum bytes of a sample. At 40 MB/s they take 13 ms.
const MAX_SAMPLE_BYTES: u64 = 512 * 1024;

/// Bytes of a piece: some hundred rows, so that a sample has many pieces.
const PIECE_BYTES: u64 = 16 * 1024;

/// The unit in which the share of blocks is measured: the page of YourSQL (Section 3.1.3).
const BLOCK_BYTES: i64 = 16 * 1024;

/// Maximum requests in flight: all requests of a sample, so that it takes one round trip.
const MAX_CONCURRENT_READS: usize = 32;

/// A range of bytes of one object.
#[derive(Clone, Debug, PartialEq)]
struct Piece {
    object: usize,
    start: u64,
    end: u64,
}

/// Collects statistics by a few requests. Returns `None` if the table is small or cannot be
/// sampled. `objects` must be all objects of the table.
pub(crate) async fn collect(
    backend: &Backend,
    meters: &Meters,
    table: &TableDefinition,
    objects: &[DataObject],
    options: &PushdownOptions,
) -> Result<Option<Sampled>> {
    let bytes: u64 = objects.iter().map(|object| object.size).sum();
    if objects.iter().any(|object| object.columns.is_some()) {
        return Ok(None);
    }
    match table.format {
        Format::Parquet if bytes >= MIN_PARQUET_BYTES => {
            let every = objects.len().div_ceil(MAX_FOOTERS).max(1);
            let read = objects.iter().step_by(every).map(|object| {
                let read = backend.read_footer(object, meters, options, MAX_FOOTER_BYTES);
                read.map(|footer| Ok::<_, Error>((object.size, footer?))).boxed()
            });
            let read: Vec<_> = read.collect();
            let read: Vec<_> = stream::iter(read).buffered(MAX_CONCURRENT_READS).try_collect().await?;
            let mut footers = Footers::new(&table.file_schema);
            read.iter().for_each(|(bytes, footer)| footers.add(&table.file_schema, footer, *bytes));
            Ok(Some(Sampled::Footers(footers, Arc::clone(&table.file_schema))))
        }
        Format::Csv(_) | Format::Json(_) if bytes >= MIN_TEXT_BYTES => {
            Ok(sample(backend, meters, table, objects, options).await?.map(Sampled::Rows))
        }
        _ => Ok(None),
    }
}

/// Samples rows of text.
async fn sample(
    backend: &Backend,
    meters: &Meters,
    table: &TableDefinition,
    objects: &[DataObject],
    options: &PushdownOptions,
) -> Result<Option<TableSample>> {
    let Some((format, terminator)) = lines_of(&table.format) else { return Ok(None) };
    if objects.iter().any(|object| !table.format_of(object).is_splittable()) {
        return Ok(None);
    }
    let sizes: Vec<u64> = objects.iter().map(|object| object.size).collect();
    let pieces = spread(&sizes);
    let has_header = matches!(&table.format, Format::Csv(csv) if csv.header);
    let mut fetched = Vec::with_capacity(pieces.len());
    for pieces in pieces.chunk_by(|a, b| a.object == b.object) {
        let object = pieces.first().and_then(|piece| objects.get(piece.object));
        let object = object.ok_or_else(|| Error::internal("a piece of no object"))?;
        let reader = backend.reader(object, meters, options)?;
        fetched.extend(pieces.iter().map(|piece| reader.read_ranges(vec![piece.start..piece.end])));
    }
    let fetched: Vec<Vec<Bytes>> = stream::iter(fetched).buffered(MAX_CONCURRENT_READS).try_collect().await?;

    let bytes = pieces.iter().map(|piece| (piece.end - piece.start) as usize + 1).sum();
    let (mut text, mut ends) = (BytesMut::with_capacity(bytes), Vec::with_capacity(pieces.len()));
    for (piece, bytes) in pieces.iter().zip(fetched.iter().flatten()) {
        let is_first = piece.start == 0;
        let is_last = objects.get(piece.object).is_some_and(|object| object.size == piece.end);
        text.extend_from_slice(whole_lines(bytes, terminator, is_first && !has_header, is_last));
        // The last record of an object may lack its terminator.
        if is_last && text.last().is_some_and(|last| *last != terminator) {
            text.extend_from_slice(&[terminator]);
        }
        ends.push(text.len() as i64);
    }
    let sampled = text.len();
    let fragment = Arc::new(Fragment::all(format, Arc::clone(&table.file_schema)));
    let reader = Arc::new(InMemory::new(table.location.to_string(), text.freeze()));
    let rows =
        scan(fragment, reader, ScanRange::WithPositions, ScanOptions::default(), Arc::new(ScanCounters::default()))?;
    let rows: Vec<RecordBatch> = rows.try_collect().await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let rows = concat_batches(&first.schema(), &rows).map_err(|error| from_datafusion(error.into()))?;
    let columns: Vec<usize> = (0..table.file_schema.fields().len()).collect();
    let Some(begins) = rows.column_by_name(POSITION_COLUMNS[0]).map(positions) else {
        return Err(Error::internal("rows without their positions"));
    };
    let total: u64 = sizes.iter().sum();
    let row_bytes = sampled as f64 / rows.num_rows() as f64;
    let table_rows = if pieces_are_all(&pieces, total) { rows.num_rows() as f64 } else { total as f64 / row_bytes };
    let pieces = begins.iter().map(|begin| ends.partition_point(|end| end <= begin) as u32).collect();
    let blocks = begins.iter().map(|begin| (begin / BLOCK_BYTES) as u32).collect();
    let rows = rows.project(&columns).map_err(|error| from_datafusion(error.into()))?;
    Ok(Some(TableSample::new(rows, pieces, blocks, table_rows, total as f64)))
}

/// Returns the format for decoding records from the middle of an object, and the byte that
/// terminates a record. Returns `None` if the format cannot be decoded from the middle.
fn lines_of(format: &Format) -> Option<(Format, u8)> {
    match format {
        Format::Csv(csv) if csv.wide.is_none() && csv.translation.is_none() => {
            let lines = CsvOptions { header: false, ..csv.clone() };
            Some((Format::Csv(lines), csv.terminator.unwrap_or(b'\n')))
        }
        Format::Json(json) if json.shape == JsonShape::Lines => {
            // A field without a column is an error of the query that reads it, not of statistics.
            Some((Format::Json(JsonOptions { inferred: false, ..json.clone() }), b'\n'))
        }
        _ => None,
    }
}

fn positions(column: &ArrayRef) -> Vec<i64> {
    column.as_primitive_opt::<Int64Type>().map(|column| column.values().to_vec()).unwrap_or_default()
}

/// Returns the complete records in `bytes`, a range of an object. The first record is incomplete
/// unless `from_start`, and the last unless `to_end`.
fn whole_lines(bytes: &[u8], terminator: u8, from_start: bool, to_end: bool) -> &[u8] {
    let start = if from_start { 0 } else { memchr::memchr(terminator, bytes).map_or(bytes.len(), |at| at + 1) };
    let end = if to_end { bytes.len() } else { memchr::memrchr(terminator, bytes).map_or(0, |at| at + 1) };
    bytes.get(start..end).unwrap_or_default()
}

fn pieces_are_all(pieces: &[Piece], total: u64) -> bool {
    pieces.iter().map(|piece| piece.end - piece.start).sum::<u64>() == total
}

/// Returns one piece in the middle of each of several stretches of equal size that make up the
/// objects' bytes. Returns all bytes of a small table.
fn spread(sizes: &[u64]) -> Vec<Piece> {
    let total: u64 = sizes.iter().sum();
    let wanted = ((total as f64 * SAMPLE_SHARE) as u64).clamp(PIECE_BYTES, MAX_SAMPLE_BYTES);
    if total <= wanted {
        let all = sizes.iter().enumerate().filter(|(_, size)| **size > 0);
        return all.map(|(object, size)| Piece { object, start: 0, end: *size }).collect();
    }
    let count = (wanted / PIECE_BYTES).max(1);
    let stretch = total / count;
    let mut pieces = Vec::new();
    for n in 0..count {
        let at = n * stretch + (stretch - PIECE_BYTES.min(stretch)) / 2;
        let mut before = 0;
        for (object, size) in sizes.iter().enumerate() {
            if at < before + size {
                let start = at - before;
                pieces.push(Piece { object, start, end: (start + PIECE_BYTES).min(*size) });
                break;
            }
            before += size;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_spread_over_all_objects_and_never_overlap() {
        let sizes = [60 << 20, 0, 3, 20 << 20];
        let pieces = spread(&sizes);
        assert_eq!(pieces.len(), 12, "a four hundredth");
        assert!(pieces.iter().all(|p| p.start < p.end && p.end <= sizes[p.object]), "{pieces:?}");
        assert!(pieces.windows(2).all(|w| (w[0].object, w[0].end) <= (w[1].object, w[1].start)), "{pieces:?}");
        assert_eq!(spread(&[800 << 20]).len(), 32, "at most half a mebibyte");
        assert_eq!(spread(&[0, 7, 9]), [Piece { object: 1, start: 0, end: 7 }, Piece { object: 2, start: 0, end: 9 }]);
        assert_eq!(spread(&[]), []);
    }

    #[test]
    fn only_whole_lines_are_looked_at() {
        assert_eq!(whole_lines(b"b\ncd\ne", b'\n', false, false), b"cd\n");
        assert_eq!(whole_lines(b"b\ncd\ne", b'\n', true, true), b"b\ncd\ne");
        assert_eq!(whole_lines(b"bcde", b'\n', false, false), b"");
    }
}
