//! Locations of tables: a store, a prefix in it, and a glob for the rest of the path.
//!
//! Globs are those of a shell: `*` and `?` stay within one folder, `**` crosses folders, `[a-z]`
//! and `{a,b}` as usual. In `s3://` and the like the key is taken verbatim, as the AWS tools do
//! (`%` and spaces stand for themselves); `file://` and `http://` are URLs and percent-decoded. A
//! text without a scheme is a local path.
//!
//! Whether a location such as `s3://b/sales` is an object or a prefix, [`super::listing`] finds
//! out.

use std::fmt;

use datafusion::execution::object_store::ObjectStoreUrl;
use glob::{MatchOptions, Pattern};
use object_store::path::Path;
use pushdowndb_contract::{Error, Result};
use url::Url;

use crate::access::{Access, absolute};

/// The folder of PushdownDB's own objects (indexes, statistics, spilled data); no table includes
/// them.
pub const PRIVATE_FOLDER: &str = "_pushdowndb";

/// The most patterns that the braces of one glob may expand to.
const MAX_BRACE_PATTERNS: usize = 1024;

/// The location of a table's objects.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TableLocation {
    store: ObjectStoreUrl,
    prefix: Path,
    glob: Option<Glob>,
    is_collection: bool,
}

/// The glob of a location, matched against paths below the prefix.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Glob {
    text: String,
    patterns: Vec<Pattern>,
}

impl TableLocation {
    /// Parses a URL or a local path, with or without wildcards. Looks on the disk whether a local
    /// path is a folder, if `access` permits that.
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

    /// The key exactly as given, below a bucket.
    fn bucket(scheme: &str, rest: &str) -> Result<Self> {
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(Error::invalid(format!("no bucket is named: write {scheme}://bucket/…")));
        }
        let (prefix, glob) = split_glob(key)?;
        Ok(Self {
            store: store_url(&format!("{scheme}://{bucket}"))?,
            is_collection: glob.is_some() || prefix.is_empty() || prefix.ends_with('/'),
            prefix: key_path(prefix)?,
            glob,
        })
    }

    /// One object of a web server, which cannot list.
    fn web(scheme: &str, rest: &str) -> Result<Self> {
        // An IPv6 address stands in brackets.
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
        let store = store_url(&url[url::Position::BeforeScheme..url::Position::BeforePath])?;
        Ok(Self { store, prefix, glob: None, is_collection: false })
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
        Ok(Self { store: ObjectStoreUrl::local_filesystem(), prefix, glob, is_collection })
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
        // An existing file whose own name holds a wildcard.
        let (prefix, glob) = if whole.exists() { (text, None) } else { split_glob(text)? };
        let path = absolute(std::path::Path::new(prefix))?;
        let is_collection = glob.is_some() || prefix.is_empty() || prefix.ends_with('/') || path.is_dir();
        let url = Url::from_file_path(&path).map_err(|()| Error::invalid("is neither a URL nor a path"))?;
        let prefix = Path::from_url_path(url.path()).map_err(bad_path)?;
        Ok(Self { store: ObjectStoreUrl::local_filesystem(), prefix, glob, is_collection })
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

    /// Whether the location surely means several objects; if not, it may still be a folder.
    pub fn is_collection(&self) -> bool {
        self.is_collection
    }

    /// Whether the store can list; a plain web server cannot.
    pub(crate) fn can_list(&self) -> bool {
        !self.store.as_str().starts_with("http")
    }

    /// The bucket, which may not exist; `None` for folders and servers.
    pub(crate) fn bucket_name(&self) -> Option<&str> {
        let url: &Url = self.store.as_ref();
        if matches!(url.scheme(), "file" | "http" | "https") { None } else { url.host_str() }
    }

    /// Whether all matches lie directly in the prefix, so that listing one folder is enough.
    pub(crate) fn is_one_folder(&self) -> bool {
        self.glob
            .as_ref()
            .is_some_and(|glob| glob.patterns.iter().all(|p| !p.as_str().contains(['/'])) && !glob.crosses())
    }

    /// The path relative to the prefix; `None` if it is not below it.
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
        let store = self.store.as_str();
        if store.starts_with("file:") { format!("/{path}") } else { format!("{}/{path}", store.trim_end_matches('/')) }
    }
}

impl fmt::Display for TableLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = self.address(&self.prefix);
        match &self.glob {
            Some(glob) => write!(f, "{}/{}", prefix.trim_end_matches('/'), glob.text),
            None if self.is_collection && !prefix.ends_with('/') => write!(f, "{prefix}/"),
            None => f.write_str(&prefix),
        }
    }
}

impl Glob {
    const SHELL: MatchOptions =
        MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

    fn parse(text: &str) -> Result<Self> {
        let mut alternatives = Vec::new();
        expand_braces(text, &mut alternatives)?;
        let patterns = alternatives
            .iter()
            .map(|one| {
                Pattern::new(one)
                    .map_err(|e| Error::invalid(format!("the pattern '{one}' is malformed")).with_source(e))
            })
            .collect::<Result<_>>()?;
        Ok(Self { text: text.to_owned(), patterns })
    }

    fn crosses(&self) -> bool {
        self.text.contains("**")
    }

    fn matches(&self, below: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches_with(below, Self::SHELL))
    }
}

/// Splits off the glob, which begins with the first path segment that holds a wildcard.
fn split_glob(path: &str) -> Result<(&str, Option<Glob>)> {
    let is_open = |segment: &str| segment.contains(['*', '?', '[']) || segment.contains('{') && segment.contains('}');
    let mut start = 0;
    for segment in path.split('/') {
        if is_open(segment) {
            let (prefix, glob) = path.split_at(start);
            return Ok((prefix, Some(Glob::parse(glob)?)));
        }
        start += segment.len() + 1;
    }
    Ok((path, None))
}

/// Expands braces: `a{b,c{d,e}}` -> `ab`, `acd`, `ace`. Braces without a partner stand for
/// themselves.
fn expand_braces(text: &str, into: &mut Vec<String>) -> Result<()> {
    let Some((before, inside, after)) = first_braces(text) else {
        if into.len() == MAX_BRACE_PATTERNS {
            return Err(Error::invalid(format!("the braces stand for more than {MAX_BRACE_PATTERNS} patterns")));
        }
        into.push(text.to_owned());
        return Ok(());
    };
    for choice in inside {
        expand_braces(&format!("{before}{choice}{after}"), into)?;
    }
    Ok(())
}

/// The first balanced pair of braces: the text before, its choices, the text after.
fn first_braces(text: &str) -> Option<(&str, Vec<&str>, &str)> {
    let open = text.find('{')?;
    let (before, rest) = (text.get(..open)?, text.get(open + 1..)?);
    let (mut depth, mut start, mut choices) = (0_usize, 0, Vec::new());
    for (at, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth == 0 => {
                choices.push(rest.get(start..at)?);
                start = at + 1;
            }
            '}' => {
                choices.push(rest.get(start..at)?);
                return Some((before, choices, rest.get(at + 1..)?));
            }
            _ => {}
        }
    }
    None
}

fn key_path(key: &str) -> Result<Path> {
    Path::parse(key).map_err(bad_path)
}

fn bad_path(error: object_store::path::Error) -> Error {
    Error::invalid("is no path of objects").with_source(error)
}

fn store_url(text: &str) -> Result<ObjectStoreUrl> {
    ObjectStoreUrl::parse(text).map_err(|e| Error::invalid(format!("'{text}' names no store")).with_source(e))
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
    fn mistakes_are_named() {
        for (text, part) in
            [("", "empty"), ("s3:///key", "no bucket"), ("s3://b/a//b", "no path"), ("file://a", "three")]
        {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
