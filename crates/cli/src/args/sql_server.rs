//! The arguments of `sql-server`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::values::{address, at_least_one, key_value};
use super::{ClusterArgs, ConnectionArgs};
use crate::access::AccessArgs;
use crate::log::{LogFormat, filter};

/// Starting an SQL server.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pushdowndb sql-server --postgres 127.0.0.1:5432 --endpoint http://127.0.0.1:9000
  psql \"host=127.0.0.1 dbname=pushdowndb\" -c \"SELECT count(*) FROM 's3://bucket/logs/'\"
  pushdowndb sql-server --flight 127.0.0.1:32010 --endpoint http://127.0.0.1:9000
  pushdowndb sql-server --postgres 0.0.0.0:5432 --users users.toml --tls-cert cert.pem --tls-key key.pem
  pushdowndb sql-server --make-password < password.txt

Without --users everyone is let in, so that only this machine may connect. Without --allow SQL may read all buckets of
the endpoint and nothing else. SIGTERM and Ctrl-C let queries under way finish; SIGHUP reads users and certificate
again. docs/sql-server.md tells of users, limits, clients and metrics.")]
pub struct SqlServerArgs {
    /// The address of the PostgreSQL protocol; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address, required_unless_present_any = ["make_password", "flight"])]
    pub postgres: Option<SocketAddr>,
    /// The address of Flight SQL, for ADBC and JDBC; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub flight: Option<SocketAddr>,
    /// The users, their passwords, limits and locations, in TOML
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
    /// Read a password from stdin and print what stands for it in the file of users
    #[arg(long, exclusive = true)]
    pub make_password: bool,
    /// Speak TLS with this certificate and its chain, in PEM; plain connections are refused then
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// An address for /metrics, /healthz and /readyz, without TLS
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub admin_listen: Option<SocketAddr>,
    /// A setting that sessions start with: pushdown.level=none
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub settings: Vec<(String, String)>,
    /// The file of declared tables, which all users see
    #[arg(long, value_name = "FILE")]
    pub catalog: Option<PathBuf>,
    /// The folder that keeps what was learned of tables [default: none]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Queries that run at once; more wait [default: 2 a core, at least 8]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub max_queries: Option<usize>,
    /// Connections open at once [default: 256]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub max_connections: Option<usize>,
    /// What is logged on stderr: error, warn, info, debug, or filters as in RUST_LOG [default:
    /// PUSHDOWNDB_LOG, then RUST_LOG, then info]
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    pub log: Option<String>,
    /// How it is logged; one line a query at level info
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
}
