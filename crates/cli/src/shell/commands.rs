//! The shell's commands, each one row of a table: name, argument, description.

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use pushdowndb_contract::Error;
use pushdowndb_engine::sql_type;
use tokio::runtime::Runtime;

use crate::print::StatsFormat;
use crate::print::{self, OutputFormat};
use crate::session::Session;

/// True if the shell goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    Continue,
    Quit,
}

/// Name, argument, and help of every command; the order of `\?` and of completion.
pub const COMMANDS: [(&str, &str, &str); 15] = [
    ("\\d", "[TABLE]", "list tables, or show a table's columns"),
    ("\\dt", "", "list tables"),
    ("\\df", "[TEXT]", "list functions whose name contains a text"),
    ("\\i", "FILE|s3://...", "run a file of SQL"),
    ("\\o", "[FILE]", "write results to a file, or to the screen again"),
    ("\\format", "FORMAT", "table, csv, json, ndjson, arrow, parquet"),
    ("\\x", "[on|off]", "one line a value instead of one line a row"),
    ("\\rows", "N|all", "how many rows of a table the screen shows"),
    ("\\timing", "[on|off]", "tell how long each statement takes"),
    ("\\stats", "[on|off|json]", "tell what each query did and cost"),
    ("\\profile", "[FILE.html]", "write a page on each query to a file, or stop to"),
    ("\\set", "[KEY VALUE]", "list settings, or change one (the same as SET)"),
    ("\\?", "", "this help"),
    ("\\h", "", "this help"),
    ("\\q", "", "leave; also quit, exit, Ctrl-D"),
];

/// Runs a command line.
pub fn run(runtime: &Runtime, session: &mut Session, line: &str) -> Result<Outcome> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim();
    match name.to_ascii_lowercase().as_str() {
        "\\q" | "quit" | "exit" => return Ok(Outcome::Quit),
        "\\?" | "\\h" | "help" => help(),
        "\\d" if !argument.is_empty() => columns(runtime, session, argument)?,
        "\\d" | "\\dt" => tables(runtime, session)?,
        "\\df" => functions(session, argument)?,
        "\\i" => {
            let path = needed(argument, "a file, as in \\i queries.sql")?;
            let text = runtime.block_on(session.read_script(path))?;
            runtime.block_on(session.run_script(path, &text))?;
        }
        "\\o" => session.redirect(Some(unquoted(argument)).filter(|path| !path.is_empty()).map(Path::new))?,
        "\\profile" => {
            session.profile(Some(unquoted(argument)).filter(|path| !path.is_empty()).map(Path::new))?;
        }
        "\\format" => {
            session.view.format = OutputFormat::from_str(needed(argument, "a format, as in \\format csv")?, true)
                .map_err(|_| Error::invalid(format!("no format '{argument}'; {}", help_of("\\format"))))?;
        }
        "\\x" => session.view.expanded = switch(name, argument, session.view.expanded)?,
        "\\rows" => {
            session.view.max_rows = match needed(argument, "a number or all, as in \\rows 100")? {
                "all" => None,
                number => Some(
                    number
                        .parse()
                        .ok()
                        .filter(|n| *n > 1)
                        .ok_or_else(|| Error::invalid(format!("\\rows {number}: a number above 1, or all")))?,
                ),
            };
        }
        "\\timing" => session.view.timing = switch(name, argument, session.view.timing)?,
        "\\stats" => {
            session.view.stats = match argument {
                "json" => StatsFormat::Json,
                "table" => StatsFormat::Table,
                other => match switch(name, other, session.view.stats != StatsFormat::None)? {
                    true => StatsFormat::Table,
                    false => StatsFormat::None,
                },
            };
        }
        "\\set" => match argument.split_once(|c: char| c.is_whitespace() || c == '=') {
            Some((key, value)) => {
                let value = unquoted(value.trim_matches(|c: char| c.is_whitespace() || c == '=')).replace('\'', "''");
                runtime.block_on(session.run_script("", &format!("SET {key} = '{value}'")))?;
            }
            None if argument.is_empty() => settings(session)?,
            None => {
                let part = argument.replace('\'', "''");
                let sql = format!(
                    "SELECT name, value, description FROM information_schema.df_settings WHERE name LIKE '%{part}%' ORDER BY name"
                );
                runtime.block_on(session.run_script("", &sql))?;
            }
        },
        _ => return Err(Error::invalid(format!("no command {name}; \\? lists them")).into()),
    }
    Ok(Outcome::Continue)
}

fn help() {
    eprintln!("SQL runs at its ;  Ctrl-C cancels a query or clears the line, Tab completes\n");
    for (name, argument, help) in COMMANDS {
        if name != "\\h" {
            eprintln!("  {:<24}{help}", format!("{name} {argument}"));
        }
    }
    eprintln!("\nFiles need no declaration: SELECT * FROM 's3://bucket/path/*.parquet' LIMIT 10;");
    eprintln!("What storage would do for a query: EXPLAIN SELECT ...; what it did: \\stats, EXPLAIN ANALYZE");
}

fn help_of(command: &str) -> String {
    COMMANDS
        .iter()
        .find(|(name, ..)| *name == command)
        .map_or_else(String::new, |(name, argument, help)| format!("{name} {argument}: {help}"))
}

fn tables(runtime: &Runtime, session: &Session) -> Result<()> {
    let tables = runtime.block_on(session.engine().tables())?;
    if tables.is_empty() {
        eprintln!("no tables; CREATE EXTERNAL TABLE declares one, and \\i schema.sql those of generated data");
        return Ok(());
    }
    let width = tables.iter().map(|table| table.name.len()).max().unwrap_or(0);
    for table in tables {
        // A saved declaration may span lines.
        let location = table.location.split_whitespace().collect::<Vec<_>>().join(" ");
        print::print_line(format_args!("{:<width$}  {:<10} {:<8} {location}", table.name, table.kind, table.format))?;
    }
    Ok(())
}

fn columns(runtime: &Runtime, session: &Session, table: &str) -> Result<()> {
    let schema = runtime.block_on(session.engine().describe(&table_name(table)))?;
    let width = schema.fields().iter().map(|field| field.name().len()).max().unwrap_or(0);
    for field in schema.fields() {
        let null = if field.is_nullable() { "" } else { "  NOT NULL" };
        print::print_line(format_args!("{:<width$}  {}{null}", field.name(), sql_type(field.data_type())))?;
    }
    Ok(())
}

fn functions(session: &Session, part: &str) -> Result<()> {
    let part = part.to_ascii_lowercase();
    let names: Vec<_> = session.engine().functions().into_iter().filter(|name| name.contains(&part)).collect();
    print::print_line(names.join("\n"))
}

fn settings(session: &Session) -> Result<()> {
    for setting in session.engine().pushdown_settings() {
        print::print_line(format_args!("{} = {}\n    {}", setting.name, setting.value, setting.help))?;
    }
    eprintln!("\\set TEXT lists every setting whose name contains a text, such as \\set batch");
    Ok(())
}

/// A table as SQL names it: an address is a name in quotes, any other name stays as it was written.
fn table_name(argument: &str) -> String {
    let bare = unquoted(argument);
    if bare.contains(['/', '*']) { format!("\"{}\"", bare.replace('"', "\"\"")) } else { argument.to_owned() }
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote| text.strip_prefix(quote).and_then(|t: &str| t.strip_suffix(quote));
    inner('\'').or_else(|| inner('"')).unwrap_or(text)
}

fn needed<'a>(argument: &'a str, what: &str) -> Result<&'a str> {
    let argument = unquoted(argument);
    if argument.is_empty() { Err(Error::invalid(format!("this needs {what}")).into()) } else { Ok(argument) }
}

/// Sets and prints a switch; without an argument it is toggled.
fn switch(name: &str, argument: &str, now: bool) -> Result<bool> {
    let next = match argument.to_ascii_lowercase().as_str() {
        "" => !now,
        "on" | "true" => true,
        "off" | "false" => false,
        other => return Err(Error::invalid(format!("{name} {other}: on or off")).into()),
    };
    eprintln!("{name} {}", if next { "on" } else { "off" });
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_lose_their_quotes() {
        assert_eq!(unquoted(" 'a b' "), "a b");
        assert_eq!(unquoted("\"x\""), "x");
        assert_eq!(unquoted("it's"), "it's");
        assert_eq!(table_name("lineitem"), "lineitem");
        assert_eq!(table_name("s3://b/x.csv"), "\"s3://b/x.csv\"");
    }

    #[test]
    fn switches_toggle_without_an_argument() {
        assert!(switch("\\x", "", false).unwrap());
        assert!(!switch("\\x", "off", true).unwrap());
        assert!(switch("\\x", "maybe", true).is_err());
    }
}
