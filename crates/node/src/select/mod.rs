//! S3 Select: a request and an opened object, to the event stream of the answer.
//!
//! A request is checked and bound to the object's columns before anything is answered, so that what is wrong
//! with it is an S3 error response. From then on the answer has begun: a scan that fails ends the stream with
//! an error frame, and only a stream with an End frame is complete.

mod columns;
mod csv;
mod errors;
mod json;
mod marks;
mod request;
mod rows;
mod shape;
mod stream;
mod text;
mod values;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pushdown::Format;
use pushdowndb_scan::{KnownFooter, MemoryBudget, ObjectReader, ScanCounters, ScanOptions, output_schema, scan};
use pushdowndb_select::Extensions;
use s3s::S3Result;
use s3s::dto::{SelectObjectContentEventStream, SelectObjectContentRequest};

use crate::Limits;
use crate::counters::Counting;
use crate::scans::Turn;
pub(crate) use errors::printable;
use json::JsonWriter;
use request::{OutputFormat, Request};
use rows::{RowRules, RowWriter};
use stream::Answer;

/// The object of a request.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    pub data: Arc<dyn ObjectReader>,
    /// Where its footer may be known, if it is Parquet.
    pub footer: KnownFooter,
    /// What reading it draws from.
    pub memory: MemoryBudget,
}

/// Starts answering a request over an object. The turn is given back when the answer ends or is dropped.
pub(crate) async fn answer(
    request: SelectObjectContentRequest,
    extensions: Extensions,
    object: Selected,
    limits: &Limits,
    counting: Arc<Counting>,
    turn: Turn,
) -> S3Result<SelectObjectContentEventStream> {
    let request = Request::new(request)?;
    let failed = |error| errors::of_scan(&error, &request.format);
    let columns = columns::of(&request, &object, limits).await?;
    let mut fragment = request.statement.bind_with(&columns, extensions).map_err(errors::of_select)?;
    let rest = shape::keep_rest(&mut fragment, request.statement.selects_all());
    let schema = output_schema(&fragment).map_err(failed)?;
    let shapes = shape::of(&fragment);
    let writer = match request.output {
        OutputFormat::Csv(ref csv) => RowWriter::Csv(csv.clone().with_shapes(shapes)),
        OutputFormat::Json(ref terminator) => RowWriter::Json(JsonWriter::new(terminator, &schema, shapes)),
    };
    let rest = match &request.format {
        Format::Csv(options) if rest => Some(options.clone()),
        _ => None,
    };
    let rules = RowRules { writer, rest, record_bytes: limits.select_record_bytes };
    let counters = Arc::new(ScanCounters::default());
    let range = request.range.map(|bounds| bounds.of(object.data.size()));
    let options = ScanOptions {
        spawner: turn.spawner(),
        fetches_beside: false,
        helpers: Some(turn.helpers(limits.select_pieces)),
        footer: Some(object.footer),
        ..options(limits, &object.memory)
    };
    let batches = scan(Arc::new(fragment), object.data, range, options, Arc::clone(&counters)).map_err(failed)?;
    Answer {
        batches,
        rules,
        format: request.format,
        counters,
        counting,
        progress: request.progress,
        reported: false,
        begun: false,
        frame_bytes: limits.select_frame_bytes,
        keep_alive: limits.select_keep_alive,
        patience: limits.select_time,
        returned: AtomicU64::new(0),
        turn,
    }
    .start(limits.select_first)
    .await
}

/// How objects are scanned for S3 Select.
fn options(limits: &Limits, memory: &MemoryBudget) -> ScanOptions {
    ScanOptions {
        memory: memory.clone(),
        record_bytes: limits.select_record_bytes,
        row_group_bytes: limits.row_group_bytes,
        ..ScanOptions::default()
    }
}
