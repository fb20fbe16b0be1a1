//! Flight SQL: Arrow batches over gRPC, for ADBC and JDBC.
//!
//! ```text
//! listener    accepts connections
//! connection  a connection, and what its calls share
//! session     a session, from its first call to its end
//! sessions    the sessions of clients, by their tokens
//! service     the calls
//! actions     actions: prepared statements, cancelling, the end of a session
//! statements  the statements of a session, by their handles
//! rows        a statement's rows as a stream
//! plain       columns in types that all clients know
//! parameters  values of parameters from Arrow batches
//! metadata    catalogs, schemas, tables and keys
//! info        what the server can do, and its types
//! messages    messages that several calls read and write
//! status      errors as gRPC has them
//! ```

mod actions;
mod connection;
mod info;
pub(crate) mod listener;
mod messages;
mod metadata;
mod parameters;
mod plain;
mod rows;
mod service;
mod session;
mod sessions;
mod statements;
mod status;

/// The name of the default catalog, which SQL may leave out.
const CATALOG: &str = "datafusion";

/// The name of the default schema.
const SCHEMA: &str = "public";
