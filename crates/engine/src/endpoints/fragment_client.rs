//! The client of the fragment route of PushdownDB's node: one request for many splits, or for many
//! ranges of an object.
//!
//! An endpoint that refuses the route gets no further fragments, but S3 Select or plain reads.

use std::ops::Range;
use std::time::Duration;

use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::{Stream, stream};
use http::{StatusCode, header};
use pushdowndb_contract::wire::{
    Failure, FragmentRequest, QUERY, RangesRequest, Request, RouteEvent, RouteStats, SplitStats,
};
use pushdowndb_contract::{Error, ErrorKind, Result, Split};
use pushdowndb_scan::{output_schema, with_positions};
use pushdowndb_select::EventDecoder;

use super::Meters;
use super::batches::BatchStreams;
use super::fleet::{Posters, moves_on};
use super::http::ScanInStorage;
use super::node::Place;
use super::post::{Answer, Poster, Refused};
use super::profile::{Kind, Scanner};

/// The fragment route at one bucket, or at the nodes in front of it.
#[derive(Clone, Debug)]
pub(crate) struct FragmentClient(pub(crate) Posters);

impl FragmentClient {
    /// Sends a fragment and returns once a node begins to answer. `location` is for errors.
    pub(crate) async fn run(&self, request: FragmentRequest, location: &str) -> Result<Fragments> {
        let schema = output_schema(&request.fragment)?;
        let schema = if request.positions { with_positions(&schema) } else { schema };
        let kind = Kind::shown_by(&request.fragment);
        let (events, scan) = self.send(Request::Fragment(Box::new(request)), Some(kind), location).await?;
        Ok(Fragments { events, batches: BatchStreams::new(schema), meters: self.0.meters.clone(), scan })
    }

    /// Reads byte ranges of an object in as few requests as possible. Returns their bytes in the
    /// same order.
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
        let (mut events, _) = self.send(Request::Ranges(asked), None, location).await?;
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
                RouteEvent::Stats(stats) => count(&self.0.meters, &stats),
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

    /// Sends `request` to one destination after another until one answers. `scans` is `None` if the
    /// request is no scan, and `Some(None)` if its speed is not to be measured.
    async fn send(
        &self,
        request: Request,
        scans: Option<Option<Kind>>,
        location: &str,
    ) -> Result<(Events, Option<ScanInStorage>)> {
        let first = match &request {
            Request::Fragment(asked) => {
                let indexes = asked.lookups.objects.iter().map(|index| &index.object);
                asked.splits.iter().chain(indexes).try_for_each(|object| self.0.own.may_read(&object.key))?;
                asked.splits.first()
            }
            Request::Ranges(asked) => {
                self.0.own.may_read(&asked.object.key)?;
                Some(&asked.object)
            }
        };
        let first = first.ok_or_else(|| Error::internal("a request about no object"))?;
        let posters = self.0.of(&Place::of_split(first));
        let body = Bytes::from(request.to_bytes()?);
        let mut failed = None;
        for poster in posters {
            let scan = scans.map(|kind| ScanInStorage::begin(&poster.state, Scanner::Fragment, kind));
            match ask(&poster, body.clone(), location).await {
                Ok(events) => return Ok((events, scan)),
                Err(error) if poster.node.is_some() && moves_on(&error) => failed = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failed.unwrap_or_else(|| Error::unsupported(format!("{location}: no node"))))
    }
}

/// Sends a request, and returns the events of its answer.
async fn ask(poster: &Poster, body: Bytes, location: &str) -> Result<Events> {
    let path = format!("?{QUERY}");
    let headers = [(header::CONTENT_TYPE, "application/x-protobuf")];
    match poster.post(&path, &headers, body, location).await? {
        Ok(answer) => Ok(Events { answer, decoder: EventDecoder::default(), ended: false }),
        Err(Refused { status, error }) => {
            let gone = [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_IMPLEMENTED];
            if gone.contains(&status) {
                poster.state.refuse_fragment();
            }
            Err(error.context("the fragment was refused").context(location))
        }
    }
}

/// The number of ranges, from the first, that fit into one request.
fn in_one_request(ranges: &[Range<u64>]) -> usize {
    let mut bytes = 0;
    let fits = |range: &&Range<u64>| {
        bytes += range.end.saturating_sub(range.start);
        bytes <= pushdowndb_contract::limits::FRAGMENT_RANGE_BYTES
    };
    ranges.iter().take(pushdowndb_contract::limits::FRAGMENT_RANGES).take_while(fits).count().max(1)
}

fn count(meters: &Meters, stats: &RouteStats) {
    meters.each(|meter| {
        meter.fragment(stats.bytes_scanned, stats.bytes_returned, Duration::from_nanos(stats.cpu_ns));
    });
}

/// Converts a failure that the node reported. A limit of the node is not one of the query, so it
/// becomes [`ErrorKind::Unsupported`].
fn refusal(failure: Failure) -> Error {
    match failure.kind {
        ErrorKind::Limit | ErrorKind::Cancelled => Error::unsupported(failure.message),
        _ => failure.into_error(),
    }
}

/// The events of an answer, as they arrive.
struct Events {
    answer: Answer,
    decoder: EventDecoder<RouteEvent>,
    ended: bool,
}

impl Events {
    /// The next event; `None` after the End event. An answer that stops before it is an error.
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
                None => self.decoder.finish().map_err(|e| {
                    self.answer.broke_off();
                    e.context(&self.answer.location)
                })?,
            }
        }
    }
}

/// The answer to a fragment, as it arrives.
pub(crate) struct Fragments {
    events: Events,
    batches: BatchStreams,
    meters: Meters,
    scan: Option<ScanInStorage>,
}

/// A piece of the answer. The number is the index of its split in the request.
pub(crate) enum SplitPiece {
    /// Some of the split's rows.
    Batch(usize, RecordBatch),
    /// The split is complete.
    End(usize, SplitStats),
    /// The split failed; no more of its rows will come.
    Failed(usize, Error),
}

impl Fragments {
    /// The next piece; `None` once the answer is complete.
    pub(crate) async fn next(&mut self) -> Result<Option<SplitPiece>> {
        let location = |error: Error, events: &Events| error.context(&events.answer.location);
        while let Some(event) = self.events.next().await? {
            match event {
                RouteEvent::Batch { split, dictionaries, bytes } => {
                    let batch =
                        self.batches.feed(dictionaries, &bytes).map_err(|error| location(error, &self.events))?;
                    if let Some(batch) = batch {
                        return Ok(Some(SplitPiece::Batch(split as usize, batch)));
                    }
                }
                RouteEvent::SplitEnd { split, stats } => return Ok(Some(SplitPiece::End(split as usize, stats))),
                RouteEvent::SplitFailed { split, failure } => {
                    return Ok(Some(SplitPiece::Failed(split as usize, refusal(failure))));
                }
                RouteEvent::Stats(stats) => {
                    count(&self.meters, &stats);
                    self.scan.iter().for_each(|scan| scan.worked(&stats));
                }
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

    /// Returns the rows of a request for one split. The stream ends with an error if rows are
    /// missing.
    pub(crate) fn only_split(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, format!("the answer of storage: {what}"));
        stream::try_unfold((self, 0), move |(mut answer, rows)| async move {
            match answer.next().await? {
                Some(SplitPiece::Batch(0, batch)) => {
                    let rows = rows + batch.num_rows() as u64;
                    Ok(Some((batch, (answer, rows))))
                }
                Some(SplitPiece::End(0, stats)) if stats.rows == rows => match answer.next().await? {
                    None => Ok(None),
                    Some(_) => Err(corrupt("it goes on about a split that has ended")),
                },
                Some(SplitPiece::Failed(0, error)) => Err(error),
                Some(_) => Err(corrupt("rows of a split are missing")),
                None => Err(corrupt("it ended before its splits")),
            }
        })
    }
}
