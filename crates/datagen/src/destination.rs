//! Destinations: folders and buckets.

use std::io;
use std::path;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use pushdowndb_contract::{Error, ErrorKind, Result};

/// The destination of the data.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The folder or bucket.
    pub store: Arc<dyn ObjectStore>,
    /// The path prefix within it.
    pub prefix: Path,
    /// The URL of the destination in `schema.sql` and messages: `s3://bucket/prefix` or an absolute
    /// folder.
    pub url: String,
    /// The endpoint of the bucket, if SQL must name it: `http://disk1:9000`.
    pub endpoint: Option<String>,
}

impl Destination {
    /// The address of the file or folder `name` in this destination, as SQL names it.
    pub(crate) fn address_of(&self, name: &str) -> String {
        let endpoint = self.endpoint.as_ref().map(|endpoint| format!("@{endpoint}")).unwrap_or_default();
        format!("{}/{name}{endpoint}", self.url.trim_end_matches('/'))
    }

    /// The bucket as a manifest names it; `None` for a folder.
    pub(crate) fn bucket(&self) -> Option<String> {
        let bucket = self.url.strip_prefix("s3://")?.split('/').next()?;
        let endpoint = self.endpoint.as_ref().map(|endpoint| format!("@{endpoint}")).unwrap_or_default();
        Some(format!("s3://{bucket}{endpoint}"))
    }

    /// Creates the destination for a `folder`, which is created if missing.
    pub fn folder(folder: impl AsRef<path::Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let failed = |error: io::Error| {
            let kind = match error.kind() {
                io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                _ => ErrorKind::Invalid,
            };
            Error::new(kind, format!("making the folder {}", folder.display())).with_source(error)
        };
        let absolute = path::absolute(folder).map_err(failed)?;
        std::fs::create_dir_all(&absolute).map_err(failed)?;
        let store = LocalFileSystem::new_with_prefix(&absolute).map_err(|error| failed(error.into()))?;
        Ok(Self {
            store: Arc::new(store),
            prefix: Path::default(),
            url: absolute.display().to_string(),
            endpoint: None,
        })
    }
}
