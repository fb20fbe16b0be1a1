//! The shell on a terminal.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use pushdowndb_contract::ErrorKind;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use tokio::runtime::Runtime;

use super::commands::run_unit;
use super::complete::SqlHelper;
use super::input::{Inside, State, Unit};
use super::keyboard::Keyboard;
use super::state::{Outcome, Shell};
use crate::{exit_code, print};

const HISTORY_ENTRIES: usize = 5000;

/// Reads and runs input until it ends or the user quits.
pub fn run(runtime: &Runtime, mut shell: Shell) -> Result<()> {
    shell.keyboard = Keyboard::open().map(Arc::new);
    let config = Config::builder()
        .auto_add_history(false)
        .completion_type(CompletionType::List)
        .history_ignore_space(true)
        .max_history_size(HISTORY_ENTRIES)
        .context("history")?
        .build();
    let mut editor: Editor<SqlHelper, FileHistory> = Editor::with_config(config).context("opening the terminal")?;
    editor.set_helper(Some(SqlHelper::new(runtime.handle().clone())));
    let history = history_file();
    if let Some(file) = &history {
        // The first start has no history file, so errors are ignored.
        let _ = editor.load_history(file);
    }
    eprintln!("PushdownDB {}; \\? for help, \\q to leave", env!("CARGO_PKG_VERSION"));

    loop {
        if let Some(helper) = editor.helper_mut() {
            helper.refresh(shell.session.engine(), &shell.lines.pending);
        }
        let prompt = prompt(&shell);
        let typed = match &shell.keyboard {
            Some(keyboard) => keyboard.during(|| editor.readline(prompt)),
            None => editor.readline(prompt),
        };
        match typed {
            Ok(text) => {
                // Clears a Ctrl-C that arrived between statements, since it was meant for neither.
                shell.session.interrupts().clear();
                let mut units: Vec<Unit> = Vec::new();
                for line in text.split('\n') {
                    units.extend(shell.lines.push(line));
                }
                for mut unit in units {
                    // Line numbers are relative to the statement, not to the session.
                    if let Unit::Sql { lines_before, .. } = &mut unit {
                        *lines_before = 0;
                    }
                    remember(&mut editor, history.as_ref(), &unit);
                    match runtime.block_on(run_unit(&mut shell, "", unit)) {
                        Ok(Outcome::Quit) => return shell.session.finish(),
                        Ok(Outcome::Continue) => {}
                        Err(error) => {
                            print::error(&error);
                            if exit_code::kind(&error) == Some(ErrorKind::Cancelled) {
                                shell.keyboard.iter().for_each(|keyboard| keyboard.forget());
                                break;
                            }
                        }
                    }
                }
            }
            // Ctrl-C drops the statement.
            Err(ReadlineError::Interrupted) => drop(shell.lines.take()),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error).context("reading the terminal"),
        }
    }
    shell.session.finish()
}

/// The prompt, which shows whether a statement, string or comment is open.
fn prompt(shell: &Shell) -> &'static str {
    match shell.lines.state() {
        State::Empty | State::Complete => "pushdowndb> ",
        State::Statement => "       ...> ",
        State::Inside(Inside::Text) => "       '..> ",
        State::Inside(Inside::Name) => "       \"..> ",
        State::Inside(Inside::Comment(_)) => "       *..> ",
    }
}

/// Adds a unit to the history before it runs, also on disk, so that a closed terminal loses
/// nothing.
fn remember(editor: &mut Editor<SqlHelper, FileHistory>, file: Option<&PathBuf>, unit: &Unit) {
    let (Unit::Sql { text, .. } | Unit::Command(text)) = unit;
    let _ = editor.add_history_entry(text.trim_end());
    if let Some(file) = file {
        let _ = editor.append_history(file);
    }
}

/// The path of the user's history file, whose folder is created.
fn history_file() -> Option<PathBuf> {
    let folder = dirs::state_dir().or_else(dirs::data_dir)?.join("pushdowndb");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}
