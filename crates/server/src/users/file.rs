//! The file of users, in TOML.
//!
//! ```toml
//! [users.ann]
//! password = "SCRAM-SHA-256$4096:…"  # made by `pushdowndb sql-server --make-password`
//! read = ["s3://sales/"]             # what her SQL may read …
//! write = ["s3://results/ann/"]      # … and write; neither list implies the other
//! max_usd = 0.10                     # of one query
//! max_bytes = "20GB"                 # of one query, over the network
//! timeout_s = 300                    # of one query
//! memory = "2GB"                     # of all her queries together
//! queries = 4                        # at once; more wait
//! admin = false                      # may see and stop the queries of other users
//!
//! [users.ann.settings]
//! "pushdown.objective" = "cost"
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use pushdowndb_contract::{Error, Result};
use pushdowndb_cost::units::parse_bytes;
use pushdowndb_engine::{AccessPolicy, AllowList, Location, Network, UserLimits};
use serde::Deserialize;

use super::scram::Verifier;

/// Maximum bytes of the file.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// A user.
#[derive(Clone, Debug)]
pub(crate) struct User {
    /// The name.
    pub name: String,
    /// The verifier for passwords; `None` if no password is required.
    pub verifier: Option<Verifier>,
    /// The locations that SQL may use.
    pub access: AccessPolicy,
    /// The settings that each session starts with.
    pub settings: Vec<(String, String)>,
    /// Limits that no setting can exceed.
    pub limits: UserLimits,
    /// Maximum queries that run at once; `None` is the limit of the server.
    pub queries: Option<usize>,
    /// Whether the user may see and stop the queries of other users.
    pub is_admin: bool,
}

impl User {
    /// The user for everyone, if no passwords are required.
    pub(super) fn anyone(access: AccessPolicy) -> Self {
        Self {
            name: String::new(),
            verifier: None,
            access,
            settings: vec![],
            limits: UserLimits::default(),
            queries: None,
            is_admin: true,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserFile {
    users: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    password: String,
    read: Option<Vec<Location>>,
    #[serde(default)]
    write: Vec<Location>,
    #[serde(default)]
    addresses: Vec<Network>,
    #[serde(default)]
    max_usd: f64,
    max_bytes: Option<String>,
    #[serde(default)]
    timeout_s: u64,
    memory: Option<String>,
    queries: Option<usize>,
    #[serde(default)]
    admin: bool,
    #[serde(default)]
    settings: BTreeMap<String, toml::Value>,
}

/// Reads the file. Users without a list of locations get `access`.
pub(super) fn load(path: &Path, access: &AccessPolicy) -> Result<Vec<User>> {
    let failed = |error: &dyn std::fmt::Display| Error::invalid(format!("{}: {error}", path.display()));
    let size = std::fs::metadata(path).map_err(|error| failed(&error))?.len();
    if size > MAX_FILE_BYTES {
        return Err(failed(&format!("it has more than {MAX_FILE_BYTES} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    parse(&text, access).map_err(|error| failed(&error))
}

fn parse(text: &str, access: &AccessPolicy) -> Result<Vec<User>> {
    // Reports only the message of a TOML error: its full text repeats the line, which may contain a
    // password.
    let file: UserFile = toml::from_str(text).map_err(|error| Error::invalid(error.message().to_owned()))?;
    if file.users.is_empty() {
        return Err(Error::invalid("there is no [users.NAME]"));
    }
    let users = file.users.into_iter().map(|(name, entry)| {
        let user = user(name.clone(), entry, access);
        user.map_err(|error: Error| error.context(format!("[users.{name}]")))
    });
    users.collect()
}

fn user(name: String, entry: Entry, access: &AccessPolicy) -> Result<User> {
    if name.is_empty() || name.contains('\0') || name.len() > 63 {
        return Err(Error::invalid("a name has 1 to 63 characters"));
    }
    let verifier = Verifier::parse(&entry.password)?;
    if !entry.max_usd.is_finite() || entry.max_usd < 0.0 {
        return Err(Error::invalid("max_usd must be a number of dollars, 0 or more"));
    }
    if entry.queries == Some(0) {
        return Err(Error::invalid("queries must be 1 or more"));
    }
    let size = |what: &str, text: Option<String>| {
        let bytes = text.map(|text| parse_bytes::<u64>(&text)).transpose();
        bytes.map(Option::unwrap_or_default).map_err(|error| Error::invalid(format!("{what}: {error}")))
    };
    let access = match entry.read {
        None if entry.write.is_empty() && entry.addresses.is_empty() => access.clone(),
        read => AccessPolicy::Only(AllowList {
            read: read.unwrap_or_default(),
            write: entry.write,
            addresses: entry.addresses,
        }),
    };
    let limits = UserLimits {
        max_bytes: size("max_bytes", entry.max_bytes)?,
        max_usd: entry.max_usd,
        query_timeout_s: entry.timeout_s,
        memory_bytes: size("memory", entry.memory)?,
    };
    let settings = entry.settings.into_iter().map(|(name, value)| {
        let value = match value {
            toml::Value::String(text) => text,
            other => other.to_string(),
        };
        (name, value)
    });
    Ok(User {
        name,
        verifier: Some(verifier),
        access,
        settings: settings.collect(),
        limits,
        queries: entry.queries,
        is_admin: entry.admin,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(lines: &str) -> Result<User> {
        let password = Verifier::of("secret", b"0123456789abcdef").to_string();
        let text = format!("[users.ann]\npassword = \"{password}\"\n{lines}");
        parse(&text, &AccessPolicy::nothing().and_read("s3://")?).map(|mut users| users.remove(0))
    }

    #[test]
    fn a_user_has_limits_and_locations() {
        let lines = "read = [\"s3://sales/\"]\nmax_usd = 0.5\nmax_bytes = \"1GB\"\ntimeout_s = 9\nmemory = \"2GiB\"\n\
                     queries = 3\n[users.ann.settings]\n\"pushdown.level\" = \"none\"\n\"pushdown.retries\" = 2";
        let ann = entry(lines).unwrap();
        assert_eq!(ann.access, AccessPolicy::nothing().and_read("s3://sales/").unwrap());
        assert_eq!((ann.limits.max_usd, ann.limits.query_timeout_s, ann.queries), (0.5, 9, Some(3)));
        assert_eq!((ann.limits.max_bytes, ann.limits.memory_bytes), (1 << 30, 2 << 30));
        assert_eq!(
            ann.settings,
            [("pushdown.level".to_owned(), "none".to_owned()), ("pushdown.retries".to_owned(), "2".to_owned())]
        );
        assert!(!ann.is_admin);
        let all = AccessPolicy::nothing().and_read("s3://").unwrap();
        assert_eq!(entry("").unwrap().access, all, "that of the server");
        assert_eq!(entry("read = []").unwrap().access, AccessPolicy::nothing());
    }

    #[test]
    fn mistakes_are_refused_without_showing_the_password() {
        for wrong in ["reads = []", "max_usd = -1", "queries = 0", "max_bytes = \"many\"", "read = [\"s3://a@b/x\"]"] {
            assert!(entry(wrong).is_err(), "{wrong}");
        }
        let plain = parse("[users.ann]\npassword = \"hunter2\"", &AccessPolicy::nothing()).unwrap_err().to_string();
        assert!(plain.contains("--make-password") && !plain.contains("hunter2"), "{plain}");
        let broken = parse("[users.ann]\npassword = \"hunter2", &AccessPolicy::nothing()).unwrap_err().to_string();
        assert!(!broken.contains("hunter2"), "{broken}");
    }
}
