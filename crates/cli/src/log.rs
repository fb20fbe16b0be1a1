//! Logs, on stderr: little from a client, a line a request from a node.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt};

use crate::args::LogFormat;

/// Warnings, or what `PUSHDOWNDB_LOG` asks for.
pub fn of_a_client() {
    let filter = EnvFilter::try_from_env("PUSHDOWNDB_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    start(filter, fmt::layer().with_writer(stderr).with_ansi(has_colours()));
}

/// On a terminal whose owner wants them (<https://no-color.org>).
fn has_colours() -> bool {
    stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A filter as an argument: one that says nothing would leave a node without logs.
pub fn filter(text: &str) -> Result<String, String> {
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// What the argument asks for, else `PUSHDOWNDB_LOG` or `RUST_LOG`, else a line a request.
pub fn of_a_node(asked: Option<&str>, format: LogFormat) {
    let filter = match asked {
        Some(asked) => EnvFilter::new(asked),
        None => EnvFilter::try_from_env("PUSHDOWNDB_LOG")
            .or_else(|_| EnvFilter::try_from_default_env())
            .unwrap_or_else(|_| EnvFilter::new("info")),
    };
    let lines = fmt::layer().with_writer(stderr);
    match format {
        LogFormat::Text => start(filter, lines.with_ansi(has_colours())),
        LogFormat::Json => start(filter, lines.json().flatten_event(true)),
    }
}

fn start(filter: EnvFilter, lines: impl Layer<Registry> + Send + Sync) {
    // The S3 library is kept quiet whatever filter is set: it quotes signatures when it explains why they do not
    // match, and calls every refused request an error. The node says what each request came to.
    let discreet = filter_fn(|metadata| metadata.target().split("::").next() != Some("s3s"));
    // Without a hint the planner asks of each of its hundreds of messages a query whether anybody wants it.
    let discreet = match filter.max_level_hint() {
        Some(most) => discreet.with_max_level_hint(most),
        None => discreet,
    };
    // A second logger would be a mistake of ours that is no reason to die.
    drop(tracing_subscriber::registry().with(lines.with_filter(filter).with_filter(discreet)).try_init());
}
