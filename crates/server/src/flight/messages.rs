//! Messages of the protocol that several calls read and write.

use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::sql::{Any, Command};
use arrow_flight::{SchemaAsIpc, SchemaResult};
use prost::Message;
use prost::bytes::Bytes;
use tonic::Status;

use super::status;

/// Decodes the command in a descriptor or ticket.
pub(super) fn command(bytes: &[u8]) -> Result<Command, Status> {
    let any = Any::decode(bytes).map_err(status::malformed)?;
    Command::try_from(any).map_err(status::malformed)
}

/// Refuses statements in a transaction, since this server has none.
pub(super) fn without_transaction(id: Option<&Bytes>) -> Result<(), Status> {
    match id {
        Some(id) if !id.is_empty() => Err(Status::unimplemented("this server has no transactions")),
        _ => Ok(()),
    }
}

/// Encodes a schema as a message.
pub(super) fn encoded(columns: &SchemaRef) -> Result<Bytes, Status> {
    let message = SchemaResult::try_from(SchemaAsIpc::new(columns, &IpcWriteOptions::default()));
    message.map(|message| message.schema).map_err(|error| status::of_arrow(&error))
}
