//! The table provider: declared tables, and objects addressed in a query.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory, UrlTableFactory};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::{CreateExternalTable, Expr, LogicalPlan, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use parking_lot::Mutex;
use parquet::file::metadata::ParquetMetaData;
use pushdowndb_contract::{Error, Format, Result};
use pushdowndb_scan::limits::MAX_FOOTER_BYTES;

use crate::catalog::declared::DeclaredTables;
use crate::catalog::{
    DataObject, Declared, InferenceCache, KnownObjects, Listing, TableDefinition, TableLocation, TableOptions,
    only_on_partitions, prune,
};
use crate::context::{QueryContext, TableSummary};
use crate::endpoints::{Backend, Meters, query_meters};
use crate::error::{from_datafusion, from_object_store, to_datafusion};
use crate::exec::remote_scan::RemoteScanExec;
use crate::plan::scan_context::ScanContext;
use crate::plan::scan_plan::{DEFAULT_GROUP_BYTES, ScanPlan, ScanTable};
use crate::statistics::{SharedStatistics, Totals};
use crate::{index, statistics};

/// The file that ANALYZE TABLE writes beside the data, in the table's private folder.
const STATISTICS_FILE: &str = "statistics.json";

/// Maximum bytes of a statistics file; a larger one was not written by ANALYZE TABLE.
const MAX_STATISTICS_BYTES: u64 = 16 * 1024 * 1024;

/// The most objects of a table whose footers are read while a query is planned.
const MAX_FOOTERS_AT_PLANNING: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct ObjectTable {
    name: String,
    definition: Arc<TableDefinition>,
    backend: Arc<Backend>,
}

/// Footers that the backend keeps, and inferred columns.
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
        location: &str,
        options: TableOptions,
        declared: Declared,
    ) -> Result<Self> {
        let location = TableLocation::parse(location, query.backends.access())?;
        let backend = query.backends.backend(location.store().as_ref())?;
        let meters = query_meters(&query.meter);
        let store = backend.store(&meters)?;
        let known = Known { backend: &backend, meters, query };
        // Boxed, or the compiler cannot see that the future is Send for every lifetime in it.
        let (definition, found) =
            TableDefinition::resolve(store.as_ref(), &known, location, options, declared).boxed().await?;
        let table = Self { name, definition: Arc::new(definition), backend };
        if let Some(found) = found {
            let listing = table.definition.listed(store.as_ref(), found).boxed().await?;
            query.set_listing(&table.listing_key(), listing);
        }
        Ok(table)
    }

    /// Creates a table by CREATE EXTERNAL TABLE.
    pub(crate) async fn create(query: &QueryContext, command: &CreateExternalTable) -> Result<Self> {
        let name = command.name.table().to_owned();
        let [location] = command.locations.as_slice() else {
            return Err(Error::unsupported(format!(
                "table {name}: one LOCATION per table; a folder or a glob such as 's3://bucket/*.csv' names many objects"
            )));
        };
        let options = TableOptions::parse(&command.file_type, &command.options)?;
        let columns = command.schema.as_arrow();
        let declared = Declared {
            columns: (!columns.fields().is_empty()).then(|| Arc::new(columns.clone())),
            partitions: command.table_partition_cols.clone(),
        };
        Self::resolve(query, name, location, options, declared).await
    }

    pub(crate) fn definition(&self) -> &TableDefinition {
        &self.definition
    }

    pub(crate) fn backend(&self) -> &Arc<Backend> {
        &self.backend
    }

    fn listing_key(&self) -> String {
        format!("{} {:?}", self.definition.location, Arc::as_ptr(&self.definition))
    }

    /// Its objects, listed once per query.
    pub(crate) async fn listing(&self, query: &QueryContext) -> Result<Arc<Listing>> {
        let store = self.backend.store(&query_meters(&query.meter))?;
        query.listing(&self.listing_key(), self.definition.listing(store.as_ref()).boxed()).await
    }

    /// The table's summary, if `query` already has one.
    pub(crate) fn summary_in(&self, query: &QueryContext) -> Option<TableSummary> {
        query.summary(&self.definition)
    }

    /// The table's summary, made once; unreadable statistics never fail a query.
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

    /// Reads the footers of a far table of few objects, while those of other tables are read: its
    /// scan may begin late. What fails is read again by the scan.
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

    /// The totals that ANALYZE TABLE wrote beside the data.
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

/// The table of `definition` as input of scans.
fn scan_table(definition: &TableDefinition) -> ScanTable {
    ScanTable {
        location: definition.location.to_string(),
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
        // Predicates on the path are decided by leaving objects out; the others by the physical
        // scan.
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
            let listing = self.listing(&query).await?;
            let found = index::find(&query, &self.backend, definition, &listing.private, filters);
            let indexes = Arc::new(found.boxed().await?);
            let objects = Arc::clone(&listing.objects);
            let objects = match definition.partition_columns.is_empty() {
                true => objects,
                false => Arc::new(prune(objects.to_vec(), filters, &definition.partition_columns)?),
            };
            let statistics = self.summary(&query).boxed().await?.statistics;
            // A limit reaches the scan only if every filter is decided here.
            let settled = filters.iter().all(|filter| only_on_partitions(filter, &definition.partition_columns));
            let plan = ScanPlan {
                name: self.name.clone(),
                table: Arc::new(scan_table(definition)),
                objects,
                partitions: state.config().target_partitions(),
                projection: projection.cloned().unwrap_or_else(|| (0..definition.schema().fields().len()).collect()),
                predicate: None,
                limit: limit.filter(|_| settled),
                aggregate: None,
                group_bytes: DEFAULT_GROUP_BYTES,
                top_k: None,
                key_filters: vec![],
                without_keys: None,
            };
            let context = ScanContext {
                backend: Arc::clone(&self.backend),
                definition: Some(Arc::clone(definition)),
                options: query.options.clone(),
                statistics,
                cores: state.config().target_partitions(),
                prices: Arc::clone(&query.prices),
                indexes,
                join_keys: BTreeMap::new(),
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

/// Resolves names without a table: tables of the catalog file, and addresses of objects.
#[derive(Debug)]
pub(crate) struct LazyTables {
    query: Arc<QueryContext>,
    declared: Arc<DeclaredTables>,
    /// Those that were resolved already: a statement may be planned several times.
    resolved: Mutex<HashMap<String, Arc<dyn TableProvider>>>,
}

impl LazyTables {
    /// Makes the tables of one statement.
    pub(crate) fn new(query: Arc<QueryContext>, declared: Arc<DeclaredTables>) -> Self {
        Self { query, declared, resolved: Mutex::default() }
    }

    async fn resolve(&self, name: &str) -> Result<Option<ObjectTable>> {
        if let Some(command) = self.declared.declaration(name).await? {
            return ObjectTable::create(&self.query, &command).await.map(Some);
        }
        if !looks_like_address(name) {
            return Ok(None);
        }
        let (options, declared) = (TableOptions::default(), Declared::default());
        ObjectTable::resolve(&self.query, name.to_owned(), name, options, declared).await.map(Some)
    }
}

#[async_trait]
impl UrlTableFactory for LazyTables {
    async fn try_new(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        if let Some(known) = self.resolved.lock().get(name) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(table) = LazyTables::resolve(self, name).boxed().await.map_err(to_datafusion)? else {
            return Ok(None);
        };
        let table: Arc<dyn TableProvider> = Arc::new(table);
        self.resolved.lock().insert(name.to_owned(), Arc::clone(&table));
        Ok(Some(table))
    }
}

/// Returns whether `name` is an address, by its scheme, folder or extension.
fn looks_like_address(name: &str) -> bool {
    const EXTENSIONS: [&str; 7] = [".csv", ".tsv", ".json", ".ndjson", ".jsonl", ".parquet", ".txt"];
    let plain = [".gz", ".zst", ".bz2"].iter().fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
    name.contains("://") || name.contains('/') || EXTENSIONS.iter().any(|extension| plain.ends_with(extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_are_read_as_files() {
        for address in ["s3://b/k", "data/*.csv", "x.parquet", "x.csv.gz", "/tmp/x.ndjson"] {
            assert!(looks_like_address(address), "{address}");
        }
        for name in ["lineitem", "csv", "a.b"] {
            assert!(!looks_like_address(name), "{name}");
        }
    }
}
