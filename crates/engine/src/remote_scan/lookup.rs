//! Running a look-up: first the index tells where the rows are, then those are read.
//!
//! A node of our own does both: it is asked for the rows of an object as by any fragment, and told which index objects to
//! look them up in ([`Lookups`]). What follows is for everybody else.
//!
//! The first phase is a scan like any other, of the index objects: it runs in storage where filters do, is retried, and
//! falls back to plain reads. All partitions share what it found. If it fails for good, or finds too many rows, the
//! table is scanned as if there were no index; so is each object without a fresh one. The second phase evaluates the
//! whole predicate on what it reads.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::execution::TaskContext;
use futures::stream;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use pushdown::wire::{INDEX_VERSION, IndexObject, IndexOutcome, Lookups, SplitStats};
use pushdown::{Capability, Error, ErrorKind, Format, Result, Split, index};
use pushdowndb_scan::{Extent, ObjectReader, ScanCounters, ScanOptions, near_places, places, places_in_both};
use tokio::sync::OnceCell;
use tracing::warn;

use super::ranges::RangesApart;
use super::run::Run;
use super::splits::ScanSplit;
use super::task::SplitTask;
use super::{RemoteScanExec, ScanSpec};
use crate::error::from_datafusion;
use crate::query::QueryContext;
use crate::settings::FilterStrategy;
use crate::strategies::filter::{Choice, Route};
use crate::strategies::index::{Lookup, Probe, Target, Verdict};
use crate::table::DataObject;

/// The most rows that are read one by one: their places are held in memory.
const MOST_ROWS: usize = 4_000_000;

/// Records with a gap of at most this between them are read as one: that takes less time than a request.
const GAP_BYTES: u64 = 32 * 1024;

/// The same where one request asks for many records.
const ROUTE_GAP_BYTES: u64 = 64;

/// What a scan does with indexes.
#[derive(Clone, Debug)]
pub(super) struct IndexState {
    pub(super) verdict: Verdict,
    /// Whether the node looks rows up, and the engine does not.
    by_node: bool,
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
    pub(super) fn new(verdict: Verdict, by_node: bool) -> Self {
        Self { verdict, by_node, located: Arc::default(), places: None }
    }

    /// The look-up that the node makes.
    pub(super) fn by_node(&self) -> Option<&Lookup> {
        self.lookup().filter(|_| self.by_node)
    }

    pub(super) fn lookup(&self) -> Option<&Lookup> {
        match &self.verdict {
            Verdict::Use(lookup) => Some(lookup),
            Verdict::None | Verdict::Refuse(_) => None,
        }
    }

    /// The look-up that is still to be made.
    pub(super) fn pending(&self) -> Option<&Lookup> {
        self.lookup().filter(|_| self.places.is_none() && !self.by_node)
    }

    pub(super) fn places(&self) -> Option<Arc<Places>> {
        self.places.clone()
    }

    /// The objects whose scan an index stands for.
    pub(super) fn covered(&self, objects: &[DataObject]) -> HashSet<Path> {
        let covered = self.lookup().into_iter().flat_map(|lookup| objects.iter().zip(&lookup.covered));
        covered.filter(|(_, covered)| **covered).map(|(object, _)| object.path.clone()).collect()
    }
}

/// Whether a scan that runs there can leave look-ups to the node.
pub(super) fn is_left_to_node(choice: &Choice, capability: &Capability) -> bool {
    let speaks = capability.fragment.is_some_and(|version| version >= INDEX_VERSION);
    speaks && matches!(choice, Choice::Storage { route: Route::Fragment, .. })
}

impl Lookup {
    /// Whether an index stands for the scan of this object.
    pub(super) fn is_of(&self, object: usize) -> bool {
        self.covered.get(object).copied().unwrap_or(false)
    }

    /// Whether its indexes say that no row of this object can be wanted.
    pub(super) fn rules_out(&self, object: usize) -> bool {
        let targets = self.probes.iter().flat_map(|probe| &probe.targets);
        targets.filter(|target| target.object == object).any(|target| target.expected.ranges.is_empty())
    }

    /// How the node is told of it, for these objects of the scan, each a split of a request.
    pub(super) fn for_splits(&self, objects: impl Iterator<Item = usize>) -> Lookups {
        let mut lookups = Lookups::default();
        lookups.probes.extend(
            self.probes
                .iter()
                .map(|probe| pushdown::wire::Probe { column: probe.index.column, predicate: probe.predicate.clone() }),
        );
        for (split, object) in objects.enumerate() {
            for (place, probe) in self.probes.iter().enumerate() {
                let of_object = probe.targets.iter().filter(|target| target.object == object);
                lookups.objects.extend(of_object.map(|target| IndexObject {
                    split,
                    probe: place,
                    object: Split {
                        key: target.file.location.as_ref().into(),
                        etag: target.file.e_tag.clone(),
                        size: target.file.size,
                        range: None,
                    },
                    ranges: target.expected.ranges.clone(),
                }));
            }
        }
        lookups
    }

    /// The names of its indexes.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self.probes.iter().map(|probe| probe.index.name.as_str()).collect();
        names.join(" and ")
    }
}

/// What became of the look-ups that a node was told of.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) rows: AtomicU64,
    pub(super) objects: AtomicU64,
    /// Objects that were scanned in spite of their index.
    pub(super) scanned: AtomicU64,
}

impl Run {
    /// Takes in what the node says of a split that is complete.
    pub(super) fn note_lookup(&self, location: &str, stats: &SplitStats) {
        let Some(lookup) = &self.lookup else { return };
        let why = match stats.index() {
            IndexOutcome::None => return,
            IndexOutcome::Used => {
                self.told.rows.fetch_add(stats.places, Relaxed);
                self.told.objects.fetch_add(u64::from(stats.places > 0), Relaxed);
                return;
            }
            IndexOutcome::Gone => "it is gone or was replaced",
            IndexOutcome::Unreadable => "it cannot be read",
            IndexOutcome::TooMany => "it leads to too many rows",
        };
        self.told.scanned.fetch_add(1, Relaxed);
        let table = &self.spec.name;
        self.query
            .meter
            .strategy(format!("{table}: {location} was scanned without the index {}: {why}", lookup.names()));
    }

    /// Says what came of the look-ups, at their end.
    pub(super) fn tell_lookups(&self) {
        if let Some(lookup) = self.lookup.as_ref().filter(|_| self.looks_up) {
            let (rows, objects) = (self.told.rows.load(Relaxed), self.told.objects.load(Relaxed));
            tell(&self.query, &self.spec.name, lookup, rows, objects);
        }
    }
}

fn tell(query: &QueryContext, table: &str, lookup: &Lookup, rows: u64, objects: u64) {
    let names = lookup.names();
    query.meter.strategy(format!("{table}: the index {names} led to {rows} rows in {objects} objects"));
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
            None => self.counting(self.in_place(ScanSpec { indexes: Arc::default(), ..self.spec.clone() })?),
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
            let all = of_object.fold(first, |all, further| places_in_both(&all, &further));
            let bytes: u64 = all.iter().map(|place| place.end - place.start).sum();
            let size = self.spec.objects.get(object).map_or(0, |object| object.size);
            if !lookup.always && !matches!(self.fragment.format, Format::Parquet) && bytes > size / 2 {
                continue;
            }
            rows += all.len();
            objects += u64::from(!all.is_empty());
            places.by_object.insert(object, all);
        }
        tell(query, &self.spec.name, lookup, rows as u64, objects);
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
        let at_once = self.spec.options.requests() * context.session_config().target_partitions().max(1);
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
        let corrupt = || Error::new(ErrorKind::Corrupt, "the index names an object that it is not of");
        let owners = batch.columns().get(2).and_then(|column| column.as_primitive_opt::<Int64Type>());
        let owners = owners.ok_or_else(|| Error::internal("an index without places"))?.values();
        let object = |row: usize| usize::try_from(*owners.get(row)?).ok();
        let in_bytes = !matches!(self.fragment.format, Format::Parquet);
        let size = |row| object(row).and_then(|object| self.spec.objects.get(object)).map(|object| object.size);
        let all = places(batch, [0, 1], |row| size(row).filter(|_| in_bytes))?;
        for (row, place) in all.into_iter().enumerate() {
            let of_object = object(row).and_then(|object| found.get_mut(&object));
            of_object.ok_or_else(corrupt)?.push(place);
        }
        Ok(())
    }

    /// The scan of an index for its places, and the pieces of it that can hold some; each list of pieces is for one
    /// connection.
    fn index_scan(&self, probe: &Probe) -> Result<(Self, Vec<Vec<ScanSplit>>)> {
        let targets: Vec<_> = probe.targets.iter().filter(|target| !target.expected.ranges.is_empty()).collect();
        let object = |target: &&Target| DataObject {
            path: target.file.location.clone(),
            size: target.file.size,
            etag: target.file.e_tag.clone(),
            last_modified: target.file.last_modified,
            partition_values: vec![ScalarValue::Int64(i64::try_from(target.object).ok())],
            columns: None,
        };
        let value = self.spec.table.file_schema.field(probe.index.column).data_type();
        let owner = Arc::new(Field::new("object", DataType::Int64, false));
        let home = &probe.index.home;
        let mut table = self.spec.table.about(index::format(), index::schema(value), vec![owner]);
        // What the table's own store can do says nothing about another.
        table.backend = table.backend.filter(|_| home.is_on(&self.spec.backend));
        let mut options = self.spec.options.clone();
        options.filter = FilterStrategy::Auto;
        let scan = self.with_spec(ScanSpec {
            name: format!("{}, index {}", self.spec.name, probe.index.name),
            table: Arc::new(table),
            backend: Arc::clone(&home.backend),
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
        let scan = scan.first_phase();
        let mut pieces = Vec::new();
        for (place, (target, object)) in targets.iter().zip(scan.spec.objects.iter()).enumerate() {
            let ranges = &target.expected.ranges;
            let piece = |range: Range<u64>| {
                let whole = range == (0..object.size) || !scan.can_be_cut(object);
                ScanSplit::new(place, Some(range).filter(|_| !whole))
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
        let mut rows = pushdowndb_scan::scan(fragment, reader, Extent::Parts(parts), ScanOptions::default(), counters)?;
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
        let takes_many = matches!(self.run.choice, Choice::Storage { route: Route::Fragment, .. });
        let parts = match format {
            Format::Parquet => places.to_vec(),
            _ => near_places(places, if takes_many { ROUTE_GAP_BYTES } else { GAP_BYTES }),
        };
        let reader = spec.backend.reader(self.object, &self.run.meters(), &spec.options)?;
        let reader = Arc::new(RangesApart { reader, at_once: spec.options.requests() });
        Ok((parts, if takes_many { self.together(reader, None)? } else { reader }))
    }
}
