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
//! Memory is bounded whatever the object, see [`limits`]; no bytes from outside make it panic.

#![warn(missing_docs)]

mod aggregate;
mod answers;
mod blocks;
mod bloom;
mod bounds;
mod coerce;
mod compact;
mod csv;
mod decimals;
mod dictionaries;
mod dynamic;
mod errors;
mod evaluate;
mod file_blocks;
mod functions;
mod group;
mod json;
pub mod limits;
mod local;
mod lower;
mod matcher;
mod memory;
mod number;
mod output;
mod parquet;
mod pieces;
mod places;
mod positions;
mod reader;
mod scan;
mod simd;
mod slice;
mod spawner;
mod substring;
mod text;
mod time_functions;
mod token_aggregate;
mod top_k;
mod types;
mod zones;

pub use blocks::{BlockBuffers, BlockRoom};
pub use bloom::for_each_key;
pub use compact::compact;
pub use csv::{CsvDecoder, REST, rest_fields, tokenize_sample};
pub use dictionaries::{
    DictionaryColumns, as_dictionary, dictionary_candidates, with_dictionaries, without_dictionaries,
};
pub use evaluate::Evaluator;
pub use file_blocks::{BlockFile, file_blocks, read_block, read_cached};
pub use local::LocalFile;
pub use matcher::Matching;
pub use memory::InMemory;
pub use parquet::{Footers, KnownFooter, bounds_match, parquet_metadata};
pub use pieces::bytes_ruled_out;
pub use places::{near_places, places, places_in_both};
pub use positions::{POSITION_COLUMNS, with_positions};
pub use reader::ObjectReader;
pub use scan::{ScanCounters, ScanOptions, output_schema, scan, scan_parts, scan_with_positions};
pub use slice::TimeSlice;
pub use spawner::{Helpers, Spawner};
pub use top_k::{FirstKeys, Threshold};
pub use types::sql_type;
pub use zones::Zones;
