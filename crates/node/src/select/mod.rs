//! S3 Select: a request and an opened object, to the event stream of the answer.
//!
//! A request is checked and bound to the object's columns before anything is answered, so that what is wrong
//! with it is an S3 error response. From then on the answer has begun: a scan that fails ends the stream with
//! an error frame, and only a stream with an End frame is complete.

mod columns;
mod csv;
mod errors;
mod json;
mod request;
mod rows;
mod stream;
mod text;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pushdown::{Expr, Format, Fragment, Output};
use pushdowndb_scan::{ObjectReader, ScanCounters, ScanOptions, output_schema, scan};
use s3s::S3Result;
use s3s::dto::{SelectObjectContentEventStream, SelectObjectContentRequest};
use tokio::sync::OwnedSemaphorePermit;

use crate::Limits;
use crate::counters::Counting;
use json::JsonWriter;
use request::{OutputFormat, Request};
use rows::RowWriter;
use stream::Answer;

/// Starts answering a request over an object. The turn is given back when the answer ends or is dropped.
pub(crate) async fn answer(
    request: SelectObjectContentRequest,
    object: Arc<dyn ObjectReader>,
    limits: &Limits,
    counting: Arc<Counting>,
    turn: OwnedSemaphorePermit,
) -> S3Result<SelectObjectContentEventStream> {
    let request = Request::new(request)?;
    let failed = |error| errors::of_scan(&error, &request.format);
    let columns = columns::of(&request, &object, limits).await?;
    let fragment = Arc::new(request.statement.bind(&columns).map_err(errors::of_select)?);
    let schema = output_schema(&fragment).map_err(failed)?;
    let writer = match request.output {
        OutputFormat::Csv(ref csv) => RowWriter::Csv(csv.clone().with_tokens(tokens(&fragment))),
        OutputFormat::Json(ref terminator) => RowWriter::Json(JsonWriter::new(terminator, &schema, tokens(&fragment))),
    };
    let counters = Arc::new(ScanCounters::default());
    let range = request.range.map(|bounds| bounds.of(object.size()));
    let batches =
        scan(Arc::clone(&fragment), object, range, ScanOptions::default(), Arc::clone(&counters)).map_err(failed)?;
    Ok(Answer {
        batches,
        writer,
        format: request.format,
        counters,
        counting,
        progress: request.progress,
        frame_bytes: limits.select_frame_bytes,
        keep_alive: limits.select_keep_alive,
        returned: AtomicU64::new(0),
        _turn: turn,
    }
    .start())
}

/// What the text of an output column is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Token {
    /// Just text.
    No,
    /// A JSON value as the object has it.
    Value,
    /// A whole JSON record, which `*` selects.
    Record,
}

/// For each output column, whether its text is a token of JSON.
fn tokens(fragment: &Fragment) -> Vec<Token> {
    let Output::Rows(columns) = &fragment.output else { return Vec::new() };
    if !matches!(fragment.format, Format::Json(_)) {
        return Vec::new();
    }
    let whole = |index: usize| {
        let field = fragment.schema.fields().get(index);
        field.and_then(|field| field.metadata().get("path")).is_some_and(|path| path == "$")
    };
    let token = |expr: &Expr| match expr {
        Expr::Column(index) if columns.len() == 1 && whole(*index) => Token::Record,
        Expr::Column(_) => Token::Value,
        _ => Token::No,
    };
    columns.iter().map(|column| token(&column.expr)).collect()
}
