//! Programs that commands start: the system's shell, an editor, a pager.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use pushdowndb_contract::Error;

/// The default pager: it cuts long lines, and exits at once if everything fits on the screen.
const PAGER: &str = "less -SRFX";

/// The user's pager.
pub fn pager() -> String {
    variable("PUSHDOWNDB_PAGER").or_else(|| variable("PAGER")).unwrap_or_else(|| PAGER.to_owned())
}

/// Runs `command` with the system's shell and `stdin`. An empty command runs the user's shell.
pub fn run(command: &str, stdin: Stdio) -> Result<()> {
    let shell = variable("SHELL").unwrap_or_else(|| "sh".to_owned());
    let mut program = match command.is_empty() {
        true => Command::new(&shell),
        false => {
            let mut program = Command::new("sh");
            program.args(["-c", command]);
            program
        }
    };
    let status = program.stdin(stdin).status().with_context(|| format!("starting {shell}"))?;
    if !status.success() {
        eprintln!("{status}");
    }
    Ok(())
}

/// Lets the user edit `file`, or a temporary file with `text` if there is none, and returns the
/// edited text.
pub fn edited(file: Option<&Path>, text: &str, stdin: Stdio) -> Result<String> {
    let draft = match file {
        Some(_) => None,
        None => {
            let mut draft = tempfile::Builder::new().prefix("pushdowndb-").suffix(".sql").tempfile()?;
            draft.write_all(text.as_bytes())?;
            draft.flush()?;
            Some(draft)
        }
    };
    let path = draft.as_ref().map(|draft| draft.path()).or(file).context("no file to edit")?;
    let editor = variable("VISUAL").or_else(|| variable("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    // The variable may contain arguments for the editor.
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{editor} \"$0\"")]).arg(path).stdin(stdin);
    let status = command.status().with_context(|| format!("starting {editor}"))?;
    if !status.success() {
        return Err(Error::invalid(format!("{editor}: {status}; $EDITOR names the editor")).into());
    }
    let mut edited = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    if !edited.is_empty() && !edited.ends_with('\n') {
        edited.push('\n');
    }
    Ok(edited)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}
