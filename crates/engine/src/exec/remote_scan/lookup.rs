//! Index look-ups: the index yields row locations, then those rows are read.
//!
//! A node does both: the fragment names the index objects to look up
//! ([`Lookups`](pushdowndb_contract::wire::Lookups)). The following applies to other backends.
//!
//! The first phase is a scan of the index objects: it runs in storage if filters do, is retried,
//! and falls back to plain reads. All partitions share its result. If it fails or finds too many
//! rows, the table is scanned without the index. Objects without an up-to-date index are scanned as
//! well. The second phase evaluates the whole predicate on the rows read.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::execution::TaskContext;
use futures::stream;
use futures::{StreamExt, TryStreamExt};
use pushdowndb_contract::{Error, ErrorKind, Format, Result, index};
use pushdowndb_scan::{places, places_in_both};
use tracing::warn;

use super::placement::Placement;
use crate::catalog::DataObject;
use crate::context::QueryContext;
use crate::error::from_datafusion;
use crate::exec::index_state::{IndexState, RowLocations};
use crate::exec::partition_scan::PartitionScan;
use crate::exec::remote_scan::RemoteScanExec;
use crate::plan::placement::{Choice, Route};
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::{ScanPlan, ScanTable};
use crate::plan::splits::ScanSplit;
use crate::settings::FilterStrategy;
use crate::strategies::index::{Lookup, Probe, Target};

/// Maximum rows read by location; locations are held in memory.
const MAX_LOOKUP_ROWS: usize = 4_000_000;

impl RemoteScanExec {
    /// Runs `lookup` and returns the scan of the row locations that it found, or the scan without
    /// an index if it failed.
    pub(super) async fn located(
        &self,
        lookup: &Lookup,
        query: &Arc<QueryContext>,
        context: &TaskContext,
    ) -> Result<Self> {
        match self.look_up(lookup, query, context).await {
            Ok(locations) => {
                let index = IndexState { locations: Some(Arc::new(locations)), ..self.placement().index.clone() };
                Ok(self.with_placement(Placement { index, ..self.placement().clone() }))
            }
            // An exceeded cap of the user ends the query; a broken index does not.
            Err(error) if matches!(error.kind(), ErrorKind::Limit | ErrorKind::Cancelled) && !is_own(&error) => {
                Err(error)
            }
            Err(error) => {
                warn!(%error, "scanning without the index");
                query.meter.strategy(format!("{}: scanned without the index: {error}", self.plan.name));
                let context = ScanContext { indexes: Arc::default(), ..self.context.clone() };
                self.in_place_with(self.plan.clone(), context)
            }
        }
    }

    /// Runs the first phase: finds row locations in the indexes.
    async fn look_up(&self, lookup: &Lookup, query: &Arc<QueryContext>, context: &TaskContext) -> Result<RowLocations> {
        let mut found = Vec::with_capacity(lookup.probes.len());
        let mut rows = 0;
        for probe in &lookup.probes {
            found.push(self.probe(probe, query, context, &mut rows).await?);
        }
        let mut locations = RowLocations::default();
        let (mut rows, mut objects) = (0, 0);
        for (object, _) in lookup.covered.iter().enumerate().filter(|(_, covered)| **covered) {
            let mut of_object = found.iter_mut().filter_map(|found| found.remove(&object));
            let first = of_object.next().unwrap_or_default();
            let all = of_object.fold(first, |all, further| places_in_both(&all, &further));
            let bytes: u64 = all.iter().map(|place| place.end - place.start).sum();
            let size = self.plan.objects.get(object).map_or(0, |object| object.size);
            if !lookup.always && !matches!(self.fragment.format, Format::Parquet) && bytes > size / 2 {
                continue;
            }
            rows += all.len();
            objects += u64::from(!all.is_empty());
            locations.by_object.insert(object, all);
        }
        lookup.report(query, &self.plan.name, rows as u64, objects);
        Ok(locations)
    }

    /// Returns the ascending row locations from one index, for each object with an up-to-date
    /// index, and adds their number to `rows`.
    async fn probe(
        &self,
        probe: &Probe,
        query: &Arc<QueryContext>,
        context: &TaskContext,
        rows: &mut usize,
    ) -> Result<HashMap<usize, Vec<Range<u64>>>> {
        let mut found: HashMap<usize, Vec<Range<u64>>> =
            probe.targets.iter().map(|target| (target.object, Vec::new())).collect();
        let at_once = self.context.options.requests() * context.session_config().target_partitions().max(1);
        let (scan, pieces) = self.index_scan(probe)?;
        let mut batches = stream::iter(pieces)
            .map(|splits| {
                let rows = PartitionScan::start(&scan, Arc::clone(query), splits, 0);
                async move { Ok::<_, Error>(rows?.map_err(from_datafusion)) }
            })
            .buffered(at_once)
            .try_flatten_unordered(at_once);
        while let Some(batch) = batches.try_next().await? {
            *rows += batch.num_rows();
            if *rows > MAX_LOOKUP_ROWS {
                return Err(too_many());
            }
            self.note(&batch, &mut found)?;
        }
        found.values_mut().for_each(|ranges| ranges.sort_unstable_by_key(|place| place.start));
        Ok(found)
    }

    /// Adds the row locations in `batch` to `found`. The columns of `batch` are the first position,
    /// the last position, and the object number.
    fn note(&self, batch: &RecordBatch, found: &mut HashMap<usize, Vec<Range<u64>>>) -> Result<()> {
        let corrupt = || Error::new(ErrorKind::Corrupt, "the index names an object that it is not of");
        let owners = batch.columns().get(2).and_then(|column| column.as_primitive_opt::<Int64Type>());
        let owners = owners.ok_or_else(|| Error::internal("an index without places"))?.values();
        let object = |row: usize| usize::try_from(*owners.get(row)?).ok();
        let in_bytes = !matches!(self.fragment.format, Format::Parquet);
        let size = |row| object(row).and_then(|object| self.plan.objects.get(object)).map(|object| object.size);
        let all = places(batch, [0, 1], |row| size(row).filter(|_| in_bytes))?;
        for (row, place) in all.into_iter().enumerate() {
            let of_object = object(row).and_then(|object| found.get_mut(&object));
            of_object.ok_or_else(corrupt)?.push(place);
        }
        Ok(())
    }

    /// Returns the scan of an index, and the pieces of the index that may hold matches. The pieces
    /// of one inner vector are scanned together.
    fn index_scan(&self, probe: &Probe) -> Result<(Self, Vec<Vec<ScanSplit>>)> {
        let targets: Vec<_> = probe.targets.iter().filter(|target| !target.expected.ranges.is_empty()).collect();
        let object = |target: &&Target| DataObject {
            path: target.file.location.clone(),
            size: target.file.size,
            etag: target.file.e_tag.clone(),
            last_modified: target.file.last_modified,
            partition_values: vec![ScalarValue::Int64(i64::try_from(target.object).ok())],
            columns: None,
            replicas: vec![],
        };
        let value = self.plan.table.file_schema.field(probe.index.column).data_type();
        let owner = Arc::new(Field::new("object", DataType::Int64, false));
        let home = &probe.index.location;
        let table = ScanTable {
            location: home.backend.name().to_owned(),
            store: home.backend.url().to_string(),
            format: index::format(),
            compression_by_name: false,
            file_schema: index::schema(value),
            partition_columns: vec![owner],
            // The profile applies to the table's own store only.
            profile: self.plan.table.profile.filter(|_| home.is_on(&self.context.backend)),
        };
        let plan = ScanPlan {
            name: format!("{}, index {}", self.plan.name, probe.index.name),
            table: Arc::new(table),
            objects: Arc::new(targets.iter().map(object).collect()),
            projection: vec![1, 2, 3],
            predicate: Some(probe.predicate.clone()),
            limit: None,
            key_filters: vec![],
            ..self.plan.clone()
        };
        let mut context = ScanContext {
            backend: Arc::clone(&home.backend),
            fleet: None,
            definition: None,
            indexes: Arc::default(),
            ..self.context.clone()
        };
        context.options.filter = FilterStrategy::Auto;
        let scan = self.counting(Self::new(plan, context)?);
        let scan = scan.first_phase();
        let mut pieces = Vec::new();
        for (place, (target, object)) in targets.iter().zip(scan.plan.objects.iter()).enumerate() {
            let ranges = &target.expected.ranges;
            let piece = |range: Range<u64>| {
                let whole = range == (0..object.size) || !scan.can_be_cut(object);
                ScanSplit::new(place, Some(range).filter(|_| !whole))
            };
            let envelope = || Some(ranges.first()?.start..ranges.last()?.end);
            match &scan.placement().choice {
                // A request costs more than scanning the gaps.
                Choice::Storage { route: Route::Select, .. } => pieces.extend(envelope().map(|all| vec![piece(all)])),
                _ if !scan.can_be_cut(object) => pieces.extend(envelope().map(|all| vec![piece(all)])),
                Choice::Storage { route: Route::Fragment, .. } | Choice::Compute(_) => {
                    pieces.extend(ranges.iter().map(|range| vec![piece(range.clone())]));
                }
            }
        }
        if matches!(scan.placement().choice, Choice::Storage { route: Route::Fragment, .. }) {
            pieces = vec![pieces.into_iter().flatten().collect()];
        }
        Ok((scan, pieces))
    }
}

/// Error code of [`too_many`].
const TOO_MANY_ROWS_CODE: &str = "TooManyPlaces";

fn too_many() -> Error {
    let message = format!("it leads to more than {MAX_LOOKUP_ROWS} rows");
    Error::new(ErrorKind::Limit, message).with_code(TOO_MANY_ROWS_CODE)
}

/// Returns whether `error` means that [`MAX_LOOKUP_ROWS`] was exceeded, rather than a limit of the
/// user.
fn is_own(error: &Error) -> bool {
    error.code() == Some(TOO_MANY_ROWS_CODE)
}
