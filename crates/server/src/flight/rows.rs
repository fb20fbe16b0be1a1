//! A task reads the rows from the engine and sends them to the connection one batch at a time. So
//! at most a few batches of a result are in memory, and a client that does not read does not delay
//! others.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use tokio::sync::mpsc;
use tonic::Status;

use super::session::FlightSession;
use super::statements::{Held, Interrupts, Opened, Values};
use super::{plain, status};
use crate::error::{PgError, code};
use crate::session::{count, is_counted};
use crate::statement::subject;

/// Messages of rows.
pub(super) type Messages = BoxStream<'static, Result<FlightData, Status>>;

type Batches = mpsc::Sender<Result<RecordBatch, FlightError>>;

/// Why sending the rows of a statement ended early.
enum Ended {
    Error(PgError),
    /// The client has stopped reading.
    Gone,
}

/// Runs a statement once for each row of values that is bound to its parameters, and returns all
/// rows as messages.
///
/// # Errors
///
/// The statement fails before its first row.
pub(super) async fn run(session: Arc<FlightSession>, held: Arc<Held>) -> Result<Messages, PgError> {
    let mut interrupts = held.interrupts(&session.core);
    let mut values = held.values(&session.core).await?;
    let Some(first) = values.next()? else {
        let columns = held.columns(&session.core).await?;
        return Ok(messages(columns.unwrap_or_else(|| Arc::new(Schema::empty())), stream::empty().boxed()));
    };
    let opened = interrupts.watch(held.start(&session.core, &first)).await?;
    let columns = opened.source.columns().unwrap_or_else(|| Arc::new(Schema::empty()));
    let columns = plain::schema(&columns);
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(send(session, held, interrupts, values, opened, Arc::clone(&columns), sender));
    let batches =
        stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|batch| (batch, receiver)) });
    Ok(messages(columns, batches.boxed()))
}

/// Sends rows that are in memory already.
pub(super) fn made(rows: RecordBatch) -> Messages {
    let columns = rows.schema();
    messages(columns, stream::iter([Ok(rows)]).boxed())
}

fn messages(columns: SchemaRef, batches: BoxStream<'static, Result<RecordBatch, FlightError>>) -> Messages {
    FlightDataEncoderBuilder::new().with_schema(columns).build(batches).map_err(Status::from).boxed()
}

async fn send(
    session: Arc<FlightSession>,
    held: Arc<Held>,
    mut interrupts: Interrupts,
    mut values: Values,
    mut opened: Opened,
    columns: SchemaRef,
    sender: Batches,
) {
    loop {
        let sent = send_rows(&session, &mut interrupts, &mut opened, &columns, &sender).await;
        if let Some(run) = &mut opened.run {
            run.ended(match &sent {
                Ok(()) => "ok",
                Err(Ended::Error(error)) => error.code,
                Err(Ended::Gone) => "client gone",
            });
        }
        let error = match sent {
            Ok(()) => match values.next() {
                Ok(None) => {
                    // Dropped before the stream ends, so that the slot is free and the log entry
                    // written when the client has all rows.
                    drop(opened);
                    return;
                }
                Ok(Some(next)) => match interrupts.watch(held.start(&session.core, &next)).await {
                    Ok(next) => {
                        opened = next;
                        continue;
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            },
            Err(Ended::Error(error)) => error,
            Err(Ended::Gone) => return,
        };
        // The query ends before the client receives the error.
        drop(opened);
        let error = FlightError::Tonic(Box::new(status::of(&error)));
        drop(tokio::time::timeout(session.core.server.limits.client_stall, sender.send(Err(error))).await);
        return;
    }
}

async fn send_rows(
    session: &FlightSession,
    interrupts: &mut Interrupts,
    opened: &mut Opened,
    columns: &SchemaRef,
    sender: &Batches,
) -> Result<(), Ended> {
    let (server, most) = (&session.core.server, session.core.account.user.queries);
    let stall = server.limits.client_stall;
    loop {
        let batch = tokio::select! {
            biased;
            error = interrupts.requested() => return Err(Ended::Error(error)),
            batch = opened.source.next() => batch,
            () = sender.closed() => return Err(Ended::Gone),
        };
        let Some(batch) = batch else { return Ok(()) };
        let batch = batch.map_err(|error| Ended::Error(PgError::from(&error)))?;
        let rows = batch.num_rows() as u64;
        let batch = plain::batch(&batch, columns);
        let batch = batch.map_err(|error| Ended::Error(PgError::new("XX000", error.to_string())))?;
        let sending = tokio::time::timeout(stall, sender.send(Ok(batch)));
        let Some(run) = &mut opened.run else {
            drop(sending.await);
            continue;
        };
        let sent = tokio::select! {
            biased;
            error = interrupts.requested() => return Err(Ended::Error(error)),
            sent = run.send(sending) => sent,
        };
        match sent {
            Ok(Ok(())) => run.sent(rows),
            Ok(Err(_)) => return Err(Ended::Gone),
            Err(_) => {
                let message = format!("the client has read nothing for {} seconds", stall.as_secs());
                return Err(Ended::Error(PgError::new(code::CANCELLED, message)));
            }
        }
        tokio::select! {
            biased;
            error = interrupts.requested() => return Err(Ended::Error(error)),
            back = run.come_back(&server.admission, most) => {
                back.map_err(|error| Ended::Error(PgError::from(&error)))?;
            }
        }
    }
}

/// Runs a statement to its end, once for each row of values. Returns the number of rows that it has
/// written, or -1 if the statement does not count rows.
///
/// # Errors
///
/// The statement fails.
pub(super) async fn update(session: &FlightSession, held: &Held) -> Result<i64, PgError> {
    let tag = subject::tag(&held.statement.text);
    let mut interrupts = held.interrupts(&session.core);
    let mut values = held.values(&session.core).await?;
    let (mut written, mut read) = (0, 0);
    while let Some(next) = values.next()? {
        let mut opened = interrupts.watch(held.start(&session.core, &next)).await?;
        let source = &mut opened.source;
        let work = async {
            while let Some(rows) = source.next().await {
                let rows = rows.map_err(|error| PgError::from(&error))?;
                read += rows.num_rows() as u64;
                written += if is_counted(tag) { count(&rows) } else { 0 };
            }
            Ok(())
        };
        let done = interrupts.watch(work).await;
        if let Some(run) = &mut opened.run {
            run.ended(done.as_ref().map_or_else(|error| error.code, |()| "ok"));
        }
        done?;
    }
    let is_query = tag == "SELECT" && read > 0;
    Ok(if is_query { -1 } else { i64::try_from(written).unwrap_or(i64::MAX) })
}
