//! The SQL server of PushdownDB: many users over one engine, by the protocol of PostgreSQL and
//! by Flight SQL.
//!
//! Each connection is a session with settings and tables of its own. All sessions share memory,
//! statistics and the disk space for spilled data; the sessions of one user share connections to
//! storage.
//!
//! ```text
//! server     start, reload and stop
//! shared     what all connections share
//! session/   a session, whichever protocol its client speaks
//! postgres/  the protocol of PostgreSQL
//! flight/    Flight SQL
//! statement/ what a statement asks for
//! catalog/   pg_catalog and information_schema
//! values/    values between Arrow and PostgreSQL's formats
//! users/     who may connect, and what each may use
//! activity/  sessions, admission, the log of queries
//! variables  settings of PostgreSQL
//! error      codes of errors
//! accept     the loop that accepts connections
//! admin      health and metrics by HTTP
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod accept;
mod activity;
mod admin;
mod catalog;
mod error;
mod flight;
mod postgres;
mod server;
mod session;
mod shared;
mod statement;
mod users;
mod values;
mod variables;

pub use pushdowndb_tls::TlsFiles;
pub use server::{ServerConfig, SqlServer, start};
pub use shared::ServerLimits;
pub use users::Verifier;
