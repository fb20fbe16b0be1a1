//! Notices: lines that `serve` writes to stderr besides its log, in the same format.
//!
//! With JSON logs every line of stderr is JSON: the address of the node, the outcome of signals,
//! panics, the final error, and refused arguments.

use std::ffi::{OsStr, OsString};
use std::io::{Write, stderr};

use chrono::{SecondsFormat, Utc};
use serde_json::{Value, json};

use crate::log::LogFormat;
use crate::print;

const TARGET: &str = "pushdowndb::serve";

/// Writes notices in one format.
#[derive(Clone, Copy, Debug)]
pub struct Notices(LogFormat);

impl Notices {
    /// Creates a writer of notices. With the JSON format, panics become notices from now on.
    pub fn start(format: LogFormat) -> Self {
        if format == LogFormat::Json {
            std::panic::set_hook(Box::new(|panic| write_line(&of_panic(panic))));
        }
        Self(format)
    }

    /// Prints information that no log filter hides.
    pub fn info(self, text: &str) {
        self.write("INFO", text);
    }

    /// Prints a warning.
    pub fn warn(self, text: &str) {
        self.write("WARN", text);
    }

    /// Prints the error that ends the process.
    pub fn error(self, error: &anyhow::Error) {
        match self.0 {
            LogFormat::Text => print::error(error),
            LogFormat::Json => write_line(&record("ERROR", &print::message(error))),
        }
    }

    fn write(self, level: &str, text: &str) {
        match self.0 {
            LogFormat::Text => write_line(text),
            LogFormat::Json => write_line(&record(level, text)),
        }
    }
}

/// Reports refused arguments in JSON, if the arguments request JSON logs. Returns whether it did.
pub fn refused_arguments(arguments: &[OsString], error: &clap::Error) -> bool {
    let is_json = error.use_stderr() && ask_for_json(arguments);
    if is_json {
        write_line(&record("ERROR", error.to_string().trim_end()));
    }
    is_json
}

fn ask_for_json(arguments: &[OsString]) -> bool {
    let is = |argument: &OsString, text: &str| argument == OsStr::new(text);
    let apart = |pair: &[OsString]| matches!(pair, [flag, value] if is(flag, "--log-format") && is(value, "json"));
    arguments.get(1).is_some_and(|command| is(command, "serve") || is(command, "sql-server"))
        && (arguments.iter().any(|argument| is(argument, "--log-format=json")) || arguments.windows(2).any(apart))
}

fn record(level: &str, message: &str) -> String {
    fields(level, message).to_string()
}

fn fields(level: &str, message: &str) -> Value {
    let timestamp = Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true);
    json!({ "timestamp": timestamp, "level": level, "target": TARGET, "message": message })
}

fn of_panic(panic: &std::panic::PanicHookInfo<'_>) -> String {
    let message = panic.payload_as_str().unwrap_or("a panic without a message");
    let mut fields = fields("ERROR", &format!("panic: {message}"));
    if let Some(place) = panic.location() {
        fields["location"] = json!(place.to_string());
    }
    fields["thread"] = json!(std::thread::current().name());
    fields["backtrace"] = json!(std::backtrace::Backtrace::capture().to_string());
    fields.to_string()
}

/// Writes a line at once, so that lines of other threads stay whole. Failures are ignored, since
/// there is no other place to report them.
fn write_line(line: &str) {
    drop(stderr().lock().write_all(format!("{line}\n").as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_line_of_json() {
        let line = record("WARN", "two\nlines and a \"quote\"");
        assert!(!line.contains('\n'), "{line}");
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&parsed["level"], &parsed["target"]), (&json!("WARN"), &json!(TARGET)));
        assert_eq!(parsed["message"], "two\nlines and a \"quote\"");
        chrono::DateTime::parse_from_rfc3339(parsed["timestamp"].as_str().unwrap()).unwrap();
    }

    #[test]
    fn arguments_of_a_node_with_json_logs_are_recognized() {
        let asks = |line: &str| ask_for_json(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(asks("pushdowndb serve --log-format json --max-requests 0"));
        assert!(asks("pushdowndb serve --log-format=json"));
        assert!(!asks("pushdowndb serve --log-format text"));
        assert!(!asks("pushdowndb -c --log-format json"));
    }
}
