//! The arguments of the command line, without their implementation.

mod check;
mod connection;
mod generate;
mod serve;
mod sql;
mod sql_server;
mod values;
mod worker;

use clap::{Args, Parser, Subcommand};

pub use check::CheckArgs;
pub use connection::ConnectionArgs;
pub use generate::Generate;
pub use serve::{GatewayArgs, HealthArgs, LimitArgs, ServeArgs};
pub use sql::{Script, SqlArgs};
pub use sql_server::SqlServerArgs;
pub use worker::{ClusterArgs, WorkerArgs};

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
  pushdowndb sql-server --postgres 127.0.0.1:5432  an SQL server for psql, JDBC, dashboards and notebooks
  pushdowndb worker --token-file token             one of several processes that run large queries together
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
    /// Start an SQL server, for clients of PostgreSQL
    SqlServer(Box<SqlServerArgs>),
    /// Start a worker: it runs parts of the queries of other processes
    Worker(Box<WorkerArgs>),
    /// Read a store that is not being served and name every damaged object
    Check(CheckArgs),
    /// Ask a running node whether it is well: exit code 0 if so, 9 if not
    Health(HealthArgs),
    /// Generate benchmark data
    Generate {
        #[command(subcommand)]
        what: Generate,
    },
    /// Show what pushdown saves: makes data, starts a node, compares queries, cleans up (or --keep)
    Demo(DemoArgs),
}

/// The demonstration.
#[derive(Args, Debug)]
pub struct DemoArgs {
    /// The scale factor of the data
    #[arg(long, default_value_t = 0.1)]
    pub scale: f64,
    /// csv, parquet, or json
    #[arg(long, default_value = "csv")]
    pub format: pushdowndb_datagen::Format,
    /// Keep the data in a new folder, and the node running until Ctrl-C, to try more
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "pushdowndb-demo")]
    pub keep: Option<std::path::PathBuf>,
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
            "pushdowndb worker",
            "pushdowndb worker --token-file t --tls-cert c",
            "pushdowndb --workers-ca c",
            "pushdowndb serve --store a --scrub-rate 5X",
            "pushdowndb serve --store a --scrub-rate M",
        ] {
            assert!(Cli::try_parse_from(line.split_whitespace()).is_err(), "{line}");
        }
    }
}
