//! Fragments over bytes, read in several ways that must agree.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use pushdown::Fragment;
use pushdowndb_scan::{InMemory, ScanCounters, ScanOptions, scan};
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().build().expect("a runtime"));

/// The rows as text, or the error.
pub type Outcome = Result<Vec<String>, String>;

/// How bytes are read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// They arrive in pieces of this size.
    pub piece_bytes: usize,
    /// Or are at hand, like those of a file that the kernel has in memory.
    pub at_hand: bool,
    /// Only the records that begin here.
    pub range: Option<Range<u64>>,
    pub options: ScanOptions,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            piece_bytes: 1 << 20,
            at_hand: false,
            range: None,
            options: ScanOptions { batch_rows: 3, ..ScanOptions::default() },
        }
    }
}

/// Nullable columns.
pub fn schema<const N: usize>(columns: [(&str, DataType); N]) -> SchemaRef {
    Arc::new(Schema::new(columns.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec()))
}

pub fn read(fragment: &Fragment, bytes: &[u8], reading: &Reading) -> Outcome {
    let mut reader = InMemory::new("k", bytes.to_vec()).with_piece_bytes(reading.piece_bytes);
    if reading.at_hand {
        reader = reader.like_a_cached_file();
    }
    let (fragment, options) = (Arc::new(fragment.clone()), reading.options.clone());
    let batches = RUNTIME.block_on(async {
        let batches =
            scan(fragment, Arc::new(reader), reading.range.clone(), options, Arc::new(ScanCounters::default()))?;
        batches.try_collect::<Vec<RecordBatch>>().await
    });
    batches.map(|batches| batches.iter().flat_map(rows).collect()).map_err(|error| error.to_string())
}

fn rows(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).expect("a type that is shown"))
        .collect();
    let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|");
    (0..batch.num_rows()).map(row).collect()
}

/// However bytes arrive, they mean the same. Where they can be cut, the parts are the whole.
pub fn any_reading_agrees(fragment: &Fragment, bytes: &[u8], reading: &Reading, cuts: [u8; 2]) {
    let whole = read(fragment, bytes, reading);
    for piece_bytes in [1, 2 + usize::from(cuts[0] % 16)] {
        let pieces = read(fragment, bytes, &Reading { piece_bytes, ..reading.clone() });
        assert_eq!(pieces, whole, "in pieces of {piece_bytes}");
    }
    if !fragment.format.is_splittable() {
        return;
    }
    let size = bytes.len() as u64;
    let cut = |at: u8| size * u64::from(at) / 255;
    let (first, second) = (cut(cuts[0].min(cuts[1])), cut(cuts[0].max(cuts[1])));
    let part = |range: Range<u64>| read(fragment, bytes, &Reading { range: Some(range), ..reading.clone() });
    let parts: Result<Vec<_>, _> = [0..first, first..second, second..size].into_iter().map(part).collect();
    match (whole, parts) {
        (Ok(whole), Ok(parts)) => assert_eq!(parts.concat(), whole, "cut at {first} and {second}"),
        (Ok(whole), Err(error)) => panic!("cut at {first} and {second}: {error}, where the whole is {whole:?}"),
        (Err(error), Ok(parts)) => panic!("cut at {first} and {second}: {parts:?}, where the whole is {error}"),
        (Err(_), Err(_)) => {}
    }
}
