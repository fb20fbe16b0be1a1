//! The client of S3 Select: one request for one object, or a range of it.

use bytes::Bytes;
use http::{StatusCode, header};
use object_store::path::Path;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use pushdowndb_contract::{Error, Result};
use pushdowndb_select::{Event, EventDecoder, SelectRequest, Stats};

use super::fleet::{Posters, moves_on};
use super::http::ScanInStorage;
use super::node::Place;
use super::post::{Answer, Poster, Refused};
use super::profile::{Kind, Scanner};

/// The characters that SigV4 does not encode in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// S3 Select at one bucket, or at the nodes in front of it.
#[derive(Clone, Debug)]
pub(crate) struct SelectClient(pub(crate) Posters);

/// The object of a request.
#[derive(Clone, Debug)]
pub(crate) struct SelectedObject {
    pub(crate) path: Path,
    /// The address, for messages.
    pub(crate) location: String,
    /// Sent as If-Match if the server honors it.
    pub(crate) if_match: Option<String>,
    /// The kind whose scan rate the request shows, if any.
    pub(crate) kind: Option<Kind>,
}

impl SelectClient {
    /// Sends the request and returns once the server begins to answer.
    pub(crate) async fn select(&self, object: &SelectedObject, request: &SelectRequest) -> Result<Selected> {
        self.0.own.may_read(&object.path)?;
        let offset = request.scan_range.as_ref().map_or(0, |range| range.start);
        let place = Place::of(object.path.as_ref(), object.if_match.as_deref(), offset);
        let body = Bytes::from(request.to_xml());
        let mut failed = None;
        for poster in self.0.of(&place) {
            match ask(&poster, object, body.clone()).await {
                Err(error) if poster.node.is_some() && moves_on(&error) => failed = Some(error),
                other => return other,
            }
        }
        Err(failed.unwrap_or_else(|| Error::unsupported(format!("{}: no node", object.location))))
    }
}

async fn ask(poster: &Poster, object: &SelectedObject, body: Bytes) -> Result<Selected> {
    let path = format!("/{}?select&select-type=2", utf8_percent_encode(object.path.as_ref(), PATH));
    let mut headers = vec![(header::CONTENT_TYPE, "application/xml")];
    if let Some(etag) = &object.if_match {
        headers.push((header::IF_MATCH, etag));
    }
    let scan = ScanInStorage::begin(&poster.state, Scanner::Select, object.kind);
    match poster.post(&path, &headers, body, &object.location).await? {
        Ok(answer) => Ok(Selected { answer, frames: EventDecoder::default(), ended: false, scan }),
        Err(Refused { status, error }) => {
            if status == StatusCode::METHOD_NOT_ALLOWED || status == StatusCode::NOT_IMPLEMENTED {
                poster.state.refuse_select();
            }
            Err(error.context("S3 Select was refused").context(&object.location))
        }
    }
}

/// The answer to a request, as it arrives.
pub(crate) struct Selected {
    answer: Answer,
    frames: EventDecoder<Event>,
    ended: bool,
    scan: ScanInStorage,
}

/// A piece of an answer.
pub(crate) enum Piece {
    /// Bytes of the result; records may be cut anywhere.
    Records(Bytes),
    /// The server's report.
    Stats(Stats),
}

impl Selected {
    /// The next piece; `None` after the End frame. An answer that stops before it is an error.
    pub(crate) async fn next(&mut self) -> Result<Option<Piece>> {
        loop {
            while let Some(event) = self.frames.next().map_err(|e| e.context(&self.answer.location))? {
                match event {
                    Event::Records(bytes) => return Ok(Some(Piece::Records(bytes))),
                    Event::Stats(stats) => {
                        self.scan.scanned(stats.bytes_scanned, stats.bytes_returned);
                        return Ok(Some(Piece::Stats(stats)));
                    }
                    Event::End => self.ended = true,
                    Event::Cont | Event::Progress(_) => {}
                }
            }
            if self.ended {
                return Ok(None);
            }
            match self.answer.next().await? {
                Some(bytes) => self.frames.feed(&bytes),
                None => {
                    self.frames.finish().map_err(|e| {
                        self.answer.broke_off();
                        e.context(&self.answer.location)
                    })?;
                    return Ok(None);
                }
            }
        }
    }
}
