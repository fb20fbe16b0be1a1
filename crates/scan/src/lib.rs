//! Runs a fragment over the bytes of an object.
//!
//! Both sides of the network use the same evaluator: the node runs it next to the disks, and the
//! engine runs it over plain reads. So both return the same results by construction.
//!
//! - [`scan`] runs a [`pushdowndb_contract::Fragment`] over one object, whose bytes come from an
//!   [`ObjectReader`].
//! - [`Evaluator`] evaluates the contract's expressions on batches that are already decoded.
//! - [`for_each_key`] returns the keys from which Bloom filters are built.
//! - [`CsvDecoder`] decodes CSV that arrives from elsewhere, such as the results of S3 Select.
//!
//! ```text
//! run          runs a fragment over an object, in pieces one after the other or in parallel
//! options      of a scan; each source takes its share of them
//! parquet      meta, prune, read, decode: row groups and pages pruned, late materialization
//! text         one byte range of records: source, buffer, splitter, predicate; `scan` is the read loop, for which
//!              csv and json cut and decode records
//! source       the trait of batch sources and what they are opened with
//! prefilter    byte patterns that a matching record must hold, searched in raw blocks
//! zones        bounds of stretches of text, and what bounds decide
//! operators    project, aggregate, group, top-k; partial aggregates and how they are merged
//! expr         expressions of the contract: lowering, casts, functions, Bloom filters, evaluation
//! values       fields, numbers, dates, patterns and JSON tokens as text spells them
//! range, io    what of an object is scanned; where its bytes come from
//! runtime      interruption, memory budget, time slices, helper tasks
//! ```
//!
//! Each folder uses only those below it in this list.
//!
//! Memory is bounded for every object, see [`limits`]. No bytes from outside make a scan panic.

// Bytes from outside must not make the process panic.
#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]
#![warn(missing_docs)]

pub(crate) mod batch;
mod counters;
mod dictionaries;
mod error;
mod expr;
mod io;
pub mod limits;
mod lru;
mod operators;
mod options;
mod parquet;
mod prefilter;
mod range;
mod rejects;
mod run;
mod runtime;
mod simd;
mod source;
mod text;
mod types;
mod values;
mod zones;

pub use crate::batch::compact;
pub use crate::dictionaries::{
    DictionaryColumns, as_dictionary, dictionary_candidates, with_dictionaries, without_dictionaries,
};
pub use crate::expr::bloom::for_each_key;
pub use crate::expr::decimal::decimal_arithmetic;
pub use crate::expr::evaluator::Evaluator;
pub use crate::expr::floats::{float_arithmetic, float_negation, with_one_nan};
pub use crate::io::buffer_pool::{BlockBuffers, BlockRoom};
pub use crate::io::local::LocalFile;
pub use crate::io::memory::InMemory;
pub use crate::io::page_cache::{BlockFile, file_blocks, file_ranges, ranges_at_hand, read_cached};
pub use crate::io::reader::{ObjectReader, ReadAtHand};
pub use crate::lru::Latest;
#[doc(hidden)]
pub use crate::operators::aggregate::delegate::types as delegate;
pub use crate::operators::aggregate::extremes;
pub use crate::prefilter::sample::Matching;
pub use crate::range::scan_range::ScanRange;
pub use crate::runtime::clock::thread_cpu;
pub use crate::runtime::interrupt::{CancelOnDrop, Interrupt, Task};
pub use crate::runtime::machine::{container_memory_bytes, machine_memory_bytes, proc_bytes};
pub use crate::runtime::memory::{MemoryBudget, Reservation, Shortage};
pub use crate::text::csv::decoder::{CsvDecoder, tokenize_sample};
pub use crate::text::csv::errors::check_header;
pub use crate::text::csv::rows::{REST, rest_fields};

pub use crate::batch::slice_bytes;
pub use crate::counters::ScanCounters;
pub use crate::operators::top_k::first_keys::FirstKeys;
pub use crate::operators::top_k::threshold::Threshold;
pub use crate::options::{ScanCaches, ScanOptions};
pub use crate::parquet::meta::cache::{Footers, KnownFooter, RowGroupPlace};
pub use crate::parquet::meta::footer::parquet_metadata;
pub use crate::parquet::meta::schema::{parquet_schema, with_uuids_as_text};
pub use crate::parquet::prune::row_groups::bounds_match;
pub use crate::range::locations::{near_places, places, places_in_both};
pub use crate::range::positions::{POSITION_COLUMNS, with_positions};
pub use crate::rejects::{Reject, Rejects};
pub use crate::run::parallel::bytes_ruled_out;
pub use crate::run::scan::{output_schema, scan, scan_rows};
pub use crate::runtime::spawner::{Helpers, Spawner};
pub use crate::runtime::time_slice::{TimeSlice, lend_long};
pub use crate::text::BYTE_ORDER_MARK;
pub use crate::text::json::answer::JsonAnswer;
pub use crate::text::translate::check_encoding;
pub use crate::types::{nested_type, sql_type};
pub use crate::values::parse::is_exact_as_double;
pub use crate::zones::store::Zones;
pub use crate::zones::zone::can_be_zoned;
