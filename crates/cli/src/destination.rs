//! Destinations of generated data: folders and buckets.

use anyhow::Result;
use pushdowndb_contract::Error;
use pushdowndb_datagen::Destination;
use pushdowndb_engine::Engine;

/// Splits `s3://bucket/prefix/@http://host:9000` from the endpoint of the bucket.
fn split(place: &str) -> (&str, Option<&str>) {
    let marks = ["/@http://", "/@https://", "/@profile:"];
    match marks.iter().filter_map(|mark| place.rfind(mark)).max() {
        Some(at) => (place.get(..at).unwrap_or(place), place.get(at + 2..)),
        None => (place, None),
    }
}

/// Opens a folder, which is created if missing, or `s3://bucket/prefix`, which may end with an
/// endpoint.
pub fn open(place: &str, engine: &Engine) -> Result<Destination> {
    if !place.starts_with("s3://") {
        if place.contains("://") && !place.starts_with("file://") {
            return Err(Error::unsupported(format!("{place}: a folder or s3://bucket/prefix")).into());
        }
        return Ok(Destination::folder(place.strip_prefix("file://").unwrap_or(place))?);
    }
    let (url, endpoint) = split(place);
    let url = url.trim_end_matches('/').to_owned();
    let at = endpoint.map(|endpoint| format!("@{endpoint}")).unwrap_or_default();
    let (store, prefix) = engine.store(&format!("{url}/{at}"))?;
    Ok(Destination { store, prefix, url, endpoint: endpoint.map(str::to_owned) })
}

/// The bucket of an `s3://` URL.
pub fn bucket(place: &str) -> Option<&str> {
    split(place).0.strip_prefix("s3://")?.split('/').next().filter(|bucket| !bucket.is_empty())
}
