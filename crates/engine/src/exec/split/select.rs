//! Splits on S3 Select: each split is one request, whose rows come back as text. The engine applies
//! a residual filter if storage evaluates the predicate only inexactly.
//!
//! In CSV output, a quoted empty string and NULL are the same empty field. If a response has an
//! empty field in a text column, its split and all later splits of the partition are read plainly.
//!
//! S3 Select has no If-Match. On foreign servers the object is therefore checked again after the
//! End frame, before any row is released.

use std::sync::atomic::Ordering::Relaxed;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::kernels::length::length;
use arrow::datatypes::{Int32Type, Int64Type, SchemaRef};
use object_store::ObjectStoreExt;
use pushdowndb_contract::{Compression, Error, ErrorKind, Expr, Format, Fragment, Output, Result, has_empty_and_null};
use pushdowndb_scan::{BYTE_ORDER_MARK, Evaluator};
use pushdowndb_select::{OutputSerialization, SelectRequest};

use super::wire::WireDecoder;
use super::{Held, SplitTask};
use crate::endpoints::profile::Kind;
use crate::endpoints::{Piece, Retry, SelectClient, SelectedObject};

/// Retries after throttling, before a split is read plainly.
const MAX_BUSY_RETRIES: usize = 1;

/// How a request ended.
enum SelectOutcome {
    Complete,
    /// The receiver of the rows was dropped.
    Cancelled,
    /// A field may mean the empty string or NULL.
    Ambiguous,
}

/// Failed attempt to run a pushed split.
struct Failure {
    error: Error,
    /// Whether rows have already been sent.
    released: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, released: false }
    }
}

impl SplitTask<'_> {
    /// Runs the split in storage, or plainly if storage fails; `false` if the receiver was dropped.
    pub(crate) async fn pushed(&self, request: &Fragment, exact: bool) -> Result<bool> {
        if self.has_mark(request).await? {
            let name = &self.run.plan.name;
            self.run
                .query
                .meter
                .strategy(format!("{name}: an object that begins with a byte order mark was read plainly"));
            return self.plain().await;
        }
        // Storage reads columns by position, never by name, so check that the header fits the
        // table.
        if self.split.range.as_ref().is_none_or(|range| range.start == 0) {
            let store = self.run.context.backend.store(&self.run.meters())?;
            if let Some(definition) = &self.run.context.definition {
                definition.check_header(store.as_ref(), &self.object).await?;
            }
        }
        let ambiguous = ambiguous_columns(request, &self.run.plan.table.format_of(&self.object));
        // Sent rows cannot be withdrawn; a split of more than `buffer_bytes` cannot be buffered.
        let bytes = self.split.range.as_ref().map_or(self.object.size, |range| range.end - range.start);
        let is_long = bytes > self.run.context.options.held_bytes();
        if !ambiguous.is_empty() && (is_long || self.run.ambiguous_nulls.load(Relaxed)) {
            return self.plain().await;
        }
        let retry = Retry { limit: self.run.context.options.retries };
        let mut failures = 0;
        let error = loop {
            let failure = match self.select(request, exact, &ambiguous).await {
                Ok(SelectOutcome::Complete) => return Ok(true),
                Ok(SelectOutcome::Cancelled) => return Ok(false),
                Ok(SelectOutcome::Ambiguous) => {
                    self.run.ambiguous_nulls.store(true, Relaxed);
                    let name = &self.run.plan.name;
                    self.run.query.meter.strategy(format!("{name}: read plainly, to tell empty texts from NULL"));
                    return self.plain().await;
                }
                Err(failure) => failure,
            };
            match failure.error.kind() {
                // The user's caps and replaced objects are final.
                ErrorKind::Limit | ErrorKind::Cancelled => return Err(failure.error),
                ErrorKind::Conflict => {
                    return Err(Error::new(
                        ErrorKind::Conflict,
                        format!("{} was replaced while the query ran; run the query again", self.location()),
                    ));
                }
                _ if failure.released => {
                    return Err(failure.error.context(
                        "storage failed after rows of a large split were passed on (raise pushdown.buffer_bytes or \
                         lower pushdown.split_bytes to make it repeatable)",
                    ));
                }
                _ => {}
            }
            failures += 1;
            if failure.error.kind() == ErrorKind::Throttled && failures > MAX_BUSY_RETRIES {
                self.run.throttled(&failure.error);
                return self.plain().await;
            }
            if let Err(error) = retry.pause(failures, failure.error).await {
                break error;
            }
        };
        // Plain reads return the rows, or an error with its position.
        self.run.fall_backs().record(&error);
        self.plain().await
    }

    /// Returns whether the object begins with a byte order mark that storage would mistake for part
    /// of a requested value, as foreign servers do for objects without a header. Compressed objects
    /// are not checked.
    async fn has_mark(&self, request: &Fragment) -> Result<bool> {
        let Format::Csv(csv) = self.run.plan.table.format_of(&self.object) else { return Ok(false) };
        let is_ours = self.run.dialect.as_ref().is_some_and(|dialect| dialect.same_evaluator);
        let is_first = self.split.range.as_ref().is_none_or(|range| range.start == 0);
        if is_ours || !is_first || csv.header || csv.compression != Compression::None || !request.columns().contains(&0)
        {
            return Ok(false);
        }
        let begin = vec![0..self.object.size.min(BYTE_ORDER_MARK.len() as u64)];
        let begin = self.opened()?.read_ranges(begin).await?;
        Ok(begin.first().is_some_and(|begin| begin.as_ref() == BYTE_ORDER_MARK))
    }

    async fn select(&self, request: &Fragment, exact: bool, ambiguous: &[usize]) -> Result<SelectOutcome, Failure> {
        let context = &self.run.context;
        let dialect = self.run.dialect.as_ref().ok_or_else(|| Error::internal("a pushed scan without a dialect"))?;
        let adapted = self.adapted(request);
        if !dialect.reads(&adapted.format) {
            return Err(Error::unsupported("the backend's S3 Select does not read this compression").into());
        }
        if self.object.columns.is_some() && !dialect.three_valued {
            // Such a backend compares the NULL of a missing column as if it were text.
            return Err(Error::unsupported("the backend has no NULL for the columns that this object lacks").into());
        }
        let client = context.select_client(&self.object, &self.run.meters())?;
        let location = self.location();
        let object = SelectedObject {
            path: context.backend.key_of(&self.object.path),
            location: location.clone(),
            if_match: self.object.etag.clone().filter(|_| dialect.if_match),
            kind: Kind::shown_by(&adapted),
        };
        let output = OutputSerialization::of(&adapted);
        let message = SelectRequest {
            expression: pushdowndb_select::render(&adapted, dialect)?,
            input: adapted.format.clone(),
            output,
            scan_range: self.split.range.clone(),
            request_progress: false,
        };
        let (mut decoder, wire_schema) = WireDecoder::new(&adapted, output, &location)?;
        let mut rest = Residual::new(self, request, exact, &wire_schema)?;
        rest.ambiguous = ambiguous.to_vec();

        let mut held = Held::default();
        let outcome = self.receive(&client, &object, &message, &mut decoder, &rest, &mut held).await;
        match outcome {
            Ok(SelectOutcome::Complete) => {}
            Ok(ended) => return Ok(ended),
            Err(error) => return Err(Failure { error, released: held.released }),
        }
        for batch in held.take() {
            if !self.send(batch).await {
                return Ok(SelectOutcome::Cancelled);
            }
        }
        Ok(SelectOutcome::Complete)
    }

    async fn receive(
        &self,
        client: &SelectClient,
        object: &SelectedObject,
        message: &SelectRequest,
        decoder: &mut WireDecoder,
        rest: &Residual,
        held: &mut Held,
    ) -> Result<SelectOutcome> {
        let mut answer = client.select(object, message).await?;
        while let Some(piece) = answer.next().await? {
            match piece {
                Piece::Stats(stats) => self.run.meters().each(|meter| {
                    meter.scanned(stats.bytes_scanned);
                    meter.returned(stats.bytes_returned);
                }),
                Piece::Records(bytes) => {
                    for batch in decoder.feed(bytes)? {
                        if rest.is_ambiguous(&batch)? {
                            return Ok(SelectOutcome::Ambiguous);
                        }
                        held.push(rest.apply(self, batch)?);
                    }
                    if held.bytes > self.run.context.options.held_bytes() && rest.ambiguous.is_empty() {
                        held.released = true;
                        for batch in held.take() {
                            if !self.send(batch).await {
                                return Ok(SelectOutcome::Cancelled);
                            }
                        }
                    }
                }
            }
        }
        for batch in decoder.finish()? {
            if rest.is_ambiguous(&batch)? {
                return Ok(SelectOutcome::Ambiguous);
            }
            held.push(rest.apply(self, batch)?);
        }
        if object.if_match.is_none() {
            self.check_unchanged().await?;
        }
        Ok(SelectOutcome::Complete)
    }

    /// Returns an error if the object is no longer the version that was planned.
    async fn check_unchanged(&self) -> Result<()> {
        let store = self.run.context.backend.store(&self.run.meters())?;
        let path = self.run.context.backend.path_in_well(&self.object);
        let now = store.head(&path).await.map_err(crate::error::from_object_store)?;
        let is_same = match &self.object.etag {
            None if self.object.has_no_version() => true,
            None => now.e_tag.is_none() && now.last_modified == self.object.last_modified,
            etag => now.e_tag == *etag,
        };
        if is_same && now.size == self.object.size {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Conflict, format!("{} changed", self.location())))
    }
}

/// Returns the positions of the output columns of `request` that may hold both the empty string and
/// NULL in `format`.
fn ambiguous_columns(request: &Fragment, format: &Format) -> Vec<usize> {
    let Output::Rows(sent) = &request.output else { return vec![] };
    let has_both =
        |expr: &Expr| expr.columns().into_iter().any(|column| has_empty_and_null(column, &request.schema, format));
    sent.iter().enumerate().filter(|(_, sent)| has_both(&sent.expr)).map(|(place, _)| place).collect()
}

/// Work that the engine does on rows from storage: evaluates the query's filter if storage's was
/// inexact, and reorders columns.
struct Residual {
    filter: Option<Evaluator>,
    columns: Option<Vec<usize>>,
    /// Columns that may hold both the empty text and NULL.
    ambiguous: Vec<usize>,
}

impl Residual {
    fn new(task: &SplitTask<'_>, request: &Fragment, exact: bool, wire: &SchemaRef) -> Result<Self> {
        let (Output::Rows(sent), Output::Rows(wanted)) = (&request.output, &task.run.fragment.output) else {
            return Ok(Self { filter: None, columns: None, ambiguous: vec![] });
        };
        let place = |column: usize| {
            let found = sent.iter().position(|c| c.expr == Expr::Column(column));
            found.ok_or_else(|| Error::internal("a column that was not asked for"))
        };
        let filter = match &task.run.fragment.predicate {
            Some(predicate) if !exact => {
                let predicate = predicate.clone().replace_columns(&mut |column| place(column).map(Expr::Column))?;
                Some(Evaluator::predicate(&predicate, wire)?)
            }
            _ => None,
        };
        let columns = wanted.iter().flat_map(|c| c.expr.columns()).map(place).collect::<Result<_>>()?;
        Ok(Self { filter, columns: Some(columns), ambiguous: vec![] })
    }

    /// Returns whether a field of `batch` may mean the empty string or NULL.
    fn is_ambiguous(&self, batch: &RecordBatch) -> Result<bool> {
        for values in self.ambiguous.iter().filter_map(|place| batch.columns().get(*place)) {
            let lengths = length(values).map_err(|e| Error::internal(e.to_string()))?;
            let is_empty = match lengths.as_primitive_opt::<Int32Type>() {
                Some(lengths) => lengths.iter().any(|length| length.is_none_or(|length| length == 0)),
                None => {
                    lengths.as_primitive::<Int64Type>().iter().any(|length| length.is_none_or(|length| length == 0))
                }
            };
            if is_empty {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn apply(&self, task: &SplitTask<'_>, batch: RecordBatch) -> Result<RecordBatch> {
        let batch = match &self.filter {
            Some(filter) => filter.filter(&batch)?,
            None => batch,
        };
        let batch = match &self.columns {
            Some(columns) => batch.project(columns).map_err(|e| Error::internal(e.to_string()))?,
            None => batch,
        };
        task.assemble(batch)
    }
}
