//! Where generated data goes: a folder or a bucket.

use std::sync::Arc;

use anyhow::{Context, Result};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use pushdown::Error;
use pushdowndb_engine::Engine;
use pushdowndb_tpchgen::Destination;

/// Opens a folder, made if missing, or `s3://bucket/prefix`.
pub fn open(place: &str, engine: &Engine) -> Result<Destination> {
    if !place.starts_with("s3://") {
        if place.contains("://") && !place.starts_with("file://") {
            return Err(Error::unsupported(format!("{place}: a folder or s3://bucket/prefix")).into());
        }
        return folder(place.strip_prefix("file://").unwrap_or(place));
    }
    let url = place.trim_end_matches('/').to_owned();
    let (store, prefix) = engine.store(&format!("{url}/"))?;
    Ok(Destination { store, prefix, url })
}

/// The bucket of an `s3://` address.
pub fn bucket(place: &str) -> Option<&str> {
    place.strip_prefix("s3://")?.split('/').next().filter(|bucket| !bucket.is_empty())
}

/// Opens a folder, made if missing.
pub fn folder(place: &str) -> Result<Destination> {
    let absolute = std::path::absolute(place).with_context(|| place.to_owned())?;
    std::fs::create_dir_all(&absolute).with_context(|| format!("making the folder {}", absolute.display()))?;
    let store = LocalFileSystem::new_with_prefix(&absolute).with_context(|| place.to_owned())?;
    Ok(Destination { store: Arc::new(store), prefix: Path::default(), url: absolute.display().to_string() })
}
