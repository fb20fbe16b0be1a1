//! Messages to the client, written into a buffer.

use crate::error::{Notice, PgError};
use crate::values::Format;
use crate::values::types::PgType;

/// A column as it is described to the client.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// The name.
    pub name: String,
    /// The type.
    pub pg_type: PgType,
}

/// The state of the transaction, as sent in ReadyForQuery.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Status {
    Idle,
    InTransaction,
    Failed,
}

/// Writes a message with the type `tag`, whose fields `write` adds.
pub(super) fn message(out: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    set_length(out, start);
}

/// Fills in the length field at `start` of a message that ends at the end of `out`.
pub(super) fn set_length(out: &mut [u8], start: usize) {
    let length = u32::try_from(out.len().saturating_sub(start)).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// Writes a text and the zero byte that terminates it.
fn text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.push(0);
}

pub(super) fn int16(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes());
}

pub(super) fn authentication(out: &mut Vec<u8>, code: u32, data: &[u8]) {
    message(out, b'R', |out| {
        out.extend_from_slice(&code.to_be_bytes());
        out.extend_from_slice(data);
    });
}

pub(super) fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    message(out, b'S', |out| {
        text(out, name);
        text(out, value);
    });
}

pub(super) fn backend_key(out: &mut Vec<u8>, pid: i32, secret: &[u8]) {
    message(out, b'K', |out| {
        out.extend_from_slice(&pid.to_be_bytes());
        out.extend_from_slice(secret);
    });
}

/// Tells a client that requested a later minor version, or unknown options, that the server
/// supports version 3.0.
pub(super) fn negotiate_version(out: &mut Vec<u8>, unknown_options: &[&str]) {
    message(out, b'v', |out| {
        out.extend_from_slice(&0_u32.to_be_bytes());
        out.extend_from_slice(&u32::try_from(unknown_options.len()).unwrap_or_default().to_be_bytes());
        for option in unknown_options {
            text(out, option);
        }
    });
}

pub(super) fn ready(out: &mut Vec<u8>, status: Status) {
    let status = match status {
        Status::Idle => b'I',
        Status::InTransaction => b'T',
        Status::Failed => b'E',
    };
    message(out, b'Z', |out| out.push(status));
}

pub(super) fn row_description(out: &mut Vec<u8>, columns: &[Column], format: impl Fn(usize) -> Format) {
    message(out, b'T', |out| {
        int16(out, columns.len());
        for (place, column) in columns.iter().enumerate() {
            text(out, &column.name);
            // The column belongs to no table.
            out.extend_from_slice(&[0; 6]);
            out.extend_from_slice(&column.pg_type.oid().to_be_bytes());
            out.extend_from_slice(&column.pg_type.size().to_be_bytes());
            out.extend_from_slice(&column.pg_type.modifier.to_be_bytes());
            out.extend_from_slice(&format(place).code().to_be_bytes());
        }
    });
}

pub(super) fn parameter_description(out: &mut Vec<u8>, types: &[u32]) {
    message(out, b't', |out| {
        int16(out, types.len());
        for oid in types {
            out.extend_from_slice(&oid.to_be_bytes());
        }
    });
}

pub(super) fn copy_out(out: &mut Vec<u8>, format: Format, columns: usize) {
    message(out, b'H', |out| {
        out.push(u8::from(format == Format::Binary));
        int16(out, columns);
        for _ in 0..columns {
            out.extend_from_slice(&format.code().to_be_bytes());
        }
    });
}

pub(super) fn complete(out: &mut Vec<u8>, tag: &str) {
    message(out, b'C', |out| text(out, tag));
}

/// Writes a message without fields.
pub(super) fn bare(out: &mut Vec<u8>, tag: u8) {
    message(out, tag, |_| ());
}

pub(super) fn error(out: &mut Vec<u8>, error: &PgError) {
    let severity = if error.is_fatal { "FATAL" } else { "ERROR" };
    message(out, b'E', |out| {
        fields(out, severity, error.code, &error.message);
        let position = error.position.map(|position| position.to_string());
        for (tag, value) in [(b'H', &error.hint), (b'P', &position)] {
            if let Some(value) = value {
                out.push(tag);
                text(out, value);
            }
        }
        out.push(0);
    });
}

pub(super) fn notice(out: &mut Vec<u8>, notice: &Notice) {
    message(out, b'N', |out| {
        fields(out, notice.severity, notice.code, &notice.message);
        out.push(0);
    });
}

fn fields(out: &mut Vec<u8>, severity: &str, code: &str, message: &str) {
    for (tag, value) in [(b'S', severity), (b'V', severity), (b'C', code), (b'M', message)] {
        out.push(tag);
        text(out, value);
    }
}
