//! SQL over object storage with pushdown, on DataFusion: the engine, for programs that embed it.
//!
//! An [`Engine`] runs SQL over CSV, JSON and Parquet in buckets and folders. Storage does as much
//! of a query as it can (a storage node everything that a scan needs, a server with S3 Select some
//! of it, any other store nothing), the engine does the rest. Where an operator runs changes what a
//! query costs, never its rows.
//!
//! ```
//! use pushdowndb_engine::{Engine, EngineConfig};
//!
//! # let folder = tempfile::tempdir().unwrap();
//! # let location = format!("{}/sales.csv", folder.path().display());
//! # std::fs::write(&location, "item,price\nbook,12.50\npen,1.20\nbook,7.30\n").unwrap();
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! // A session that may use whatever this process may; `AWS_*` variables say how to reach S3.
//! let engine = Engine::new(EngineConfig::unrestricted()).await?;
//!
//! // `location` may be a file, a folder, s3://bucket/prefix/ or s3://bucket/*.parquet.
//! let sql = format!("SELECT item, sum(price) AS total FROM '{location}' GROUP BY item");
//! let mut result = engine.execute(&sql).await?;
//!
//! // Arrow batches. `futures::StreamExt::next` gives them one by one, in bounded memory.
//! let rows = result.collect().await?;
//! assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
//!
//! // What it took, once the rows are read.
//! let report = result.report();
//! println!("{} bytes over the network, ${:.6}", report.usage.bytes_network, report.bill.total());
//! # Ok::<(), pushdowndb_contract::Error>(())
//! # }).unwrap();
//! ```
//!
//! `examples/embed.rs` is this as a program; `examples/node.rs` adds a storage node and an S3
//! client. The engine needs a multi-threaded Tokio runtime. Its batches are those of the `arrow`
//! version in `Cargo.toml`.
//!
//! # The types
//!
//! | type | is |
//! | --- | --- |
//! | [`Engine`] | a session: settings, declared tables, open connections, statistics of tables and profiles of endpoints; share it by reference or `Arc`, statements may run concurrently |
//! | [`EngineConfig`] | the start of a session: access, connection, settings, and the folders that outlive it |
//! | [`QueryResult`] | a running statement: a stream of batches; dropping it ends the work and its requests |
//! | [`Report`] | the usage and cost of a statement: bytes, requests, CPU seconds, and dollars of a price book |
//! | [`Profile`] | the work of each operator, and the reason for its placement: EXPLAIN ANALYZE as data |
//! | [`pushdowndb_contract::Error`] | every error: its [`kind`](pushdowndb_contract::Error::kind) says what to do (fix the query, try again, report it), its text what went wrong |
//!
//! # Sessions and access
//!
//! [`EngineConfig::default`] lets SQL use nothing outside of the session, which suits untrusted
//! SQL. An [`AccessPolicy`] lists the locations and hosts that SQL may read and write.
//! [`EngineConfig::unrestricted`] is for SQL of the program's own user. [`ConnectionConfig`] names
//! an endpoint, region and keys; the rest comes from the environment and the profiles of AWS.
//!
//! # Tables
//!
//! A location in quotes is a table: `FROM 's3://bucket/logs/'`. Columns and types are inferred
//! unless `CREATE EXTERNAL TABLE` declares them (`docs/tables.md`). Declared tables belong to the
//! session, or to the file [`EngineConfig::catalog`]. Statistics and endpoint profiles are cached
//! in the folder [`EngineConfig::cache`], if there is one. [`Engine::parse`] cuts a script into
//! statements; [`Engine::run`] runs one of them, and [`Engine::execute`] one from its text.
//! [`Engine::run_with`] also takes [`Inputs`]: the values of parameters, and tables of the caller.
//!
//! # Settings
//!
//! Settings are those of DataFusion and `pushdown.*`, which [`Engine::pushdown_settings`] lists.
//! `SET` changes them for later statements, [`EngineConfig::settings`] for all. The defaults choose
//! by cost. Two matter at the start: `pushdown.max_bytes` and `pushdown.max_usd` refuse or stop a
//! query that would take more. `pushdown.level = none` has the engine do everything itself, for
//! comparison.
//!
//! # Inside this crate
//!
//! ```text
//! session/     sessions: SQL in, results out
//! sql/         the SQL front end: scripts, parsing, and the statements that DataFusion does not have
//! rules/       optimizer rules: what is pushed into the scans
//! provider     DataFusion's table provider
//! exec/        operators: the scan of a table's objects, group-by in storage, shared rows
//! strategies/  strategies of the operators: one file each
//! cost/        the cost model: cardinalities, seconds, dollars
//! plan/        plans of scans, and DataFusion's expressions as the contract's
//! profile/     profiles of operators: EXPLAIN ANALYZE
//! context      the context of a query: its meter, caps and progress
//! index/       indexes: building them, finding them
//! statistics/  statistics of tables: samples, footers, feedback, ANALYZE
//! catalog/     tables: location, options, listing, inference, the catalog file
//! endpoints/   stores: connections, credentials, plain reads, S3 Select, the fragment route
//! writing/     COPY: writing objects, and replacing previous ones
//! functions/   SQL functions
//! stages/      parts of plans that worker processes run
//! access/      the access policy: checked at every file and connection
//! settings     SET pushdown.x
//! ```
//!
//! Pushdown changes what a query costs, never what it answers: every scan has one meaning, a
//! [`pushdowndb_contract::Fragment`], and storage may only do what is provably the same or provably
//! a superset.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod access;
mod catalog;
mod context;
mod cost;
mod endpoints;
mod error;
mod exec;
mod files;
mod functions;
mod index;
mod machine;
mod messages;
mod named_tables;
mod nearest;
mod plan;
mod profile;
mod provider;
mod rules;
mod session;
mod settings;
mod sql;
pub mod stages;
mod standard_input;
mod statistics;
mod strategies;
mod whole_objects;
mod without_ranges;
mod writing;

pub use access::{AccessPolicy, AllowList, Location, Network};
pub use context::{Progress, QueryContext, Report};
pub use endpoints::ConnectionConfig;
pub use profile::{Decision, LookedUp, Measures, Operator, Profile, Scan};
pub use pushdowndb_scan::sql_type;
pub use session::{
    Engine, EngineConfig, FolderEntry, FunctionInfo, InputTable, Inputs, NestedQuery, ParameterValue, Prepared,
    QueryResult, Setting, StatementKind, TableInfo, UserConfig, UserLimits,
};
pub use sql::{Parameters, Statement};
