//! Listing of a folder, for display and for the completion of paths.

use chrono::{DateTime, Utc};
use pushdowndb_contract::Result;
use pushdowndb_cost::Meter;

use super::Engine;
use crate::catalog::TableLocation;
use crate::endpoints::query_meters;
use crate::error::from_object_store;

/// An entry of a folder.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FolderEntry {
    /// The name in the folder; it ends with `/` if the entry is a folder.
    pub name: String,
    /// The bytes of an object and the time of its last write; `None` for a folder.
    pub object: Option<(u64, DateTime<Utc>)>,
}

impl Engine {
    /// Lists the first `most` folders and objects at an `address`: a local folder, or one of a
    /// bucket. The access policy applies; nothing is metered.
    pub async fn list_folder(&self, address: &str, most: usize) -> Result<Vec<FolderEntry>> {
        let address = if address.ends_with('/') { address.to_owned() } else { format!("{address}/") };
        let location = TableLocation::parse(&address, self.backends.access())?;
        let backend = self.backends.backend(location.store().as_ref())?;
        let store = backend.store(&query_meters(&std::sync::Arc::new(Meter::new())))?;
        let prefix = location.prefix();
        let found = store.list_with_delimiter(Some(prefix)).await;
        let found = found.map_err(|error| from_object_store(error).context(&address))?;
        let name = |path: &object_store::path::Path| path.filename().unwrap_or_default().to_owned();
        let folders = found.common_prefixes.iter();
        let folders = folders.map(|path| FolderEntry { name: format!("{}/", name(path)), object: None });
        let objects = found.objects.iter().map(|object| FolderEntry {
            name: name(&object.location),
            object: Some((object.size, object.last_modified)),
        });
        let mut entries: Vec<_> = folders.chain(objects).take(most).collect();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}
