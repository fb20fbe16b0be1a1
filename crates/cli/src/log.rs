//! Logs on stderr: warnings of a client, one line per request of a node.

use std::io::{IsTerminal, stderr};

use clap::ValueEnum;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt};

/// The format of a node's log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Starts the log of a client: errors only, or the filter in `PUSHDOWNDB_LOG`. Warnings would
/// appear between the rows of the shell; the statistics of a query report what it fell back from.
pub fn start_for_client() {
    let filter = EnvFilter::try_from_env("PUSHDOWNDB_LOG").unwrap_or_else(|_| EnvFilter::new("error"));
    start(filter, fmt::layer().with_writer(stderr).with_ansi(has_colors()));
}

/// Whether stderr is a terminal and `NO_COLOR` (<https://no-color.org>) is not set.
fn has_colors() -> bool {
    stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Checks a filter argument, since a malformed filter would disable the log.
pub fn filter(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Starts the log of a node with the filter of the argument, else of `PUSHDOWNDB_LOG` or
/// `RUST_LOG`, else one line per request.
pub fn start_for_node(argument: Option<&str>, format: LogFormat) {
    let filter = match argument {
        Some(argument) => EnvFilter::new(argument),
        None => EnvFilter::try_from_env("PUSHDOWNDB_LOG")
            .or_else(|_| EnvFilter::try_from_default_env())
            .unwrap_or_else(|_| EnvFilter::new("info")),
    };
    let lines = fmt::layer().with_writer(stderr);
    match format {
        LogFormat::Text => start(filter, lines.with_ansi(has_colors())),
        LogFormat::Json => start(filter, lines.json().flatten_event(true)),
    }
}

fn start(filter: EnvFilter, lines: impl Layer<Registry> + Send + Sync) {
    // The S3 library is excluded from every filter: it logs signatures to explain mismatches, and
    // every refused request as an error. The node logs the outcome of each request.
    let without_s3s = filter_fn(|metadata| metadata.target().split("::").next() != Some("s3s"));
    // The level hint matters: without it the planner checks for a subscriber for each of its
    // hundreds of messages per query.
    let without_s3s = match filter.max_level_hint() {
        Some(level) => without_s3s.with_max_level_hint(level),
        None => without_s3s,
    };
    // A second logger would be a bug, but is no reason to exit.
    drop(tracing_subscriber::registry().with(lines.with_filter(filter).with_filter(without_s3s)).try_init());
}
