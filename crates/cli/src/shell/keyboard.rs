//! Passes what is typed or pasted to the line editor one line at a time.
//!
//! The line editor reads as many bytes as are available and drops those after the line that it
//! returns. So it reads not the real terminal but an inner pseudoterminal, into which this module
//! writes. After a byte that may end a line, nothing more is written until the editor has read it.
//! Bytes that were typed or pasted meanwhile are kept here for the next line. While a statement
//! runs nothing is read, and the system keeps what is typed.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{
    ControlFlags, FlushArg, InputFlags, LocalFlags, SetArg, SpecialCharacterIndices, Termios, cfmakeraw, tcflush,
    tcgetattr, tcsetattr,
};
use nix::unistd::{dup2_stdin, read, write};
use parking_lot::Mutex;

/// Bytes written to the editor at a time: fewer than the buffer of the inner terminal holds.
const CHUNK: usize = 1024;

/// Interval at which it is checked whether the editor has read a line, in milliseconds.
const EDITOR_INTERVAL_MS: u16 = 1;

/// Terminals of these kinds are read line by line, and need no inner terminal.
const PLAIN_TERMINALS: [&str; 3] = ["dumb", "cons25", "emacs"];

/// Bytes that represent the end of the terminal: Ctrl-C, which drops the line, and Ctrl-D.
const END: [u8; 2] = [3, 4];

/// The escape sequences before and after pasted text.
const PASTE: [(&[u8], bool); 2] = [(b"\x1b[200~", true), (b"\x1b[201~", false)];

/// The real terminal, and the inner one that replaces it as stdin.
#[derive(Debug)]
pub struct Keyboard {
    terminal: OwnedFd,
    to_editor: OwnedFd,
    editor: OwnedFd,
    /// A byte written to the first socket arrives at the second when the editor has returned.
    stop: (UnixStream, UnixStream),
    typed: Mutex<Typed>,
}

/// Bytes that the editor has not received yet.
#[derive(Debug, Default)]
struct Typed {
    bytes: VecDeque<u8>,
    /// The last bytes that the editor received, to find the marks around pasted text.
    last: VecDeque<u8>,
    in_paste: bool,
    /// Whether the terminal has ended.
    ended: bool,
}

impl Keyboard {
    /// Replaces stdin with an inner terminal. Returns `None` if the terminal needs none, or if none
    /// can be created.
    pub fn open() -> Option<Self> {
        let kind = std::env::var("TERM").unwrap_or_default();
        if PLAIN_TERMINALS.iter().any(|plain| plain.eq_ignore_ascii_case(&kind)) {
            return None;
        }
        let terminal = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
        let mut settings = tcgetattr(&terminal).ok()?;
        // The settings include the terminal's own characters for Ctrl-C, Ctrl-D and Ctrl-Z, which
        // the editor looks up.
        cfmakeraw(&mut settings);
        let inner = openpty(None::<&Winsize>, &settings).ok()?;
        let stop = UnixStream::pair().ok()?;
        dup2_stdin(&inner.slave).ok()?;
        Some(Self { terminal, to_editor: inner.master, editor: inner.slave, stop, typed: Mutex::default() })
    }

    /// Runs the line editor, which reads the inner terminal.
    pub fn during<T>(&self, edit: impl FnOnce() -> T) -> T {
        let before = set_raw(&self.terminal);
        let edited = std::thread::scope(|scope| {
            scope.spawn(|| self.forward());
            let edited = edit();
            let _ = write(&self.stop.0, &[0]);
            edited
        });
        if let Some(before) = before {
            let _ = tcsetattr(&self.terminal, SetArg::TCSADRAIN, &before);
        }
        edited
    }

    /// Drops input that was typed ahead.
    pub fn forget(&self) {
        let mut typed = self.typed.lock();
        let ended = typed.ended;
        *typed = Typed { ended, ..Typed::default() };
        let _ = tcflush(&self.editor, FlushArg::TCIFLUSH);
    }

    /// The real terminal, for use as stdin of another program.
    pub fn stdin(&self) -> Stdio {
        self.terminal.try_clone().map_or_else(|_| Stdio::null(), Stdio::from)
    }

    /// Copies typed bytes to the editor, until the editor has returned.
    fn forward(&self) {
        let mut typed = self.typed.lock();
        loop {
            // Further lines wait until the editor has read the previous one or has returned.
            let waits = is_readable(self.editor.as_fd());
            if !waits && !typed.bytes.is_empty() {
                let chunk = typed.chunk();
                if write(&self.to_editor, &chunk).is_err() {
                    return;
                }
                continue;
            }
            let timeout = match typed.bytes.is_empty() {
                true => PollTimeout::NONE,
                false => PollTimeout::from(EDITOR_INTERVAL_MS),
            };
            let mut polled = [
                PollFd::new(self.stop.1.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN),
            ];
            let watched = if typed.ended { &mut polled[..1] } else { &mut polled[..] };
            match poll(watched, timeout) {
                Err(Errno::EINTR) => continue,
                Err(_) => return,
                Ok(_) => {}
            }
            if is_ready(&polled[0]) {
                let _ = read(&self.stop.1, &mut [0]);
                return;
            }
            if is_ready(&polled[1]) {
                typed.read(self.terminal.as_fd());
            }
        }
    }
}

impl Typed {
    /// Reads the available bytes of the terminal.
    fn read(&mut self, terminal: BorrowedFd<'_>) {
        let mut buffer = [0; CHUNK];
        match read(terminal, &mut buffer) {
            Ok(0) | Err(Errno::EIO) => {
                self.ended = true;
                self.bytes.extend(END);
            }
            Ok(length) => self.bytes.extend(buffer.iter().take(length)),
            Err(_) => {}
        }
    }

    /// Takes the next bytes for the editor: up to and including a byte that may end a line, unless
    /// it is pasted.
    fn chunk(&mut self) -> Vec<u8> {
        let mut chunk = Vec::new();
        while let Some(byte) = self.bytes.pop_front() {
            chunk.push(byte);
            self.last.push_back(byte);
            if self.last.len() > PASTE[0].0.len() {
                self.last.pop_front();
            }
            for (mark, begins) in PASTE {
                if self.last.iter().eq(mark) {
                    self.in_paste = begins;
                }
            }
            // Line ends, Ctrl-C, Ctrl-D and Ctrl-Z may end a line.
            let may_end = matches!(byte, b'\r' | b'\n' | 3 | 4 | 26);
            if (may_end && !self.in_paste) || chunk.len() == CHUNK {
                break;
            }
        }
        chunk
    }
}

fn is_ready(polled: &PollFd<'_>) -> bool {
    polled.revents().is_some_and(|events| !events.is_empty())
}

fn is_readable(terminal: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(terminal, PollFlags::POLLIN)];
    poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) && is_ready(&polled[0])
}

/// Makes the terminal deliver each byte as it is typed, and returns the previous settings.
fn set_raw(terminal: &OwnedFd) -> Option<Termios> {
    let before = tcgetattr(terminal).ok()?;
    let mut raw = before.clone();
    raw.input_flags &=
        !(InputFlags::BRKINT | InputFlags::ICRNL | InputFlags::INPCK | InputFlags::ISTRIP | InputFlags::IXON);
    raw.control_flags |= ControlFlags::CS8;
    raw.local_flags &= !(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::IEXTEN | LocalFlags::ISIG);
    raw.control_chars[SpecialCharacterIndices::VMIN as usize] = 1;
    raw.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
    tcsetattr(terminal, SetArg::TCSADRAIN, &raw).ok()?;
    Some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunks(bytes: &[u8]) -> Vec<String> {
        let mut typed = Typed { bytes: bytes.iter().copied().collect(), ..Typed::default() };
        let mut chunks = Vec::new();
        while !typed.bytes.is_empty() {
            chunks.push(String::from_utf8(typed.chunk()).unwrap());
        }
        chunks
    }

    #[test]
    fn the_editor_gets_one_line_at_a_time() {
        assert_eq!(chunks(b"select 1;\rselect 2;\nsel\x03"), ["select 1;\r", "select 2;\n", "sel\x03"]);
        let pasted = "\x1b[200~a\rb\r\x1b[201~\r";
        assert_eq!(chunks(format!("{pasted}c").as_bytes()), [pasted, "c"]);
        assert_eq!(chunks(&[b'x'; CHUNK + 1]).iter().map(String::len).collect::<Vec<_>>(), [CHUNK, 1]);
    }
}
