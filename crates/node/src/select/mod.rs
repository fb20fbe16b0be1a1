//! S3 Select: from a request and an opened object to the event stream.
//!
//! A request is checked and bound to the object's columns before the response begins, so that an
//! invalid one is an S3 error response. After that, a scan that fails ends the stream with an error
//! frame, and only a stream with an End frame is complete.

mod columns;
mod csv;
mod delimiters;
mod errors;
mod json;
mod object;
mod request;
mod rows;
mod shape;
mod stream;
mod text;
mod values;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pushdowndb_contract::Format;
use pushdowndb_scan::{ScanCounters, ScanOptions, output_schema, scan};
use pushdowndb_select::Extensions;
use s3s::S3Result;
use s3s::dto::{SelectObjectContentEventStream, SelectObjectContentRequest};

use crate::Limits;
use crate::scans::ScanPermit;
use crate::telemetry::LiveCounters;
use json::JsonWriter;
use object::options;
use request::{OutputFormat, Request};
use rows::{RowRules, RowWriter};
use stream::ResponseStream;

pub(crate) use errors::printable;
pub(crate) use object::SelectObject;

/// Starts the response to a request on `object`. The permit is released when the response ends or
/// is dropped.
pub(crate) async fn answer(
    request: SelectObjectContentRequest,
    extensions: Extensions,
    object: SelectObject,
    limits: &Limits,
    counting: Arc<LiveCounters>,
    permit: ScanPermit,
) -> S3Result<SelectObjectContentEventStream> {
    let request = Request::new(request)?;
    let failed = |error| errors::of_scan(&error, &request.format);
    let columns = columns::of(&request, &object, limits).await?;
    let mut fragment = request.statement.bind_with(&columns, extensions).map_err(errors::of_select)?;
    let rest = shape::add_remaining_fields(&mut fragment, request.statement.selects_all());
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
        spawner: permit.spawner(),
        fetches_beside: false,
        helpers: Some(permit.helpers(limits.select_pieces)),
        footer: Some(object.footer),
        ..options(limits, &object.memory)
    };
    let batches = scan(Arc::new(fragment), object.data, range, options, Arc::clone(&counters)).map_err(failed)?;
    ResponseStream {
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
        max_time: limits.select_time,
        returned: AtomicU64::new(0),
        permit,
    }
    .start(limits.select_first)
    .await
}
