//! Running a look-up: first the index tells where the rows are, then those are read.
//!
//! The first phase is a scan like any other, of the index objects: it runs in storage where filters do, is retried, and
//! falls back to plain reads. All partitions share what it found. If it fails for good, or finds too many rows, the
//! table is scanned as if there were no index; so is each object without a fresh one. The second phase evaluates the
//! whole predicate on what it reads.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type};
use bytes::Bytes;
use datafusion::common::ScalarValue;
use datafusion::execution::TaskContext;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use pushdown::{Error, ErrorKind, Format, Result, Split};
use pushdowndb_scan::{ObjectReader, ScanCounters, ScanOptions, scan_parts};
use tokio::sync::OnceCell;
use tracing::warn;

use super::run::{Run, SplitTask};
use super::splits::ScanSplit;
use super::{RemoteScanExec, ScanSpec};
use crate::backends::FragmentClient;
use crate::error::from_datafusion;
use crate::index;
use crate::query::QueryContext;
use crate::strategies::filter::{Choice, Route};
use crate::strategies::index::{Lookup, Probe, Verdict};
use crate::table::DataObject;

/// The most rows that are read one by one: their places are held in memory.
const MOST_ROWS: usize = 4_000_000;

/// Records with a gap of at most this between them are read as one: that takes less time than a request.
const GAP_BYTES: u64 = 32 * 1024;

/// The same where one request asks for many records.
const ROUTE_GAP_BYTES: u64 = 64;

/// What is read as one ends after about so many bytes.
const PART_BYTES: u64 = 4 * 1024 * 1024;

/// What a scan does with indexes.
#[derive(Clone, Debug)]
pub(super) struct IndexState {
    pub(super) verdict: Verdict,
    /// The places that the first phase found; all partitions share them.
    located: Arc<OnceCell<Option<Arc<Places>>>>,
    /// The places, once they are known.
    places: Option<Arc<Places>>,
}

/// Where the rows are that a look-up led to.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// By object: bytes of records or numbers of rows, ascending. An object that is not here is scanned.
    by_object: HashMap<usize, Vec<Range<u64>>>,
}

impl IndexState {
    pub(super) fn new(verdict: Verdict) -> Self {
        Self { verdict, located: Arc::default(), places: None }
    }

    pub(super) fn lookup(&self) -> Option<&Lookup> {
        match &self.verdict {
            Verdict::Use(lookup) => Some(lookup),
            Verdict::None | Verdict::Refuse(_) => None,
        }
    }

    /// The look-up that is still to be made.
    pub(super) fn pending(&self) -> Option<&Lookup> {
        self.lookup().filter(|_| self.places.is_none())
    }

    pub(super) fn places(&self) -> Option<Arc<Places>> {
        self.places.clone()
    }

    /// The objects whose scan an index stands for.
    pub(super) fn covered(&self, objects: &[DataObject]) -> HashSet<Path> {
        let covered = self.lookup().into_iter().flat_map(|lookup| objects.iter().zip(&lookup.covered));
        covered.filter(|(_, covered)| **covered).map(|(object, _)| object.path.clone()).collect()
    }

    /// Why an index is not used, for EXPLAIN.
    pub(super) fn refusal(&self) -> String {
        match &self.verdict {
            Verdict::Refuse(why) => format!(", not by index: {why}"),
            Verdict::None | Verdict::Use(_) => String::new(),
        }
    }
}

impl Places {
    pub(super) fn of(&self, object: usize) -> Option<&[Range<u64>]> {
        self.by_object.get(&object).map(Vec::as_slice)
    }
}

impl RemoteScanExec {
    /// The scan with the places of its rows, or the scan without an index.
    pub(super) async fn located(&self, query: &Arc<QueryContext>, context: &TaskContext) -> Result<Self> {
        let find = || async {
            let Some(lookup) = self.index.pending() else { return Ok(None) };
            match self.look_up(lookup, query, context).await {
                Ok(places) => Ok(Some(Arc::new(places))),
                // The user's caps are final; whatever is wrong with an index is no reason to fail.
                Err(error) if matches!(error.kind(), ErrorKind::Limit | ErrorKind::Cancelled) && !is_own(&error) => {
                    Err(error)
                }
                Err(error) => {
                    warn!(%error, "scanning without the index");
                    query.meter.strategy(format!("{}: scanned without the index: {error}", self.spec.name));
                    Ok(None)
                }
            }
        };
        Ok(match self.index.located.get_or_try_init(find).await?.clone() {
            Some(places) => Self { index: IndexState { places: Some(places), ..self.index.clone() }, ..self.clone() },
            None => {
                let partitions = self.partitions.len();
                self.with_spec(ScanSpec { indexes: Arc::default(), partitions, ..self.spec.clone() })?
            }
        })
    }

    /// The first phase.
    async fn look_up(&self, lookup: &Lookup, query: &Arc<QueryContext>, context: &TaskContext) -> Result<Places> {
        let mut found = Vec::with_capacity(lookup.probes.len());
        let mut rows = 0;
        for probe in &lookup.probes {
            found.push(self.probe(probe, query, context, &mut rows).await?);
        }
        let mut places = Places::default();
        let (mut rows, mut objects) = (0, 0);
        for (object, _) in lookup.covered.iter().enumerate().filter(|(_, covered)| **covered) {
            let mut of_object = found.iter_mut().filter_map(|found| found.remove(&object));
            let first = of_object.next().unwrap_or_default();
            let all = of_object.fold(first, |all, further| in_both(&all, &further));
            let bytes: u64 = all.iter().map(|place| place.end - place.start).sum();
            let size = self.spec.objects.get(object).map_or(0, |object| object.size);
            if !lookup.always && !matches!(self.fragment.format, Format::Parquet) && bytes > size / 2 {
                continue;
            }
            rows += all.len();
            objects += usize::from(!all.is_empty());
            places.by_object.insert(object, all);
        }
        let names: Vec<_> = lookup.probes.iter().map(|probe| probe.index.name.as_str()).collect();
        query.meter.strategy(format!(
            "{}: the index {} led to {rows} rows in {objects} objects",
            self.spec.name,
            names.join(" and ")
        ));
        Ok(places)
    }

    /// The places that one index knows, ascending, for each object that it is fresh for. `rows` counts them all.
    async fn probe(
        &self,
        probe: &Probe,
        query: &Arc<QueryContext>,
        context: &TaskContext,
        rows: &mut usize,
    ) -> Result<HashMap<usize, Vec<Range<u64>>>> {
        let mut found: HashMap<usize, Vec<Range<u64>>> =
            probe.targets.iter().map(|target| (target.object, Vec::new())).collect();
        let at_once = self.spec.options.requests.max(1) * context.session_config().target_partitions().max(1);
        let (scan, pieces) = self.index_scan(probe)?;
        let mut batches = stream::iter(pieces)
            .map(|splits| {
                let rows = Run::start(&scan, Arc::clone(query), splits, 0);
                async move { Ok::<_, Error>(rows?.map_err(from_datafusion)) }
            })
            .buffered(at_once)
            .try_flatten_unordered(at_once);
        while let Some(batch) = batches.try_next().await? {
            *rows += batch.num_rows();
            if *rows > MOST_ROWS {
                return Err(too_many());
            }
            self.note(&batch, &mut found)?;
        }
        found.values_mut().for_each(|places| places.sort_unstable_by_key(|place| place.start));
        Ok(found)
    }

    /// Takes in places: first, last, object.
    fn note(&self, batch: &RecordBatch, found: &mut HashMap<usize, Vec<Range<u64>>>) -> Result<()> {
        let corrupt = || Error::new(ErrorKind::Corrupt, "the index names places outside of the object");
        let [first, last, object] = batch.columns() else { return Err(Error::internal("an index without places")) };
        let columns = [first, last, object].map(|column| column.as_primitive_opt::<Int64Type>());
        let [Some(first), Some(last), Some(object)] = columns else {
            return Err(Error::internal("places that are no numbers"));
        };
        let in_bytes = !matches!(self.fragment.format, Format::Parquet);
        for ((first, last), object) in first.values().iter().zip(last.values()).zip(object.values()) {
            let object = usize::try_from(*object).map_err(|_| corrupt())?;
            let size = self.spec.objects.get(object).ok_or_else(corrupt)?.size;
            let (Ok(first), Ok(last)) = (u64::try_from(*first), u64::try_from(*last)) else { return Err(corrupt()) };
            if first > last || (in_bytes && last >= size) {
                return Err(corrupt());
            }
            found.get_mut(&object).ok_or_else(corrupt)?.push(first..last.saturating_add(1));
        }
        Ok(())
    }

    /// The scan of an index for its places, and the pieces of it that can hold some; each list of pieces is for one
    /// connection.
    fn index_scan(&self, probe: &Probe) -> Result<(Self, Vec<Vec<ScanSplit>>)> {
        let targets: Vec<_> = probe.targets.iter().filter(|target| !target.expected.ranges.is_empty()).collect();
        let object = |target: &&crate::strategies::index::Target| DataObject {
            path: target.file.location.clone(),
            size: target.file.size,
            etag: target.file.e_tag.clone(),
            last_modified: target.file.last_modified,
            partition_values: vec![ScalarValue::Int64(i64::try_from(target.object).ok())],
            columns: None,
        };
        let value = self.spec.table.file_schema.field(probe.index.column).data_type();
        let owner = Arc::new(Field::new("object", DataType::Int64, false));
        let table = self.spec.table.about(index::format(), index::schema(value), vec![owner]);
        let mut options = self.spec.options.clone();
        "auto".clone_into(&mut options.filter);
        let scan = self.with_spec(ScanSpec {
            name: format!("{}, index {}", self.spec.name, probe.index.name),
            table: Arc::new(table),
            objects: Arc::new(targets.iter().map(object).collect()),
            options,
            projection: vec![1, 2, 3],
            predicate: Some(probe.predicate.clone()),
            limit: None,
            indexes: Arc::default(),
            key_filters: vec![],
            note: None,
            ..self.spec.clone()
        })?;
        let mut pieces = Vec::new();
        for (place, (target, object)) in targets.iter().zip(scan.spec.objects.iter()).enumerate() {
            let ranges = &target.expected.ranges;
            let piece = |range: Range<u64>| {
                let whole = range == (0..object.size) || !scan.can_be_cut(object);
                ScanSplit { object: place, range: Some(range).filter(|_| !whole) }
            };
            let envelope = || Some(ranges.first()?.start..ranges.last()?.end);
            match &scan.choice {
                // A request costs more than what storage scans between the parts.
                Choice::Storage { route: Route::Select, .. } => pieces.extend(envelope().map(|all| vec![piece(all)])),
                _ if !scan.can_be_cut(object) => pieces.extend(envelope().map(|all| vec![piece(all)])),
                Choice::Storage { route: Route::Fragment, .. } | Choice::Compute(_) => {
                    pieces.extend(ranges.iter().map(|range| vec![piece(range.clone())]));
                }
            }
        }
        if matches!(scan.choice, Choice::Storage { route: Route::Fragment, .. }) {
            pieces = vec![pieces.into_iter().flatten().collect()];
        }
        Ok((scan, pieces))
    }
}

/// The code of [`too_many`].
const TOO_MANY: &str = "TooManyPlaces";

fn too_many() -> Error {
    let message = format!("it leads to more than {MOST_ROWS} rows");
    Error::new(ErrorKind::Limit, message).with_code(TOO_MANY)
}

/// Whether a limit is ours rather than the user's.
fn is_own(error: &Error) -> bool {
    error.code() == Some(TOO_MANY)
}

/// The places that are in both, which are ascending and name a record always alike.
fn in_both(a: &[Range<u64>], b: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut b = b.iter().peekable();
    let mut both = Vec::new();
    for place in a {
        while b.next_if(|other| other.start < place.start).is_some() {}
        if b.next_if(|other| other.start == place.start).is_some() {
            both.push(place.clone());
        }
    }
    both
}

/// Places as parts to read: those near each other as one.
fn near(places: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
    let mut parts: Vec<Range<u64>> = Vec::new();
    for place in places {
        match parts.last_mut() {
            Some(last) if place.start <= last.end + gap && last.end - last.start < PART_BYTES => {
                last.end = last.end.max(place.end);
            }
            _ => parts.push(place.clone()),
        }
    }
    parts
}

/// Parts of an object, and who reads them.
type ToRead = (Vec<Range<u64>>, Arc<dyn ObjectReader>);

impl SplitTask<'_> {
    /// The second phase, for one object; `false` when nobody wants rows any more.
    pub(super) async fn looked_up(&self, places: &[Range<u64>]) -> Result<bool> {
        if places.is_empty() {
            return Ok(true);
        }
        let fragment = Arc::new(self.adapted(&self.run.fragment));
        let (parts, reader) = self.record_reader(&fragment.format, places)?;
        let counters = Arc::new(ScanCounters::default());
        let mut rows = scan_parts(fragment, reader, parts, ScanOptions::default(), counters)?;
        while let Some(batch) = rows.next().await {
            if !self.send(self.assemble(batch?)?).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What to read of the object, and how.
    fn record_reader(&self, format: &Format, places: &[Range<u64>]) -> Result<ToRead> {
        let spec = &self.run.spec;
        let meters = self.run.meters();
        let reader = spec.backend.reader(self.object, &meters, &spec.options)?;
        let at_once = match &self.run.choice {
            Choice::Storage { route: Route::Fragment, .. } => Some((
                spec.backend.fragment_client(&meters, &spec.options)?,
                Split {
                    key: self.object.path.as_ref().into(),
                    etag: self.object.etag.clone(),
                    size: self.object.size,
                    range: None,
                },
            )),
            _ => None,
        };
        let gap = if at_once.is_some() { ROUTE_GAP_BYTES } else { GAP_BYTES };
        Ok(match (format, at_once) {
            (Format::Parquet, None) => (places.to_vec(), reader),
            (Format::Parquet, Some((client, object))) => {
                (places.to_vec(), Arc::new(Together { reader, client, object }))
            }
            (_, Some((client, object))) => (near(places, gap), Arc::new(Together { reader, client, object })),
            (_, None) => (near(places, gap), Arc::new(Apart { reader, at_once: spec.options.requests.max(1) })),
        })
    }
}

/// Reads ranges one by one, some at a time: what is near was joined already.
#[derive(Debug)]
struct Apart {
    reader: Arc<dyn ObjectReader>,
    at_once: usize,
}

impl ObjectReader for Apart {
    fn location(&self) -> &str {
        self.reader.location()
    }

    fn size(&self) -> u64 {
        self.reader.size()
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        self.reader.stream(range)
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let reader = Arc::clone(&self.reader);
        let one = move |range| reader.read_ranges(vec![range]);
        let all = stream::iter(ranges).map(one).buffered(self.at_once);
        all.map_ok(|pieces| pieces.into_iter().next().unwrap_or_default()).try_collect().boxed()
    }
}

/// Reads many ranges in one request of the fragment route (PushdownDB, Section X, suggestion 1); plainly where that
/// fails.
#[derive(Debug)]
struct Together {
    reader: Arc<dyn ObjectReader>,
    client: FragmentClient,
    object: Split,
}

impl ObjectReader for Together {
    fn location(&self) -> &str {
        self.reader.location()
    }

    fn size(&self) -> u64 {
        self.reader.size()
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        self.reader.stream(range)
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let (reader, client, object) = (Arc::clone(&self.reader), self.client.clone(), self.object.clone());
        async move {
            match client.ranges(&object, &ranges, reader.location()).await {
                Ok(pieces) => Ok(pieces),
                Err(error) => {
                    // Reading plainly tells the same story, also that the object was replaced.
                    warn!(%error, "reading ranges plainly");
                    reader.read_ranges(ranges).await
                }
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_both_name_is_read() {
        assert_eq!(in_both(&[1..3, 5..9, 10..12], &[0..1, 5..9, 10..12, 20..21]), [5..9, 10..12]);
        assert_eq!(in_both(&[], &[1..2]), []);
    }

    #[test]
    fn near_records_are_read_as_one() {
        let far = GAP_BYTES + 20;
        assert_eq!(near(&[0..10, 10..20, far..far + 5], GAP_BYTES), [0..far + 5]);
        assert_eq!(near(&[0..10, far..far + 5], GAP_BYTES), [0..10, far..far + 5]);
        let long = PART_BYTES + 1;
        assert_eq!(near(&[0..long, long..long + 5], GAP_BYTES), [0..long, long..long + 5]);
    }
}
