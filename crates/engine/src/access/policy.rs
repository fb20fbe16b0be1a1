//! What SQL may use, as plain data: it can be compared, kept in a file, and sent to another process.

use pushdown::Result;
use serde::{Deserialize, Serialize};

use super::{Location, Network};

/// What the SQL of a session may read and write. The default is nothing.
///
/// ```
/// use pushdowndb_engine::{AccessPolicy, EngineConfig};
///
/// // SQL of strangers over one folder of one bucket, with results in another.
/// let policy = AccessPolicy::nothing().and_read("s3://sales/2024/")?.and_write("s3://results/")?;
/// let config = EngineConfig { access: policy, ..EngineConfig::default() };
/// # Ok::<(), pushdown::Error>(())
/// ```
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessPolicy {
    /// Everything that the process may: every scheme, bucket, folder, host and address. Right for a program that runs the SQL of its own
    /// user, such as the command line.
    Everything,
    /// What is listed and nothing else.
    Only(AllowList),
}

/// What SQL may use.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct AllowList {
    /// What it may read and list: tables, indexes, price books.
    pub read: Vec<Location>,
    /// What it may write and delete: COPY, indexes, ANALYZE's counts, the folder that queries spill to. Not read for that.
    pub write: Vec<Location>,
    /// Addresses that are not public which names of hosts may stand for. A location that is written with such an address, or
    /// with `localhost`, allows that one itself; so does the endpoint in the session's connection.
    pub addresses: Vec<Network>,
}

impl Default for AccessPolicy {
    fn default() -> Self {
        Self::nothing()
    }
}

impl AccessPolicy {
    /// Nothing at all, to which locations are added.
    pub fn nothing() -> Self {
        Self::Only(AllowList::default())
    }

    /// The same, and this location with all below it may be read. The text is a path, `s3://bucket/folder/`,
    /// `https://host/folder/`, or a scheme alone (`s3://`) for all of it.
    pub fn and_read(mut self, location: &str) -> Result<Self> {
        let location = location.parse()?;
        if let Self::Only(list) = &mut self {
            list.read.push(location);
        }
        Ok(self)
    }

    /// The same, and this location with all below it may be written; not read for that.
    pub fn and_write(mut self, location: &str) -> Result<Self> {
        let location = location.parse()?;
        if let Self::Only(list) = &mut self {
            list.write.push(location);
        }
        Ok(self)
    }

    /// The same, and names of allowed hosts may stand for these addresses, which are not public: `10.0.0.0/8`.
    pub fn and_addresses(mut self, network: &str) -> Result<Self> {
        let network = network.parse()?;
        if let Self::Only(list) = &mut self {
            list.addresses.push(network);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_data() {
        let policy = AccessPolicy::nothing().and_read("s3://b/x/").unwrap().and_write("/out").unwrap();
        let policy = policy.and_addresses("10.0.0.0/8").unwrap();
        let text = serde_json::to_string(&policy).unwrap();
        assert_eq!(text, r#"{"only":{"read":["s3://b/x"],"write":["/out"],"addresses":["10.0.0.0/8"]}}"#);
        assert_eq!(serde_json::from_str::<AccessPolicy>(&text).unwrap(), policy);
        assert_eq!(serde_json::from_str::<AccessPolicy>("\"everything\"").unwrap(), AccessPolicy::Everything);
        assert_eq!(serde_json::from_str::<AccessPolicy>(r#"{"only":{}}"#).unwrap(), AccessPolicy::default());
        // A misspelt list must not pass for an empty one, nor a rule be lost.
        assert!(serde_json::from_str::<AccessPolicy>(r#"{"only":{"reads":[]}}"#).is_err());
    }
}
