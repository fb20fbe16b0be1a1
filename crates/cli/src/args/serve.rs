//! The arguments of `serve` and `health`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use pushdowndb_cost::units::parse_bytes;

use super::values::{address, at_least_one, domain, key_value};
use crate::log::{LogFormat, filter};

/// Starting a node.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pushdowndb serve --store /var/lib/pushdowndb
  pushdowndb serve --store /data --listen 0.0.0.0:9000 --tls-cert cert.pem --tls-key key.pem --admin-listen 127.0.0.1:9001
  pushdowndb serve --gateway /srv/files --read-only
  pushdowndb serve --gateway s3://bucket/prefix --upstream-endpoint https://minio.example.com
  pushdowndb serve --gateway gs://bucket --upstream-option google_service_account=key.json

Credentials come from PUSHDOWNDB_ACCESS_KEY_ID and PUSHDOWNDB_SECRET_ACCESS_KEY, or from the file of --credentials,
or from both. Without them a pair is made at the first start and kept in the store's private folder; it is shown on a
terminal, elsewhere only the file's path is. A gateway reaches what is behind it with the AWS_*, GOOGLE_*
or AZURE_* variables.

SIGTERM and Ctrl-C let requests under way finish; SIGHUP reads certificate and keys again. GET /healthz, /readyz and
/metrics answer without a signature. docs/operations.md tells of settings, limits, metrics and backup.")]
pub struct ServeArgs {
    /// The folder that holds the buckets, in our own layout; made if missing
    // clap does not require a missing argument that conflicts with a given one, so arguments of
    // gateways are listed too.
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "gateway",
        conflicts_with_all = ["gateway", "upstream_endpoint", "upstream_options", "read_only", "bucket", "spool"]
    )]
    pub store: Option<PathBuf>,
    /// The address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:9000", value_name = "ADDRESS:PORT", value_parser = address)]
    pub listen: SocketAddr,
    /// A second address for /metrics, /healthz and /readyz, without TLS; /metrics is then answered
    /// there alone
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub admin_listen: Option<SocketAddr>,
    /// Speak TLS with this certificate and its chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The keys that may use the node and the buckets each may read and write, in TOML
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,
    /// Refuse signatures of version 2, which addresses and upload forms may carry otherwise
    #[arg(long)]
    pub no_signature_v2: bool,
    /// The region the node says it is in
    #[arg(long, default_value = "us-east-1")]
    pub region: String,
    /// A host name below which hosts are buckets: with s3.example.com, b.s3.example.com is bucket
    /// b; may be repeated
    #[arg(long = "domain", value_name = "NAME", value_parser = domain)]
    pub domains: Vec<String>,
    /// What is logged on stderr: error, warn, info, debug, or filters as in RUST_LOG [default:
    /// PUSHDOWNDB_LOG, then RUST_LOG, then info]
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    pub log: Option<String>,
    /// How it is logged; one line a request at level info
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
    #[command(flatten)]
    pub behind: GatewayArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Serving what exists already.
#[derive(Args, Debug)]
#[command(next_help_heading = "Gateway")]
pub struct GatewayArgs {
    /// Serve what exists as one bucket: a folder (file:///data or /data), s3://bucket/prefix,
    /// gs://bucket/prefix, az://container/prefix,
    /// abfss://container@account.dfs.core.windows.net/prefix, or http://host/path
    #[arg(long, value_name = "URL")]
    pub gateway: Option<String>,
    /// The endpoint behind --gateway s3://, gs:// or az:// [default: AWS_ENDPOINT_URL,
    /// GOOGLE_BASE_URL or AZURE_STORAGE_ENDPOINT, then the cloud's own]
    #[arg(long, value_name = "URL", requires = "gateway")]
    pub upstream_endpoint: Option<String>,
    /// A setting of the client behind the gateway as object_store names it, aws_region=eu-west-1
    /// for one; may be repeated. KEY=@FILE reads the value from a file: secrets on the command line
    /// can be seen by other users of the machine
    #[arg(long = "upstream-option", value_name = "KEY=VALUE", value_parser = key_value, requires = "gateway")]
    pub upstream_options: Vec<(String, String)>,
    /// Refuse writes instead of passing them on
    #[arg(long, requires = "gateway")]
    pub read_only: bool,
    /// The name the bucket has here [default: its own, or one made from the folder's or the host's]
    #[arg(long, value_name = "NAME", requires = "gateway")]
    pub bucket: Option<String>,
    /// Where uploads are kept until they are sent on [default: a temporary folder]
    #[arg(long, value_name = "DIR", requires = "gateway")]
    pub spool: Option<PathBuf>,
}

/// Asking a node.
#[derive(Args, Debug)]
pub struct HealthArgs {
    /// An address of the node that speaks plain HTTP: --admin-listen, or --listen without TLS
    #[arg(long, default_value = "127.0.0.1:9001", value_name = "ADDRESS:PORT", value_parser = address)]
    pub at: SocketAddr,
    /// Ask whether it takes requests, not only whether it works
    #[arg(long)]
    pub ready: bool,
    /// How long to wait for its answer
    #[arg(long, default_value_t = 5, value_name = "SECONDS")]
    pub timeout: u64,
}

/// What clients may use up; docs/operations.md lists all limits.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Memory that the process may hold, as in 2GiB or 512MiB; what does not fit waits or is
    /// refused [default: a quarter of the machine's, or half of its container's, from 512MiB to
    /// 16GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes::<usize>)]
    pub memory: Option<usize>,
    /// Connections open at once [default: 1024]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub max_connections: Option<usize>,
    /// Requests under way at once; more wait, then are told to slow down [default: 256]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub max_requests: Option<usize>,
    /// Scans at once; with 0 and no place to wait all are told to slow down, and objects are only
    /// read [default: 4 a core, at least 16]
    #[arg(long, value_name = "N")]
    pub max_scans: Option<usize>,
    /// Scans that wait for their turn; more are told to slow down [default: 64]
    #[arg(long, value_name = "N")]
    pub max_scans_waiting: Option<usize>,
    /// Threads that scan, in addition to those that answer requests [default: one for each core]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub scan_threads: Option<usize>,
    /// For how long a block of an object that was compared with its checksum is not compared again;
    /// 0: with every read [default: 600]
    #[arg(long, value_name = "SECONDS")]
    pub verify_interval: Option<u64>,
    /// Bytes a second of the store that are read in the background to find damage, as 16M; 0: none
    /// [default: 16M]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes::<u64>)]
    pub scrub_rate: Option<u64>,
    /// Bytes a second that are read from the disks of the store, by all requests together, as 20M:
    /// for disks that are shared with others, and for experiments; 0: no bound [default: 0]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes::<u64>)]
    pub disk_rate: Option<u64>,
    /// How long /readyz says that the node is going away before it stops accepting [default: 0]
    #[arg(long, value_name = "SECONDS")]
    pub drain_delay: Option<u64>,
    /// How long requests under way may go on when the node stops [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub shutdown_timeout: Option<u64>,
}
