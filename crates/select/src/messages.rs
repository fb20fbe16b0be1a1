//! Event-stream messages, AWS's framing: a length, headers, a payload, and checksums over them.

use std::marker::PhantomData;

use aws_smithy_eventstream::frame::{read_message_from, write_message_to};
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use bytes::{Bytes, BytesMut};
use pushdowndb_contract::{Error, ErrorKind, Result};

/// The maximum length of a message, in bytes. Servers send about one record limit (1 MB) per
/// message.
const MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// The length of the prelude: total length, length of the headers, and a checksum of both.
const PRELUDE_BYTES: usize = 12;

/// An event that one frame carries.
pub trait FrameEvent: Sized {
    /// Decodes the event in `message`. Returns an error for an error frame.
    fn read(message: &Message) -> Result<Self>;

    /// Returns whether this event ends a response.
    fn is_end(&self) -> bool;
}

/// Decodes the events of a response, which may arrive in pieces cut at any byte.
///
/// A response without its End frame is truncated, however complete it looks.
#[derive(Debug)]
pub struct EventDecoder<E> {
    buffer: BytesMut,
    ended: bool,
    event: PhantomData<fn() -> E>,
}

impl<E> Default for EventDecoder<E> {
    fn default() -> Self {
        Self { buffer: BytesMut::new(), ended: false, event: PhantomData }
    }
}

impl<E: FrameEvent> EventDecoder<E> {
    /// Appends the next bytes of the response.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next event; `None` if more bytes have to be fed first.
    #[expect(clippy::should_implement_trait, reason = "an iterator would end where this waits for bytes")]
    pub fn next(&mut self) -> Result<Option<E>> {
        let Some(total) = self.buffer.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes) as usize) else {
            return Ok(None);
        };
        if self.ended {
            return Err(corrupt("bytes follow the End frame"));
        }
        // A damaged length must not make the decoder wait for gigabytes.
        if !(PRELUDE_BYTES + 4..=MESSAGE_BYTES).contains(&total) {
            return Err(corrupt(&format!("a frame claims to have {total} bytes")));
        }
        if self.buffer.len() < total {
            return Ok(None);
        }
        let message = read_message_from(self.buffer.split_to(total).freeze());
        let event = E::read(&message.map_err(|error| corrupt("a frame is damaged").with_source(error))?)?;
        self.ended = event.is_end();
        Ok(Some(event))
    }

    /// Checks that the response is complete. Returns an error if it is truncated.
    pub fn finish(&self) -> Result<()> {
        if self.ended && self.buffer.is_empty() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Unavailable, "the answer of storage ended before its End frame"))
    }
}

pub(crate) fn corrupt(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the answer of storage: {what}"))
}

/// Returns the value of a text header.
pub(crate) fn text<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    let found = message.headers().iter().find(|header| header.name().as_str() == name);
    found.and_then(|header| header.value().as_string().ok()).map(|value| value.as_str())
}

/// Returns the value of a number header; `None` if it is missing or negative.
pub(crate) fn number(message: &Message, name: &str) -> Option<u32> {
    let found = message.headers().iter().find(|header| header.name().as_str() == name);
    found.and_then(|header| header.value().as_int32().ok()).and_then(|value| u32::try_from(value).ok())
}

/// Encodes an event of this `kind`, with `numbers` as headers.
pub(crate) fn event(kind: &'static str, numbers: &[(&'static str, u32)], payload: Bytes) -> Result<Bytes> {
    let text = |name: &'static str, value: &'static str| Header::new(name, HeaderValue::String(value.into()));
    let mut message = Message::new(payload).add_header(text(":message-type", "event"));
    message = message.add_header(text(":event-type", kind));
    for (name, value) in numbers {
        let value = i32::try_from(*value).map_err(|_| Error::internal("a number too large for a header"))?;
        message = message.add_header(Header::new(*name, HeaderValue::Int32(value)));
    }
    let mut bytes = Vec::with_capacity(message.payload().len() + 128);
    write_message_to(&message, &mut bytes).map_err(|error| Error::internal("a frame too long").with_source(error))?;
    Ok(bytes.into())
}
