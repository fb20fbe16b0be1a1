//! Where spilled data goes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use object_store::ClientOptions;
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Key;
use url::Url;

use super::counted::CountedStore;

/// A place to spill to.
#[derive(Clone, Debug)]
pub enum Place {
    /// A folder of the local disk.
    Disk,
    /// `s3://bucket/prefix`.
    Bucket { url: Url, bucket: String, prefix: Key },
    /// `file:///folder`, used as an object store.
    Folder { url: Url, folder: PathBuf },
}

/// A client of the object store of a place, which nothing else uses.
#[derive(Clone, Debug)]
pub struct Client {
    pub store: CountedStore,
    pub prefix: Key,
    pub url: String,
}

impl Place {
    /// Parses a place.
    pub fn parse(text: &str) -> Result<Self> {
        if text == "disk" {
            return Ok(Self::Disk);
        }
        let wanted = || format!("--to {text}: disk, s3://bucket/prefix or file:///folder");
        let url = Url::parse(text).with_context(wanted)?;
        match url.scheme() {
            "s3" => {
                let bucket = url.host_str().with_context(wanted)?.to_owned();
                let prefix = Key::from_url_path(url.path()).with_context(wanted)?;
                Ok(Self::Bucket { url, bucket, prefix })
            }
            "file" => {
                let folder = url.to_file_path().ok().with_context(wanted)?;
                Ok(Self::Folder { url, folder })
            }
            _ => anyhow::bail!(wanted()),
        }
    }

    /// A short name for use in file names.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Bucket { .. } => "s3",
            Self::Folder { .. } => "file",
        }
    }

    /// Creates a client of the object store; `None` for the local disk.
    pub fn client(&self) -> Result<Option<Client>> {
        match self {
            Self::Disk => Ok(None),
            Self::Bucket { url, bucket, prefix } => {
                let options = ClientOptions::new().with_allow_http(true);
                let store = AmazonS3Builder::from_env().with_bucket_name(bucket).with_client_options(options).build();
                let store = CountedStore::new(Arc::new(store.with_context(|| url.to_string())?));
                Ok(Some(Client { store, prefix: prefix.clone(), url: url.to_string() }))
            }
            Self::Folder { url, folder } => {
                let client = folder_client(folder)?;
                Ok(Some(Client { url: url.to_string(), ..client }))
            }
        }
    }

    /// Returns an error unless the place is empty, so that only objects of the experiment are
    /// counted and deleted.
    pub async fn ensure_empty(&self) -> Result<()> {
        let Some(client) = self.client()? else { return Ok(()) };
        let mut found = object_store::ObjectStore::list(&client.store, Some(&client.prefix));
        let first = futures::TryStreamExt::try_next(&mut found).await.with_context(|| client.url.clone())?;
        if let Some(object) = first {
            anyhow::bail!("{} is not empty: it holds {}; name an unused prefix", client.url, object.location);
        }
        Ok(())
    }
}

/// Creates an object store in a local folder, which is created if it is missing.
pub fn folder_client(folder: &Path) -> Result<Client> {
    let name = || folder.display().to_string();
    std::fs::create_dir_all(folder).with_context(name)?;
    ensure!(folder.is_absolute(), "{} is not absolute", name());
    let store = LocalFileSystem::new_with_prefix(folder).with_context(name)?;
    Ok(Client { store: CountedStore::new(Arc::new(store)), prefix: Key::default(), url: name() })
}
