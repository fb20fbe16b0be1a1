//! Actions: prepared statements, cancelling, the end of a session.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any, Command, ProstMessageExt,
};
use arrow_flight::{Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo};
use prost::Message;
use prost::bytes::Bytes;
use tonic::Status;

use super::messages::{command, encoded, without_transaction};
use super::session::FlightSession;
use super::sessions::FlightSessions;
use super::{plain, status};
use crate::error::PgError;

/// The actions and what they do.
pub(super) const ALL: [(&str, &str); 5] = [
    ("CreatePreparedStatement", "Prepares a statement: its columns and the types of its parameters."),
    ("ClosePreparedStatement", "Forgets a prepared statement."),
    ("CancelFlightInfo", "Stops a query by the answer to its GetFlightInfo."),
    ("CancelQuery", "The same, as earlier clients ask for it."),
    ("CloseSession", "Ends the session of the token."),
];

/// `CANCEL_RESULT_CANCELLED`, which the crate of the protocol does not export.
const CANCELLED: i32 = 1;

/// `CloseSessionResult { status: CLOSED }`, which this version of the protocol's crate lacks.
const SESSION_CLOSED: &[u8] = &[0x08, 0x01];

/// Runs an action. Returns the bodies of its results.
pub(super) async fn run(
    sessions: &FlightSessions,
    session: &Arc<FlightSession>,
    action: Action,
) -> Result<Vec<Bytes>, Status> {
    match action.r#type.as_str() {
        "CreatePreparedStatement" => {
            let request: ActionCreatePreparedStatementRequest = unpacked(&action.body)?;
            without_transaction(request.transaction_id.as_ref())?;
            let prepared = prepare(session, &request.query).await?;
            Ok(vec![prepared.as_any().encode_to_vec().into()])
        }
        "ClosePreparedStatement" => {
            let request: ActionClosePreparedStatementRequest = unpacked(&action.body)?;
            session.statements.close(&request.prepared_statement_handle);
            Ok(vec![])
        }
        "CancelFlightInfo" => {
            let request = CancelFlightInfoRequest::decode(action.body).map_err(status::malformed)?;
            let info = request.info.ok_or_else(|| Status::invalid_argument("there is no query to cancel"))?;
            cancel(session, &info)?;
            let done = CancelFlightInfoResult { status: CancelStatus::Cancelled.into() };
            Ok(vec![done.encode_to_vec().into()])
        }
        "CancelQuery" => {
            let request: ActionCancelQueryRequest = unpacked(&action.body)?;
            let info = FlightInfo::decode(request.info).map_err(status::malformed)?;
            cancel(session, &info)?;
            let done = ActionCancelQueryResult { result: CANCELLED };
            Ok(vec![done.as_any().encode_to_vec().into()])
        }
        "CloseSession" => {
            sessions.close(session);
            Ok(vec![Bytes::from_static(SESSION_CLOSED)])
        }
        "BeginTransaction" | "EndTransaction" | "BeginSavepoint" | "EndSavepoint" => {
            Err(Status::unimplemented("this server has no transactions: nothing is isolated or undone"))
        }
        other => Err(Status::unimplemented(format!("this server has no action {other}"))),
    }
}

fn unpacked<M: ProstMessageExt>(body: &Bytes) -> Result<M, Status> {
    let any = Any::decode(body.as_ref()).map_err(status::malformed)?;
    let message = any.unpack().map_err(|error| status::of_arrow(&error))?;
    message.ok_or_else(|| status::malformed(format!("this is no {}", M::type_url())))
}

async fn prepare(session: &Arc<FlightSession>, query: &str) -> Result<ActionCreatePreparedStatementResult, Status> {
    let (handle, held) = session.statements.keep(&session.core, query, true).map_err(|error| status::of(&error))?;
    let planned = async {
        let columns = held.columns(&session.core).await?;
        let parameters = held.parameters(&session.core).await?;
        Ok::<_, PgError>((columns, parameters))
    };
    match held.interrupts(&session.core).watch(planned).await {
        Ok((columns, parameters)) => {
            let parameters = parameters.into_iter().enumerate();
            let fields = parameters.map(|(at, data_type)| Field::new(format!("${}", at + 1), data_type, true));
            let parameters = plain::schema(&Schema::new(fields.collect::<Vec<_>>()));
            let is_bare = parameters.fields().is_empty();
            Ok(ActionCreatePreparedStatementResult {
                prepared_statement_handle: handle.into(),
                dataset_schema: columns.map(|columns| encoded(&columns)).transpose()?.unwrap_or_default(),
                parameter_schema: if is_bare { Bytes::new() } else { encoded(&parameters)? },
            })
        }
        Err(error) => {
            session.statements.close(&handle);
            Err(status::of(&error))
        }
    }
}

/// Stops all executions of a query, and drops the query unless it was prepared.
fn cancel(session: &FlightSession, info: &FlightInfo) -> Result<(), Status> {
    let tickets = info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.as_ref());
    for ticket in tickets {
        let (handle, is_prepared) = match command(&ticket.ticket)? {
            Command::TicketStatementQuery(ticket) => (ticket.statement_handle, false),
            Command::CommandPreparedStatementQuery(query) => (query.prepared_statement_handle, true),
            _ => continue,
        };
        session.statements.get(&handle).map_err(|error| status::of(&error))?.cancel();
        if !is_prepared {
            session.statements.close(&handle);
        }
    }
    Ok(())
}
