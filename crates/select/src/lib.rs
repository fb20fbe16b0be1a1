//! S3 Select in both directions.
//!
//! | direction | from | to | |
//! | --- | --- | --- | --- |
//! | node | SQL text | [`Statement`], then a [`pushdown::Fragment`] | [`parse`], [`Statement::bind`] |
//! | engine | [`pushdown::Fragment`] | SQL text | [`render`] |
//! | engine | [`SelectRequest`] | the XML body of SelectObjectContent | [`SelectRequest::to_xml`] |
//! | engine | the bytes of the answer | [`Event`]s | [`FrameDecoder`] |
//! | both | the answer on the fragment route | [`RouteEvent`]s | [`RouteDecoder`], [`RouteEvent::to_bytes`] |
//!
//! Pure functions and state machines over text and bytes: no I/O, no runtime, no panics on what a peer
//! sends. What S3 Select means and Arrow does not (text without types, tokens of JSON) is spelled out as
//! casts and functions of [`pushdown::Expr`] when a statement is bound, so that one evaluator serves both.
//!
//! Frames of S3 Select are only read here; the S3 library of the node writes them.

// Bytes from outside must not end the process.
#![cfg_attr(not(test), deny(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used))]
#![forbid(unsafe_code)]

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
pub use frames::{Event, FrameDecoder, Stats, error_from_response};
pub use parse::{Statement, parse};
pub use render::render;
pub use request::{NO_COMMENTS, OutputSerialization, SelectRequest};
pub use route::{RouteDecoder, RouteEvent};
