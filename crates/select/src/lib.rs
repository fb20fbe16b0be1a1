//! S3 Select in both directions.
//!
//! | direction | from | to | |
//! | --- | --- | --- | --- |
//! | node | SQL text | [`Statement`], [`pushdowndb_contract::Fragment`] | [`parse`], [`Statement::bind`] |
//! | engine | [`pushdowndb_contract::Fragment`] | SQL text | [`render`] |
//! | engine | [`SelectRequest`] | the XML body of SelectObjectContent | [`SelectRequest::to_xml`] |
//! | engine | the bytes of the answer | [`Event`]s | [`EventDecoder`] |
//! | both | the answer on the fragment route | [`RouteEvent`]s | [`EventDecoder`], [`frame`] |
//!
//! [`RouteEvent`]: pushdowndb_contract::wire::RouteEvent
//!
//! Pure functions and state machines over text and bytes: no I/O, no runtime, and no panic on input
//! from a peer. Where S3 Select differs from Arrow (text without types, JSON tokens), binding a
//! statement yields explicit casts and functions of [`pushdowndb_contract::Expr`], so that one
//! evaluator serves both.
//!
//! Frames of S3 Select are only decoded here; the S3 library of the node encodes them.

// Bytes from outside must not make the process panic.
#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod ast;
mod bind;
mod error;
mod extensions;
mod frames;
mod keywords;
mod lexer;
mod messages;
mod parse;
mod render;
mod request;
mod route;

pub use bind::InputColumns;
pub use error::SelectError;
pub use extensions::{EXTENSIONS_HEADER, Extensions};
pub use frames::{Event, Stats, error_from_response};
pub use messages::{EventDecoder, FrameEvent};
pub use parse::{Statement, parse};
pub use render::render;
pub use request::{NO_COMMENTS, OutputSerialization, SelectRequest};
pub use route::frame;
