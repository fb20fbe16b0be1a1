//! Scans fragments over bytes in several ways that must agree.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use pushdowndb_contract::Fragment;
use pushdowndb_scan::{InMemory, ScanCounters, ScanOptions, scan};
use pushdowndb_testkit::batch::rows;
pub use pushdowndb_testkit::batch::schema;
use tokio::runtime::{Builder, Runtime};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Builder::new_current_thread().build().expect("a runtime"));

/// The rows of a scan as text, or its error.
pub type Outcome = Result<Vec<String>, String>;

/// How a scan reads its bytes.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The size of the pieces in which bytes arrive.
    pub piece_bytes: usize,
    /// Whether bytes are available without waiting, like those of a cached file.
    pub at_hand: bool,
    /// The range of the records to scan.
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

/// Scans the bytes in pieces of several sizes and, if the format is splittable, in parts, and
/// checks that the rows are the same.
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
