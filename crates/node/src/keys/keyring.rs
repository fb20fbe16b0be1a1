//! The keys of a node and their rights, read from a TOML file.
//!
//! ```toml
//! [[key]]
//! access_key_id = "ops"
//! secret_access_key = "…"        # neither `read` nor `write`: all rights
//!
//! [[key]]
//! access_key_id = "dashboard"
//! secret_access_key = "…"
//! read = ["logs", "public-*"]    # reads objects and lists them
//! write = ["scratch"]            # reads and changes them, creates and deletes the bucket
//!
//! [[key]]
//! access_key_id = "tenant"
//! secret_access_key = "…"
//! own = true                     # creates buckets with free names, with all rights in them
//! requests = 64                  # its share: `requests`, `scans`, `buckets`, `uploads`
//! bytes = 1_000_000_000          # and `bytes` of the objects and parts that it wrote
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use pushdowndb_contract::{Error, Result};
use serde::Deserialize;

use crate::Credentials;

/// A key and its rights.
#[derive(Clone, Debug)]
pub struct Key {
    /// The pair that it signs with.
    pub credentials: Credentials,
    /// `None` grants all rights.
    pub grants: Option<Grants>,
    /// Its share of the node.
    pub share: KeyShare,
}

/// The share of the node that one key may use; `None` is the node's default.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct KeyShare {
    /// Requests in progress.
    pub requests: Option<usize>,
    /// Scans, running or waiting.
    pub scans: Option<usize>,
    /// Buckets that it created.
    pub buckets: Option<u64>,
    /// Multipart uploads in progress that it started.
    pub uploads: Option<u64>,
    /// Bytes of the objects and parts that it wrote. The default is half of the disk for a key with
    /// `read`, `write` or `own`.
    pub bytes: Option<u64>,
}

/// The buckets that a key may use: names, or prefixes followed by `*`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Grants {
    /// Buckets it may read.
    pub read: Vec<String>,
    /// Buckets it may read and change.
    pub write: Vec<String>,
    /// Whether it may create buckets, with all rights in those it created.
    pub own: bool,
}

/// A right on a bucket.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Right {
    /// Reading and listing.
    Read,
    /// Writing and deleting.
    Write,
}

impl Key {
    /// Whether the key has `right` on `bucket` by its lists, regardless of who owns the bucket.
    pub fn may(&self, right: Right, bucket: &str) -> bool {
        let Some(grants) = &self.grants else { return true };
        let listed = |patterns: &[String]| patterns.iter().any(|pattern| covers(pattern, bucket));
        listed(&grants.write) || (right == Right::Read && listed(&grants.read))
    }

    /// Whether the key may create buckets, with all rights in those it created.
    pub fn has_own(&self) -> bool {
        self.grants.as_ref().is_some_and(|grants| grants.own)
    }
}

fn covers(pattern: &str, bucket: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => bucket.starts_with(beginning),
        None => pattern == bucket,
    }
}

/// The keys of a node by access key id; there is at least one.
#[derive(Clone)]
pub struct Keyring {
    first: Credentials,
    keys: BTreeMap<String, Key>,
}

/// Shows the ids, never the secrets.
impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.keys()).finish()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    key: Vec<KeyForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyForm {
    access_key_id: String,
    secret_access_key: String,
    read: Option<Vec<String>>,
    write: Option<Vec<String>>,
    #[serde(default)]
    own: bool,
    requests: Option<usize>,
    scans: Option<usize>,
    buckets: Option<u64>,
    uploads: Option<u64>,
    bytes: Option<u64>,
}

impl Keyring {
    /// A keyring of one key with all rights.
    pub fn one(credentials: Credentials) -> Self {
        let key = Key { credentials: credentials.clone(), grants: None, share: KeyShare::default() };
        Self { keys: BTreeMap::from([(credentials.access_key_id.clone(), key)]), first: credentials }
    }

    /// Adds a key with all rights and makes it the first.
    pub fn with(mut self, credentials: Credentials) -> Self {
        let key = Key { credentials: credentials.clone(), grants: None, share: KeyShare::default() };
        self.keys.insert(credentials.access_key_id.clone(), key);
        Self { first: credentials, ..self }
    }

    /// Reads a credentials file.
    pub fn load(path: &Path) -> Result<Self> {
        let context = |error: Error| error.context(format!("cannot use the credentials file {}", path.display()));
        let text = fs::read_to_string(path)
            .map_err(|error| context(Error::invalid("the file cannot be read").with_source(error)))?;
        Self::parse(&text).map_err(context)
    }

    /// Reads the text of a credentials file.
    pub fn parse(text: &str) -> Result<Self> {
        // The message of the parser quotes the line, which may hold a secret, so only its number is
        // reported.
        let form: FileForm = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            Error::invalid(format!(
                "line {line}: expected [[key]] tables with access_key_id, secret_access_key and, optionally, the lists \
                 read and write, own = true, and the numbers requests, scans, buckets, uploads and bytes"
            ))
        })?;
        let mut first = None;
        let mut keys = BTreeMap::new();
        for form in form.key {
            let id = form.access_key_id;
            // A slash or a comma would make the credential of a signature ambiguous.
            let unfit = |c: char| !c.is_ascii_graphic() || matches!(c, '/' | ',' | '=');
            if id.is_empty() || id.len() > 128 || id.contains(unfit) {
                return Err(Error::invalid(format!("'{id}' is no access key id: use letters and digits")));
            }
            if form.secret_access_key.len() < 8 {
                return Err(Error::invalid(format!("the secret of '{id}' is shorter than 8 characters")));
            }
            let grants = match (form.read, form.write, form.own) {
                (None, None, false) => None,
                (read, write, own) => {
                    Some(Grants { read: read.unwrap_or_default(), write: write.unwrap_or_default(), own })
                }
            };
            let credentials = Credentials { access_key_id: id.clone(), secret_access_key: form.secret_access_key };
            first.get_or_insert_with(|| credentials.clone());
            let share = KeyShare {
                requests: form.requests,
                scans: form.scans,
                buckets: form.buckets,
                uploads: form.uploads,
                bytes: form.bytes,
            };
            if share.requests == Some(0) {
                return Err(Error::invalid(format!("with requests = 0 the key '{id}' could do nothing; remove it")));
            }
            if keys.insert(id.clone(), Key { credentials, grants, share }).is_some() {
                return Err(Error::invalid(format!("the access key id '{id}' is there twice")));
            }
        }
        let first = first.ok_or_else(|| Error::invalid("there is no [[key]]"))?;
        Ok(Self { first, keys })
    }

    /// Returns the key with this id.
    pub fn get(&self, access_key_id: &str) -> Option<&Key> {
        self.keys.get(access_key_id)
    }

    /// The first pair of the file.
    pub fn first(&self) -> &Credentials {
        &self.first
    }
}

/// The current keys, which can be replaced while the node serves. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ActiveKeys(Arc<InUse>);

#[derive(Debug)]
struct InUse {
    now: RwLock<Arc<Keyring>>,
    first: Credentials,
    always: Option<Credentials>,
}

impl ActiveKeys {
    /// Starts with `keyring`. The pair `always`, which must be in `keyring`, stays valid when
    /// [`Self::replace`] sets other keys.
    pub fn new(keyring: Keyring, always: Option<Credentials>) -> Self {
        let first = keyring.first().clone();
        Self(Arc::new(InUse { now: RwLock::new(Arc::new(keyring)), first, always }))
    }

    /// The current keys. Call this once per decision: the keys may be replaced between two calls.
    pub fn now(&self) -> Arc<Keyring> {
        Arc::clone(&self.0.now.read())
    }

    /// The first key at the start of the node.
    pub fn first(&self) -> &Credentials {
        &self.0.first
    }

    /// Replaces the keys, except the pair that stays valid always.
    pub fn replace(&self, keyring: Keyring) {
        let keyring = match self.0.always.clone() {
            Some(always) => keyring.with(always),
            None => keyring,
        };
        *self.0.now.write() = Arc::new(keyring);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [[key]]
        access_key_id = "ops"
        secret_access_key = "correct horse"
        [[key]]
        access_key_id = "dashboard"
        secret_access_key = "battery staple"
        read = ["logs", "public-*"]
        write = ["scratch"]
        [[key]]
        access_key_id = "tenant"
        secret_access_key = "tr0ub4dor&3"
        own = true
    "#;

    #[test]
    fn keys_may_do_what_is_granted() {
        let keys = Keyring::parse(FILE).unwrap();
        assert_eq!(keys.first().access_key_id, "ops");
        assert!(keys.get("ops").unwrap().may(Right::Write, "anything"));
        assert!(keys.get("nobody").is_none());
        let key = keys.get("dashboard").unwrap();
        for (bucket, read, write) in [
            ("logs", true, false),
            ("logs2", false, false),
            ("public-1", true, false),
            ("publi", false, false),
            ("scratch", true, true),
        ] {
            assert_eq!((key.may(Right::Read, bucket), key.may(Right::Write, bucket)), (read, write), "{bucket}");
        }
        assert!(!format!("{keys:?} {key:?}").contains("battery"));
        let tenant = keys.get("tenant").unwrap();
        assert!(tenant.has_own() && !tenant.may(Right::Read, "logs") && !key.has_own());
        assert!(!keys.get("ops").unwrap().has_own(), "it may do everything anyway");
    }

    #[test]
    fn keys_are_replaced_while_they_are_looked_at() {
        let keys = ActiveKeys::new(Keyring::parse(FILE).unwrap(), None);
        let before = keys.now();
        keys.replace(Keyring::parse(&FILE.replace("dashboard", "board")).unwrap());
        assert!(before.get("dashboard").is_some() && before.get("board").is_none());
        assert!(keys.now().get("dashboard").is_none() && keys.now().get("board").is_some());
    }

    #[test]
    fn mistakes_are_named_without_secrets() {
        let twice = FILE.replace("dashboard", "ops");
        for (text, said) in [
            ("", "line 1"),
            ("[[key]]\naccess_key_id = \"a\"\nsecret_access_key = hunter2hunter2\n", "line 3"),
            ("[[key]]\naccess_key_id = \"a/b\"\nsecret_access_key = \"12345678\"\n", "no access key id"),
            ("[[key]]\naccess_key_id = \"a\"\nsecret_access_key = \"short\"\n", "shorter"),
            (twice.as_str(), "twice"),
            ("key = []", "no [[key]]"),
        ] {
            let error = Keyring::parse(text).unwrap_err().to_string();
            assert!(error.contains(said) && !error.contains("hunter2"), "{text}: {error}");
        }
    }
}
