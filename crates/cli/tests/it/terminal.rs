//! The shell on a terminal: a pseudo-terminal, typed into as a person would.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use nix::pty::{Winsize, openpty};
use nix::sys::termios::Termios;
use pushdowndb_testkit::process::kill;
use pushdowndb_testkit::program::isolate;

/// The time that anything may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);

const CTRL_C: &str = "\x03";

/// A program on a terminal of its own.
struct Terminal {
    child: Child,
    keys: std::fs::File,
    screen: Arc<(Mutex<Screen>, Condvar)>,
}

/// Everything that was printed, and how much of it was looked at.
#[derive(Default)]
struct Screen {
    text: Vec<u8>,
    read: usize,
    ended: bool,
}

impl Terminal {
    /// Starts the program in `folder` with these arguments; `None` where `setsid` is missing, which
    /// gives it the terminal.
    fn start(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Option<Self> {
        let size = Winsize { ws_row: 50, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pair = openpty(&size, None::<&Termios>).expect("a pseudo-terminal");
        let end = |fd: &OwnedFd| Stdio::from(fd.try_clone().expect("a handle"));
        let mut command = Command::new("setsid");
        isolate(&mut command).args(["--ctty", env!("CARGO_BIN_EXE_pushdowndb")]).args(args).current_dir(folder);
        command.env("TERM", "xterm").env("HOME", folder).env("NO_COLOR", "1").envs(variables.iter().copied());
        command.stdin(end(&pair.slave)).stdout(end(&pair.slave)).stderr(end(&pair.slave));
        let child = match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("skipped: there is no setsid");
                return None;
            }
            child => child.expect("the program"),
        };
        drop(command);
        drop(pair.slave);
        let keys = std::fs::File::from(pair.master);
        let mut output = keys.try_clone().expect("a handle");
        let screen: Arc<(Mutex<Screen>, Condvar)> = Arc::default();
        let shared = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let read = output.read(&mut buffer).unwrap_or(0);
                let mut screen = shared.0.lock().unwrap();
                screen.text.extend(&buffer[..read]);
                screen.ended = read == 0;
                shared.1.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        Some(Self { child, keys, screen })
    }

    /// The shell, at its first prompt.
    fn shell(folder: &Path, variables: &[(&str, &str)]) -> Option<Self> {
        let mut shell = Self::start(folder, &[], variables)?;
        shell.until("pushdowndb> ");
        Some(shell)
    }

    fn write(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal");
    }

    /// Waits until `wanted` is printed, and returns what is printed since the last wait.
    #[track_caller]
    fn until(&mut self, wanted: &str) -> String {
        let (screen, changed) = &*self.screen;
        let find = |screen: &Screen| {
            let new = &screen.text[screen.read..];
            new.windows(wanted.len())
                .position(|part| part == wanted.as_bytes())
                .map(|at| screen.read + at + wanted.len())
        };
        let (mut screen, _) = changed
            .wait_timeout_while(screen.lock().unwrap(), PATIENCE, |screen| find(screen).is_none() && !screen.ended)
            .unwrap();
        let end = find(&screen);
        let text = String::from_utf8_lossy(&screen.text[screen.read..end.unwrap_or(screen.text.len())]).into_owned();
        screen.read = end.unwrap_or_else(|| panic!("no {wanted:?} in {text}"));
        text
    }

    /// Leaves the shell, and returns the rest of what is printed.
    fn quit(mut self) -> String {
        self.write("\\q\r");
        self.ended()
    }

    /// Waits for the end, and returns the rest of what is printed.
    fn ended(&mut self) -> String {
        let (screen, changed) = &*self.screen;
        let (screen, timeout) =
            changed.wait_timeout_while(screen.lock().unwrap(), PATIENCE, |screen| !screen.ended).unwrap();
        assert!(!timeout.timed_out());
        String::from_utf8_lossy(&screen.text[screen.read..]).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}

#[test]
fn what_is_typed_ahead_or_pasted_runs_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut shell) = Terminal::shell(folder.path(), &[]) else { return };
    // Echoes show what was typed, only results show the sum.
    shell.write("SELECT count(*) + 7 AS slow FROM generate_series(1, 30000000);\r");
    shell.write("SELECT 1000 + 1 AS ahead;\rSELECT 1000 +\r2 AS ahead;\r");
    for expected in ["30000007", "1001", "1002"] {
        shell.until(expected);
    }
    // A paste without marks, in one write.
    let pasted: String = (3..9).map(|n| format!("SELECT 1000 + {n} AS pasted;\n")).collect();
    shell.write(&pasted);
    (3..9).for_each(|n| drop(shell.until(&(1000 + n).to_string())));
    // The same with them.
    shell.write("\x1b[200~SELECT 2000 + 1;\rSELECT 2000\r+ 2;\x1b[201~\r");
    for expected in ["2001", "2002"] {
        shell.until(expected);
    }
    // What is longer than a terminal's buffer arrives as well.
    let long = format!("SELECT length('{}') + 5 AS long;\r", "x".repeat(3000));
    shell.write(&long.repeat(3));
    (0..3).for_each(|_| drop(shell.until("3005")));
    shell.quit();
    let history = std::fs::read_to_string(folder.path().join(".local/state/pushdowndb/history")).unwrap();
    assert!(history.contains("SELECT 1000 + 8 AS pasted;"), "{history}");
}

#[test]
fn an_interrupt_ends_printing_at_once_and_forgets_what_was_typed_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut shell) = Terminal::shell(folder.path(), &[]) else { return };
    shell.write("\\rows all\r");
    shell.until("pushdowndb> ");
    shell.write("SELECT value + 1000000000 AS n FROM generate_series(1, 50000000);\r");
    shell.until("1000002000");
    shell.write("SELECT 4000 + 1 AS never;\r");
    shell.write(CTRL_C);
    let printed = shell.until("cancelled");
    assert!(printed.len() < 1_000_000, "{} bytes after Ctrl-C", printed.len());
    shell.until("pushdowndb> ");
    shell.write("SELECT 3000 + 1 AS next;\r");
    let next = shell.until("3001");
    assert!(!next.contains("4001"), "{next}");
    shell.quit();
}

#[test]
fn statements_go_on_over_lines_and_commands_between_them() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut shell) = Terminal::shell(folder.path(), &[]) else { return };
    shell.write("SELECT 'a\r");
    shell.until("       '..> ");
    shell.write("b' AS text,\r");
    shell.until("       ...> ");
    shell.write("\\timing on\r");
    shell.until("\\timing on\r\n");
    shell.write("'NULL' AS word, NULL AS nothing, 5 AS n;\r");
    let table = shell.until("(1 row)");
    for expected in ["│ varchar │", "│ bigint │", "│ 'NULL'  │", "│ NULL    │"] {
        assert!(table.contains(expected), "{expected} in\n{table}");
    }
    shell.until("time: ");
    // Ctrl-C drops what is open.
    shell.write("SELECT nonsense\r");
    shell.until("       ...> ");
    shell.write(CTRL_C);
    shell.until("pushdowndb> ");
    shell.write(".mode csv\rSELECT 5000 + 1 AS n;\r");
    shell.until("n\r\n5001\r\n");
    shell.quit();
}

#[test]
fn tab_completes_files_columns_and_settings() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("some data")).unwrap();
    std::fs::write(folder.path().join("some data/measurements.csv"), "Humidity,day\n7,1\n9,2\n").unwrap();
    let Some(mut shell) = Terminal::shell(folder.path(), &[]) else { return };
    shell.write("\\format csv\rSELECT * FROM 'so\tmea\t' WHERE humi\t > 8;\r");
    shell.until("Humidity,day\r\n9,2\r\n");
    // Columns of a file that an earlier line names.
    shell.write("SELECT 6000 + x.day AS n FROM 'some data/measurements.csv' x\rWHERE humi\t > 8;\r");
    shell.until("n\r\n6002\r\n");
    shell.write("SET pushdown.pri\t = 'aws';\rSHOW pushdown.price_book;\r");
    shell.until("pushdown.price_book,aws\r\n");
    shell.quit();
}

#[test]
fn statements_are_edited_repeated_and_copied() {
    let folder = tempfile::tempdir().unwrap();
    let editor = folder.path().join("editor");
    std::fs::write(&editor, "#!/bin/sh\nsed -i 's/1 AS a/41 + 1 AS a/' \"$1\"\n").unwrap();
    let editor = format!("sh '{}'", editor.display());
    let Some(mut shell) = Terminal::shell(folder.path(), &[("EDITOR", &editor)]) else { return };
    shell.write("\\format csv\rSELECT 1 AS a;\r");
    shell.until("a\r\n1\r\n");
    shell.write("\\e\r");
    shell.until("a\r\n42\r\n");
    shell.write("\\watch 0.01 3\r");
    (0..3).for_each(|_| drop(shell.until("a\r\n42\r\n")));
    // Until Ctrl-C.
    shell.write("\\watch 0.01\r");
    (0..3).for_each(|_| drop(shell.until("a\r\n42\r\n")));
    shell.write(CTRL_C);
    shell.until("pushdowndb> ");
    shell.write("\\copy (SELECT 8 AS eight) TO out.csv\r\\! cat out.csv\r");
    shell.until("eight\r\n8\r\n");
    shell.write("\\format table\r\\pager sed s/eight/paged/\rSELECT 8 AS eight;\r");
    shell.until("│  paged │");
    shell.write("\\pager off\r\\format markdown\rSELECT 'a|b' AS text, 1 AS n;\r");
    shell.until("| text | n |\r\n| --- | ---: |\r\n| a\\|b | 1 |\r\n");
    shell.write("\\l .\r");
    shell.until("out.csv");
    shell.quit();
}

#[test]
fn a_command_line_prints_like_the_shell() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "SELECT value AS n, repeat('x', 200) AS text FROM generate_series(1, 1000)";
    let Some(mut done) = Terminal::start(folder.path(), &["-c", sql], &[]) else { return };
    let printed = done.ended();
    assert!(printed.contains("(1,000 rows, first and last shown"), "{printed}");
    assert!(printed.lines().all(|line| line.trim_end().chars().count() <= 80), "{printed}");
    assert!(printed.contains("│ bigint │ varchar"), "{printed}");
}
