//! Completion: commands, settings, keywords, functions, tables, columns, files, and keys of buckets.
//!
//! The engine lists tables and columns when Tab is pressed. Columns are listed only for tables and
//! files that the statement names, once each, so that completion does not read other tables.

mod keywords;
mod places;

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
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use tokio::runtime::Handle;

use super::commands::COMMANDS;
use crate::print::OutputFormat;
use keywords::KEYWORDS;
use places::{addresses, open_text};

/// The timeout for the columns of a table, or the objects of a folder.
const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum objects of a folder that are offered.
const MAX_OBJECTS: usize = 10_000;

/// The helper that rustyline calls for completion and hints.
pub struct SqlHelper {
    runtime: Handle,
    engine: Option<Arc<Engine>>,
    /// The lines of the open statement before the one that is edited.
    pending: String,
    files: FilenameCompleter,
    columns: Mutex<HashMap<String, Arc<Vec<String>>>>,
    folders: Mutex<HashMap<String, Arc<Vec<String>>>>,
}

impl SqlHelper {
    /// A helper without an engine.
    pub fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            engine: None,
            pending: String::new(),
            files: FilenameCompleter::new(),
            columns: Mutex::default(),
            folders: Mutex::default(),
        }
    }

    /// Sets the engine and the lines before the next one. At the beginning of a statement, drops
    /// the cached columns and objects.
    pub fn refresh(&mut self, engine: &Arc<Engine>, pending: &str) {
        self.engine = Some(Arc::clone(engine));
        pending.clone_into(&mut self.pending);
        if pending.is_empty() {
            self.columns.lock().clear();
            self.folders.lock().clear();
        }
    }

    fn tables(&self) -> Vec<String> {
        let Some(engine) = &self.engine else { return Vec::new() };
        self.runtime.block_on(engine.tables()).into_iter().flatten().map(|table| table.name).collect()
    }

    fn columns(&self, engine: &Engine, table: &str) -> Arc<Vec<String>> {
        let mut cached = self.columns.lock();
        let columns = cached.entry(table.to_owned()).or_insert_with(|| {
            let described = async { tokio::time::timeout(PATIENCE, engine.describe(table)).await };
            // Errors are ignored: a table that cannot be read now reports that when it is queried.
            let described = self.runtime.block_on(described).ok().and_then(Result::ok);
            let names = described.iter().flat_map(|schema| schema.fields());
            Arc::new(names.map(|field| field.name().clone()).collect())
        });
        Arc::clone(columns)
    }

    /// The names in the folder of a bucket at `address`, which ends with `/`.
    fn folder(&self, address: &str) -> Arc<Vec<String>> {
        let Some(engine) = &self.engine else { return Arc::default() };
        let mut cached = self.folders.lock();
        let names = cached.entry(address.to_owned()).or_insert_with(|| {
            let listed = async { tokio::time::timeout(PATIENCE, engine.list_folder(address, MAX_OBJECTS)).await };
            let listed = self.runtime.block_on(listed).ok().and_then(Result::ok);
            Arc::new(listed.into_iter().flatten().map(|entry| entry.name).collect())
        });
        Arc::clone(names)
    }

    /// Completes a file or key, of which `typed` is the part before `pos`.
    fn place(&self, typed: &str, pos: usize) -> (usize, Vec<String>) {
        let folder_end = typed.rfind('/').map_or(0, |at| at + 1);
        let (folder, begun) = typed.split_at(folder_end);
        let names = match folder.contains("://") {
            true => self.folder(folder),
            false => Arc::new(places::local(folder)),
        };
        // Names that begin with a dot are offered only if the dot was typed.
        let fits = |name: &&String| name.starts_with(begun) && (!name.starts_with('.') || begun.starts_with('.'));
        (pos - begun.len(), names.iter().filter(fits).cloned().collect())
    }

    fn sql(&self, line: &str, word: &str) -> Vec<String> {
        let Some(engine) = &self.engine else { return Vec::new() };
        let statement = format!("{}{line}", self.pending);
        let upper = word.chars().next().is_none_or(|c| c.is_ascii_uppercase());
        let mut found = BTreeSet::new();
        let mut offer = |name: &str| {
            if name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)) {
                found.insert(name.to_owned());
            }
        };
        let first = words(&statement).first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
        let is_setting = ["set", "reset", "show"].contains(&first.as_str());
        if is_setting || word.contains('.') {
            engine.pushdown_settings().iter().for_each(|setting| offer(&setting.name));
            if is_setting && word.contains('.') {
                return found.into_iter().collect();
            }
        }
        let mentioned = words(&statement);
        let mut offer_columns = |table: &str| {
            for column in self.columns(engine, table).iter() {
                match is_plain(column) {
                    true => offer(column),
                    false => offer(&format!("\"{}\"", column.replace('"', "\"\""))),
                }
            }
        };
        let tables = self.tables();
        for table in tables.iter().filter(|table| mentioned.iter().any(|word| word.eq_ignore_ascii_case(table))) {
            offer_columns(table);
        }
        for address in addresses(&statement) {
            offer_columns(&format!("\"{}\"", address.replace('"', "\"\"")));
        }
        tables.iter().for_each(|table| offer(table));
        for keyword in KEYWORDS {
            if upper { offer(keyword) } else { offer(&keyword.to_ascii_lowercase()) }
        }
        // With a single letter, the names of hundreds of functions would hide everything else.
        if word.len() >= 2 {
            engine.functions().iter().for_each(|function| offer(function));
        }
        found.into_iter().collect()
    }
}

/// The words of a text.
fn words(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect()
}

/// Whether a name needs no quotes. Case does not matter.
fn is_plain(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

/// Returns the start of the word that ends at `end`.
fn word_start(line: &str, end: usize) -> usize {
    let before = &line[..end];
    before
        .rfind(|c: char| !(c.is_alphanumeric() || "_.\\?!".contains(c)))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8))
}

impl Completer for SqlHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, ctx: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let start = word_start(line, pos);
        let word = &line[start..pos];
        let command = line.split_whitespace().next().filter(|first| first.starts_with(['\\', '.']) && start > 0);
        let rest = || line[..pos].split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start());
        if let Some(typed) = open_text(&self.pending, &line[..pos]) {
            let (start, names) = self.place(typed, pos);
            return Ok((start, pairs(names)));
        }
        let names: Vec<String> = match command {
            Some("\\l" | "\\i" | ".read") if rest().contains("://") => {
                let (start, names) = self.place(rest(), pos);
                return Ok((start, pairs(names)));
            }
            Some("\\i" | "\\o" | "\\e" | "\\l" | "\\profile" | ".read" | ".output" | ".edit") => {
                return self.files.complete(line, pos, ctx);
            }
            Some("\\d" | ".schema") => self.tables(),
            Some("\\format" | ".mode") => OutputFormat::value_variants()
                .iter()
                .filter_map(|f| Some(f.to_possible_value()?.get_name().to_owned()))
                .collect(),
            Some("\\set") => {
                let settings = self.engine.iter().flat_map(|engine| engine.pushdown_settings());
                settings.map(|setting| setting.name).collect()
            }
            Some("\\timing" | "\\x" | "\\pager" | ".timer") => vec!["on".into(), "off".into()],
            Some("\\stats") => vec!["on".into(), "off".into(), "json".into()],
            Some("\\rows" | ".maxrows") => vec!["all".into()],
            Some("\\copy") => self.sql(line, word),
            Some(_) => Vec::new(),
            None if word.starts_with('\\') => COMMANDS.iter().map(|(name, ..)| (*name).to_owned()).collect(),
            None => {
                // `l.` offers the columns after the dot.
                let is_setting =
                    |word: &str| ["pushdown.", "datafusion."].iter().any(|prefix| word.starts_with(prefix));
                let dot = word.rfind('.').filter(|_| !is_setting(word));
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

/// Enter always ends a line; the shell itself checks whether a statement is complete.
impl Validator for SqlHelper {}

/// The hint on a new line of an open statement, since the semicolon is easily forgotten.
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

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<Reminder> {
        (line.is_empty() && !self.pending.trim().is_empty()).then_some(Reminder)
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
        assert!(is_plain("VendorID") && !is_plain("a b") && !is_plain("1a"));
    }
}
