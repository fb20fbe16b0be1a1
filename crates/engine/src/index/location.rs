//! Locations of a table's indexes: its own `_pushdowndb/` folder, and others that it names.
//!
//! ```text
//! t/_pushdowndb/indexes/by_day/l_shipdate/manifest.json                       beside the table
//! mine/s3=3a=2f=2fb=2ft/indexes/by_day/l_shipdate/manifest.json               at 's3://…/mine', for s3://b/t
//! t/_pushdowndb/indexes/by_day/l_shipdate/elsewhere.s3=3a=2f=2f…=2fmine       a pointer, whose name is the location
//! ```
//!
//! A location comes from the table's declaration (`OPTIONS ('index_location' '…')`), which suffices
//! if the table's bucket is read-only, or from a pointer in the table's own folder, which `CREATE
//! INDEX … WITH (location = '…')` writes for later sessions.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt, PutPayload};
use pushdowndb_contract::{Error, ErrorKind, Result};

use super::{INDEX_FOLDER, decode, encode};
use crate::catalog::{PRIVATE_FOLDER, PrivateFolder, TableDefinition, TableLocation};
use crate::context::QueryContext;
use crate::endpoints::{Backend, query_meters};
use crate::error::from_object_store;

/// Prefix of a pointer's file name, which the encoded location follows.
const POINTER: &str = "elsewhere.";

/// A folder of indexes of one table.
#[derive(Clone, Debug)]
pub(crate) struct IndexLocation {
    pub(crate) backend: Arc<Backend>,
    /// The folder of the indexes, which need not exist.
    folder: Path,
}

/// A file of an index.
pub(crate) struct IndexFile {
    pub(crate) location: Arc<IndexLocation>,
    pub(crate) index: String,
    pub(crate) column: String,
    /// The last segment of its path.
    pub(crate) name: String,
    pub(crate) meta: ObjectMeta,
}

impl IndexLocation {
    /// Returns the index folder beside a table's objects.
    pub(crate) fn own(backend: &Arc<Backend>, private: &PrivateFolder) -> Result<Self> {
        Ok(Self { backend: Arc::clone(backend), folder: path(&format!("{}/{INDEX_FOLDER}", private.path))? })
    }

    /// Returns the index folder at `location` for the table whose own index folder is `own`.
    /// Several tables may share a location.
    pub(crate) fn at(query: &QueryContext, location: &str, own: &Self) -> Result<Self> {
        let place = TableLocation::parse(location, query.backends.access());
        let place = place.map_err(|error| error.context("the location of an index"))?;
        if place.glob().is_some() || place.store().as_str().starts_with("http") {
            return Err(Error::invalid(format!("'{location}' is no folder that indexes can be written to")));
        }
        let backend = query.backends.backend(place.store().as_ref())?;
        let owner = encode(&own.address().replace(&format!("/{PRIVATE_FOLDER}/{INDEX_FOLDER}"), ""));
        let folder = path(&format!("{}/{owner}/{INDEX_FOLDER}", place.prefix()))?;
        Ok(Self { backend, folder })
    }

    /// Returns the folder of an index's files.
    pub(crate) fn of_index(&self, name: &str, column: &str) -> Result<Path> {
        path(&format!("{}/{}/{}", self.folder, encode(name), encode(column)))
    }

    /// Returns the address, for messages.
    pub(crate) fn address(&self) -> String {
        self.backend.address(&self.folder)
    }

    /// Returns whether the location is on the store of `backend`, so that the same credentials read
    /// both.
    pub(crate) fn is_on(&self, backend: &Backend) -> bool {
        self.backend.name() == backend.name()
    }

    /// Lists all objects of the location.
    async fn list(&self, query: &QueryContext) -> Result<Vec<ObjectMeta>> {
        let store = self.backend.store(&query_meters(&query.meter))?;
        match store.list(Some(&self.folder)).try_collect::<Vec<_>>().await {
            Ok(listed) => Ok(listed),
            Err(object_store::Error::NotFound { .. }) => Ok(vec![]),
            Err(error) => Err(from_object_store(error).context(&self.folder)),
        }
    }

    fn file(self: &Arc<Self>, meta: ObjectMeta) -> Option<IndexFile> {
        let below = meta.location.as_ref().strip_prefix(self.folder.as_ref())?;
        let segments: Vec<&str> = below.split('/').filter(|segment| !segment.is_empty()).collect();
        let [index, column, name] = segments.as_slice() else { return None };
        let (index, column, name) = (decode(index)?, decode(column)?, (*name).to_owned());
        Some(IndexFile { location: Arc::clone(self), index, column, name, meta })
    }

    /// Writes a pointer into this folder, which says that the index `name` on `column` is at
    /// `location`.
    pub(crate) async fn point(&self, query: &QueryContext, name: &str, column: &str, location: &str) -> Result<()> {
        let store = self.backend.store(&query_meters(&query.meter))?;
        let pointer = path(&format!("{}/{POINTER}{}", self.of_index(name, column)?, encode(location)))?;
        store.put(&pointer, PutPayload::default()).await.map_err(from_object_store)?;
        Ok(())
    }
}

impl IndexFile {
    /// Returns the location that the file names if it is a pointer.
    pub(crate) fn points_to(&self) -> Option<String> {
        decode(self.name.strip_prefix(POINTER)?)
    }
}

/// Lists the files of a table's indexes, at all locations. A location that cannot be listed is
/// reported to `not_used`.
pub(crate) async fn files(
    query: &QueryContext,
    backend: &Arc<Backend>,
    table: &TableDefinition,
    private: &PrivateFolder,
    not_used: impl Fn(&str, &Error),
) -> Result<Vec<IndexFile>> {
    let own = Arc::new(IndexLocation::own(backend, private)?);
    let listed = match &private.objects {
        Some(objects) => objects.clone(),
        None if table.location.store().as_str().starts_with("http") => vec![],
        None => match own.list(query).await {
            // If listing is denied, an index elsewhere may still be found.
            Err(error) if error.kind() == ErrorKind::Denied && table.options.index_location.is_some() => vec![],
            listed => listed?,
        },
    };
    let mut all: Vec<IndexFile> = listed.into_iter().filter_map(|meta| own.file(meta)).collect();
    let pointed: BTreeSet<String> =
        all.iter().filter_map(IndexFile::points_to).chain(table.options.index_location.clone()).collect();
    for location in pointed {
        let listed = async {
            let home = Arc::new(IndexLocation::at(query, &location, &own)?);
            Ok::<_, Error>((home.list(query).await?, home))
        };
        match listed.await {
            Ok((listed, home)) => all.extend(listed.into_iter().filter_map(|meta| home.file(meta))),
            Err(error) => not_used(&format!("what is indexed at {location}"), &error),
        }
    }
    Ok(all)
}

pub(crate) fn path(text: &str) -> Result<Path> {
    let text = text.trim_start_matches('/');
    Path::parse(text).map_err(|e| Error::internal(format!("'{text}' is no path of objects")).with_source(e))
}
