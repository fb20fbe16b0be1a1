//! The access policy as plain data: it can be compared, kept in a file, and sent to another
//! process.

use pushdowndb_contract::Result;
use serde::{Deserialize, Serialize};

pub(crate) use super::{Location, Network};

/// The locations and hosts that the SQL of a session may read and write. The default is nothing.
///
/// ```
/// use pushdowndb_engine::{AccessPolicy, EngineConfig};
///
/// // SQL of strangers over one folder of one bucket, with results in another.
/// let policy = AccessPolicy::nothing().and_read("s3://sales/2024/")?.and_write("s3://results/")?;
/// let config = EngineConfig { access: policy, ..EngineConfig::default() };
/// # Ok::<(), pushdowndb_contract::Error>(())
/// ```
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessPolicy {
    /// Everything that the process may: every scheme, bucket, folder, host and address. For
    /// programs that run the SQL of their own user, such as the command line.
    Everything,
    /// Only what is listed.
    Only(AllowList),
}

/// The lists of a policy.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct AllowList {
    /// Locations to read and list: tables, indexes, price books.
    pub read: Vec<Location>,
    /// Locations to write and delete: COPY, indexes, ANALYZE's counts, the folder for spilled data.
    /// Writing does not imply reading.
    pub write: Vec<Location>,
    /// Addresses that are not public and that permitted hosts may have nevertheless. A location
    /// that is written with such an address, or with `localhost`, needs no entry here; nor does the
    /// endpoint in the session's connection.
    pub addresses: Vec<Network>,
}

impl Default for AccessPolicy {
    fn default() -> Self {
        Self::nothing()
    }
}

impl AccessPolicy {
    /// A policy that permits nothing, to which locations are added.
    pub fn nothing() -> Self {
        Self::Only(AllowList::default())
    }

    /// Adds a location that may be read, with all below it: a path, `s3://bucket/folder/`,
    /// `https://host/folder/`, or a scheme alone (`s3://`) for all of it.
    pub fn and_read(mut self, location: &str) -> Result<Self> {
        let location = location.parse()?;
        if let Self::Only(list) = &mut self {
            list.read.push(location);
        }
        Ok(self)
    }

    /// Adds a location that may be written, with all below it. Writing does not imply reading.
    pub fn and_write(mut self, location: &str) -> Result<Self> {
        let location = location.parse()?;
        if let Self::Only(list) = &mut self {
            list.write.push(location);
        }
        Ok(self)
    }

    /// Adds addresses that permitted hosts may have although they are not public: `10.0.0.0/8`.
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
        // A misspelled list must not pass for an empty one, nor a rule be lost.
        assert!(serde_json::from_str::<AccessPolicy>(r#"{"only":{"reads":[]}}"#).is_err());
    }
}
