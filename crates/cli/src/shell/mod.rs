//! The shell: a line editor on a terminal, plain lines from a pipe, with the same statements and
//! commands.
//!
//! On a terminal the shell continues after a failed or cancelled statement; in a pipe it exits with
//! the error's code, because later statements assume success.

mod commands;
mod complete;
mod input;
mod keyboard;
mod state;
mod terminal;

use std::io::{BufRead, IsTerminal};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use crate::args::SqlArgs;
use crate::session::Session;
use commands::run_unit;
use state::{Outcome, Shell};

/// Runs the shell until the input ends or the user quits.
pub fn shell(runtime: &Runtime, args: SqlArgs) -> Result<()> {
    let on_terminal = std::io::stdin().is_terminal();
    let shell = Shell::new(runtime.block_on(Session::open(args, on_terminal))?);
    if on_terminal { terminal::run(runtime, shell) } else { pipe(runtime, shell) }
}

/// Runs a script called `name`, which contains statements and commands of the shell.
pub async fn run_script(session: Session, name: &str, text: &str) -> (Session, Result<()>) {
    let mut shell = Shell::new(session);
    let done = commands::run_text(&mut shell, name, text).await;
    (shell.session, done.map(|_| ()))
}

fn pipe(runtime: &Runtime, mut shell: Shell) -> Result<()> {
    for line in std::io::stdin().lock().lines() {
        let line = line.context("reading stdin")?;
        let Some(unit) = shell.lines.push(&line) else { continue };
        if runtime.block_on(run_unit(&mut shell, "", unit))? == Outcome::Quit {
            return shell.session.finish();
        }
    }
    // The last statement of a file may lack its semicolon.
    if let Some(unit) = shell.lines.finish() {
        runtime.block_on(run_unit(&mut shell, "", unit))?;
    }
    shell.session.finish()
}
