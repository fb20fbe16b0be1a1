//! The arguments of `check`.

use std::path::PathBuf;

use clap::Args;

/// Checking a store.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pushdowndb check --store /var/lib/pushdowndb/store

Reads every object, every part of an upload under way and the index, compares them with the
checksums that were made when they were stored, and changes nothing. Objects that a version without
checksums stored are compared with their ETags until a node has made some. Damage goes to stdout, a
line each: what is damaged (s3://bucket/key), and which bytes of it.

The node must be stopped; while it runs it checks itself, see serve --scrub-rate. What to do about
damage is in docs/operations.md. Exit codes: 0 no damage, 1 damage, 2 no store of this version, or
in use.")]
pub struct CheckArgs {
    /// The folder of the store, as it is given to serve
    #[arg(long, value_name = "DIR")]
    pub store: PathBuf,
}
