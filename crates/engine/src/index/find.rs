//! Finds a table's indexes, in the listing of its objects, or by an additional LIST of its private
//! folder and of each other location of indexes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::logical_expr::Expr as LogicalExpr;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};
use pushdowndb_contract::{Error, ErrorKind, Result};

use super::location::{IndexFile, IndexLocation, files, path};
use super::manifest::{Directory, MAX_MANIFEST_BYTES, ManifestCache};
use super::meaning;
use crate::catalog::{PrivateFolder, TableDefinition};
use crate::context::QueryContext;
use crate::endpoints::{Backend, query_meters};
use crate::error::from_object_store;
use crate::settings::IndexUse;

/// The file name of manifests.
const MANIFEST: &str = "manifest.json";

/// An index of a table, ready for look-ups.
#[derive(Clone, Debug)]
pub(crate) struct TableIndex {
    pub(crate) name: String,
    /// Position of the indexed column among the columns of the table's objects.
    pub(crate) column: usize,
    pub(crate) directory: Arc<Directory>,
    /// The index objects, by their names in the manifest.
    pub(crate) files: Arc<HashMap<String, ObjectMeta>>,
    /// The location of the index.
    pub(crate) location: Arc<IndexLocation>,
}

/// An index in storage.
#[derive(Clone, Debug)]
pub(crate) struct StoredIndex {
    pub(crate) name: String,
    /// The name of the indexed column.
    pub(crate) column: String,
    pub(crate) location: Arc<IndexLocation>,
    /// Path of the manifest; `None` while the index is being built, or if that was interrupted.
    pub(crate) manifest: Option<Path>,
    version: Option<(String, u64)>,
    pub(crate) files: HashMap<String, ObjectMeta>,
    /// Pointers that name the location of the index.
    pub(crate) pointers: Vec<Pointer>,
}

/// Returns the path of the manifest of the index in `folder`.
pub(crate) fn manifest_path(folder: &Path) -> Result<Path> {
    path(&format!("{folder}/{MANIFEST}"))
}

/// Returns the indexes on columns that `filters` use, unless a setting turns indexes off. A broken
/// index is reported and not used.
pub(crate) async fn find(
    query: &QueryContext,
    backend: &Arc<Backend>,
    table: &TableDefinition,
    private: &PrivateFolder,
    filters: &[LogicalExpr],
) -> Result<Vec<TableIndex>> {
    if query.options.index_use() == IndexUse::Never {
        return Ok(vec![]);
    }
    let named: BTreeSet<&str> =
        filters.iter().flat_map(LogicalExpr::column_refs).map(|column| column.name.as_str()).collect();
    let in_objects = |name: &&str| table.file_schema.column_with_name(name).is_some();
    let named: BTreeSet<&str> = named.into_iter().filter(in_objects).collect();
    if named.is_empty() {
        return Ok(vec![]);
    }
    let not_used = |what: &str, error: &Error| not_used(query, table, what, error);
    let all = match stored(query, backend, table, private).await {
        Ok(all) => all,
        Err(error) => {
            not_used("an index", &error);
            return Ok(vec![]);
        }
    };
    let mut usable = Vec::new();
    for index in all.into_iter().filter(|index| index.manifest.is_some() && named.contains(index.column.as_str())) {
        match index.open(query, table).await {
            Ok(index) => usable.push(index),
            Err(error) => not_used(&format!("the index {}", index.name), &error),
        }
    }
    Ok(usable)
}

/// A pointer to an index: the location in which the pointer lies, and its path.
pub(super) type Pointer = (Arc<IndexLocation>, Path);

/// Returns all indexes of a table, sorted by name. An index beside the table and one elsewhere are
/// two, even if they have the same name and column.
pub(crate) async fn stored(
    query: &QueryContext,
    backend: &Arc<Backend>,
    table: &TableDefinition,
    private: &PrivateFolder,
) -> Result<Vec<StoredIndex>> {
    let mut all: BTreeMap<(String, String, String), StoredIndex> = BTreeMap::new();
    // By name and column.
    let mut pointers: BTreeMap<(String, String), Vec<Pointer>> = BTreeMap::new();
    for file in files(query, backend, table, private, |what, error| not_used(query, table, what, error)).await? {
        let IndexFile { location, index: name, column, name: file_name, meta } = &file;
        if file.points_to().is_some() {
            let of_index = pointers.entry((name.clone(), column.clone())).or_default();
            of_index.push((Arc::clone(location), meta.location.clone()));
            continue;
        }
        let place = (name.clone(), column.clone(), location.address());
        let index = all.entry(place).or_insert_with(|| StoredIndex {
            name: name.clone(),
            column: column.clone(),
            location: Arc::clone(location),
            manifest: None,
            version: None,
            files: HashMap::new(),
            pointers: vec![],
        });
        if file_name == MANIFEST {
            index.manifest = Some(meta.location.clone());
            index.version = meta.e_tag.clone().map(|etag| (etag, meta.size));
        } else {
            index.files.insert(file_name.clone(), meta.clone());
        }
    }
    for index in all.values_mut() {
        let of_index = pointers.get(&(index.name.clone(), index.column.clone()));
        index.pointers = of_index.cloned().unwrap_or_default();
    }
    Ok(all.into_values().collect())
}

fn not_used(query: &QueryContext, table: &TableDefinition, what: &str, error: &Error) {
    query.meter.strategy(format!("{}: {what} is not used: {error}", table.location));
}

impl StoredIndex {
    /// Reads the manifest of the index, or returns it from the cache.
    pub(crate) async fn directory(&self, query: &QueryContext, table: &TableDefinition) -> Result<Arc<Directory>> {
        let backend = &self.location.backend;
        let (Some(path), Some((etag, size))) = (&self.manifest, &self.version) else {
            return Err(Error::new(ErrorKind::NotFound, "it is not complete: drop it and create it again"));
        };
        let column = super::column(table, &self.column)?;
        let value = table.file_schema.field(column).data_type();
        let cache = query.backends.extension::<ManifestCache>();
        let version = (backend.name().to_owned(), path.clone(), etag.clone(), value.clone());
        let directory = match cache.get(&version) {
            Some(known) => known,
            None => {
                if *size > MAX_MANIFEST_BYTES {
                    return Err(Error::new(ErrorKind::Limit, format!("its manifest has {size} bytes")));
                }
                let store = backend.store(&query_meters(&query.meter))?;
                let text = async { store.get(path).await?.bytes().await }.await.map_err(from_object_store)?;
                let directory = Arc::new(Directory::parse(&text, value)?);
                cache.put(version, Arc::clone(&directory));
                directory
            }
        };
        if directory.manifest.column != self.column || directory.manifest.meaning != meaning(table, column) {
            return Err(Error::unsupported(
                "it was made for a table of another declaration (format, type or place of the column)",
            ));
        }
        Ok(directory)
    }

    async fn open(&self, query: &QueryContext, table: &TableDefinition) -> Result<TableIndex> {
        let directory = self.directory(query, table).await?;
        Ok(TableIndex {
            name: self.name.clone(),
            column: super::column(table, &self.column)?,
            directory,
            files: Arc::new(self.files.clone()),
            location: Arc::clone(&self.location),
        })
    }
}
