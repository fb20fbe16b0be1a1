//! Addresses of stores: a bucket at the session's endpoint or at one of its own, and several of them.
//!
//! ```text
//! as written                      the URL of the store
//! s3://b/t/                       s3://b
//! s3://b/t/@http://disk1:9000     s3://http%3A%2F%2Fdisk1%3A9000@b
//! s3://b/t/@profile:disk1         s3://profile%3Adisk1@b
//! a list of such locations        stores://a,b with both URLs percent-encoded
//! ```
//!
//! `dealt://a,b` is the same list for writing: the hash of an object's path decides which store
//! gets it. Otherwise, the path of an object in one of several stores begins with the number of the
//! store: `1/t/a.csv`.

use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::path::Path;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use pushdowndb_contract::{Error, Result};
use url::Url;

/// The scheme of several stores, and that of several to which objects are written by path hash.
const SEVERAL: &str = "stores";
const DEALT: &str = "dealt";

/// Maximum number of stores of one table.
const MAX_STORES: usize = 4096;

/// Prefix of an endpoint that is a profile of the AWS configuration files.
pub(crate) const PROFILE: &str = "profile:";

/// Splits `text` into a bucket with a key, and the endpoint after its last `@`, if there is one.
pub(crate) fn without_endpoint(text: &str) -> (&str, Option<&str>) {
    let marks = ["@http://", "@https://", "@profile:"];
    match marks.iter().filter_map(|mark| text.rfind(mark)).max() {
        Some(at) => (text.get(..at).unwrap_or(text), text.get(at + 1..)),
        None => (text, None),
    }
}

/// Returns the URL of a bucket at `endpoint`; `None` is the session's endpoint.
pub(crate) fn bucket_url(scheme: &str, bucket: &str, endpoint: Option<&str>) -> Result<ObjectStoreUrl> {
    if let Some((own, bucket)) = bucket.split_once('@') {
        // The bucket is part of such a URL already: its endpoint precedes it.
        let own = percent_decode_str(own).decode_utf8_lossy();
        return match endpoint {
            None if !bucket.contains('@') => bucket_url(scheme, bucket, Some(&own)),
            _ => Err(Error::invalid(format!("'{bucket}' is no name of a bucket"))),
        };
    }
    let Some(endpoint) = endpoint else { return store_url(&format!("{scheme}://{bucket}")) };
    let endpoint = endpoint.trim_end_matches('/');
    let is_endpoint = match endpoint.strip_prefix(PROFILE) {
        Some(profile) => !profile.is_empty() && !profile.contains('/'),
        None => Url::parse(endpoint).is_ok_and(|url| {
            let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
            is_bare && url.has_host() && url.username().is_empty() && url.password().is_none()
        }),
    };
    if !is_endpoint {
        return Err(Error::invalid(format!(
            "the endpoint '{endpoint}' is neither an HTTP address without a path nor a profile; write \
             {scheme}://{bucket}/folder/@http://host:9000 or …@profile:name"
        )));
    }
    store_url(&format!("{scheme}://{}@{bucket}", utf8_percent_encode(endpoint, NON_ALPHANUMERIC)))
}

/// The URL of a store, from its text.
pub(crate) fn store_url(text: &str) -> Result<ObjectStoreUrl> {
    ObjectStoreUrl::parse(text).map_err(|e| Error::invalid(format!("'{text}' names no store")).with_source(e))
}

/// Returns the endpoint that the URL of a bucket contains; `None` for one at the session's
/// endpoint, and for other stores.
pub(crate) fn endpoint(store: &Url) -> Option<String> {
    let is_bucket = !matches!(store.scheme(), "file" | "http" | "https" | SEVERAL | DEALT);
    let name = store.username();
    (is_bucket && !name.is_empty()).then(|| percent_decode_str(name).decode_utf8_lossy().into_owned())
}

/// Returns the URL of a bucket without its endpoint, as policies list it.
pub(crate) fn at_any_endpoint(store: &Url) -> Url {
    let mut bucket = store.clone();
    // Fails only for URLs without a host, which have no user name either.
    let _ = bucket.set_username("");
    bucket
}

/// The name of one store, such as `s3://bucket` or `s3://bucket@http://disk1:9000`.
pub(crate) fn name(store: &Url) -> String {
    match store.scheme() {
        "file" => return "file://".to_owned(),
        SEVERAL | DEALT => return store.as_str().trim_end_matches('/').to_owned(),
        _ => {}
    }
    let (own, at) = parts(store, &Path::default());
    format!("{}{at}", own.trim_end_matches('/'))
}

/// Returns the URL of several stores; if there is only one, its own URL.
pub(crate) fn together(stores: &[ObjectStoreUrl]) -> Result<ObjectStoreUrl> {
    if let [one] = stores {
        return Ok(one.clone());
    }
    if stores.len() > MAX_STORES {
        let count = stores.len();
        return Err(Error::invalid(format!("{count} stores in one table, where {MAX_STORES} are the most")));
    }
    let encoded = stores
        .iter()
        .map(|store| utf8_percent_encode(store.as_str().trim_end_matches('/'), NON_ALPHANUMERIC).to_string());
    store_url(&format!("{SEVERAL}://{}", encoded.collect::<Vec<_>>().join(",")))
}

/// Returns the URL of the same stores for writing by path hash; the same URL if it is that of one
/// store.
pub(crate) fn dealt(store: &ObjectStoreUrl) -> Result<ObjectStoreUrl> {
    match store.as_str().strip_prefix(SEVERAL) {
        Some(rest) => store_url(&format!("{DEALT}{rest}")),
        None => Ok(store.clone()),
    }
}

/// Returns whether objects are written to the stores of this URL by path hash.
pub(crate) fn is_dealt(store: &Url) -> bool {
    store.scheme() == DEALT
}

/// Returns the stores in a URL of several; an empty list for the URL of one.
pub(crate) fn members(store: &Url) -> Vec<Url> {
    let all = store.host_str().filter(|_| [SEVERAL, DEALT].contains(&store.scheme())).unwrap_or_default();
    let decoded = all.split(',').map(|one| percent_decode_str(one).decode_utf8_lossy().into_owned());
    decoded.filter_map(|one| Url::parse(&one).ok()).collect()
}

/// Returns the path of the object `key` in store number `store`, as one of several stores.
pub(crate) fn numbered(store: usize, key: &Path) -> Result<Path> {
    let path = if key.is_root() { store.to_string() } else { format!("{store}/{key}") };
    Path::parse(&path).map_err(|e| Error::internal(format!("'{path}' is no path of objects")).with_source(e))
}

/// Splits a path that [`numbered`] made into the store's number and the key.
pub(crate) fn number_and_key(path: &Path) -> Option<(usize, Path)> {
    let (number, key) = path.as_ref().split_once('/').unwrap_or((path.as_ref(), ""));
    Some((number.parse().ok()?, Path::parse(key).ok()?))
}

/// Returns the store of an object and its key there. If `store` is a URL of several stores, the
/// number in `path` selects one.
pub(crate) fn of_object(store: &Url, path: &Path) -> (Url, Path) {
    let members = if is_dealt(store) { vec![] } else { members(store) };
    let found = number_and_key(path).and_then(|(number, key)| Some((members.get(number)?.clone(), key)));
    found.unwrap_or_else(|| (store.clone(), path.clone()))
}

/// Returns the address of an object as users write it, in two parts: what precedes the endpoint,
/// and `@` with the endpoint. The second is empty if the store has no endpoint of its own.
pub(crate) fn parts(store: &Url, path: &Path) -> (String, String) {
    if is_dealt(store) {
        let all = members(store);
        let own: Vec<String> = all.iter().filter_map(endpoint).collect();
        let bucket = all.first().map(at_any_endpoint).unwrap_or_else(|| store.clone());
        return (format!("{}/{path}", bucket.as_str().trim_end_matches('/')), format!("@{}", own.join(",")));
    }
    let (store, key) = of_object(store, path);
    if store.scheme() == "file" {
        return (format!("/{key}"), String::new());
    }
    let at = endpoint(&store).map(|endpoint| format!("@{endpoint}")).unwrap_or_default();
    let place = &store[url::Position::BeforeHost..url::Position::AfterPort];
    (format!("{}://{place}/{key}", store.scheme()), at)
}

/// The address of an object as users write it.
pub(crate) fn address(store: &Url, path: &Path) -> String {
    let (place, at) = parts(store, path);
    place + &at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_as_they_were_written() {
        let read = |text: &str| {
            let (place, endpoint) = without_endpoint(text.trim_start_matches("s3://"));
            let (bucket, key) = place.split_once('/').unwrap_or((place, ""));
            Ok::<_, Error>((bucket_url("s3", bucket, endpoint)?, Path::parse(key).unwrap()))
        };
        for text in
            ["s3://b/t/a@b.csv", "s3://b/t/a.csv@http://disk1:9000", "s3://b/x@https://[::1]", "s3://b/x@profile:a"]
        {
            let (store, key) = read(text).unwrap();
            assert_eq!(address(store.as_ref(), &key), text);
            assert_eq!(at_any_endpoint(store.as_ref()).as_str(), "s3://b/");
            let all = together(&[store_url("s3://other").unwrap(), store]).unwrap();
            let path = numbered(1, &key).unwrap();
            assert_eq!(address(all.as_ref(), &path), text, "one of several");
            assert_eq!(number_and_key(&path), Some((1, key)));
            assert_eq!(members(all.as_ref()).len(), 2);
        }
        assert_eq!(name(read("s3://b/t@http://disk1:9000/").unwrap().0.as_ref()), "s3://b@http://disk1:9000");
        let both = together(&[read("s3://b/x@http://d1").unwrap().0, read("s3://b/x@http://d2").unwrap().0]).unwrap();
        let written = dealt(&both).unwrap();
        assert_eq!(address(written.as_ref(), &Path::from("1/a.csv")), "s3://b/1/a.csv@http://d1,http://d2");
        assert!(is_dealt(written.as_ref()) && members(written.as_ref()) == members(both.as_ref()));
        let own = read("s3://b/x@http://d1").unwrap().0;
        let bucket = own.as_str().trim_start_matches("s3://").trim_end_matches('/');
        assert_eq!(bucket_url("s3", bucket, None).unwrap(), own, "as it stands in the URL");
        assert!(bucket_url("s3", "a@b", None).is_err());
        for wrong in
            ["s3://b/x@http://disk1/path", "s3://b/x@http://me:word@disk1", "s3://b/x@profile:", "s3://b@c/x@http://d"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
