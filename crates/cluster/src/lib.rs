//! Distributed execution: worker processes run the stages of a query together.
//!
//! The coordinator is any engine whose [`EngineConfig::cluster`] is a [`Workers`]: where the
//! setting `pushdown.workers` names worker processes, and a query is worth it, its plan is cut into
//! stages by `datafusion-distributed` and sent to them. A worker ([`serve`]) has an engine of its
//! own, with its own credentials, memory and disk. It reads its share of the data from storage and
//! exchanges rows with the other workers over gRPC.
//!
//! ```text
//! addresses  the addresses of workers
//! answers    which of them answer
//! token      what proves that a caller may use a worker
//! channel    connections to workers: authenticated, watched
//! codec      the engine's operators as bytes
//! cut        a plan in stages
//! run        a query in stages: started, and repeated once if a worker is lost
//! workers    the coordinator's side: which workers there are
//! worker     the worker's side
//! accept     its connections
//! ```
//!
//! [`EngineConfig::cluster`]: pushdowndb_engine::EngineConfig::cluster

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod accept;
mod addresses;
mod answers;
mod channel;
mod codec;
mod cut;
mod error;
mod hidden;
mod run;
mod token;
mod worker;
mod workers;

pub use pushdowndb_tls::TlsFiles;
pub use token::Token;
pub use worker::{Worker, WorkerConfig, serve};
pub use workers::Workers;

/// The version that a worker and its coordinator must share: that of the program, and that of the
/// format of stages.
fn version() -> String {
    format!("{} (stages {})", env!("CARGO_PKG_VERSION"), pushdowndb_engine::stages::VERSION)
}
