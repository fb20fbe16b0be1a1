//! Destinations of generated data: folders and buckets.

use anyhow::Result;
use pushdowndb_contract::Error;
use pushdowndb_datagen::Destination;
use pushdowndb_engine::Engine;

/// Opens a folder, made if missing, or `s3://bucket/prefix`.
pub fn open(place: &str, engine: &Engine) -> Result<Destination> {
    if !place.starts_with("s3://") {
        if place.contains("://") && !place.starts_with("file://") {
            return Err(Error::unsupported(format!("{place}: a folder or s3://bucket/prefix")).into());
        }
        return Ok(Destination::folder(place.strip_prefix("file://").unwrap_or(place))?);
    }
    let url = place.trim_end_matches('/').to_owned();
    let (store, prefix) = engine.store(&format!("{url}/"))?;
    Ok(Destination { store, prefix, url })
}

/// The bucket of an `s3://` address.
pub fn bucket(place: &str) -> Option<&str> {
    place.strip_prefix("s3://")?.split('/').next().filter(|bucket| !bucket.is_empty())
}
