//! The shell: a line editor on a terminal, plain lines from a pipe, with the same statements and
//! commands.
//!
//! On a terminal the shell continues after a failed or cancelled statement; in a pipe it exits with
//! the error's code, because later statements assume success.

mod commands;
mod complete;
mod input;

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use anyhow::{Context, Result};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use tokio::runtime::Runtime;

use crate::args::SqlArgs;
use crate::print;
use crate::session::Session;
use commands::Outcome;
use complete::SqlHelper;

const HISTORY_ENTRIES: usize = 5000;

/// Runs until the input ends or the user leaves.
pub fn shell(runtime: &Runtime, args: SqlArgs) -> Result<()> {
    let on_terminal = std::io::stdin().is_terminal();
    let session = runtime.block_on(Session::open(args, on_terminal))?;
    if on_terminal { terminal(runtime, session) } else { pipe(runtime, session) }
}

fn pipe(runtime: &Runtime, mut session: Session) -> Result<()> {
    let mut pending = String::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.context("reading stdin")?;
        // A backslash begins a command only where no statement is open.
        if pending.trim().is_empty() && input::is_command(&line) {
            if commands::run(runtime, &mut session, &line)? == Outcome::Quit {
                return session.finish();
            }
            continue;
        }
        pending.push_str(&line);
        pending.push('\n');
        if input::is_complete(&pending) {
            runtime.block_on(session.run_script("", &pending))?;
            pending.clear();
        }
    }
    // The last statement of a file may do without its semicolon.
    runtime.block_on(session.run_script("", &pending))?;
    session.finish()
}

fn terminal(runtime: &Runtime, mut session: Session) -> Result<()> {
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
        // A first start has none.
        let _ = editor.load_history(file);
    }
    eprintln!("PushdownDB {}; \\? for help, \\q to leave", env!("CARGO_PKG_VERSION"));

    loop {
        if let Some(helper) = editor.helper_mut() {
            helper.refresh(session.engine());
        }
        match editor.readline("pushdowndb> ") {
            Ok(text) => {
                if text.trim().is_empty() {
                    continue;
                }
                let _ = editor.add_history_entry(text.trim_end());
                if let Some(file) = &history {
                    // After each statement, so that a closed terminal loses nothing.
                    let _ = editor.append_history(file);
                }
                match enter(runtime, &mut session, &text) {
                    Ok(Outcome::Quit) => break,
                    Ok(Outcome::Continue) => {}
                    Err(error) => print::error(&error),
                }
            }
            // Ctrl-C clears the line.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error).context("reading the terminal"),
        }
    }
    session.finish()
}

fn enter(runtime: &Runtime, session: &mut Session, text: &str) -> Result<Outcome> {
    if input::is_command(text) {
        return commands::run(runtime, session, text);
    }
    runtime.block_on(session.run_script("", text))?;
    Ok(Outcome::Continue)
}

/// The user's history, private to them.
fn history_file() -> Option<PathBuf> {
    let folder = dirs::state_dir().or_else(dirs::data_dir)?.join("pushdowndb");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}
