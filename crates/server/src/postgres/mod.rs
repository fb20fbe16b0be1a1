//! The PostgreSQL protocol, version 3.0.
//!
//! ```text
//! listener      accepts connections
//! startup       the first packet, TLS, passwords
//! wire          whole messages in, buffered messages out
//! input         messages of the client
//! output        messages to the client
//! state         a session
//! session       its loop over messages
//! transactions  BEGIN, COMMIT, savepoints
//! settings      SET, SHOW, RESET
//! simple        queries as text
//! extended      prepared statements and portals
//! portal        what a session keeps of them
//! answer        plans and starts statements, on the engine or the catalogue
//! running       a statement's rows while they are sent
//! rows          rows as messages
//! copying       rows as COPY's data
//! failure       why statements fail, and how they are stopped
//! ```

mod answer;
mod copying;
mod extended;
mod failure;
mod input;
pub(crate) mod listener;
mod output;
mod portal;
mod rows;
mod running;
mod session;
mod settings;
mod simple;
mod startup;
mod state;
mod transactions;
mod wire;
