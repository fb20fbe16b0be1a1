//! The arguments that restrict what SQL may use.

use clap::Args;
use pushdowndb_engine::{AccessPolicy, AllowList, Location, Network};

/// What SQL may use. With one of these it is what they list and nothing else; without, everything.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Access, for SQL that is not yours: with one of these, what they list and nothing else")]
pub struct AccessArgs {
    /// SQL may read this and all below it: a path, s3://bucket/folder/, https://host/folder/, or a
    /// scheme (s3://) for all of it; may be repeated
    #[arg(long = "allow", value_name = "LOCATION")]
    pub read: Vec<Location>,
    /// SQL may write, replace and delete this and all below it, but not read it for that; may be
    /// repeated
    #[arg(long = "allow-write", value_name = "LOCATION")]
    pub write: Vec<Location>,
    /// Names of hosts that SQL may read may stand for these addresses, though they are not public:
    /// 10.0.0.0/8; may be repeated
    #[arg(long = "allow-address", value_name = "NETWORK")]
    pub addresses: Vec<Network>,
    /// SQL may use nothing outside of the session but what --allow and its like list
    #[arg(long)]
    pub allow_nothing: bool,
}

impl AccessArgs {
    /// Whether any restriction is given.
    pub fn is_given(&self) -> bool {
        self.allow_nothing || !(self.read.is_empty() && self.write.is_empty() && self.addresses.is_empty())
    }

    /// Converts the arguments to an access policy.
    pub fn policy(self) -> AccessPolicy {
        match self.is_given() {
            true => AccessPolicy::Only(AllowList { read: self.read, write: self.write, addresses: self.addresses }),
            false => AccessPolicy::Everything,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn sql_may_use_everything_or_what_is_listed() {
        let policy = |line: &str| Cli::try_parse_from(str::split_whitespace(line)).unwrap().sql.access.policy();
        assert_eq!(policy("pushdowndb -c x"), AccessPolicy::Everything);
        assert_eq!(policy("pushdowndb --allow-nothing -c x"), AccessPolicy::nothing());
        let listed = AccessPolicy::nothing().and_read("s3://b/x").unwrap().and_write("/out").unwrap();
        assert_eq!(policy("pushdowndb --allow s3://b/x/ --allow-write /out -c x"), listed);
        assert!(Cli::try_parse_from(["pushdowndb", "--allow", "ftp://b"]).is_err());
    }
}
