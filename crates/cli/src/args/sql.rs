//! The arguments of `sql`, and its scripts in the order they were given.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches, value_parser};

use super::values::key_value;
use super::{ClusterArgs, ConnectionArgs};
use crate::access::AccessArgs;
use crate::print::{OutputFormat, StatsFormat};

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
    /// A page of HTML on each query: its plan, what was expected beside what happened, the bill,
    /// and why it ran so
    #[arg(long, value_name = "FILE.html")]
    pub profile: Option<PathBuf>,
    /// A setting, as SET would: pushdown.level=none; SHOW ALL lists them
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub settings: Vec<(String, String)>,
    /// The file that remembers declared tables [default: the user's own for the shell, none for -c
    /// and -f]
    #[arg(long, value_name = "FILE")]
    pub catalog: Option<PathBuf>,
    /// The folder that keeps what was learned of tables [default: pushdowndb in the user's cache
    /// folder]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
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
