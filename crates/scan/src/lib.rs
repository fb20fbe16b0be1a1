//! A fragment over bytes.
//!
//! One evaluator for both sides of the network: the node runs it next to the disks, the engine runs it
//! over plain reads. What they agree on is therefore not a matter of care but of construction.
//!
//! - [`scan`] runs a [`pushdown::Fragment`] over one object, whose bytes come from an [`ObjectReader`].
//! - [`Evaluator`] evaluates the contract's expressions on batches that are already decoded.
//! - [`for_each_key`] gives the keys that Bloom filters are made of.
//! - [`CsvDecoder`] decodes CSV that arrives from elsewhere, such as the results of S3 Select.
//!
//! ```text
//! scan         runs a fragment: which pieces, what of them, and how many at a time (pieces, spawner, slice);
//!   interrupt  ends what computes when its client has left or its time is up
//! object       where bytes come from: files, memory, other stores; blocks and read-ahead
//! text         what CSV and JSON share: records of a byte range, decompression, values that fields spell
//!   csv        cutting, tokenising and decoding in stages
//!   json       records found by their commas; walked or parsed where they are not alike
//!   matcher    the byte patterns that a matching record must hold, searched in raw blocks
//! parquet      row groups and pages pruned, dictionaries asked once, late materialisation
//! pruning      what bounds decide; zones, which are bounds of stretches of text
//! evaluate     expressions: lowering to DataFusion's, casts, functions of our own, Bloom filters
//! aggregate    one row out of any number; group for one a group, top_k for the first of an order
//! output       the last steps: project, aggregate, order, limit
//! memory       the budget that all of these draw from
//! extent       what of an object is scanned; positions: where records lie, and those at known places (places)
//! ```
//!
//! Memory is bounded whatever the object, see [`limits`]; no bytes from outside make it panic.

// Bytes from outside must not end the process.
#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]
#![warn(missing_docs)]

mod aggregate;
mod clock;
mod compact;
mod csv;
mod dictionaries;
mod errors;
mod evaluate;
mod extent;
mod group;
mod interrupt;
mod json;
mod latest;
pub mod limits;
mod matcher;
mod memory;
mod number;
mod object;
mod output;
mod parquet;
mod pieces;
mod places;
mod positions;
mod pruning;
mod row_filter;
mod scan;
mod simd;
mod slice;
mod spawner;
mod text;
mod top_k;
mod totals;
mod types;

pub use aggregate::extremes;
pub use clock::thread_cpu;
pub use compact::compact;
pub use csv::{CsvDecoder, REST, rest_fields, tokenize_sample};
pub use dictionaries::{
    DictionaryColumns, as_dictionary, dictionary_candidates, with_dictionaries, without_dictionaries,
};
pub use evaluate::Evaluator;
pub use evaluate::for_each_key;
pub use extent::Extent;
pub use interrupt::{CancelOnDrop, Interrupt, Task, check_interrupt};
pub use latest::Latest;
pub use matcher::Matching;
pub use memory::{MemoryBudget, Reservation, Shortage};
pub use object::{
    BlockBuffers, BlockFile, BlockRoom, InMemory, LocalFile, ObjectReader, ReadAtHand, file_blocks, file_ranges,
    ranges_at_hand, read_cached,
};
pub use parquet::{
    Footers, KnownFooter, RowGroupPlace, bounds_match, parquet_metadata, parquet_metadata_within, parquet_schema,
};
pub use pieces::bytes_ruled_out;
pub use places::{near_places, places, places_in_both};
pub use positions::{POSITION_COLUMNS, with_positions};
pub use pruning::Zones;
pub use scan::{Learned, ScanCounters, ScanOptions, can_be_zoned, output_schema, scan, scan_rows, slice_bytes};
pub use slice::{TimeSlice, lend_long};
pub use spawner::{Helpers, Spawner};
pub use text::BYTE_ORDER_MARK;
pub use top_k::{FirstKeys, Threshold};
pub use types::sql_type;
