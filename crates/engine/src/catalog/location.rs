//! Locations of tables: a store, a prefix in it, and a glob for the rest of the path.
//!
//! Globs are those of a shell: `*` and `?` stay within one folder, `**` crosses folders, `[a-z]`
//! and `{a,b}` as usual. In `s3://` and the like the key is taken verbatim, as the AWS tools do
//! (`%` and spaces stand for themselves); `file://` and `http://` are URLs and percent-decoded. A
//! text without a scheme is a local path. A location may end with the endpoint of its bucket:
//! `s3://b/sales/@http://disk1:9000` ([`super::stores`]).
//!
//! Parsing leaves open whether a location such as `s3://b/sales` is an object or a prefix;
//! [`super::listing`] finds out.

use std::fmt;

use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::path::Path;
use pushdowndb_contract::{Error, Result};
use url::Url;

use super::stores;
use super::wildcard::{Glob, split_glob};
use crate::access::{Access, absolute};

/// The folder of PushdownDB's own objects (indexes, statistics, spilled data); no table includes
/// them.
pub const PRIVATE_FOLDER: &str = "_pushdowndb";

/// Suffix of the names of manifests.
const MANIFEST: &str = ".manifest.json";

/// The location of a table's objects.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TableLocation {
    store: ObjectStoreUrl,
    prefix: Path,
    glob: Option<Glob>,
    is_collection: bool,
    /// The members of a list of locations; `prefix` is then the folder that they have in common.
    members: Vec<TableLocation>,
    /// The manifest that lists the table's objects, if there is one.
    manifest: Option<Path>,
}

impl TableLocation {
    /// Parses a URL or a local path, with or without wildcards. Whether a local path is a folder is
    /// looked up on the disk; fails if `access` does not permit that.
    pub fn parse(text: &str, access: &Access) -> Result<Self> {
        let text = text.trim();
        let place = |error: Error| error.context(format!("location '{text}'"));
        if text.is_empty() {
            return Err(Error::invalid(
                "the location is empty: name a URL such as s3://bucket/folder/ or a local path",
            ));
        }
        match text.split_once("://") {
            None => Self::local(text, access).map_err(place),
            Some((scheme, rest)) => match scheme.to_ascii_lowercase().as_str() {
                "file" => Self::file_url(rest, access).map_err(place),
                scheme @ ("http" | "https") => Self::web(scheme, rest).map_err(place),
                scheme => Self::bucket(scheme, rest).map_err(place),
            },
        }
    }

    /// Parses a list of locations in one store or in several buckets. All their objects belong to
    /// one table.
    pub fn parse_list(texts: &[String], access: &Access) -> Result<Self> {
        if let [one] = texts {
            return Self::parse(one, access);
        }
        let members = texts.iter().map(|text| Self::parse(text, access)).collect::<Result<Vec<_>>>()?;
        let Some(first) = members.first() else {
            return Err(Error::invalid("the list of locations is empty"));
        };
        if members.iter().any(|member| member.store != first.store) {
            return Self::of_several(members);
        }
        let mut common = folder_of(first);
        for member in members.iter().skip(1) {
            let folder = folder_of(member);
            let same = common.iter().zip(&folder).take_while(|(a, b)| a == b).count();
            common.truncate(same);
        }
        let prefix = Path::parse(common.join("/")).map_err(bad_path)?;
        Ok(Self { store: first.store.clone(), prefix, glob: None, is_collection: true, members, manifest: None })
    }

    /// The location of a table whose `members` lie in several buckets or at several endpoints.
    fn of_several(members: Vec<Self>) -> Result<Self> {
        let mut all: Vec<ObjectStoreUrl> = Vec::new();
        for member in &members {
            if member.bucket_name().is_none() {
                return Err(Error::unsupported(format!(
                    "the locations lie in different stores, of which {member} is no bucket: combine them by UNION ALL BY \
                     NAME"
                )));
            }
            if !all.contains(&member.store) {
                all.push(member.store.clone());
            }
        }
        let store = stores::together(&all)?;
        let moved = |member: Self| {
            let number = all.iter().position(|store| *store == member.store).unwrap_or_default();
            Ok(Self { store: store.clone(), prefix: stores::numbered(number, &member.prefix)?, ..member })
        };
        let members = members.into_iter().map(moved).collect::<Result<_>>()?;
        Ok(Self { store, prefix: Path::default(), glob: None, is_collection: true, members, manifest: None })
    }

    /// Returns whether the members of a list are the same place at several endpoints.
    pub(crate) fn is_one_place(&self) -> bool {
        let place = |member: &Self| (stores::number_and_key(&member.prefix).map(|(_, key)| key), member.glob.clone());
        let mut places = self.members.iter().map(place);
        let first = places.next();
        stores::members(self.store.as_ref()).len() == self.members.len()
            && first.is_some_and(|first| places.all(|place| place == first))
    }

    /// Returns whether the location names a manifest that is not read yet.
    pub(crate) fn names_manifest(&self) -> bool {
        let is_object = !self.is_collection && self.glob.is_none() && self.manifest.is_none();
        is_object && self.prefix.as_ref().ends_with(MANIFEST)
    }

    /// Turns the location of a manifest into that of its table, whose objects lie in the stores
    /// `listed`.
    pub(crate) fn of_manifest(self, listed: &[ObjectStoreUrl]) -> Result<Self> {
        let mut all = vec![self.store];
        for store in listed {
            if !all.contains(store) {
                all.push(store.clone());
            }
        }
        // Paths begin with the number of a store, even if manifest and objects lie in the same
        // store.
        if let [one] = all.as_slice() {
            all.push(one.clone());
        }
        let manifest = Some(stores::numbered(0, &self.prefix)?);
        let store = stores::together(&all)?;
        Ok(Self { store, prefix: Path::default(), glob: None, is_collection: true, members: vec![], manifest })
    }

    /// The manifest that lists the table's objects, if there is one.
    pub(crate) fn manifest(&self) -> Option<&Path> {
        self.manifest.as_ref()
    }

    /// The members of a list of locations; empty if this is a single location.
    pub(crate) fn members(&self) -> &[TableLocation] {
        &self.members
    }

    /// Parses a bucket and a verbatim key, which the bucket's own endpoint may follow
    /// (`@http://…`).
    fn bucket(scheme: &str, rest: &str) -> Result<Self> {
        let (rest, endpoint) = stores::without_endpoint(rest);
        if let Some(several) = endpoint.filter(|endpoint| endpoint.contains(',')) {
            let at = |endpoint: &str| Self::bucket(scheme, &format!("{rest}@{}", endpoint.trim()));
            return Self::of_several(several.split(',').map(at).collect::<Result<_>>()?);
        }
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(Error::invalid(format!("no bucket is named: write {scheme}://bucket/…")));
        }
        let (prefix, glob) = split_glob(key)?;
        Ok(Self {
            store: stores::bucket_url(scheme, bucket, endpoint)?,
            is_collection: glob.is_some() || prefix.is_empty() || prefix.ends_with('/'),
            prefix: key_path(prefix)?,
            glob,
            members: vec![],
            manifest: None,
        })
    }

    /// Parses the address of one object on a web server, which cannot list.
    fn web(scheme: &str, rest: &str) -> Result<Self> {
        // Brackets in the host are allowed: they enclose an IPv6 address.
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.contains(['?', '#', '*', '{']) || path.contains(['?', '#', '*', '{', '[']) {
            return Err(Error::unsupported(
                "a web server cannot list what it holds and signed query strings are not passed on: \
                 name one object without wildcards",
            ));
        }
        let url = Url::parse(&format!("{scheme}://{rest}")).map_err(|e| Error::invalid("is no URL").with_source(e))?;
        let prefix = Path::from_url_path(url.path()).map_err(bad_path)?;
        if prefix.is_root() || url.path().ends_with('/') {
            return Err(Error::unsupported("a web server cannot list a folder: name one object"));
        }
        let store = stores::store_url(&url[url::Position::BeforeScheme..url::Position::BeforePath])?;
        Ok(Self { store, prefix, glob: None, is_collection: false, members: vec![], manifest: None })
    }

    fn file_url(rest: &str, access: &Access) -> Result<Self> {
        let path = rest.strip_prefix("localhost").unwrap_or(rest);
        if !path.starts_with('/') {
            return Err(Error::invalid("a file URL has three slashes: file:///folder/file.csv"));
        }
        let (prefix, glob) = split_glob(path)?;
        let is_folder = prefix.ends_with('/');
        let prefix = Path::from_url_path(prefix).map_err(bad_path)?;
        let path = std::path::Path::new("/").join(prefix.as_ref());
        access.look_at(&path)?;
        let is_collection = glob.is_some() || is_folder || path.is_dir();
        Ok(Self::on_disk(prefix, glob, is_collection))
    }

    fn on_disk(prefix: Path, glob: Option<Glob>, is_collection: bool) -> Self {
        let store = ObjectStoreUrl::local_filesystem();
        Self { store, prefix, glob, is_collection, members: vec![], manifest: None }
    }

    fn local(text: &str, access: &Access) -> Result<Self> {
        let home;
        let text = match (text.strip_prefix("~/"), dirs::home_dir()) {
            (Some(rest), Some(folder)) => {
                home = folder.join(rest).to_string_lossy().into_owned();
                &home
            }
            _ => text,
        };
        // Without `.` and `..`, but with links, so that two spellings are one location.
        let whole = absolute(std::path::Path::new(text))?;
        access.look_at(&whole)?;
        // An existing file may have a wildcard in its own name.
        let (prefix, glob) = if whole.exists() { (text, None) } else { split_glob(text)? };
        let path = absolute(std::path::Path::new(prefix))?;
        let is_collection = glob.is_some() || prefix.is_empty() || prefix.ends_with('/') || path.is_dir();
        let url = Url::from_file_path(&path).map_err(|()| Error::invalid("is neither a URL nor a path"))?;
        let prefix = Path::from_url_path(url.path()).map_err(bad_path)?;
        Ok(Self::on_disk(prefix, glob, is_collection))
    }

    /// The store, as scheme and authority.
    pub fn store(&self) -> &ObjectStoreUrl {
        &self.store
    }

    /// The object, or the folder that is listed.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The glob as it was written.
    pub fn glob(&self) -> Option<&str> {
        self.glob.as_ref().map(|glob| glob.text.as_str())
    }

    /// Whether the location certainly names several objects; if not, it may still be a folder.
    pub fn is_collection(&self) -> bool {
        self.is_collection
    }

    /// Whether the store can list; a plain web server cannot.
    pub(crate) fn can_list(&self) -> bool {
        !self.store.as_str().starts_with("http")
    }

    /// The bucket, which may not exist; `None` on the local disk and on web servers.
    pub(crate) fn bucket_name(&self) -> Option<String> {
        let (url, _) = stores::of_object(self.store.as_ref(), &self.prefix);
        if matches!(url.scheme(), "file" | "http" | "https") { None } else { url.host_str().map(str::to_owned) }
    }

    /// Whether all matches lie directly in the prefix, so that listing one folder is enough.
    pub(crate) fn is_one_folder(&self) -> bool {
        self.glob.as_ref().is_some_and(Glob::is_of_one_folder)
    }

    /// Returns the folders that the location of one object or of a glob spells out, without those
    /// above the working folder; they may give partition columns. A folder's own path gives none,
    /// so the text is empty for a folder, a list or a manifest.
    pub(crate) fn written_folders(&self) -> String {
        if !self.members.is_empty() || self.manifest.is_some() || self.is_collection && self.glob.is_none() {
            return String::new();
        }
        let path = self.prefix.as_ref();
        let folders = if self.glob.is_some() { path } else { path.rsplit_once('/').map_or("", |(folders, _)| folders) };
        let is_local = self.store == ObjectStoreUrl::local_filesystem();
        let above = absolute(std::path::Path::new(".")).ok().filter(|_| is_local);
        let above = above.and_then(|above| Path::from_absolute_path(above).ok());
        let below = above.as_ref().and_then(|above| folders.strip_prefix(above.as_ref()));
        below.unwrap_or(folders).to_owned()
    }

    /// Returns `path` relative to the prefix; `None` if it is not below it.
    pub(crate) fn relative<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let below = path.as_ref().strip_prefix(self.prefix.as_ref())?;
        if self.prefix.is_root() || below.is_empty() { Some(below) } else { below.strip_prefix('/') }
    }

    /// Whether an object below the prefix belongs to the table, judged by its name.
    ///
    /// Names that start with `_` or `.` are bookkeeping (`_SUCCESS`, `.part.crc`) unless the glob
    /// asks for them; `_year=2024` is a partition. [`PRIVATE_FOLDER`] is never data, unless the
    /// location itself lies in it.
    pub(crate) fn matches(&self, path: &Path) -> bool {
        let Some(below) = self.relative(path) else { return false };
        let hidden = |name: &str| name.starts_with('.') || (name.starts_with('_') && !name.contains('='));
        let asked = self.glob.as_ref().is_some_and(|glob| glob.text.split('/').any(hidden));
        if below.split('/').any(|name| name == PRIVATE_FOLDER || (!asked && hidden(name))) {
            return false;
        }
        self.glob.as_ref().is_none_or(|glob| glob.matches(below))
    }

    /// The address of an object of this location's store, as users write it.
    pub fn address(&self, path: &Path) -> String {
        stores::address(self.store.as_ref(), path)
    }
}

impl fmt::Display for TableLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.members.is_empty() {
            let members: Vec<String> = self.members.iter().map(Self::to_string).collect();
            return write!(f, "[{}]", members.join(", "));
        }
        let (prefix, at) = stores::parts(self.store.as_ref(), self.manifest.as_ref().unwrap_or(&self.prefix));
        match &self.glob {
            Some(glob) => write!(f, "{}/{}{at}", prefix.trim_end_matches('/'), glob.text),
            None if self.is_collection && self.manifest.is_none() && !prefix.ends_with('/') => {
                write!(f, "{prefix}/{at}")
            }
            None => write!(f, "{prefix}{at}"),
        }
    }
}

/// Returns the names of the folders that all objects of a location lie in.
fn folder_of(location: &TableLocation) -> Vec<String> {
    let mut parts: Vec<String> = location.prefix.as_ref().split('/').map(str::to_owned).collect();
    if !location.is_collection {
        parts.pop();
    }
    parts
}

fn key_path(key: &str) -> Result<Path> {
    Path::parse(key).map_err(bad_path)
}

fn bad_path(error: object_store::path::Error) -> Error {
    Error::invalid("is no path of objects").with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TableLocation> {
        TableLocation::parse(text, &Access::everything())
    }

    fn parse(text: &str) -> TableLocation {
        read(text).unwrap()
    }

    #[test]
    fn buckets_take_keys_verbatim() {
        let one = parse("s3://bucket/a b/50%.csv");
        assert_eq!(one.store().as_str(), "s3://bucket/");
        assert_eq!(one.prefix().as_ref(), "a b/50%.csv");
        assert!(!one.is_collection());
        assert_eq!(one.to_string(), "s3://bucket/a b/50%.csv");

        let folder = parse("S3://bucket/a/");
        assert!(folder.is_collection());
        assert_eq!(folder.to_string(), "s3://bucket/a/");
        assert!(parse("s3://bucket").is_collection());
        assert_eq!(parse("s3://bucket").to_string(), "s3://bucket/");
    }

    #[test]
    fn globs_split_at_the_first_open_segment() {
        let table = parse("s3://bucket/sales/year=*/part-?.csv");
        assert_eq!(table.prefix().as_ref(), "sales");
        assert_eq!(table.glob(), Some("year=*/part-?.csv"));
        assert!(!table.is_one_folder());
        assert!(table.matches(&Path::from("sales/year=2024/part-1.csv")));
        assert!(!table.matches(&Path::from("sales/year=2024/deep/part-1.csv")));
        assert!(!table.matches(&Path::from("sales/part-1.csv")));
        assert!(!table.matches(&Path::from("sales2/year=2024/part-1.csv")));
        assert!(parse("s3://bucket/sales/*.csv").is_one_folder());
    }

    #[test]
    fn double_stars_cross_folders_and_braces_choose() {
        let table = parse("s3://b/**/*.{csv,json{,.gz}}");
        for name in ["x.csv", "a/b/x.json", "a/x.json.gz"] {
            assert!(table.matches(&Path::from(name)), "{name}");
        }
        assert!(!table.matches(&Path::from("a/x.parquet")));
        assert!(!parse("s3://b/*.csv").matches(&Path::from("a/x.csv")));
        assert!(read(&format!("s3://b/{}", "{1,2}".repeat(11))).is_err());
        // An unpaired brace is a character like any other.
        assert_eq!(parse("s3://b/a{b.csv").prefix().as_ref(), "a{b.csv");
    }

    #[test]
    fn bookkeeping_is_no_data() {
        let folder = parse("s3://b/t/");
        assert!(!folder.matches(&Path::from("t/_SUCCESS")));
        assert!(!folder.matches(&Path::from("t/.x.csv.crc")));
        assert!(!folder.matches(&Path::from("t/_pushdowndb/index/x.csv")));
        assert!(!folder.matches(&Path::from("t/_temporary/0/x.csv")));
        assert!(folder.matches(&Path::from("t/_year=2024/x.csv")));
        assert!(parse("s3://b/t/_*.csv").matches(&Path::from("t/_x.csv")));
        assert!(parse("s3://b/t/_pushdowndb/").matches(&Path::from("t/_pushdowndb/x.csv")));
    }

    #[test]
    fn local_paths_and_file_urls_are_one() {
        let folder = std::env::temp_dir();
        let path = folder.join("no such file.csv");
        let (local, url) = (parse(path.to_str().unwrap()), parse(Url::from_file_path(&path).unwrap().as_str()));
        assert_eq!(local, url);
        assert_eq!(local.to_string(), path.to_str().unwrap());
        assert!(parse(folder.to_str().unwrap()).is_collection());
        assert!(parse("relative/*.csv").is_collection());
        assert_eq!(parse("./a/../b.csv"), parse("b.csv"));
    }

    #[test]
    fn web_servers_hold_single_objects() {
        let one = parse("https://example.org/data/my%20file.csv");
        assert_eq!(one.store().as_str(), "https://example.org/");
        assert_eq!(one.prefix().as_ref(), "data/my file.csv");
        assert_eq!(parse("http://[::1]:8000/x.csv").store().as_str(), "http://[::1]:8000/");
        assert!(read("https://example.org/data/").is_err());
        assert!(read("https://example.org/*.csv").is_err());
    }

    #[test]
    fn buckets_have_endpoints_of_their_own() {
        let one = parse("s3://bucket/t/*.csv@http://disk1:9000");
        assert_eq!((one.prefix().as_ref(), one.glob()), ("t", Some("*.csv")));
        assert_eq!(one.to_string(), "s3://bucket/t/*.csv@http://disk1:9000");
        let list = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            TableLocation::parse_list(&texts, &Access::everything())
        };
        let all = list(&["s3://b/t/@http://d1:9000", "s3://b/t/@http://d2:9000", "s3://c/x.csv"]).unwrap();
        assert_eq!(all.to_string(), "[s3://b/t/@http://d1:9000, s3://b/t/@http://d2:9000, s3://c/x.csv]");
        assert_eq!(all.members()[1].prefix().as_ref(), "1/t");
        assert_eq!(all.address(&Path::from("1/t/year=1/a.csv")), "s3://b/t/year=1/a.csv@http://d2:9000");
        assert_eq!(all.relative(&Path::from("2/x.csv")), Some("2/x.csv"));
        assert!(list(&["s3://b/t/", "/tmp/x.csv"]).is_err());
        let short = parse("s3://b/t/@http://d1:9000,http://d2:9000");
        assert_eq!(short, list(&["s3://b/t/@http://d1:9000", "s3://b/t/@http://d2:9000"]).unwrap());
        assert!(short.is_one_place() && !all.is_one_place());
        let manifest = parse("s3://b/t.manifest.json");
        assert!(manifest.names_manifest() && !parse("s3://b/t.json").names_manifest());
        let table = manifest.of_manifest(&[parse("s3://b/@http://d1:9000").store().clone()]).unwrap();
        assert_eq!((table.to_string(), table.names_manifest()), ("s3://b/t.manifest.json".to_owned(), false));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in
            [("", "empty"), ("s3:///key", "no bucket"), ("s3://b/a//b", "no path"), ("file://a", "three")]
        {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
