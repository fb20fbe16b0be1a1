//! Tables as DataFusion sees them: declared ones, and objects named in a query by their address.

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
use parquet::file::metadata::ParquetMetaData;
use pushdown::{Error, Result};
use pushdowndb_scan::limits::FOOTER_BYTES;

use crate::backends::{Backend, Meters, query_meters};
use crate::error::{from_datafusion, from_object_store, to_datafusion};
use crate::index;
use crate::query::{Known, QueryContext};
use crate::remembered::Remembered;
use crate::remote_scan::{GROUP_BYTES, RemoteScanExec, ScanSpec};
use crate::settings::PushdownOptions;
use crate::statistics::{self, SharedStatistics, Totals};
use crate::table::{
    DataObject, Declared, Listing, ReadFooter, TableDefinition, TableLocation, TableOptions, only_on_partitions, prune,
};

/// What ANALYZE TABLE writes beside the data, in the table's private folder.
const STATISTICS: &str = "statistics.json";

/// A larger one was not written by it.
const MOST_STATISTICS_BYTES: u64 = 16 * 1024 * 1024;

/// A table over objects.
#[derive(Clone, Debug)]
pub(crate) struct ObjectTable {
    name: String,
    definition: Arc<TableDefinition>,
    backend: Arc<Backend>,
}

/// Footers of a backend's objects, which are remembered there.
struct Footers<'a> {
    backend: &'a Backend,
    meters: Meters,
    options: &'a PushdownOptions,
}

impl ReadFooter for Footers<'_> {
    fn footer<'a>(&'a self, object: &'a DataObject) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        self.backend.read_footer(object, &self.meters, self.options, FOOTER_BYTES).boxed()
    }
}

impl ObjectTable {
    /// Finds out what a table's declaration leaves open.
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
        let footers = Footers { backend: &backend, meters, options: &query.options };
        // Boxed, or the compiler cannot see that the future is Send for every lifetime in it.
        let definition =
            TableDefinition::resolve(store.as_ref(), &footers, location, options, declared).boxed().await?;
        Ok(Self { name, definition: Arc::new(definition), backend })
    }

    /// From CREATE EXTERNAL TABLE.
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

    /// What the table is.
    pub(crate) fn definition(&self) -> &TableDefinition {
        &self.definition
    }

    /// Where its objects are.
    pub(crate) fn backend(&self) -> &Arc<Backend> {
        &self.backend
    }

    /// Its objects as they are at this query.
    pub(crate) async fn listing(&self, query: &QueryContext) -> Result<Arc<Listing>> {
        let store = self.backend.store(&query_meters(&query.meter))?;
        let key = format!("{} {:?}", self.definition.location, Arc::as_ptr(&self.definition));
        query.listing(&key, self.definition.listing(store.as_ref()).boxed()).await
    }

    /// What the query found out about it, if it asked yet.
    pub(crate) fn known_to(&self, query: &QueryContext) -> Option<Known> {
        query.known(&self.definition)
    }

    /// What is known of it, found out when first needed. Estimates do without where that is not possible: a query that
    /// can be answered never fails for its statistics.
    async fn known(&self, query: &QueryContext) -> Result<Known> {
        if let Some(known) = query.known(&self.definition) {
            return Ok(known);
        }
        let listing = self.listing(query).await?;
        let bytes = listing.objects.iter().map(|object| object.size).sum();
        let statistics = match query.options.looks_at_tables() {
            true => self.statistics(query, &listing).await,
            false => None,
        };
        let known = Known { bytes, statistics };
        query.learn(&self.definition, known.clone());
        Ok(known)
    }

    async fn statistics(&self, query: &QueryContext, listing: &Listing) -> Option<SharedStatistics> {
        let objects = &listing.objects;
        let key = statistics::Key::new(self.backend.name(), &self.definition, objects);
        if let Some(known) = query.statistics.get(&key) {
            return Some(known);
        }
        let meters = query_meters(&query.meter);
        let counted = self.counted_beside(query, listing, &key).await;
        let counted = counted.map(|totals| query.statistics.put_totals(key.clone(), totals));
        match statistics::draw(&self.backend, &meters, &self.definition, objects, &query.options).await {
            Ok(Some(drawn)) => Some(query.statistics.put(key, drawn)),
            Ok(None) => counted,
            Err(error) => {
                tracing::debug!(table = self.name, %error, "no statistics");
                counted
            }
        }
    }

    /// What ANALYZE TABLE left beside the data.
    async fn counted_beside(&self, query: &QueryContext, listing: &Listing, key: &statistics::Key) -> Option<Totals> {
        let path = Path::from(format!("{}/{STATISTICS}", listing.private.path));
        let found = listing.private.objects.as_ref()?.iter().find(|object| object.location == path)?;
        if found.size > MOST_STATISTICS_BYTES {
            return None;
        }
        let store = self.backend.store(&query_meters(&query.meter)).ok()?;
        let text = store.get(&path).await.ok()?.bytes().await.ok()?;
        statistics::totals_from_json(key, &text)
    }

    /// Keeps what ANALYZE TABLE counted, where asked also beside the data.
    pub(crate) async fn keep_totals(&self, query: &QueryContext, mut totals: Totals, beside: bool) -> Result<()> {
        let listing = self.listing(query).await?;
        totals.of_bytes(listing.objects.iter().map(|object| object.size).sum());
        let key = statistics::Key::new(self.backend.name(), &self.definition, &listing.objects);
        if beside {
            let json = statistics::totals_to_json(&key, &totals);
            let json = json.map_err(|error| Error::internal("counts that are no JSON").with_source(error))?;
            let path = Path::from(format!("{}/{STATISTICS}", listing.private.path));
            let store = self.backend.store(&query_meters(&query.meter))?;
            let put = store.put(&path, PutPayload::from(json)).await;
            put.map_err(|error| from_object_store(error).context(self.backend.address(&path)))?;
        }
        query.statistics.put_totals(key, totals);
        Ok(())
    }
}

/// Finds out about all tables of a plan at once, before it is put in order.
pub(crate) async fn look_at_tables(query: &QueryContext, plan: &LogicalPlan) -> Result<()> {
    if !query.options.looks_at_tables() {
        return Ok(());
    }
    let mut tables: Vec<ObjectTable> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(table) = source_as_provider(&scan.source)?.downcast_ref::<ObjectTable>()
            && !tables.iter().any(|known| Arc::ptr_eq(&known.definition, &table.definition))
        {
            tables.push(table.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(from_datafusion)?;
    let all = tables.iter().map(|table| table.known(query).boxed());
    futures::future::try_join_all(all.collect::<Vec<_>>()).await.map(|_| ())
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
        // Predicates on the path alone are settled by leaving objects out. All others stay in the plan until
        // the physical scan takes them over.
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
            let statistics = self.known(&query).boxed().await?.statistics;
            // A limit may only reach the scan when every filter is settled here.
            let settled = filters.iter().all(|filter| only_on_partitions(filter, &definition.partition_columns));
            RemoteScanExec::new(ScanSpec {
                name: self.name.clone(),
                table: Arc::clone(definition),
                backend: Arc::clone(&self.backend),
                objects,
                options: query.options.clone(),
                statistics,
                partitions: state.config().target_partitions(),
                cores: state.config().target_partitions(),
                prices: Arc::clone(&query.prices),
                projection: projection.cloned().unwrap_or_else(|| (0..definition.schema().fields().len()).collect()),
                predicate: None,
                limit: limit.filter(|_| settled),
                aggregate: None,
                top_k: None,
                indexes,
                key_filters: vec![],
                without_keys: None,
                joins: vec![],
                group_bytes: GROUP_BYTES,
                note: None,
            })
        };
        Ok(Arc::new(scan.await.map_err(to_datafusion)?))
    }
}

/// CREATE EXTERNAL TABLE.
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

/// Names that no table has: those that the catalogue file remembers, and addresses of objects.
#[derive(Debug)]
pub(crate) struct UndeclaredTables {
    pub(crate) query: Arc<QueryContext>,
    pub(crate) remembered: Arc<Remembered>,
}

#[async_trait]
impl UrlTableFactory for UndeclaredTables {
    async fn try_new(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        if let Some(command) = self.remembered.declaration(name).await.map_err(to_datafusion)? {
            let table = ObjectTable::create(&self.query, &command).await.map_err(to_datafusion)?;
            return Ok(Some(Arc::new(table)));
        }
        if !looks_like_address(name) {
            return Ok(None);
        }
        let table =
            ObjectTable::resolve(&self.query, name.to_owned(), name, TableOptions::default(), Declared::default());
        Ok(Some(Arc::new(table.await.map_err(to_datafusion)?)))
    }
}

/// Whether a table's name can only be an address: it has a scheme, a folder, or the extension of a format.
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
