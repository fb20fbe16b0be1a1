//! The arguments: what may be said on the command line, and nothing of what is done about it.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, Parser, Subcommand, ValueEnum, value_parser};

use crate::access::AccessArgs;
use crate::check::CheckArgs;
use crate::experiment::args::Experiment;
use crate::print::OutputFormat;

/// SQL over object storage that moves the work instead of the data.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 110, args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub sql: SqlArgs,
}

const EXAMPLES: &str = "\
Examples:
  pushdowndb                                       the shell; \\? in it for help
  pushdowndb demo                                  data, a storage node, and what pushdown saves, in a minute
  pushdowndb -c \"SELECT count(*) FROM 'data/*.csv'\"
  pushdowndb -f s3://bucket/tpch/schema.sql -f q06.sql --stats table
  pushdowndb -f schema.sql -f q03.sql --profile q03.html      where its time, bytes and dollars went, as a page
  pushdowndb --format csv --output out.csv -c \"SELECT * FROM 's3://bucket/logs/2026/*.parquet' LIMIT 10\"
  pushdowndb --allow data/ --allow-write out/ -f theirs.sql   SQL of somebody else, which may use nothing else
  pushdowndb serve --store /var/lib/pushdowndb     a storage node: S3 with S3 Select
  pushdowndb generate tpch --scale 1 --to s3://bucket/tpch --endpoint http://127.0.0.1:9000

Credentials and the endpoint come from the AWS_* variables and profiles, or from flags.
Results go to stdout, all else to stderr.

Exit codes: 0 done, 1 a failure of ours, 2 invalid query or arguments, 3 not found, 4 denied, 5 conflict,
6 a limit you set, 7 not supported, 8 throttled, 9 storage unavailable, 10 corrupt data, 130 cancelled.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run SQL from -c and -f, or open the shell (the same as no command at all)
    Sql(SqlArgs),
    /// Start a storage node: S3 with S3 Select
    Serve(ServeArgs),
    /// Read a store that is not being served and name every damaged object
    Check(CheckArgs),
    /// Ask a running node whether it is well: exit code 0 if so, 9 if not
    Health(HealthArgs),
    /// Generate benchmark data
    Generate {
        #[command(subcommand)]
        what: Generate,
    },
    /// Show what pushdown saves: makes data, starts a node, compares queries, cleans up
    Demo(DemoArgs),
    /// Measure: repeats the measurements of docs/measurements.md on this machine
    Experiment {
        #[command(subcommand)]
        what: Experiment,
    },
}

/// Running SQL.
#[derive(Args, Clone, Debug)]
pub struct SqlArgs {
    #[command(flatten)]
    pub scripts: Scripts,
    /// How results are printed [default: table, or by the extension of --output]
    #[arg(long, value_enum)]
    pub format: Option<OutputFormat>,
    /// Where results go instead of stdout; the file appears once it is complete
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What each query did and cost, printed to stderr
    #[arg(long, value_enum, default_value = "none")]
    pub stats: StatsFormat,
    /// Where --stats go instead of stderr; JSON, one line a query, unless --stats table
    #[arg(long, value_name = "FILE")]
    pub stats_file: Option<PathBuf>,
    /// A page of HTML on each query: its plan, what was expected beside what happened, the bill, and why it ran so
    #[arg(long, value_name = "FILE.html")]
    pub profile: Option<PathBuf>,
    /// A setting, as SET would: pushdown.level=none; SHOW ALL lists them
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub settings: Vec<(String, String)>,
    /// The file that remembers declared tables [default: the user's own for the shell, none for -c and -f]
    #[arg(long, value_name = "FILE")]
    pub catalog: Option<PathBuf>,
    /// The folder that keeps what was learned of tables [default: pushdowndb in the user's cache folder]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// How to reach object storage.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Storage")]
pub struct ConnectionArgs {
    /// The S3 endpoint, such as http://127.0.0.1:9000 [default: AWS_ENDPOINT_URL, then AWS]
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// The region [default: AWS_REGION, then us-east-1]
    #[arg(long)]
    pub region: Option<String>,
    /// The access key [default: AWS_ACCESS_KEY_ID]
    #[arg(long, value_name = "ID", requires = "secret_access_key")]
    pub access_key_id: Option<String>,
    /// Its secret; other users of the machine can see it, the variable AWS_SECRET_ACCESS_KEY hides it
    #[arg(long, value_name = "SECRET", requires = "access_key_id")]
    pub secret_access_key: Option<String>,
    /// The token of temporary credentials [default: AWS_SESSION_TOKEN]
    #[arg(long, value_name = "TOKEN", requires = "access_key_id")]
    pub session_token: Option<String>,
    /// A profile of ~/.aws [default: AWS_PROFILE]
    #[arg(long, value_name = "NAME", conflicts_with = "access_key_id")]
    pub aws_profile: Option<String>,
    /// Send unsigned requests, for public data
    #[arg(long, visible_alias = "no-sign", alias = "no-sign-request", conflicts_with_all = ["access_key_id", "aws_profile"])]
    pub anonymous: bool,
    /// Agree to pay for requests to buckets whose owner wants that
    #[arg(long)]
    pub requester_pays: bool,
    /// Accept any certificate, also that of somebody in between; AWS_CA_BUNDLE names authorities to trust instead
    #[arg(long)]
    pub insecure: bool,
}

impl ConnectionArgs {
    /// These flags as they are typed, each with a space before it, but for keys.
    pub fn typed(&self) -> String {
        let flags = [("endpoint", &self.endpoint), ("region", &self.region), ("aws-profile", &self.aws_profile)];
        let typed = flags.into_iter().filter_map(|(flag, value)| Some(format!(" --{flag} {}", value.as_ref()?)));
        let switches =
            [("anonymous", self.anonymous), ("requester-pays", self.requester_pays), ("insecure", self.insecure)];
        let switches = switches.into_iter().filter(|(_, is_on)| *is_on).map(|(switch, _)| format!(" --{switch}"));
        typed.chain(switches).collect()
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum StatsFormat {
    None,
    Table,
    Json,
}

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
    // What needs a gateway is named too: clap does not ask for an argument that contradicts one that is given.
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
    /// A second address for /metrics, /healthz and /readyz, without TLS; /metrics is then answered there alone
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
    /// A host name below which hosts are buckets: with s3.example.com, b.s3.example.com is bucket b; may be repeated
    #[arg(long = "domain", value_name = "NAME", value_parser = domain)]
    pub domains: Vec<String>,
    /// What is logged on stderr: error, warn, info, debug, or filters as in RUST_LOG [default: PUSHDOWNDB_LOG, then RUST_LOG, then info]
    #[arg(long, value_name = "FILTER", value_parser = crate::log::filter)]
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
    /// Serve what exists as one bucket: a folder (file:///data or /data), s3://bucket/prefix, gs://bucket/prefix,
    /// az://container/prefix, abfss://container@account.dfs.core.windows.net/prefix, or http://host/path
    #[arg(long, value_name = "URL")]
    pub gateway: Option<String>,
    /// The endpoint behind --gateway s3://, gs:// or az:// [default: AWS_ENDPOINT_URL, GOOGLE_BASE_URL or
    /// AZURE_STORAGE_ENDPOINT, then the cloud's own]
    #[arg(long, value_name = "URL", requires = "gateway")]
    pub upstream_endpoint: Option<String>,
    /// A setting of the client behind the gateway as object_store names it, aws_region=eu-west-1 for one; may be repeated.
    /// KEY=@FILE reads the value from a file: secrets on the command line can be seen by other users of the machine
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
    /// Memory that the process may hold, as in 2GiB or 512MiB; what does not fit waits or is refused [default: a quarter of the
    /// machine's, or half of its container's, from 512MiB to 16GiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub memory: Option<usize>,
    /// Connections open at once [default: 1024]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub max_connections: Option<usize>,
    /// Requests under way at once; more wait, then are told to slow down [default: 256]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub max_requests: Option<usize>,
    /// Scans at once; with 0 and no place to wait all are told to slow down, and objects are only read [default: 4 a core, at
    /// least 16]
    #[arg(long, value_name = "N")]
    pub max_scans: Option<usize>,
    /// Scans that wait for their turn; more are told to slow down [default: 64]
    #[arg(long, value_name = "N")]
    pub max_scans_waiting: Option<usize>,
    /// Threads that scan, beside those that answer everything else [default: one a core]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub scan_threads: Option<usize>,
    /// For how long a block of an object that was compared with its checksum is not compared again; 0: with every read
    /// [default: 600]
    #[arg(long, value_name = "SECONDS")]
    pub verify_interval: Option<u64>,
    /// Bytes a second of the store that are read in the background to find damage, as 16M; 0: none [default: 16M]
    #[arg(long, value_name = "BYTES", value_parser = crate::check::size)]
    pub scrub_rate: Option<u64>,
    /// How long /readyz says that the node is going away before it stops accepting [default: 0]
    #[arg(long, value_name = "SECONDS")]
    pub drain_delay: Option<u64>,
    /// How long requests under way may go on when the node stops [default: 10]
    #[arg(long, value_name = "SECONDS")]
    pub shutdown_timeout: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Generate {
    /// The eight TPC-H tables, and schema.sql that declares them
    Tpch(GenerateArgs),
    /// Groups of equal size and of sizes by Zipf's law, with numbers to sum
    Groups(GenerateArgs),
    /// Tables of 1, 10 and 20 columns of doubles
    Floats(GenerateArgs),
}

/// Generating data.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pushdowndb generate tpch --scale 0.1 --to /tmp/tpch
  pushdowndb generate tpch --scale 10 --format parquet --parts 16 --to s3://bucket/tpch --endpoint http://127.0.0.1:9000

then
  pushdowndb -f /tmp/tpch/schema.sql -c 'SELECT count(*) FROM lineitem'")]
pub struct GenerateArgs {
    /// The scale factor: 1 is about a gigabyte of CSV, of floats three
    #[arg(long, default_value_t = 1.0)]
    pub scale: f64,
    /// csv, parquet, or json (one object a line)
    #[arg(long, default_value = "csv")]
    pub format: pushdowndb_tpchgen::Format,
    /// A folder or s3://bucket/prefix
    #[arg(long, value_name = "PLACE")]
    pub to: String,
    /// Objects per table
    #[arg(long, default_value_t = 1)]
    pub parts: u32,
    /// Replace tables that are there already
    #[arg(long)]
    pub overwrite: bool,
    /// Make the bucket if it does not exist
    #[arg(long)]
    pub create_bucket: bool,
    #[command(flatten)]
    pub connection: ConnectionArgs,
}

/// The demonstration.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// The scale factor of the data
    #[arg(long, default_value_t = 0.1)]
    pub scale: f64,
    /// csv, parquet, or json
    #[arg(long, default_value = "csv")]
    pub format: pushdowndb_tpchgen::Format,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("write it as KEY=VALUE".into()),
    }
}

/// With none of it a node would take requests and answer none.
fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be 1 or more".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("it is no number".into()),
    }
}

/// Bytes, or so many KiB, MiB or GiB of them.
fn size(text: &str) -> Result<usize, String> {
    let expected = || format!("'{text}' is no size, such as 512MiB, 2GiB or 1073741824");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return Err(expected()),
    };
    digits.parse::<usize>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(expected)
}

/// An address to listen on; names of this machine are looked up.
fn address(text: &str) -> Result<SocketAddr, String> {
    let expected = || format!("'{text}' is no address and port, such as 127.0.0.1:9000 or 0.0.0.0:9000");
    if text.starts_with(':') {
        return Err(expected());
    }
    let found = text.to_socket_addrs().map_err(|_| expected())?.min_by_key(SocketAddr::is_ipv6);
    found.ok_or_else(expected)
}

fn domain(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.is_empty() || !text.chars().all(fits) {
        return Err("it is the name of a host, without scheme, port and path".into());
    }
    Ok(text.to_owned())
}

/// One `-c` or `-f`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Script {
    /// SQL as it stands on the command line.
    Command(String),
    /// A file or s3:// object that holds SQL.
    File(String),
}

/// All `-c` and `-f` in the order they were given, which derived arguments cannot keep.
#[derive(Clone, Debug, Default)]
pub struct Scripts(pub Vec<Script>);

impl Args for Scripts {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
            .arg(
                Arg::new("script-command")
                    .short('c')
                    .long("command")
                    .value_name("SQL")
                    .action(ArgAction::Append)
                    .value_parser(value_parser!(String))
                    .help("SQL to run; -c and -f may be repeated and run in order"),
            )
            .arg(
                Arg::new("script-file")
                    .short('f')
                    .long("file")
                    .value_name("FILE|s3://...")
                    .action(ArgAction::Append)
                    .value_parser(value_parser!(String))
                    .help("A file of SQL to run, local or in object storage; - is stdin"),
            )
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Scripts {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut scripts = Vec::new();
        for (id, make) in [("script-command", Script::Command as fn(String) -> Script), ("script-file", Script::File)] {
            let places = matches.indices_of(id).into_iter().flatten();
            let values = matches.get_many::<String>(id).into_iter().flatten();
            scripts.extend(places.zip(values).map(|(place, value)| (place, make(value.clone()))));
        }
        scripts.sort_by_key(|(place, _)| *place);
        Ok(Self(scripts.into_iter().map(|(_, script)| script).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Cli {
        Cli::try_parse_from(line.split_whitespace()).unwrap()
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(["7", "3k", "2MiB", "1G"].map(|text| size(text).unwrap()), [7, 3 << 10, 2 << 20, 1 << 30]);
        for none in ["", "G", "1T", "1.5G", "-1", "99999999999999999999", "99999999999G"] {
            assert!(size(none).is_err(), "{none}");
        }
    }

    #[test]
    fn flags_of_a_connection_are_repeated_without_keys() {
        let line = "pushdowndb --endpoint http://a:1 --access-key-id k --secret-access-key s --region r -c x";
        assert_eq!(parse(line).sql.connection.typed(), " --endpoint http://a:1 --region r");
        let open = parse("pushdowndb --requester-pays --anonymous -c x").sql.connection;
        assert_eq!(open.typed(), " --anonymous --requester-pays");
        assert_eq!(parse("pushdowndb -c x").sql.connection.typed(), "");
    }

    #[test]
    fn scripts_keep_their_order() {
        let expected = [
            Script::Command("a".into()),
            Script::File("b".into()),
            Script::Command("c".into()),
            Script::File("d".into()),
        ];
        assert_eq!(parse("pushdowndb -c a -f b -c c -f d").sql.scripts.0, expected);
        match parse("pushdowndb sql -c a --file b --command=c -f d --set pushdown.level=none").command {
            Some(Command::Sql(sql)) => {
                assert_eq!(sql.scripts.0, expected);
                assert_eq!(sql.settings, [("pushdown.level".into(), "none".into())]);
            }
            other => panic!("{other:?}"),
        }
        assert!(parse("pushdowndb").sql.scripts.0.is_empty());
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for line in [
            "pushdowndb serve",
            "pushdowndb serve --store a --gateway b",
            "pushdowndb serve --store a --read-only",
            "pushdowndb serve --store a --bucket b",
            "pushdowndb serve --store a --spool b",
            "pushdowndb serve --store a --tls-cert c",
            "pushdowndb --set level",
            "pushdowndb --anonymous --aws-profile me",
            "pushdowndb --format xml",
            "pushdowndb generate tpch",
            "pushdowndb check",
            "pushdowndb serve --store a --scrub-rate 5X",
            "pushdowndb serve --store a --scrub-rate M",
        ] {
            assert!(Cli::try_parse_from(line.split_whitespace()).is_err(), "{line}");
        }
    }
}
