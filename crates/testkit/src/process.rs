//! Servers in processes of their own.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::skip::skipped;

/// Maximum time until a server accepts connections.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A server process, killed when it is dropped.
#[derive(Debug)]
pub struct Server {
    process: Child,
    /// Its address and port.
    pub address: String,
}

impl Server {
    /// Starts the command that `command` returns for a free address, and waits until it accepts
    /// connections there.
    pub fn start(command: impl FnOnce(&str) -> Command) -> Self {
        let address = free_address();
        let mut command = command(&address);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the server's program");
        let server = Self { process, address };
        let started = Instant::now();
        while TcpStream::connect(&server.address).is_err() {
            assert!(started.elapsed() < START_TIMEOUT, "{:?} does not start", command.get_program());
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        kill(&mut self.process);
    }
}

/// Kills a process without a chance to clean up, and waits for its end.
pub fn kill(process: &mut Child) {
    // An error means that it has ended already.
    drop(process.kill());
    drop(process.wait());
}

/// Returns a free address of the loopback interface, with its port.
pub fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").to_string()
}

/// Returns the command that runs one ignored `test` of this test binary, such as a server that
/// another test kills.
pub fn this_test_binary(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this binary"));
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command
}

/// Starts a process and waits until it prints a line with `marker`. Returns the process and the
/// rest of the line.
pub fn spawn_until(command: &mut Command, marker: &str) -> (Child, String) {
    let mut process = command.stdout(Stdio::piped()).spawn().expect("the program");
    let stdout = process.stdout.as_mut().expect("its stdout");
    let rest = |line: String| line.split_once(marker).map(|(_, rest)| rest.trim().to_owned());
    let found = BufReader::new(stdout).lines().map_while(Result::ok).find_map(rest);
    let found = found.unwrap_or_else(|| panic!("{:?} ended before it printed '{marker}'", command.get_program()));
    (process, found)
}

/// Returns the peak memory of a process in bytes; `None` if the system does not report it.
pub fn peak_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Returns the path of a program that `.ci/` installs in the cache of tests. If it is missing,
/// returns `None` and prints that the test is skipped.
pub fn installed(path: &str, by: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("PUSHDOWNDB_CACHE").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/pushdowndb")))?;
    let found = Some(cache.join(path)).filter(|path| path.exists());
    if found.is_none() {
        skipped(&format!("{path} is not installed; {by} does it"));
    }
    found
}
