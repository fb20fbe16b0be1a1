//! Finding a table's indexes: in the listing that its objects come from, or by one more of our own folder.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::logical_expr::Expr as LogicalExpr;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};
use pushdown::{Error, ErrorKind, Result};

use super::manifest::{Directory, MANIFEST_BYTES};
use super::{INDEX_FOLDER, decode, encode, meaning};
use crate::backends::{Backend, query_meters};
use crate::error::from_object_store;
use crate::query::QueryContext;
use crate::settings::IndexUse;
use crate::table::{PrivateFolder, TableDefinition};

/// The name of every manifest.
const MANIFEST: &str = "manifest.json";

/// An index of a table, ready to be looked up in.
#[derive(Clone, Debug)]
pub(crate) struct TableIndex {
    pub(crate) name: String,
    /// The indexed column, by its place in the table's objects.
    pub(crate) column: usize,
    pub(crate) directory: Arc<Directory>,
    /// The index objects, by their names in the manifest.
    pub(crate) files: Arc<HashMap<String, ObjectMeta>>,
}

/// An index as it lies in storage.
#[derive(Clone, Debug)]
pub(crate) struct StoredIndex {
    pub(crate) name: String,
    /// The indexed column, by name.
    pub(crate) column: String,
    /// `None` if its building broke off, or goes on.
    pub(crate) manifest: Option<Path>,
    version: Option<(String, u64)>,
    pub(crate) files: HashMap<String, ObjectMeta>,
}

/// Where the files of an index are.
pub(super) fn folder(private: &PrivateFolder, name: &str, column: &str) -> Result<Path> {
    path(&format!("{}/{INDEX_FOLDER}/{}/{}", private.path, encode(name), encode(column)))
}

/// Where the manifest of an index is.
pub(super) fn manifest_path(folder: &Path) -> Result<Path> {
    path(&format!("{folder}/{MANIFEST}"))
}

pub(super) fn path(text: &str) -> Result<Path> {
    Path::parse(text).map_err(|e| Error::internal(format!("'{text}' is no path of objects")).with_source(e))
}

/// The indexes whose columns the filters speak of, if the session uses any. What is wrong with an index is told in the
/// query's report and costs nothing but the index.
pub(crate) async fn find(
    query: &QueryContext,
    backend: &Backend,
    table: &TableDefinition,
    private: &PrivateFolder,
    filters: &[LogicalExpr],
) -> Result<Vec<TableIndex>> {
    if query.options.index_use()? == IndexUse::Never {
        return Ok(vec![]);
    }
    let named: BTreeSet<&str> =
        filters.iter().flat_map(LogicalExpr::column_refs).map(|column| column.name.as_str()).collect();
    let in_objects = |name: &&str| table.file_schema.column_with_name(name).is_some();
    let named: BTreeSet<&str> = named.into_iter().filter(in_objects).collect();
    if named.is_empty() {
        return Ok(vec![]);
    }
    let not_used = |what: &str, error: &Error| {
        query.meter.strategy(format!("{}: {what} is not used: {error}", table.location));
    };
    let all = match stored(query, backend, table, private).await {
        Ok(all) => all,
        Err(error) => {
            not_used("an index", &error);
            return Ok(vec![]);
        }
    };
    let mut usable = Vec::new();
    for index in all.into_iter().filter(|index| index.manifest.is_some() && named.contains(index.column.as_str())) {
        match index.open(query, backend, table).await {
            Ok(index) => usable.push(index),
            Err(error) => not_used(&format!("the index {}", index.name), &error),
        }
    }
    Ok(usable)
}

/// All indexes of a table, by name.
pub(super) async fn stored(
    query: &QueryContext,
    backend: &Backend,
    table: &TableDefinition,
    private: &PrivateFolder,
) -> Result<Vec<StoredIndex>> {
    let listed;
    let objects = match &private.objects {
        Some(objects) => objects,
        None if table.location.store().as_str().starts_with("http") => return Ok(vec![]),
        None => {
            let store = backend.store(&query_meters(&query.meter))?;
            let folder = path(&format!("{}/{INDEX_FOLDER}", private.path))?;
            listed = match store.list(Some(&folder)).try_collect::<Vec<_>>().await {
                Ok(listed) => listed,
                Err(object_store::Error::NotFound { .. }) => vec![],
                Err(error) => return Err(from_object_store(error).context(&folder)),
            };
            &listed
        }
    };
    let mut all: BTreeMap<(String, String), StoredIndex> = BTreeMap::new();
    for object in objects {
        let Some(below) = object.location.as_ref().strip_prefix(private.path.as_ref()) else { continue };
        let segments: Vec<&str> = below.split('/').filter(|segment| !segment.is_empty()).collect();
        let [INDEX_FOLDER, name, column, file] = segments.as_slice() else { continue };
        let (Some(name), Some(column)) = (decode(name), decode(column)) else { continue };
        let index = all.entry((name.clone(), column.clone())).or_insert_with(|| StoredIndex {
            name,
            column,
            manifest: None,
            version: None,
            files: HashMap::new(),
        });
        if *file == MANIFEST {
            index.manifest = Some(object.location.clone());
            index.version = object.e_tag.clone().map(|etag| (etag, object.size));
        } else {
            index.files.insert((*file).to_owned(), object.clone());
        }
    }
    Ok(all.into_values().collect())
}

impl StoredIndex {
    /// What it says of itself.
    pub(crate) async fn directory(
        &self,
        query: &QueryContext,
        backend: &Backend,
        table: &TableDefinition,
    ) -> Result<Arc<Directory>> {
        let (Some(path), Some((etag, size))) = (&self.manifest, &self.version) else {
            return Err(Error::new(ErrorKind::NotFound, "it is not complete: drop it and create it again"));
        };
        let column = super::column(table, &self.column)?;
        let value = table.file_schema.field(column).data_type();
        let cache = query.backends.manifests();
        let version = (backend.name().to_owned(), path.clone(), etag.clone(), value.clone());
        let directory = match cache.get(&version) {
            Some(known) => known,
            None => {
                if *size > MANIFEST_BYTES {
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

    async fn open(&self, query: &QueryContext, backend: &Backend, table: &TableDefinition) -> Result<TableIndex> {
        let directory = self.directory(query, backend, table).await?;
        Ok(TableIndex {
            name: self.name.clone(),
            column: super::column(table, &self.column)?,
            directory,
            files: Arc::new(self.files.clone()),
        })
    }
}
