//! Classifies statements: those about the session, and queries for the engine.
//!
//! ```text
//! words    a reader of a statement's tokens
//! command  statements that the session answers itself
//! copy     COPY … TO STDOUT
//! subject  whether a query is about the server's catalogue, and its tag
//! ```

pub(crate) mod command;
pub(crate) mod copy;
pub(crate) mod subject;
pub(crate) mod words;
