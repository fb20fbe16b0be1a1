//! A split on S3 Select: one request, rows as text, the query's own filter where storage's was weaker.
//!
//! S3 Select knows no If-Match, so on foreign servers the object is looked at again after the End frame and before any
//! row is released.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use object_store::ObjectStoreExt;
use pushdown::{Compression, Error, ErrorKind, Expr, Format, Fragment, Output, Result};
use pushdowndb_scan::{BYTE_ORDER_MARK, Evaluator};
use pushdowndb_select::{OutputSerialization, SelectRequest};

use super::task::{Held, SplitTask};
use super::wire::WireDecoder;
use crate::backends::{Piece, Retry, ScannedKind, SelectClient, SelectedObject};

/// Storage that is busy is asked so often again, then the split is read plainly.
const PATIENCE: usize = 1;

/// A try of a pushed split that failed.
struct Failure {
    error: Error,
    /// Whether rows had left already.
    released: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { error, released: false }
    }
}

impl SplitTask<'_> {
    /// Runs the split in storage, or plainly where storage fails; `false` when nobody wants rows any more.
    pub(super) async fn pushed(&self, request: &Fragment, exact: bool) -> Result<bool> {
        if self.has_mark(request).await? {
            let name = &self.run.spec.name;
            self.run
                .query
                .meter
                .strategy(format!("{name}: an object that begins with a byte order mark was read plainly"));
            return self.plain().await;
        }
        let retry = Retry { limit: self.run.spec.options.retries };
        let mut failures = 0;
        let error = loop {
            let failure = match self.select(request, exact).await {
                Ok(wanted) => return Ok(wanted),
                Err(failure) => failure,
            };
            match failure.error.kind() {
                // The user's caps, and objects that changed, are final.
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
            if failure.error.kind() == ErrorKind::Throttled && failures > PATIENCE {
                self.run.pushed_back(&failure.error);
                return self.plain().await;
            }
            if let Err(error) = retry.pause(failures, failure.error).await {
                break error;
            }
        };
        // Reading plainly tells the same story in full: the rows, or the error with its place.
        self.run.fall_backs().tell(&error);
        self.plain().await
    }

    /// Whether the object begins with a byte order mark that storage would take for a part of a value that is asked for:
    /// foreign servers do where no header follows it. Text that is compressed is not looked at.
    async fn has_mark(&self, request: &Fragment) -> Result<bool> {
        let Format::Csv(csv) = self.run.spec.table.format_of(self.object) else { return Ok(false) };
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

    /// Asks storage for the split.
    async fn select(&self, request: &Fragment, exact: bool) -> Result<bool, Failure> {
        let spec = &self.run.spec;
        let dialect = self.run.dialect.as_ref().ok_or_else(|| Error::internal("a pushed scan without a dialect"))?;
        let adapted = self.adapted(request);
        if !dialect.reads(&adapted.format) {
            return Err(Error::unsupported("the backend's S3 Select does not read this compression").into());
        }
        if self.object.columns.is_some() && !dialect.three_valued {
            // A column that the object lacks is NULL, which such a backend compares as if it were text.
            return Err(Error::unsupported("the backend has no NULL for the columns that this object lacks").into());
        }
        let client = spec.backend.select_client(&self.run.meters(), &spec.options)?;
        let location = self.location();
        let object = SelectedObject {
            path: self.object.path.clone(),
            location: location.clone(),
            if_match: self.object.etag.clone().filter(|_| dialect.if_match),
            kind: ScannedKind::shown_by(&adapted),
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
        let rest = Residual::new(self, request, exact, &wire_schema)?;

        let mut held = Held::default();
        let outcome = self.receive(&client, &object, &message, &mut decoder, &rest, &mut held).await;
        match outcome {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => return Err(Failure { error, released: held.released }),
        }
        for batch in held.take() {
            if !self.send(batch).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn receive(
        &self,
        client: &SelectClient,
        object: &SelectedObject,
        message: &SelectRequest,
        decoder: &mut WireDecoder,
        rest: &Residual,
        held: &mut Held,
    ) -> Result<bool> {
        let mut answer = client.select(object, message).await?;
        while let Some(piece) = answer.next().await? {
            match piece {
                Piece::Stats(stats) => self.run.meters().each(|meter| {
                    meter.scanned(stats.bytes_scanned);
                    meter.returned(stats.bytes_returned);
                }),
                Piece::Records(bytes) => {
                    for batch in decoder.feed(bytes)? {
                        held.push(rest.apply(self, batch)?);
                    }
                    if held.bytes > self.run.spec.options.buffer_bytes {
                        held.released = true;
                        for batch in held.take() {
                            if !self.send(batch).await {
                                return Ok(false);
                            }
                        }
                    }
                }
            }
        }
        for batch in decoder.finish()? {
            held.push(rest.apply(self, batch)?);
        }
        if object.if_match.is_none() {
            self.check_unchanged().await?;
        }
        Ok(true)
    }

    /// S3 Select knows no If-Match: see afterwards whether the object is still the one that was planned.
    async fn check_unchanged(&self) -> Result<()> {
        let store = self.run.spec.backend.store(&self.run.meters())?;
        let now = store.head(&self.object.path).await.map_err(crate::error::from_object_store)?;
        let same_time = self.object.etag.is_some() || now.last_modified == self.object.last_modified;
        if now.e_tag == self.object.etag && now.size == self.object.size && same_time {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Conflict, format!("{} changed", self.location())))
    }
}

/// What is left to do with rows that storage sent: the query's own filter where storage's was weaker, and
/// the columns in the scan's order.
struct Residual {
    filter: Option<Evaluator>,
    columns: Option<Vec<usize>>,
}

impl Residual {
    fn new(task: &SplitTask<'_>, request: &Fragment, exact: bool, wire: &SchemaRef) -> Result<Self> {
        let (Output::Rows(sent), Output::Rows(wanted)) = (&request.output, &task.run.fragment.output) else {
            return Ok(Self { filter: None, columns: None });
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
        Ok(Self { filter, columns: Some(columns) })
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
