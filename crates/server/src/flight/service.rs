//! The calls of Flight SQL.

use std::pin::Pin;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{
    Command, DoPutPreparedStatementResult, DoPutUpdateResult, ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use prost::bytes::Bytes;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Extensions, Request, Response, Status, Streaming};

use super::connection::Connection;
use super::messages::{command, encoded, without_transaction};
use super::session::FlightSession;
use super::sessions::FlightSessions;
use super::{actions, metadata, rows, status};
use crate::error::PgError;

/// The service of Flight SQL.
pub(super) struct Service {
    sessions: Arc<FlightSessions>,
}

type Answer<T> = Result<Response<T>, Status>;

impl Service {
    /// Creates the service for `sessions`.
    pub fn new(sessions: Arc<FlightSessions>) -> Self {
        Self { sessions }
    }

    /// Returns the session that a call belongs to.
    async fn session<T>(&self, request: &Request<T>) -> Result<Arc<FlightSession>, Status> {
        let connection = connection(request.extensions())?;
        let session = self.sessions.of_call(request.metadata(), connection).await;
        session.map_err(|error| status::of(&error))
    }

    /// Returns the columns of the rows that a command requests, empty for a statement without rows,
    /// and the ticket for the rows.
    async fn look_up(
        &self,
        session: &Arc<FlightSession>,
        descriptor: &FlightDescriptor,
    ) -> Result<(SchemaRef, Bytes), Status> {
        let or_none = |columns: Option<SchemaRef>| columns.unwrap_or_else(|| Arc::new(Schema::empty()));
        match command(&descriptor.cmd)? {
            Command::CommandStatementQuery(query) => {
                without_transaction(query.transaction_id.as_ref())?;
                let kept = session.statements.keep(&session.core, &query.query, false);
                let (handle, held) = kept.map_err(|error| status::of(&error))?;
                match held.interrupts(&session.core).watch(held.columns(&session.core)).await {
                    Ok(columns) => {
                        let ticket = TicketStatementQuery { statement_handle: handle.into() };
                        Ok((or_none(columns), ticket.as_any().encode_to_vec().into()))
                    }
                    Err(error) => {
                        session.statements.close(&handle);
                        Err(status::of(&error))
                    }
                }
            }
            Command::CommandPreparedStatementQuery(query) => {
                let found = session.statements.get(&query.prepared_statement_handle);
                let held = found.map_err(|error| status::of(&error))?;
                let columns = held.interrupts(&session.core).watch(held.columns(&session.core)).await;
                Ok((or_none(columns.map_err(|error| status::of(&error))?), descriptor.cmd.clone()))
            }
            command => Ok((metadata::columns(&command)?, descriptor.cmd.clone())),
        }
    }
}

/// The connection that a call arrived on.
fn connection(extensions: &Extensions) -> Result<&Arc<Connection>, Status> {
    extensions.get().ok_or_else(|| Status::internal("a call without a connection"))
}

/// Reads the batches that a client sends. Their total size is limited to that of one message.
async fn sent(session: &FlightSession, messages: MessagesIn) -> Result<Vec<RecordBatch>, PgError> {
    let most = session.core.server.limits.message_bytes;
    let mut batches = FlightRecordBatchStream::new_from_flight_data(messages.map_err(FlightError::from));
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(|error| PgError::new(crate::error::code::PROTOCOL, error.to_string()))?;
        bytes += batch.get_array_memory_size();
        if bytes > most {
            let message = format!("the values of parameters have more than {most} bytes: send them in parts");
            return Err(PgError::new(crate::error::code::LIMIT, message));
        }
        rows.push(batch);
    }
    Ok(rows)
}

type MessagesIn = BoxStream<'static, Result<FlightData, Status>>;

fn put<M: Message>(result: &M) -> Answer<BoxStream<'static, Result<PutResult, Status>>> {
    let result = PutResult { app_metadata: result.encode_to_vec().into() };
    Ok(Response::new(stream::iter([Ok(result)]).boxed()))
}

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoActionStream = BoxStream<'static, Result<arrow_flight::Result, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;

    async fn handshake(&self, request: Request<Streaming<HandshakeRequest>>) -> Answer<Self::HandshakeStream> {
        let connection = connection(request.extensions())?;
        let token = self.sessions.handshake(request.metadata(), connection).await;
        let token = token.map_err(|error| status::of(&error))?;
        let payload = token.clone().into_bytes().into();
        let answer = stream::iter([Ok(HandshakeResponse { protocol_version: 0, payload })]).boxed();
        let mut response = Response::new(answer);
        authorize(response.metadata_mut(), &token)?;
        Ok(response)
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        Err(Status::unimplemented("flights are asked for by Flight SQL's commands"))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        let session = self.session(&request).await?;
        let descriptor = request.into_inner();
        let (columns, ticket) = self.look_up(&session, &descriptor).await?;
        // Without a location, clients fetch the rows from this server. The number of rows is
        // unknown.
        let endpoint = FlightEndpoint::new().with_ticket(Ticket { ticket });
        let mut info = FlightInfo::new().with_endpoint(endpoint).with_descriptor(descriptor).with_ordered(true);
        info.schema = encoded(&columns)?;
        Ok(Response::new(info))
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Answer<PollInfo> {
        Err(Status::unimplemented("queries are not polled: GetFlightInfo returns before their rows are computed"))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        let session = self.session(&request).await?;
        let (columns, ticket) = self.look_up(&session, request.get_ref()).await?;
        if let Ok(Command::TicketStatementQuery(ticket)) = command(&ticket) {
            session.statements.close(&ticket.statement_handle);
        }
        Ok(Response::new(SchemaResult { schema: encoded(&columns)? }))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        let session = self.session(&request).await?;
        let handle = match command(&request.get_ref().ticket)? {
            Command::TicketStatementQuery(ticket) => ticket.statement_handle,
            Command::CommandPreparedStatementQuery(query) => query.prepared_statement_handle,
            command => {
                let rows = metadata::rows(&session.core, command).await?;
                return Ok(Response::new(rows::made(rows)));
            }
        };
        let held = session.statements.get(&handle).map_err(|error| status::of(&error))?;
        let messages = rows::run(session, held).await.map_err(|error| status::of(&error))?;
        Ok(Response::new(messages))
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        let session = self.session(&request).await?;
        let failed = |error: PgError| status::of(&error);
        // The first message contains the command, and is one of the batches too.
        let mut messages = request.into_inner().peekable();
        let first = Pin::new(&mut messages).peek().await;
        let first = match first {
            None => return Err(Status::invalid_argument("a DoPut without a message")),
            Some(Err(error)) => return Err(error.clone()),
            Some(Ok(first)) => first.flight_descriptor.as_ref(),
        };
        let first = first.ok_or_else(|| Status::invalid_argument("a DoPut without a descriptor"))?;
        let command = command(&first.cmd)?;
        let messages: MessagesIn = messages.boxed();
        match command {
            Command::CommandStatementUpdate(update) => {
                without_transaction(update.transaction_id.as_ref())?;
                let (handle, held) = session.statements.keep(&session.core, &update.query, false).map_err(failed)?;
                let written = rows::update(&session, &held).await;
                session.statements.close(&handle);
                put(&DoPutUpdateResult { record_count: written.map_err(failed)? })
            }
            Command::CommandPreparedStatementUpdate(update) => {
                let held = session.statements.get(&update.prepared_statement_handle).map_err(failed)?;
                let batches = sent(&session, messages).await.map_err(failed)?;
                if !batches.is_empty() {
                    held.bind(&session.core, batches).await.map_err(failed)?;
                }
                put(&DoPutUpdateResult { record_count: rows::update(&session, &held).await.map_err(failed)? })
            }
            Command::CommandPreparedStatementQuery(query) => {
                let held = session.statements.get(&query.prepared_statement_handle).map_err(failed)?;
                let batches = sent(&session, messages).await.map_err(failed)?;
                held.bind(&session.core, batches).await.map_err(failed)?;
                // The Java driver continues with the handle in this response, even if it is
                // missing.
                let prepared_statement_handle = Some(query.prepared_statement_handle);
                put(&DoPutPreparedStatementResult { prepared_statement_handle })
            }
            Command::CommandStatementIngest(_) => Err(Status::unimplemented(
                "tables are not filled row by row: write objects by COPY (SELECT …) TO 's3://bucket/key'",
            )),
            other => Err(Status::unimplemented(format!("DoPut of {}", other.type_url()))),
        }
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        let session = self.session(&request).await?;
        let bodies = actions::run(&self.sessions, &session, request.into_inner()).await?;
        let results = bodies.into_iter().map(|body| Ok(arrow_flight::Result { body }));
        Ok(Response::new(stream::iter(results.collect::<Vec<_>>()).boxed()))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Answer<Self::ListActionsStream> {
        let all = actions::ALL
            .map(|(name, description)| Ok(ActionType { r#type: name.to_owned(), description: description.to_owned() }));
        Ok(Response::new(stream::iter(all).boxed()))
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Answer<Self::DoExchangeStream> {
        Err(Status::unimplemented("Flight SQL has no DoExchange"))
    }
}

/// Adds a token to the response headers, where clients look for it.
fn authorize(headers: &mut MetadataMap, token: &str) -> Result<(), Status> {
    let value = MetadataValue::try_from(format!("Bearer {token}"));
    headers.insert("authorization", value.map_err(|_| Status::internal("a token that is no header"))?);
    Ok(())
}
