//! The statements of a session, by the handles that clients refer to them with.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use parking_lot::Mutex;
use pushdowndb_engine::{Engine, ParameterValue, Statement};
use tokio::sync::watch;

use super::{parameters, plain};
use crate::activity::run::QueryRun;
use crate::activity::sessions::{Cancellations, Entry};
use crate::error::{PgError, code};
use crate::session::{Plan, Reply, SessionCore, Source};
use crate::statement::command::Command;
use crate::statement::subject;

/// Maximum queries of a session whose rows were announced but not fetched yet. The oldest is
/// dropped for a new one.
const MAX_PENDING: usize = 1_000;

/// The statements of a session.
#[derive(Default)]
pub(super) struct Statements(Mutex<Table>);

#[derive(Default)]
struct Table {
    last: u64,
    by_handle: BTreeMap<u64, Arc<Held>>,
}

/// A statement that a client has a handle for.
pub(super) struct Held {
    pub statement: Statement,
    pub command: Command,
    /// Whether the statement is kept until the client closes it.
    is_prepared: bool,
    state: tokio::sync::Mutex<State>,
    /// Number of requests to cancel the statement so far.
    cancel: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// The plan, created when it is needed.
    plan: Option<Plan>,
    /// The engine that the plan was made with, which DISCARD ALL replaces.
    engine: Option<Arc<Engine>>,
    /// The parameter types that the statement is planned with.
    given: Vec<Option<DataType>>,
    /// The rows of values that are bound to the parameters.
    bound: Option<Vec<RecordBatch>>,
    /// The started statement, if it was started early because its columns are known only once it
    /// runs.
    opened: Option<Opened>,
}

/// A statement that was started.
pub(super) struct Opened {
    /// The query for the log; `None` for statements about the session.
    pub run: Option<QueryRun>,
    pub source: Source,
}

/// Watches for the events that stop a statement: the end of its session, or a request to cancel it.
pub(super) struct Interrupts {
    entry: Arc<Entry>,
    session: Cancellations,
    statement: watch::Receiver<u64>,
}

impl Interrupts {
    /// Waits until the statement is to be stopped, and returns the error for that.
    pub async fn requested(&mut self) -> PgError {
        tokio::select! {
            biased;
            () = self.entry.terminated() => PgError::new(code::SHUTDOWN, "the session was ended"),
            () = self.session.requested() => PgError::cancelled(),
            Ok(()) = self.statement.changed() => PgError::cancelled(),
        }
    }

    /// Waits for `work`, or returns an error if the statement is stopped before.
    pub async fn watch<T>(&mut self, work: impl Future<Output = Result<T, PgError>>) -> Result<T, PgError> {
        tokio::select! {
            biased;
            error = self.requested() => Err(error),
            done = work => done,
        }
    }
}

impl Statements {
    /// Parses and stores a statement. Returns its handle.
    ///
    /// # Errors
    ///
    /// The text is not a single statement, or there are too many.
    pub fn keep(&self, core: &SessionCore, text: &str, is_prepared: bool) -> Result<(Vec<u8>, Arc<Held>), PgError> {
        let found = core.statement(text)?;
        let (statement, command) = found.ok_or_else(|| PgError::new(code::SYNTAX, "there is no statement"))?;
        let (state, cancel) = (tokio::sync::Mutex::default(), watch::Sender::new(0));
        let held = Arc::new(Held { statement, command, is_prepared, state, cancel });
        let mut table = self.0.lock();
        let same = table.by_handle.iter().filter(|(_, other)| other.is_prepared == is_prepared);
        let same: Vec<u64> = same.map(|(handle, _)| *handle).collect();
        if is_prepared {
            SessionCore::may_prepare(same.len())?;
        }
        if !is_prepared
            && same.len() >= MAX_PENDING
            && let Some(oldest) = same.first()
        {
            table.by_handle.remove(oldest);
        }
        table.last += 1;
        let handle = table.last;
        table.by_handle.insert(handle, Arc::clone(&held));
        Ok((handle.to_be_bytes().to_vec(), held))
    }

    /// The statement with this handle.
    ///
    /// # Errors
    ///
    /// The session has no such statement.
    pub fn get(&self, handle: &[u8]) -> Result<Arc<Held>, PgError> {
        let number = handle.try_into().map(u64::from_be_bytes).ok();
        let found = number.and_then(|number| self.0.lock().by_handle.get(&number).cloned());
        found.ok_or_else(|| PgError::new(code::NO_STATEMENT, "the session has no such statement: it was closed"))
    }

    /// Removes a statement.
    pub fn close(&self, handle: &[u8]) {
        if let Ok(number) = handle.try_into().map(u64::from_be_bytes) {
            self.0.lock().by_handle.remove(&number);
        }
    }
}

impl Held {
    /// Stops all executions of the statement.
    pub fn cancel(&self) {
        self.cancel.send_modify(|count| *count += 1);
    }

    /// Subscribes to requests to stop the statement from now on.
    pub fn interrupts(&self, core: &SessionCore) -> Interrupts {
        let entry = Arc::clone(&core.entry);
        Interrupts { session: entry.cancellations(), entry, statement: self.cancel.subscribe() }
    }

    /// The columns of the result as a client gets them. Returns `None` if the statement has no
    /// result, or if the columns are known only once it has run and changed something.
    ///
    /// # Errors
    ///
    /// The statement cannot be planned.
    pub async fn columns(&self, core: &SessionCore) -> Result<Option<SchemaRef>, PgError> {
        match &self.command {
            Command::Query => {}
            Command::Show(_) | Command::ShowAll | Command::ShowQueries => {
                return Ok(match core.answer(&self.command).await? {
                    Some(Reply::Rows(rows)) => Some(plain::schema(rows.schema_ref())),
                    _ => None,
                });
            }
            _ => return Ok(None),
        }
        let mut state = self.state.lock().await;
        self.plan(core, &mut state).await?;
        if let Some(columns) = state.plan.as_ref().and_then(Plan::columns) {
            return Ok(Some(plain::schema(&columns)));
        }
        if subject::tag(&self.statement.text) != "SELECT" {
            return Ok(None);
        }
        if state.opened.is_none() {
            let mut opened = self.open(core, &mut state, &[]).await?;
            if let Some(run) = &mut opened.run {
                run.pause();
            }
            state.opened = Some(opened);
        }
        let columns = state.opened.as_ref().and_then(|opened| opened.source.columns());
        Ok(columns.map(|columns| plain::schema(&columns)))
    }

    /// The types of the parameters.
    ///
    /// # Errors
    ///
    /// The statement cannot be planned.
    pub async fn parameters(&self, core: &SessionCore) -> Result<Vec<DataType>, PgError> {
        let mut state = self.state.lock().await;
        if self.command == Command::Query {
            self.plan(core, &mut state).await?;
        }
        Ok(state.plan.as_ref().map(|plan| plan.parameters().to_vec()).unwrap_or_default())
    }

    async fn plan(&self, core: &SessionCore, state: &mut State) -> Result<(), PgError> {
        let engine = core.engine();
        let is_present = state.engine.as_ref().is_some_and(|known| Arc::ptr_eq(known, &engine));
        if state.plan.is_none() || !is_present {
            state.plan = Some(core.plan(&self.statement, &state.given).await?);
            state.engine = Some(engine);
        }
        Ok(())
    }

    /// Binds rows of values to the parameters, replacing earlier ones.
    ///
    /// # Errors
    ///
    /// The number of columns is not that of the parameters, or the statement cannot be planned with
    /// values of these types.
    pub async fn bind(&self, core: &SessionCore, rows: Vec<RecordBatch>) -> Result<(), PgError> {
        let mut state = self.state.lock().await;
        if self.command == Command::Query {
            self.plan(core, &mut state).await?;
        }
        let wanted = state.plan.as_ref().map(|plan| plan.parameters().len()).unwrap_or_default();
        let given = rows.first().map(|rows| parameters::types(rows.schema_ref())).unwrap_or_default();
        if !rows.is_empty() && given.len() != wanted {
            let message = format!("the statement has {wanted} parameters, not {}", given.len());
            return Err(PgError::new(code::PROTOCOL, message));
        }
        let known = state.plan.as_ref().map(Plan::parameters).unwrap_or_default();
        let is_other = given.iter().zip(known).any(|(given, known)| given.as_ref().is_some_and(|given| given != known));
        if is_other {
            let before = std::mem::replace(&mut state.given, given);
            match core.plan(&self.statement, &state.given).await {
                Ok(plan) => state.plan = Some(plan),
                Err(error) => {
                    state.given = before;
                    return Err(error);
                }
            }
        }
        state.bound = Some(rows);
        Ok(())
    }

    /// The rows of values that are bound. A statement without parameters has a single empty row.
    ///
    /// # Errors
    ///
    /// The statement has parameters, but no values are bound.
    pub async fn values(&self, core: &SessionCore) -> Result<Values, PgError> {
        let wanted = self.parameters(core).await?.len();
        let bound = self.state.lock().await.bound.clone();
        match bound {
            Some(rows) if wanted > 0 => Ok(Values { rows, next: (0, 0), is_alone: false }),
            None if wanted > 0 => {
                let message = format!("the statement has {wanted} parameters, and no values are bound to them");
                Err(PgError::new(code::PROTOCOL, message))
            }
            _ => Ok(Values { rows: vec![], next: (0, 0), is_alone: true }),
        }
    }

    /// Starts the statement with these values for its parameters.
    ///
    /// # Errors
    ///
    /// The statement fails before its first row.
    pub async fn start(&self, core: &SessionCore, values: &[ParameterValue]) -> Result<Opened, PgError> {
        if self.command != Command::Query {
            let rows = self.answer(core).await?;
            return Ok(Opened { run: None, source: Source::Made(rows) });
        }
        let mut state = self.state.lock().await;
        match state.opened.take() {
            Some(mut opened) => {
                if let Some(run) = &mut opened.run {
                    let (server, most) = (&core.server, core.account.user.queries);
                    run.enter(&server.admission, most).await.map_err(|error| PgError::from(&error))?;
                }
                Ok(opened)
            }
            None => self.open(core, &mut state, values).await,
        }
    }

    async fn open(&self, core: &SessionCore, state: &mut State, values: &[ParameterValue]) -> Result<Opened, PgError> {
        let mut run = core.begin(&self.statement.text)?;
        match core.open(&mut run, &self.statement, state.plan.as_mut(), values, 0).await {
            Ok(source) => Ok(Opened { run: Some(run), source }),
            Err(error) => {
                run.ended(error.code);
                Err(error)
            }
        }
    }

    /// Runs a statement about the session. Returns its rows, if it has any.
    async fn answer(&self, core: &SessionCore) -> Result<Option<RecordBatch>, PgError> {
        match &self.command {
            Command::Set { name, value, is_local: false } => drop(core.set(name, value.as_deref()).await?),
            Command::Reset(Some(name)) => drop(core.set(name, None).await?),
            // Statements that were prepared before are planned again when they are used.
            Command::DiscardAll => core.begin_anew().await?,
            // Accepted without effect, since this protocol has no transactions here.
            Command::Begin | Command::Commit | Command::Rollback | Command::Savepoint(_) | Command::Release(_) => {}
            command => {
                return match core.answer(command).await? {
                    Some(Reply::Rows(rows)) => Ok(Some(rows)),
                    Some(Reply::Done(_)) => Ok(None),
                    None => {
                        let message = "this statement belongs to the PostgreSQL protocol; Flight SQL has calls of its \
                                       own for prepared statements and cursors";
                        Err(PgError::new(code::UNSUPPORTED, message))
                    }
                };
            }
        }
        Ok(None)
    }
}

/// An iterator over the rows of bound values.
pub(super) struct Values {
    rows: Vec<RecordBatch>,
    /// The indexes of the batch and of the row that come next.
    next: (usize, usize),
    /// Whether a single row without values comes next.
    is_alone: bool,
}

impl Values {
    /// The values of the next row; `None` at the end.
    ///
    /// # Errors
    ///
    /// A value has a type that SQL lacks.
    pub fn next(&mut self) -> Result<Option<Vec<ParameterValue>>, PgError> {
        if std::mem::take(&mut self.is_alone) {
            return Ok(Some(vec![]));
        }
        while let Some(rows) = self.rows.get(self.next.0) {
            let row = self.next.1;
            if row < rows.num_rows() {
                self.next.1 += 1;
                return parameters::row(rows, row).map(Some).map_err(|error| PgError::from(&error));
            }
            self.next = (self.next.0 + 1, 0);
        }
        Ok(None)
    }
}
