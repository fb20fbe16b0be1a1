//! Sends rows as messages.

use pushdowndb_contract::Result;

use super::failure::Failure;
use super::output::set_length;
use super::running::Running;
use super::state::Session;
use super::wire::{Lost, Wire};
use crate::activity::sessions::Cancellations;
use crate::error::PgError;
use crate::session::SessionCore;
use crate::values::Format;
use crate::values::cells::Cells;

/// Bytes that are buffered before they are sent.
const SEND_BYTES: usize = 64 * 1024;

/// Writes rows in a format.
pub(super) trait RowWriter: Send {
    /// The format of a column's values.
    fn format(&self, column: usize) -> Format;

    /// Whether rows are written, or only read and skipped.
    fn is_shown(&self) -> bool {
        true
    }

    /// Writes a row.
    fn row(&mut self, cells: &[Cells], row: usize, out: &mut Vec<u8>) -> Result<()>;
}

/// Writes the rows of a query result.
pub(super) struct DataRows<'a> {
    /// Formats of the columns: empty for text, one for all, or one for each column.
    pub formats: &'a [Format],
}

impl RowWriter for DataRows<'_> {
    fn format(&self, column: usize) -> Format {
        match self.formats {
            [] => Format::Text,
            [all] => *all,
            each => each.get(column).copied().unwrap_or(Format::Text),
        }
    }

    fn row(&mut self, cells: &[Cells], row: usize, out: &mut Vec<u8>) -> Result<()> {
        out.push(b'D');
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        super::output::int16(out, cells.len());
        for cell in cells {
            cell.write_with_length(row, out)?;
        }
        set_length(out, start);
        Ok(())
    }
}

/// Skips rows instead of writing them.
pub(super) struct Skipped;

impl RowWriter for Skipped {
    fn format(&self, _: usize) -> Format {
        Format::Text
    }

    fn is_shown(&self) -> bool {
        false
    }

    fn row(&mut self, _: &[Cells], _: usize, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}

/// How many rows were sent.
pub(super) struct Sent {
    pub rows: u64,
    /// Whether sending stopped because of the limit.
    pub is_suspended: bool,
}

impl Session {
    /// Sends at most `limit` rows of a statement; `None` sends all.
    pub(super) async fn send_rows(
        &mut self,
        wire: &mut Wire,
        running: &mut Running,
        limit: Option<u64>,
        writer: &mut dyn RowWriter,
    ) -> Result<Sent, Failure> {
        let fresh = || self.core.entry.cancellations();
        let mut cancellations = running.cancellations.take().unwrap_or_else(fresh);
        let most = self.core.account.user.queries;
        if let Some(run) = &mut running.run
            && running.sent > 0
        {
            // The query gave up its slot when it was suspended.
            let entered = run.enter(&self.core.server.admission, most).await;
            entered.map_err(|error| Failure::Error(PgError::from(&error)))?;
        }
        let sent = send(&self.core, wire, running, limit, writer, &mut cancellations).await;
        match &sent {
            Ok(sent) if sent.is_suspended => {
                if let Some(run) = &mut running.run {
                    run.pause();
                }
            }
            Ok(_) => running.ended("ok"),
            Err(failure) => running.ended(failure.code()),
        }
        sent
    }
}

async fn send(
    core: &SessionCore,
    wire: &mut Wire,
    running: &mut Running,
    limit: Option<u64>,
    writer: &mut dyn RowWriter,
    cancellations: &mut Cancellations,
) -> Result<Sent, Failure> {
    let mut rows = 0;
    let (text, before) = running.text.clone();
    let failed = |error| Failure::Error(PgError::of(&error, &text, before));
    loop {
        if let Some((cells, count, next)) = &mut running.buffered {
            while next < count && limit.is_none_or(|limit| rows < limit) && wire.out.len() < SEND_BYTES {
                let start = wire.out.len();
                if let Err(error) = writer.row(cells, *next, &mut wire.out) {
                    // Removes the part of the row that was written.
                    wire.out.truncate(start);
                    return Err(failed(error));
                }
                *next += 1;
                rows += 1;
                running.sent += 1;
            }
            if wire.out.len() >= SEND_BYTES {
                // A flush must not be interrupted, since that would leave a part of a message.
                let flushed = match &mut running.run {
                    Some(run) => run.send(wire.flush()).await,
                    None => wire.flush().await,
                };
                flushed.map_err(Failure::Lost)?;
                let (admission, most) = (&core.server.admission, core.account.user.queries);
                let back = async {
                    match &mut running.run {
                        Some(run) => run.come_back(admission, most).await,
                        None => Ok(()),
                    }
                };
                tokio::select! {
                    biased;
                    () = cancellations.requested() => return Err(Failure::Error(PgError::cancelled())),
                    back = back => back.map_err(&failed)?,
                }
            }
            if next < count {
                if limit.is_some_and(|limit| rows >= limit) {
                    return Ok(Sent { rows, is_suspended: true });
                }
                continue;
            }
            running.buffered = None;
        }
        if limit.is_some_and(|limit| rows >= limit) {
            return Ok(Sent { rows, is_suspended: true });
        }
        let batch = tokio::select! {
            biased;
            () = cancellations.requested() => return Err(Failure::Error(PgError::cancelled())),
            batch = running.next() => batch,
            () = wire.gone() => return Err(Failure::Lost(Lost::Gone)),
        };
        let Some(batch) = batch else { return Ok(Sent { rows, is_suspended: false }) };
        let batch = batch.map_err(&failed)?;
        let cells = batch.columns().iter().zip(&running.columns).enumerate();
        let cells = cells.map(|(at, (array, column))| Cells::new(array, column.pg_type, writer.format(at)));
        let cells: Vec<Cells> = cells.collect::<Result<_>>().map_err(&failed)?;
        running.buffered = Some((cells, batch.num_rows(), 0));
    }
}
