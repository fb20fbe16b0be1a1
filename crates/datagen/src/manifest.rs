//! Manifests of tables with replicas: they list which buckets hold each object.

use std::fmt::Write as _;

use object_store::path::Path;
use pushdowndb_contract::{Error, Result};

use crate::Destination;

/// The name of the manifest of a table.
pub(crate) fn name(table: &str) -> String {
    format!("{table}.manifest.json")
}

/// Refuses destinations that a manifest cannot describe: folders, and buckets whose prefix differs
/// from the first one's.
pub(crate) fn check(destinations: &[Destination]) -> Result<()> {
    for destination in destinations {
        let is_alike = destinations.first().is_some_and(|first| first.prefix == destination.prefix);
        if !is_alike || destination.bucket().is_none() {
            return Err(Error::unsupported(format!(
                "{}: replicas lie in buckets, below the same prefix in each",
                destination.url
            )));
        }
    }
    Ok(())
}

/// The buckets of the destinations that hold an object.
pub(crate) fn stores(holders: &[&Destination]) -> Vec<String> {
    holders.iter().filter_map(|holder| holder.bucket()).collect()
}

/// An object of a manifest.
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a Path,
    pub(crate) size: u64,
    pub(crate) etag: Option<&'a str>,
    /// The buckets that hold it.
    pub(crate) stores: Vec<String>,
}

/// Formats the manifest for these objects.
pub(crate) fn of<'a>(objects: impl Iterator<Item = Entry<'a>>) -> String {
    let mut text = "{\"version\": 1, \"objects\": [".to_owned();
    for (number, Entry { key, size, etag, stores }) in objects.enumerate() {
        let comma = if number == 0 { "" } else { "," };
        let etag = etag.map(|etag| format!("\"etag\": {}, ", quoted(etag))).unwrap_or_default();
        let stores: Vec<String> = stores.iter().map(|store| quoted(store)).collect();
        let (key, stores) = (quoted(key.as_ref()), stores.join(", "));
        let _ = write!(text, "{comma}\n  {{\"key\": {key}, \"size\": {size}, {etag}\"stores\": [{stores}]}}");
    }
    text.push_str("\n]}\n");
    text
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_lists_objects_and_their_stores() {
        let path = Path::parse("t/a\"b.csv").unwrap();
        let stores = vec!["s3://b@http://d1:1".to_owned(), "s3://b".to_owned()];
        let entry = |etag| Entry { key: &path, size: 7, etag, stores: stores.clone() };
        let text = of([entry(None), entry(Some("\"e\""))].into_iter());
        for etag in ["", r#""etag": "\"e\"", "#] {
            let stores = r#""stores": ["s3://b@http://d1:1", "s3://b"]}"#;
            let wanted = format!("{}{etag}{stores}", r#"{"key": "t/a\"b.csv", "size": 7, "#);
            assert!(text.contains(&wanted), "{wanted} in {text}");
        }
    }
}
