//! The shell's commands, each one row of a table: name, argument, description.

mod arguments;
mod copy;
mod programs;
mod shown;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use futures::FutureExt;
use futures::future::BoxFuture;
use pushdowndb_contract::{Error, ErrorKind};

use super::input::{Unit, units};
use super::state::{Outcome, Shell};
use crate::exit_code;
use crate::print::{OutputFormat, StatsFormat};
use arguments::{needed, quoted_for_sql, switch, unquoted};

/// Name, argument, and help of every command; the order of `\?` and of completion.
pub const COMMANDS: [(&str, &str, &str); 23] = [
    ("\\d", "[TABLE]", "list tables, or show a table's columns"),
    ("\\dt", "", "list tables"),
    ("\\df", "[TEXT]", "list functions whose name contains a text"),
    ("\\l", "ADDRESS", "list a bucket or folder, such as s3://bucket/logs/"),
    ("\\i", "FILE|s3://...", "run a file of SQL and commands"),
    ("\\e", "[FILE]", "edit the last statement, or a file, with $EDITOR, and run it"),
    ("\\r", "", "drop the statement that is open (also Ctrl-C)"),
    ("\\watch", "[SECONDS [TIMES]]", "run the last statement again and again, every 2 seconds"),
    ("\\copy", "TABLE|(QUERY) TO FILE", "write a table or the rows of a query; TABLE FROM FILE adds rows"),
    ("\\o", "[FILE]", "write results to a file, or to the screen again"),
    ("\\format", "FORMAT", "table, markdown, csv, json, ndjson, arrow, parquet"),
    ("\\x", "[on|off]", "one line a value instead of one line a row"),
    ("\\rows", "N|all", "how many rows of a table the screen shows"),
    ("\\pager", "[on|off|COMMAND]", "show results page by page, whole, with $PAGER or less"),
    ("\\timing", "[on|off]", "tell how long each statement takes"),
    ("\\stats", "[on|off|json]", "tell what each query did and cost"),
    ("\\profile", "[FILE.html]", "write a page on each query to a file, or stop to"),
    ("\\set", "[KEY VALUE]", "list settings, or change one (the same as SET)"),
    ("\\!", "[COMMAND]", "run a command of the system, or its shell"),
    ("\\?", "", "this help"),
    ("\\h", "", "this help"),
    ("\\q", "", "leave; also quit, exit, Ctrl-D"),
    (".tables", "", "and .mode, .timer, .read, .output, .maxrows, .quit, as in other shells"),
];

/// Names that other shells give to commands.
const ALIASES: [(&str, &str); 15] = [
    (".tables", "\\dt"),
    (".schema", "\\d"),
    (".mode", "\\format"),
    (".timer", "\\timing"),
    (".read", "\\i"),
    (".output", "\\o"),
    (".maxrows", "\\rows"),
    (".edit", "\\e"),
    (".shell", "\\!"),
    (".system", "\\!"),
    (".help", "\\?"),
    (".quit", "\\q"),
    (".exit", "\\q"),
    ("quit", "\\q"),
    ("exit", "\\q"),
];

/// Names that other shells give to formats.
const FORMATS: [(&str, &str); 4] =
    [("duckbox", "table"), ("box", "table"), ("jsonlines", "ndjson"), ("aligned", "table")];

/// The seconds between two runs of `\watch`.
const WATCH_S: f64 = 2.0;

/// Runs a command or the statements that a line of the script `name` has completed.
pub fn run_unit<'a>(shell: &'a mut Shell, name: &'a str, unit: Unit) -> BoxFuture<'a, Result<Outcome>> {
    // Boxed, since commands run scripts, which makes this function recursive.
    let done = async move {
        match unit {
            Unit::Command(line) => run(shell, &line).await,
            Unit::Sql { text, lines_before } => {
                let done = shell.session.run_script(name, &text, lines_before).await;
                shell.last = text;
                done.map(|()| Outcome::Continue)
            }
        }
    };
    done.boxed()
}

/// Runs a script called `name`, up to the first error or `\q`. Nothing runs unless all its
/// statements parse.
pub async fn run_text(shell: &mut Shell, name: &str, text: &str) -> Result<Outcome> {
    let units = units(text);
    for unit in &units {
        if let Unit::Sql { text, lines_before } = unit {
            shell.session.parse(name, text, *lines_before)?;
        }
    }
    for unit in units {
        if run_unit(shell, name, unit).await? == Outcome::Quit {
            return Ok(Outcome::Quit);
        }
    }
    Ok(Outcome::Continue)
}

/// Runs a command line.
async fn run(shell: &mut Shell, line: &str) -> Result<Outcome> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    // `\!` needs no blank before its argument, as in `\!ls`.
    let (name, argument) = match line.strip_prefix("\\!") {
        Some(command) => ("\\!", command),
        None => (name, argument),
    };
    let argument = argument.trim();
    let name = name.to_ascii_lowercase();
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name.as_str(), |(_, meant)| *meant);
    let session = &mut shell.session;
    match name {
        "\\q" => return Ok(Outcome::Quit),
        "\\?" | "\\h" | "help" => shown::help(&COMMANDS),
        "\\d" if !argument.is_empty() => shown::columns(session, argument).await?,
        "\\d" | "\\dt" => shown::tables(session).await?,
        "\\df" => shown::functions(session, argument)?,
        "\\l" => shown::objects(session, needed(argument, "an address, as in \\l s3://bucket/logs/")?).await?,
        "\\i" => {
            let path = needed(argument, "a file, as in \\i queries.sql")?;
            let text = session.read_script(path).await?;
            // `\q` in the script ends only the script, not the shell.
            run_text(shell, path, &text).await?;
        }
        "\\e" => return edit(shell, argument).await,
        "\\r" => drop(shell.lines.take()),
        "\\watch" => watch(shell, argument).await?,
        "\\copy" => session.run_script("", &copy::statement(argument)?, 0).await?,
        "\\!" => {
            let stdin = shell.stdin();
            programs::run(argument, stdin)?;
        }
        "\\o" => session.redirect(Some(unquoted(argument)).filter(|path| !path.is_empty()).map(Path::new))?,
        "\\profile" => {
            session.profile(Some(unquoted(argument)).filter(|path| !path.is_empty()).map(Path::new))?;
        }
        "\\format" => {
            let format = needed(argument, "a format, as in \\format csv")?;
            let format = FORMATS.iter().find(|(alias, _)| *alias == format).map_or(format, |(_, meant)| *meant);
            session.view.format = OutputFormat::from_str(format, true)
                .map_err(|_| Error::invalid(format!("no format '{argument}'; {}", help_of("\\format"))))?;
        }
        "\\x" => session.view.expanded = switch(name, argument, session.view.expanded)?,
        "\\rows" => session.view.max_rows = rows(needed(argument, "a number or all, as in \\rows 100")?)?,
        "\\pager" => {
            session.view.pager = match argument {
                "" | "on" | "off" | "true" | "false" => {
                    switch(name, argument, session.view.pager.is_some())?.then(programs::pager)
                }
                command => Some(unquoted(command).to_owned()),
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
                let value = unquoted(value.trim_matches(|c: char| c.is_whitespace() || c == '='));
                session.run_script("", &format!("SET {key} = {}", quoted_for_sql(value)), 0).await?;
            }
            None if argument.is_empty() => shown::settings(session)?,
            None => {
                let part = quoted_for_sql(&format!("%{argument}%"));
                let sql = format!(
                    "SELECT name, value, description FROM information_schema.df_settings WHERE name LIKE {part} ORDER BY name"
                );
                session.run_script("", &sql, 0).await?;
            }
        },
        _ => return Err(Error::invalid(format!("no command {name}; \\? lists them")).into()),
    }
    Ok(Outcome::Continue)
}

/// Edits the last statement or a file, and runs the result if it is complete.
async fn edit(shell: &mut Shell, argument: &str) -> Result<Outcome> {
    let statement = shell.take_statement();
    let (file, stdin) = (Some(unquoted(argument)).filter(|file| !file.is_empty()), shell.stdin());
    let edited = programs::edited(file.map(Path::new), &statement, stdin)?;
    eprint!("{edited}");
    let mut outcome = Outcome::Continue;
    let mut ready = Vec::new();
    for line in edited.lines() {
        ready.extend(shell.lines.push(line));
    }
    for unit in ready {
        outcome = run_unit(shell, "", unit).await?;
    }
    Ok(outcome)
}

/// Runs the last statement repeatedly until Ctrl-C, or as many times as `argument` says.
async fn watch(shell: &mut Shell, argument: &str) -> Result<()> {
    let mut words = argument.split_whitespace();
    let wrong = || Error::invalid(format!("\\watch {argument}: {}", help_of("\\watch")));
    let seconds = words.next().map_or(Ok(WATCH_S), str::parse).map_err(|_| wrong())?;
    let interval = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    let times: Option<u64> = words.next().map(str::parse).transpose().map_err(|_| wrong())?;
    let statement = shell.take_statement();
    if statement.trim().is_empty() {
        return Err(Error::invalid("there is no statement to run again").into());
    }
    shell.last.clone_from(&statement);
    let interrupts = shell.session.interrupts().clone();
    let mut runs = 0;
    loop {
        eprintln!("{} (every {seconds} s, Ctrl-C ends it)", chrono::Local::now().format("%Y-%m-%d %H:%M:%S"));
        shell.session.run_script("", &statement, 0).await?;
        runs += 1;
        if times.is_some_and(|times| runs >= times) {
            return Ok(());
        }
        let sleep = async {
            tokio::time::sleep(interval).await;
            Ok(())
        };
        let slept = interrupts.during(sleep).await;
        if slept.is_err_and(|error| exit_code::kind(&error) == Some(ErrorKind::Cancelled)) {
            return Ok(());
        }
    }
}

/// Parses the number of rows that the screen shows; `None` is all.
fn rows(number: &str) -> Result<Option<usize>> {
    if number == "all" {
        return Ok(None);
    }
    let parsed = number.parse().ok().filter(|n| *n > 1);
    let parsed = parsed.ok_or_else(|| Error::invalid(format!("\\rows {number}: a number above 1, or all")));
    Ok(Some(parsed?))
}

fn help_of(command: &str) -> String {
    COMMANDS
        .iter()
        .find(|(name, ..)| *name == command)
        .map_or_else(String::new, |(name, argument, help)| format!("{name} {argument}: {help}"))
}
