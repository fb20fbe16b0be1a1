//! Errors that all text formats share.

use pushdowndb_contract::Error;

/// Returns the error for a record that is longer than allowed.
#[cold]
pub(crate) fn too_long(location: &str, at: u64, record_bytes: usize) -> Error {
    let most =
        if record_bytes >= 1 << 20 { format!("{} MiB", record_bytes >> 20) } else { format!("{record_bytes} bytes") };
    let message = format!("{location}, byte {at}: a record is longer than {most}; is the record delimiter right?");
    Error::invalid(message).with_code("OverMaxRecordSize")
}
