//! The table provider, for tables that are declared and for objects that a query names by address.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::{CreateExternalTable, Expr, LogicalPlan, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use parquet::file::metadata::ParquetMetaData;
use pushdowndb_contract::{Error, Format, Result};
use pushdowndb_scan::limits::MAX_FOOTER_BYTES;

use crate::catalog::{
    DataObject, Declared, InferenceCache, KnownObjects, Listing, TableDefinition, TableLocation, TableOptions,
    manifest, only_on_partitions, prune,
};
use crate::context::{QueryContext, TableSummary};
use crate::endpoints::{Backend, Meters, query_meters};
use crate::error::{from_datafusion, from_object_store, to_datafusion};
use crate::exec::remote_scan::RemoteScanExec;
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::{DEFAULT_GROUP_BYTES, ScanPlan, ScanTable};
use crate::plan::split_sample::SplitSample;
use crate::statistics::{SharedStatistics, Totals};
use crate::{index, standard_input, statistics};

/// The file that ANALYZE TABLE writes beside the data, in the table's private folder.
const STATISTICS_FILE: &str = "statistics.json";

/// Maximum bytes of a statistics file; a larger one was not written by ANALYZE TABLE.
const MAX_STATISTICS_BYTES: u64 = 16 * 1024 * 1024;

/// Maximum number of objects in a table whose footers are read while a query is planned.
const MAX_FOOTERS_AT_PLANNING: usize = 8;

/// Maximum LIMIT for which the rows of a single object keep their order.
const MAX_ROWS_IN_ORDER: usize = 10_000;

#[derive(Clone, Debug)]
pub(crate) struct ObjectTable {
    name: String,
    definition: Arc<TableDefinition>,
    backend: Arc<Backend>,
    /// The same table without the column that [`Self::with_filename`] adds; its listing is used.
    listed_as: Option<Arc<TableDefinition>>,
    /// The sample of its splits that is scanned; `None` for the whole table.
    sample: Option<SplitSample>,
}

/// Cached footers and inferred columns.
struct Known<'a> {
    backend: &'a Backend,
    meters: Meters,
    query: &'a QueryContext,
}

impl KnownObjects for Known<'_> {
    fn footer<'a>(&'a self, object: &'a DataObject) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        self.backend.read_footer(object, &self.meters, &self.query.options, MAX_FOOTER_BYTES).boxed()
    }

    fn inferred(&self) -> Option<&InferenceCache> {
        Some(self.query.statistics.inferred())
    }
}

impl ObjectTable {
    /// Creates a table, inferring what `declared` leaves open.
    pub(crate) async fn resolve(
        query: &QueryContext,
        name: String,
        location: TableLocation,
        options: TableOptions,
        declared: Declared,
    ) -> Result<Self> {
        let meters = query_meters(&query.meter);
        let location = match location.names_manifest() {
            true => {
                let backend = query.backends.backend(location.store().as_ref())?;
                manifest::located(backend.store(&meters)?.as_ref(), location).boxed().await?
            }
            false => location,
        };
        let backend = query.backends.backend(location.store().as_ref())?;
        let store = backend.store(&meters)?;
        let known = Known { backend: &backend, meters, query };
        // Boxed, or the compiler cannot see that the future is Send for every lifetime in it.
        let (definition, found) =
            TableDefinition::resolve(store.as_ref(), &known, location, options, declared).boxed().await?;
        let table = Self { name, definition: Arc::new(definition), backend, listed_as: None, sample: None };
        if let Some(found) = found {
            let listing = table.definition.listed(store.as_ref(), found).boxed().await?;
            query.set_listing(&table.listing_key(), listing);
        }
        Ok(table)
    }

    /// Creates the table of a CREATE EXTERNAL TABLE.
    pub(crate) async fn create(query: &QueryContext, command: &CreateExternalTable) -> Result<Self> {
        let name = command.name.table().to_owned();
        let options = TableOptions::parse(&command.file_type, &command.options)?;
        let columns = command.schema.as_arrow();
        let declared = Declared {
            columns: (!columns.fields().is_empty()).then(|| Arc::new(columns.clone())),
            partitions: command.table_partition_cols.clone(),
        };
        let mut locations = Vec::with_capacity(command.locations.len());
        for location in &command.locations {
            locations.push(standard_input::replaced(&query.backends, location).await?);
        }
        let location = TableLocation::parse_list(&locations, query.backends.access());
        let location = location.map_err(|error| error.context(format!("table {name}")))?;
        Self::resolve(query, name, location, options, declared).await
    }

    pub(crate) fn definition(&self) -> &TableDefinition {
        &self.definition
    }

    pub(crate) fn backend(&self) -> &Arc<Backend> {
        &self.backend
    }

    /// Returns the table with the additional column `name`, which holds the address of each row's
    /// object; `None` if it has a column of that name already.
    pub(crate) fn with_filename(&self, name: &str) -> Option<Self> {
        let definition = Arc::new(self.definition.with_filename(name)?);
        let listed_as = Some(Arc::clone(self.listed_as.as_ref().unwrap_or(&self.definition)));
        Some(Self {
            name: self.name.clone(),
            definition,
            backend: Arc::clone(&self.backend),
            listed_as,
            sample: self.sample,
        })
    }

    /// Returns the table with only a sample of its splits.
    pub(crate) fn sampled(&self, sample: SplitSample) -> Self {
        Self { sample: Some(sample), ..self.clone() }
    }

    fn listing_key(&self) -> String {
        let definition = self.listed_as.as_ref().unwrap_or(&self.definition);
        format!("{} {:?}", definition.location, Arc::as_ptr(definition))
    }

    /// Returns the table's objects, which are listed once per query.
    pub(crate) async fn listing(&self, query: &QueryContext) -> Result<Arc<Listing>> {
        let store = self.backend.store(&query_meters(&query.meter))?;
        let listed = self.listed_as.as_ref().unwrap_or(&self.definition);
        let listing = query.listing(&self.listing_key(), listed.listing(store.as_ref()).boxed()).await?;
        if self.listed_as.is_none() {
            return Ok(listing);
        }
        let mut objects = listing.objects.to_vec();
        self.definition.assign(&mut objects)?;
        Ok(Arc::new(Listing { objects: Arc::new(objects), private: listing.private.clone() }))
    }

    /// Returns the table's summary, if `query` has one already.
    pub(crate) fn summary_in(&self, query: &QueryContext) -> Option<TableSummary> {
        query.summary(&self.definition)
    }

    /// Returns the table's summary, which is made once per query. Unreadable statistics never fail
    /// a query.
    async fn summary(&self, query: &QueryContext) -> Result<TableSummary> {
        if let Some(summary) = query.summary(&self.definition) {
            return Ok(summary);
        }
        let listing = self.listing(query).await?;
        let bytes = listing.objects.iter().map(|object| object.size).sum();
        let statistics = match query.options.uses_statistics() {
            true => self.statistics(query, &listing).await,
            false => {
                self.read_footers(query, &listing).await;
                None
            }
        };
        let summary = TableSummary { bytes, statistics };
        query.set_summary(&self.definition, summary.clone());
        Ok(summary)
    }

    async fn statistics(&self, query: &QueryContext, listing: &Listing) -> Option<SharedStatistics> {
        let objects = &listing.objects;
        let key = statistics::Key::new(self.backend.name(), &self.definition, objects);
        if let Some(cached) = query.statistics.get(&key) {
            return Some(cached);
        }
        let meters = query_meters(&query.meter);
        let counted = self.persisted_totals(query, listing, &key).await;
        let counted = counted.map(|totals| query.statistics.put_totals(key.clone(), totals));
        match statistics::collect(&self.backend, &meters, &self.definition, objects, &query.options).await {
            Ok(Some(drawn)) => Some(query.statistics.put(key, drawn)),
            Ok(None) => counted,
            Err(error) => {
                tracing::debug!(table = self.name, %error, "no statistics");
                counted
            }
        }
    }

    /// Reads the footers of a table with few objects behind a high latency, concurrently with those
    /// of other tables: its scan may begin late. Errors are ignored, since the scan reads a missing
    /// footer again.
    async fn read_footers(&self, query: &QueryContext, listing: &Listing) {
        let objects = &listing.objects;
        let is_parquet = matches!(self.definition.format, Format::Parquet);
        if !is_parquet || query.options.reads == 1 || !self.backend.is_far() || objects.len() > MAX_FOOTERS_AT_PLANNING
        {
            return;
        }
        let meters = query_meters(&query.meter);
        let read = |object| self.backend.read_footer(object, &meters, &query.options, MAX_FOOTER_BYTES);
        drop(futures::future::join_all(objects.iter().map(read)).await);
    }

    /// Returns the totals that ANALYZE TABLE wrote beside the data, if they can be read.
    async fn persisted_totals(&self, query: &QueryContext, listing: &Listing, key: &statistics::Key) -> Option<Totals> {
        let path = Path::from(format!("{}/{STATISTICS_FILE}", listing.private.path));
        let found = listing.private.objects.as_ref()?.iter().find(|object| object.location == path)?;
        if found.size > MAX_STATISTICS_BYTES {
            return None;
        }
        let store = self.backend.store(&query_meters(&query.meter)).ok()?;
        let text = store.get(&path).await.ok()?.bytes().await.ok()?;
        statistics::totals_from_json(key, &text)
    }

    /// Caches the totals of ANALYZE TABLE, and writes them beside the data if `beside` is set.
    pub(crate) async fn keep_totals(&self, query: &QueryContext, mut totals: Totals, beside: bool) -> Result<()> {
        let listing = self.listing(query).await?;
        totals.of_bytes(listing.objects.iter().map(|object| object.size).sum());
        let key = statistics::Key::new(self.backend.name(), &self.definition, &listing.objects);
        if beside {
            let json = statistics::totals_to_json(&key, &totals);
            let json = json.map_err(|error| Error::internal("counts that are no JSON").with_source(error))?;
            let path = Path::from(format!("{}/{STATISTICS_FILE}", listing.private.path));
            let store = self.backend.store(&query_meters(&query.meter))?;
            let put = store.put(&path, PutPayload::from(json)).await;
            put.map_err(|error| from_object_store(error).context(self.backend.address(&path)))?;
        }
        query.statistics.put_totals(key, totals);
        Ok(())
    }
}

/// Lists and summarizes all tables of a plan concurrently, before its joins are ordered.
pub(crate) async fn look_at_tables(query: &QueryContext, plan: &LogicalPlan) -> Result<()> {
    let mut tables: Vec<ObjectTable> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(table) = source_as_provider(&scan.source)?.downcast_ref::<ObjectTable>()
            && !tables.iter().any(|other| Arc::ptr_eq(&other.definition, &table.definition))
        {
            tables.push(table.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(from_datafusion)?;
    let all = tables.iter().map(|table| table.summary(query).boxed());
    futures::future::try_join_all(all.collect::<Vec<_>>()).await.map(|_| ())
}

/// Returns whether scans skip records that do not fit the columns.
fn ignores_errors(format: &Format) -> bool {
    let Format::Csv(csv) = format else { return false };
    csv.translation.as_ref().is_some_and(|translation| translation.ignores_errors)
}

/// Returns the table of `definition` as scans take it.
fn scan_table(definition: &TableDefinition) -> ScanTable {
    ScanTable {
        location: definition.location.to_string(),
        store: definition.location.store().as_str().to_owned(),
        format: definition.format.clone(),
        compression_by_name: definition.options.compression.is_none(),
        file_schema: Arc::clone(&definition.file_schema),
        partition_columns: definition.partition_columns.clone(),
        profile: definition.backend,
    }
}

#[async_trait]
impl TableProvider for ObjectTable {
    fn schema(&self) -> SchemaRef {
        self.definition.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        // Predicates on partition columns alone are exact, since they exclude whole objects. The
        // others are left to the physical scan.
        let partitions = &self.definition.partition_columns;
        Ok(filters
            .iter()
            .map(|filter| match only_on_partitions(filter, partitions) {
                true => TableProviderFilterPushDown::Exact,
                false => TableProviderFilterPushDown::Inexact,
            })
            .collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let query = state
            .config()
            .get_extension::<QueryContext>()
            .ok_or_else(|| DataFusionError::Internal("a table outside of a query".to_owned()))?;
        let scan = async {
            let definition = &self.definition;
            if ignores_errors(&definition.format) {
                query.logs_rejects();
            }
            let listing = self.listing(&query).await?;
            let found = index::find(&query, &self.backend, definition, &listing.private, filters);
            let indexes = Arc::new(found.boxed().await?);
            let objects = Arc::clone(&listing.objects);
            let objects = match definition.partition_columns.is_empty() {
                true => objects,
                false => Arc::new(prune(objects.to_vec(), filters, &definition.partition_columns)?),
            };
            let statistics = self.summary(&query).boxed().await?.statistics;
            // A limit applies to the scan only if no filter remains to be evaluated after it.
            let settled = filters.iter().all(|filter| only_on_partitions(filter, &definition.partition_columns));
            // The first rows of a single object are returned in its order, which takes a single
            // partition.
            let first_rows = settled && objects.len() == 1 && limit.is_some_and(|limit| limit <= MAX_ROWS_IN_ORDER);
            let plan = ScanPlan {
                name: self.name.clone(),
                table: Arc::new(scan_table(definition)),
                objects,
                partitions: if first_rows { 1 } else { state.config().target_partitions() },
                projection: projection.cloned().unwrap_or_else(|| (0..definition.schema().fields().len()).collect()),
                predicate: None,
                limit: limit.filter(|_| settled),
                aggregate: None,
                group_bytes: DEFAULT_GROUP_BYTES,
                top_k: None,
                key_filters: vec![],
                without_keys: None,
                sample: self.sample,
            };
            let nodes = query.backends.nodes(&query.options.nodes).boxed().await?;
            let meters = query_meters(&query.meter);
            let fleet = self.backend.fleet(nodes, &meters, &query.options).boxed().await;
            self.backend.greet(&meters, &query.options).boxed().await;
            let context = ScanContext {
                backend: Arc::clone(&self.backend),
                fleet,
                definition: Some(Arc::clone(definition)),
                options: query.options.clone(),
                statistics,
                cores: state.config().target_partitions(),
                prices: Arc::clone(&query.prices),
                indexes,
                join_keys: BTreeMap::new(),
                share: None,
            };
            RemoteScanExec::new(plan, context)
        };
        Ok(Arc::new(scan.await.map_err(to_datafusion)?))
    }
}

/// The factory of CREATE EXTERNAL TABLE.
#[derive(Debug)]
pub(crate) struct ObjectTableFactory;

#[async_trait]
impl TableProviderFactory for ObjectTableFactory {
    async fn create(&self, state: &dyn Session, command: &CreateExternalTable) -> DfResult<Arc<dyn TableProvider>> {
        let query = state
            .config()
            .get_extension::<QueryContext>()
            .ok_or_else(|| DataFusionError::Internal("a declaration outside of a statement".to_owned()))?;
        Ok(Arc::new(ObjectTable::create(&query, command).await.map_err(to_datafusion)?))
    }
}
