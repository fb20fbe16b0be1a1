//! The client side of our own node's fragment route: one request for many splits, or for many ranges of an object.
//!
//! An endpoint that refuses the route is not asked again: it is then one with S3 Select, or plain.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamEncoder;
use bytes::Bytes;
use http::{StatusCode, header};
use pushdown::wire::{Failure, FragmentRequest, QUERY, RangesRequest, Request, RouteStats};
use pushdown::{Error, ErrorKind, Result, Split};
use pushdowndb_scan::output_schema;
use pushdowndb_select::{RouteDecoder, RouteEvent};

use super::http::Meters;
use super::post::{Answer, Poster, Refused};

/// The most bytes of an answer that make no batch yet.
const BATCH_BYTES: usize = 512 * 1024 * 1024;

/// The fragment route at one bucket.
#[derive(Clone, Debug)]
pub(crate) struct FragmentClient {
    pub(super) poster: Poster,
    /// Where the work of storage is counted.
    pub(super) meters: Meters,
}

impl FragmentClient {
    /// Sends a fragment and returns once the node has begun to answer. `location` is for messages.
    pub(crate) async fn run(&self, request: FragmentRequest, location: &str) -> Result<Fragments> {
        let schema = output_schema(&request.fragment)?;
        let events = self.send(Request::Fragment(Box::new(request)), location).await?;
        Ok(Fragments { events, batches: BatchDecoder::new(schema)?, meters: self.meters.clone() })
    }

    /// The bytes of these ranges of an object, in their order, by as few requests as take them.
    pub(crate) async fn ranges(&self, object: &Split, ranges: &[Range<u64>], location: &str) -> Result<Vec<Bytes>> {
        let mut all = Vec::with_capacity(ranges.len());
        let mut rest = ranges;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(in_one_request(rest));
            all.extend(self.some_ranges(object, now, location).await?);
            rest = later;
        }
        Ok(all)
    }

    async fn some_ranges(&self, object: &Split, ranges: &[Range<u64>], location: &str) -> Result<Vec<Bytes>> {
        let asked = RangesRequest { object: object.clone(), ranges: ranges.to_vec() };
        let mut events = self.send(Request::Ranges(asked), location).await?;
        let mut parts: Vec<Vec<u8>> = vec![Vec::new(); ranges.len()];
        let corrupt = |what| Error::new(ErrorKind::Corrupt, format!("{location}: the answer of storage: {what}"));
        while let Some(event) = events.next().await? {
            match event {
                RouteEvent::Range { range, bytes } => {
                    let place = range as usize;
                    let (part, asked) =
                        parts.get_mut(place).zip(ranges.get(place)).ok_or_else(|| corrupt("no such range"))?;
                    part.extend_from_slice(&bytes);
                    if part.len() as u64 > asked.end - asked.start {
                        return Err(corrupt("a range is too long"));
                    }
                }
                RouteEvent::Stats(stats) => count(&self.meters, &stats),
                RouteEvent::Failed(failure) => return Err(refusal(failure)),
                RouteEvent::Cont | RouteEvent::End => {}
                _ => return Err(corrupt("rows where bytes were asked for")),
            }
        }
        if parts.iter().zip(ranges).any(|(part, asked)| part.len() as u64 != asked.end - asked.start) {
            return Err(corrupt("a range is too short"));
        }
        Ok(parts.into_iter().map(Bytes::from).collect())
    }

    async fn send(&self, request: Request, location: &str) -> Result<Events> {
        let body = request.to_bytes()?;
        let path = format!("?{QUERY}");
        let headers = [(header::CONTENT_TYPE, "application/x-protobuf")];
        match self.poster.post(&path, &headers, body.into(), location).await? {
            Ok(answer) => Ok(Events { answer, decoder: RouteDecoder::default(), ended: false }),
            Err(Refused { status, error }) => {
                let gone = [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_IMPLEMENTED];
                if gone.contains(&status) {
                    self.poster.state.refuse_fragment();
                }
                Err(error.context("the fragment was refused").context(location))
            }
        }
    }
}

/// How many of these ranges, from the first, one request may ask for.
fn in_one_request(ranges: &[Range<u64>]) -> usize {
    let mut bytes = 0;
    let fits = |range: &&Range<u64>| {
        bytes += range.end.saturating_sub(range.start);
        bytes <= pushdown::limits::FRAGMENT_RANGE_BYTES
    };
    ranges.iter().take(pushdown::limits::FRAGMENT_RANGES).take_while(fits).count().max(1)
}

fn count(meters: &Meters, stats: &RouteStats) {
    meters.each(|meter| {
        meter.fragment(stats.bytes_scanned, stats.bytes_returned, std::time::Duration::from_nanos(stats.cpu_ns));
    });
}

/// A failure of the node as the scan takes it: what is too much for the node, or was stopped there, is not the user's
/// own limit.
fn refusal(failure: Failure) -> Error {
    match failure.kind {
        ErrorKind::Limit | ErrorKind::Cancelled => Error::unsupported(failure.message),
        _ => failure.into_error(),
    }
}

/// The events of an answer, as they arrive.
struct Events {
    answer: Answer,
    decoder: RouteDecoder,
    ended: bool,
}

impl Events {
    /// The next event; `None` once the End event was seen. An answer that stops before it is an error.
    async fn next(&mut self) -> Result<Option<RouteEvent>> {
        loop {
            let event = self.decoder.next().map_err(|e| e.context(&self.answer.location))?;
            if let Some(event) = event {
                self.ended |= event == RouteEvent::End;
                return Ok(Some(event));
            }
            if self.ended {
                return Ok(None);
            }
            match self.answer.next().await? {
                Some(bytes) => self.decoder.feed(&bytes),
                None => self.decoder.finish().map_err(|e| e.context(&self.answer.location))?,
            }
        }
    }
}

/// The answer to a fragment, as it arrives.
pub(crate) struct Fragments {
    events: Events,
    batches: BatchDecoder,
    meters: Meters,
}

/// What comes of the splits of a request, each by its place there.
pub(crate) enum SplitPiece {
    /// Some rows of it.
    Batch(usize, RecordBatch),
    /// There were so many, and all have come.
    End(usize, u64),
    /// No more rows come of it.
    Failed(usize, Error),
}

impl Fragments {
    /// The next piece; `None` once the answer is complete.
    pub(crate) async fn next(&mut self) -> Result<Option<SplitPiece>> {
        let location = |error: Error, events: &Events| error.context(&events.answer.location);
        while let Some(event) = self.events.next().await? {
            match event {
                RouteEvent::Batch { split, bytes } => {
                    let batch = self.batches.feed(bytes).map_err(|error| location(error, &self.events))?;
                    if let Some(batch) = batch {
                        return Ok(Some(SplitPiece::Batch(split as usize, batch)));
                    }
                }
                RouteEvent::SplitEnd { split, stats } => return Ok(Some(SplitPiece::End(split as usize, stats.rows))),
                RouteEvent::SplitFailed { split, failure } => {
                    return Ok(Some(SplitPiece::Failed(split as usize, refusal(failure))));
                }
                RouteEvent::Stats(stats) => count(&self.meters, &stats),
                RouteEvent::Failed(failure) => return Err(refusal(failure)),
                RouteEvent::Cont | RouteEvent::End => {}
                RouteEvent::Range { .. } => {
                    let what = "the answer of storage: bytes where rows were asked for";
                    return Err(location(Error::new(ErrorKind::Corrupt, what), &self.events));
                }
            }
        }
        Ok(None)
    }
}

/// Takes batches out of the Arrow messages of an answer.
struct BatchDecoder {
    decoder: StreamDecoder,
    schema: SchemaRef,
    /// Bytes fed since the last batch.
    waiting: usize,
}

impl BatchDecoder {
    /// For batches of this schema, which is not sent.
    fn new(schema: SchemaRef) -> Result<Self> {
        let internal = |error| Error::internal("a schema that cannot be sent").with_source(error);
        let mut decoder = StreamDecoder::new();
        let empty = RecordBatch::new_empty(SchemaRef::clone(&schema));
        let mut encoder = StreamEncoder::try_new(&schema).map_err(internal)?;
        for mut buffer in encoder.encode(&empty).map_err(internal)? {
            while !buffer.is_empty() {
                decoder.decode(&mut buffer).map_err(internal)?;
            }
        }
        Ok(Self { decoder, schema, waiting: 0 })
    }

    /// Takes the next bytes, which complete at most one batch.
    fn feed(&mut self, bytes: Bytes) -> Result<Option<RecordBatch>> {
        let corrupt = |what: String| Error::new(ErrorKind::Corrupt, format!("the answer of storage: {what}"));
        self.waiting += bytes.len();
        if self.waiting > BATCH_BYTES {
            return Err(corrupt(format!("a batch has more than {BATCH_BYTES} bytes")));
        }
        let mut buffer = Buffer::from(bytes);
        let mut batch = None;
        while !buffer.is_empty() {
            // Checksums hold, but a node may be broken in other ways, and Arrow asserts more than it reports.
            let decoded = catch_unwind(AssertUnwindSafe(|| self.decoder.decode(&mut buffer)));
            let decoded = decoded.map_err(|_| corrupt("a batch contradicts itself".to_owned()))?;
            match decoded.map_err(|error| corrupt(error.to_string()))? {
                // The decoder gives the batch without a body that brought the schema only with the bytes after it.
                Some(next) if next.num_rows() == 0 => {}
                Some(_) if batch.is_some() => return Err(corrupt("two batches in one frame".to_owned())),
                Some(next) => batch = Some(next),
                None => {}
            }
        }
        if let Some(batch) = &batch {
            self.waiting = 0;
            if batch.num_columns() != self.schema.fields().len() {
                return Err(corrupt("a batch has too many columns".to_owned()));
            }
        }
        Ok(batch)
    }
}
