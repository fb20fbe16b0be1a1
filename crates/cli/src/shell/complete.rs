//! Completion: commands, settings, keywords, functions, tables, columns, and files after `\i` and
//! `\o`.
//!
//! The engine lists tables and columns when Tab is pressed; columns only of tables in the
//! statement, once each, so that completion does not list buckets of other tables.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use parking_lot::Mutex;
use pushdowndb_engine::Engine;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use tokio::runtime::Handle;

use super::commands::COMMANDS;
use super::input;
use crate::print::OutputFormat;

/// The timeout for the columns of a table.
const PATIENCE: Duration = Duration::from_secs(2);

/// The words of SQL worth completing.
const KEYWORDS: &[&str] = &[
    "ALL",
    "ANALYZE",
    "AND",
    "AS",
    "ASC",
    "AVG",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COPY",
    "COUNT",
    "CREATE",
    "CROSS",
    "DATE",
    "DECIMAL",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTERNAL",
    "EXTRACT",
    "FALSE",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "MAX",
    "MIN",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OPTIONS",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "PARTITIONED",
    "REPLACE",
    "RIGHT",
    "SELECT",
    "SET",
    "SHOW",
    "STORED",
    "SUM",
    "TABLE",
    "THEN",
    "TIMESTAMP",
    "TO",
    "TRUE",
    "UNION",
    "USING",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WITH",
];

/// The helper of rustyline.
pub struct SqlHelper {
    runtime: Handle,
    engine: Option<Arc<Engine>>,
    files: FilenameCompleter,
    columns: Mutex<HashMap<String, Arc<Vec<String>>>>,
}

impl SqlHelper {
    pub fn new(runtime: Handle) -> Self {
        Self { runtime, engine: None, files: FilenameCompleter::new(), columns: Mutex::default() }
    }

    /// Replaces the engine, and drops the cached columns.
    pub fn refresh(&mut self, engine: &Arc<Engine>) {
        self.engine = Some(Arc::clone(engine));
        self.columns.lock().clear();
    }

    fn tables(&self) -> Vec<String> {
        let Some(engine) = &self.engine else { return Vec::new() };
        self.runtime.block_on(engine.tables()).into_iter().flatten().map(|table| table.name).collect()
    }

    fn columns(&self, engine: &Engine, table: &str) -> Arc<Vec<String>> {
        let mut cached = self.columns.lock();
        if let Some(columns) = cached.get(table) {
            return Arc::clone(columns);
        }
        let described = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, engine.describe(table)).await });
        let columns = match described {
            Ok(Ok(schema)) => schema.fields().iter().map(|field| field.name().clone()).collect(),
            // A table that cannot be read now will say so when it is queried.
            _ => Vec::new(),
        };
        let columns = Arc::new(columns);
        cached.insert(table.to_owned(), Arc::clone(&columns));
        columns
    }

    fn sql(&self, line: &str, word: &str) -> Vec<String> {
        let Some(engine) = &self.engine else { return Vec::new() };
        let upper = word.chars().next().is_none_or(|c| c.is_ascii_uppercase());
        let mut found = BTreeSet::new();
        let mut offer = |name: &str| {
            if name.len() >= word.len()
                && name.is_char_boundary(word.len())
                && name[..word.len()].eq_ignore_ascii_case(word)
            {
                found.insert(name.to_owned());
            }
        };
        let tables = self.tables();
        let mentioned = words(line);
        for table in &tables {
            offer(table);
            if mentioned.iter().any(|word| word.eq_ignore_ascii_case(table)) {
                self.columns(engine, table).iter().for_each(|column| offer(column));
            }
        }
        for keyword in KEYWORDS {
            if upper { offer(keyword) } else { offer(&keyword.to_ascii_lowercase()) }
        }
        // Names of hundreds of functions would drown everything at the first letter.
        if word.len() >= 2 {
            engine.functions().iter().for_each(|function| offer(function));
        }
        if word.contains('.') || line.trim_start().to_ascii_lowercase().starts_with("set ") {
            engine.pushdown_settings().iter().for_each(|setting| offer(&setting.name));
        }
        found.into_iter().collect()
    }
}

/// The identifiers of a text.
fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect()
}

/// Returns the start of the word that ends at `end`.
fn word_start(line: &str, end: usize) -> usize {
    let before = &line[..end];
    before
        .rfind(|c: char| !(c.is_alphanumeric() || "_.\\?".contains(c)))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8))
}

impl Completer for SqlHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, ctx: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let start = word_start(line, pos);
        let word = &line[start..pos];
        let command = line.split_whitespace().next().filter(|first| first.starts_with('\\') && start > 0);
        let names: Vec<String> = match command {
            Some("\\i" | "\\o" | "\\profile") => return self.files.complete(line, pos, ctx),
            Some("\\d") => self.tables(),
            Some("\\format") => OutputFormat::value_variants()
                .iter()
                .filter_map(|f| Some(f.to_possible_value()?.get_name().to_owned()))
                .collect(),
            Some("\\set") => {
                let settings = self.engine.iter().flat_map(|engine| engine.pushdown_settings());
                settings.map(|setting| setting.name).collect()
            }
            Some("\\timing" | "\\x") => vec!["on".into(), "off".into()],
            Some("\\stats") => vec!["on".into(), "off".into(), "json".into()],
            Some("\\rows") => vec!["all".into()],
            Some(_) => Vec::new(),
            None if word.starts_with('\\') => COMMANDS.iter().map(|(name, ..)| (*name).to_owned()).collect(),
            None => {
                // `l.` offers the columns after the dot.
                let dot =
                    word.rfind('.').filter(|_| !word.starts_with("pushdown.") && !word.starts_with("datafusion."));
                let start = dot.map_or(start, |dot| start + dot + 1);
                return Ok((start, pairs(self.sql(line, &line[start..pos]))));
            }
        };
        Ok((start, pairs(names.into_iter().filter(|name| name.starts_with(word)).collect())))
    }
}

fn pairs(names: Vec<String>) -> Vec<Pair> {
    names.into_iter().map(|name| Pair { display: name.clone(), replacement: name }).collect()
}

impl Validator for SqlHelper {
    /// Enter runs a complete statement and otherwise opens another line.
    fn validate(&self, ctx: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        match input::is_complete(ctx.input()) {
            true => Ok(ValidationResult::Valid(None)),
            false => Ok(ValidationResult::Incomplete),
        }
    }
}

/// A reminder on a new line of an open statement: the semicolon is easily forgotten.
pub struct Reminder;

impl Hint for Reminder {
    fn display(&self) -> &str {
        "a ; ends the statement, Ctrl-C drops it"
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for SqlHelper {
    type Hint = Reminder;

    fn hint(&self, line: &str, at: usize, _: &Context<'_>) -> Option<Reminder> {
        (at == line.len() && line.ends_with('\n') && !input::is_complete(line)).then_some(Reminder)
    }
}

impl Highlighter for SqlHelper {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[2m{hint}\x1b[0m"))
    }
}

impl Helper for SqlHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_after_anything_else() {
        assert_eq!(word_start("select l_or", 11), 7);
        assert_eq!(word_start("\\ti", 3), 0);
        assert_eq!(word_start("sum(l.x", 7), 4);
        assert_eq!(word_start("é", 2), 0);
        assert_eq!(word_start("–a", 4), 3);
        assert_eq!(words("from lineitem l, orders"), ["from", "lineitem", "l", "orders"]);
    }
}
