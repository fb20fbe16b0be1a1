//! SQL over object storage with pushdown, on DataFusion.
//!
//! ```text
//! access/      the access policy: what SQL may read and write, and the gate before every file and connection
//! session      a session: SQL in, results out
//! query        one query: its meter, caps and progress
//! profile/     what each operator did: EXPLAIN ANALYZE
//! settings     SET pushdown.x
//! table/       what a table is: location, options, listing, inference, the catalogue file
//! provider     tables as DataFusion sees them
//! remembered   tables declared in an earlier session
//! statistics/  what is known of a table: samples, footers, ANALYZE
//! rules/       what is pushed into the scan
//! strategies/  where an operator runs: one file each
//! remote_scan/ the leaf of a plan: splits, retries, fall-back
//! index/       indexes: building them, finding them
//! backends/    stores: connections, credentials, plain reads, S3 Select
//! key_tap      the keys of a join, from its build side to the scans of its probe side
//! kept_rows/   the rows of a scan, kept for later scans of the same query
//! watch        operators that pass rows through: taps of keys, ends of kept rows
//! statements   a script cut into statements
//! words        reading the statements that are our own
//! files        files that several sessions write
//! convert      DataFusion's expressions as the contract's
//! ```
//!
//! Pushdown changes what a query costs, never what it answers: every scan has one meaning, a
//! [`pushdown::Fragment`], and storage may only do what is provably the same or provably a superset.

#![forbid(unsafe_code)]

mod access;
mod backends;
mod convert;
mod error;
mod files;
mod functions;
mod index;
mod kept_rows;
mod key_tap;
mod nearest;
mod profile;
mod provider;
mod query;
mod remembered;
mod remote_scan;
mod rules;
mod session;
mod settings;
mod statements;
mod statistics;
mod stores;
mod strategies;
mod table;
mod watch;
mod words;

pub use access::{AccessPolicy, AllowList, Location, Network};
pub use backends::ConnectionConfig;
pub use profile::{Decision, LookedUp, Measures, Operator, Profile, Scan};
pub use pushdowndb_scan::sql_type;
pub use query::{Progress, QueryContext, QueryResult, Report, StatementKind};
pub use session::{Engine, EngineConfig, Setting, TableInfo};
pub use statements::Statement;
