//! The arguments of `worker`, and those with which others reach workers.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::ConnectionArgs;
use super::values::{address, key_value};
use crate::access::AccessArgs;
use crate::log::{LogFormat, filter};

/// Starting a worker.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pushdowndb worker --listen 127.0.0.1:9100 --token-file token
  pushdowndb worker --listen 0.0.0.0:9100 --token-file token --tls-cert cert.pem --tls-key key.pem --workers-ca ca.pem
  pushdowndb --workers-token-file token --set pushdown.workers=http://w1:9100,http://w2:9100 -f query.sql

Whoever has the token may read all that the worker can. The token is a line of at least 16 characters in a file:
openssl rand -hex 32 makes one. A worker reads storage with its own credentials, from flags, AWS_* variables and profiles.
SIGTERM and Ctrl-C let stages under way finish; SIGHUP reads the certificate again. docs/cluster.md tells the rest.")]
pub struct WorkerArgs {
    /// The address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:9100", value_name = "ADDRESS:PORT", value_parser = address)]
    pub listen: SocketAddr,
    /// The file of the token that callers present, and that this worker presents to the others
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,
    /// Speak TLS with this certificate and its chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The authorities that the other workers' certificates are of, in PEM
    #[arg(long, value_name = "FILE")]
    pub workers_ca: Option<PathBuf>,
    /// A setting of this process: pushdown.memory=8GB, or those of pushdown.spill_*
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub settings: Vec<(String, String)>,
    /// What is logged on stderr: error, warn, info, debug, or filters as in RUST_LOG [default:
    /// PUSHDOWNDB_LOG, then RUST_LOG, then info]
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    pub log: Option<String>,
    /// How it is logged
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// Reaching workers.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Workers, which pushdown.workers names")]
pub struct ClusterArgs {
    /// The file of the token that the workers take
    #[arg(long, value_name = "FILE")]
    pub workers_token_file: Option<PathBuf>,
    /// The authorities that the certificates of workers with https addresses are of, in PEM
    #[arg(long, value_name = "FILE", requires = "workers_token_file")]
    pub workers_ca: Option<PathBuf>,
}
