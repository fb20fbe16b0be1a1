//! Tables that a statement names and no catalog has: those of the catalog file, objects by their
//! address, calls of reading functions, and the table of skipped records.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{Field, Schema};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, TableProvider, UrlTableFactory};
use datafusion::common::Result as DfResult;
use futures::FutureExt;
use parking_lot::Mutex;
use pushdowndb_contract::{Error, Result};
use pushdowndb_scan::Reject;

use crate::catalog::declared::DeclaredTables;
use crate::catalog::listing;
use crate::catalog::{Call, Declared, TableLocation, TableOptions};
use crate::context::QueryContext;
use crate::endpoints::query_meters;
use crate::error::{from_datafusion, to_datafusion};
use crate::provider::ObjectTable;
use crate::{standard_input, whole_objects};

/// The table of the records that the last statement skipped because of `ignore_errors`.
const REJECT_ERRORS: &str = "reject_errors";

/// The tables that one statement can name.
#[derive(Debug)]
pub(crate) struct NamedTables {
    query: Arc<QueryContext>,
    declared: Arc<DeclaredTables>,
    /// Tables that only the statement can name, by name in lower case.
    given: HashMap<String, Arc<dyn TableProvider>>,
    /// Tables that were resolved already: a statement may be planned several times.
    resolved: Arc<Mutex<HashMap<String, Arc<dyn TableProvider>>>>,
}

impl NamedTables {
    /// Makes the tables of one statement.
    pub(crate) fn new(query: Arc<QueryContext>, declared: Arc<DeclaredTables>) -> Self {
        Self { query, declared, given: HashMap::new(), resolved: Arc::default() }
    }

    /// Returns the same tables, with those that are `given` by name in lower case.
    pub(crate) fn with(&self, given: HashMap<String, Arc<dyn TableProvider>>) -> Self {
        let (query, declared) = (Arc::clone(&self.query), Arc::clone(&self.declared));
        Self { query, declared, given, resolved: Arc::clone(&self.resolved) }
    }

    async fn resolve(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(command) = self.declared.declaration(name).await? {
            return Ok(Some(Arc::new(ObjectTable::create(&self.query, &command).await?)));
        }
        if let Some(call) = Call::parse(name)? {
            return self.called(name, &call).await.map(Some);
        }
        if name == REJECT_ERRORS {
            return rejected(&self.query.last_rejects()).map(Some);
        }
        if !looks_like_address(name) {
            return Ok(None);
        }
        let location = self.location(&[name.to_owned()]).await?;
        let (options, declared) = (TableOptions::default(), Declared::default());
        Ok(Some(Arc::new(ObjectTable::resolve(&self.query, name.to_owned(), location, options, declared).await?)))
    }

    /// Returns the table that a call of a reading function stands for.
    async fn called(&self, name: &str, call: &Call) -> Result<Arc<dyn TableProvider>> {
        let location = self.location(&call.locations).await?;
        if let Some(whole) = call.whole() {
            return table(whole_objects::columns(&self.query, &location, whole).await?);
        }
        let Some(options) = call.options()? else {
            return self.names(&location).await;
        };
        let table = ObjectTable::resolve(&self.query, name.to_owned(), location, options, Declared::default());
        Ok(Arc::new(table.await?))
    }

    /// Parses the locations of a table. `-` and `/dev/stdin` stand for standard input.
    async fn location(&self, texts: &[String]) -> Result<TableLocation> {
        let mut locations = Vec::with_capacity(texts.len());
        for text in texts {
            let text = if text == "-" { "/dev/stdin" } else { text };
            locations.push(standard_input::replaced(&self.query.backends, text).await?);
        }
        TableLocation::parse_list(&locations, self.query.backends.access())
    }

    /// Returns a table of the addresses of the objects at a location.
    async fn names(&self, location: &TableLocation) -> Result<Arc<dyn TableProvider>> {
        let backend = self.query.backends.backend(location.store().as_ref())?;
        let store = backend.store(&query_meters(&self.query.meter))?;
        let names = listing::names(store.as_ref(), location).await?;
        table(vec![("file", Arc::new(StringArray::from(names)) as ArrayRef)])
    }
}

#[async_trait]
impl UrlTableFactory for NamedTables {
    async fn try_new(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        if let Some(given) = self.given.get(&name.to_lowercase()) {
            return Ok(Some(Arc::clone(given)));
        }
        if let Some(known) = self.resolved.lock().get(name) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(table) = self.resolve(name).boxed().await.map_err(to_datafusion)? else { return Ok(None) };
        self.resolved.lock().insert(name.to_owned(), Arc::clone(&table));
        Ok(Some(table))
    }
}

/// Returns the table of skipped records.
fn rejected(rejects: &[Reject]) -> Result<Arc<dyn TableProvider>> {
    let texts = |text: fn(&Reject) -> &str| StringArray::from_iter_values(rejects.iter().map(text));
    table(vec![
        ("object", Arc::new(texts(|reject| &reject.object)) as ArrayRef),
        ("byte", Arc::new(UInt64Array::from_iter_values(rejects.iter().map(|reject| reject.byte))) as ArrayRef),
        ("reason", Arc::new(texts(|reject| &reject.reason)) as ArrayRef),
        ("text", Arc::new(texts(|reject| &reject.text)) as ArrayRef),
    ])
}

/// Makes a table in memory.
fn table(columns: Vec<(&str, ArrayRef)>) -> Result<Arc<dyn TableProvider>> {
    let field = |(name, values): &(&str, ArrayRef)| Field::new(*name, values.data_type().clone(), values.is_nullable());
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let columns = columns.into_iter().map(|(_, values)| values).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)
        .map_err(|error| Error::internal("columns of different lengths").with_source(error))?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]]).map_err(from_datafusion)?))
}

/// Returns whether `name` is an address, by its scheme, folder or extension.
pub(crate) fn looks_like_address(name: &str) -> bool {
    const EXTENSIONS: [&str; 8] = [".csv", ".tsv", ".json", ".ndjson", ".jsonl", ".parquet", ".txt", ".log"];
    let plain = [".gz", ".zst", ".bz2"].iter().fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
    name.contains("://") || name.contains('/') || EXTENSIONS.iter().any(|extension| plain.ends_with(extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_are_read_as_files() {
        for address in ["s3://b/k", "data/*.csv", "x.parquet", "x.csv.gz", "/tmp/x.ndjson", "access.log.gz"] {
            assert!(looks_like_address(address), "{address}");
        }
        for name in ["lineitem", "csv", "a.b"] {
            assert!(!looks_like_address(name), "{name}");
        }
    }
}
