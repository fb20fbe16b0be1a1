//! Frames that are cut or damaged at every byte, and streams without an end.

use super::*;
use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue};

use crate::EventDecoder;

fn frame(headers: &[(&'static str, &str)], payload: &[u8]) -> Vec<u8> {
    let headers =
        headers.iter().map(|(name, value)| Header::new(*name, HeaderValue::String(value.to_string().into()))).collect();
    let mut bytes = Vec::new();
    write_message_to(&Message::new_from_parts(headers, Bytes::copy_from_slice(payload)), &mut bytes).unwrap();
    bytes
}

fn event_frame(kind: &str, payload: &[u8]) -> Vec<u8> {
    frame(&[(":message-type", "event"), (":event-type", kind)], payload)
}

fn answer() -> Vec<u8> {
    let stats = b"<Stats><BytesScanned>100</BytesScanned><BytesProcessed>90</BytesProcessed>\
                  <BytesReturned>8</BytesReturned></Stats>";
    let records = "a,é\nb,".as_bytes();
    // Cut inside a character and inside a record.
    [
        event_frame("Cont", b""),
        event_frame("Records", &records[..3]),
        event_frame("Records", &records[3..]),
        event_frame("Stats", stats),
        event_frame("End", b""),
    ]
    .concat()
}

fn decode(bytes: &[u8], chunk: usize) -> Result<Vec<Event>> {
    let mut decoder = EventDecoder::default();
    let mut events = Vec::new();
    for part in bytes.chunks(chunk) {
        decoder.feed(part);
        while let Some(event) = decoder.next()? {
            events.push(event);
        }
    }
    decoder.finish()?;
    Ok(events)
}

#[test]
fn every_chunking_gives_the_same_events() {
    let bytes = answer();
    let whole = decode(&bytes, bytes.len()).unwrap();
    let text: Vec<u8> = whole
        .iter()
        .filter_map(|event| if let Event::Records(part) = event { Some(part.to_vec()) } else { None })
        .flatten()
        .collect();
    assert_eq!(String::from_utf8(text).unwrap(), "a,é\nb,");
    let stats = Stats { bytes_scanned: 100, bytes_processed: 90, bytes_returned: 8 };
    assert_eq!(whole[3..], [Event::Stats(stats), Event::End]);
    for chunk in 1..bytes.len() {
        assert_eq!(decode(&bytes, chunk).unwrap(), whole, "chunks of {chunk}");
    }
}

#[test]
fn every_truncation_is_noticed() {
    let bytes = answer();
    for length in 0..bytes.len() {
        let error = decode(&bytes[..length], 64).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{length}: {error}");
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let bytes = answer();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        // A damaged length that is longer makes the stream look truncated; any other damage fails a
        // checksum.
        let kind = decode(&damaged, 50).unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::Corrupt | ErrorKind::Unavailable), "byte {at}: {kind:?}");
    }
}

#[test]
fn bytes_after_the_end_and_impossible_lengths_are_corrupt() {
    let longer = [answer(), event_frame("Cont", b"")].concat();
    assert_eq!(decode(&longer, 1000).unwrap_err().kind(), ErrorKind::Corrupt);
    for prelude in [[0xff; 12], [0; 12]] {
        assert_eq!(decode(&prelude, 12).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    assert_eq!(decode(&event_frame("Odd", b""), 99).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn error_frames_become_errors() {
    for (code, message, kind) in [
        ("InternalError", "We encountered an internal error.", ErrorKind::Unavailable),
        ("InternalError", "Error casting: could not parse as float", ErrorKind::Invalid),
        ("SlowDown", "", ErrorKind::Throttled),
        ("Busy", "", ErrorKind::Throttled),
        ("CastFailed", "x", ErrorKind::Invalid),
        ("UnsupportedSyntax", "x", ErrorKind::Unsupported),
        ("ParseUnexpectedToken", "x", ErrorKind::Unsupported),
        ("SomethingNew", "x", ErrorKind::Unavailable),
    ] {
        let headers = [(":message-type", "error"), (":error-code", code), (":error-message", message)];
        let error = decode(&[event_frame("Records", b"a"), frame(&headers, b"")].concat(), 7).unwrap_err();
        assert_eq!(error.kind(), kind, "{code}");
        assert!(error.message().contains(code));
    }
}

#[test]
fn answers_in_xml_become_errors() {
    let body = b"<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>a &lt; b</Message></Error>";
    let error = error_from_response(404, body);
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.message(), "storage answered NoSuchKey: a < b");
    assert_eq!(error_from_response(501, b"").kind(), ErrorKind::Unsupported);
    assert_eq!(error_from_response(503, b"<html>").kind(), ErrorKind::Unavailable);
}
