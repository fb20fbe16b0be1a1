//! `health`: checks a running node, for containers and scripts without an HTTP client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Result;
use pushdowndb_contract::{Error, ErrorKind};

use crate::args::HealthArgs;
use crate::print;

/// Maximum bytes of a response that are read; more than any response of `/healthz` and `/readyz`
/// has.
const MAX_ANSWER_BYTES: u64 = 16 << 10;

/// Prints the response of the node. A status other than 200 is an error.
pub fn health(args: &HealthArgs) -> Result<()> {
    let path = if args.ready { "/readyz" } else { "/healthz" };
    let unavailable = |text: String| Error::new(ErrorKind::Unavailable, format!("{}: {text}", args.at));
    let timeout = Duration::from_secs(args.timeout.max(1));
    let answer = ask(args.at, path, timeout).map_err(|error| unavailable(error.to_string()))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        let text = if status.is_empty() { "an answer that is not HTTP" } else { body.trim() };
        return Err(unavailable(format!("{status} {text}").trim().to_owned()).into());
    }
    print::print_line(format_args!("{}", body.trim()))
}

fn ask(at: SocketAddr, path: &str, timeout: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&at, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
