//! Parsers for the values of arguments.

use std::net::{SocketAddr, ToSocketAddrs};

/// Parses a pair `KEY=VALUE`.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("write it as KEY=VALUE".into()),
    }
}

/// Parses a number other than 0, for limits that would keep a node from answering any request if
/// they were 0.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be 1 or more".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("it is no number".into()),
    }
}

/// Parses an address to listen on; host names of this machine are resolved.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let expected = || format!("'{text}' is no address and port, such as 127.0.0.1:9000 or 0.0.0.0:9000");
    if text.starts_with(':') {
        return Err(expected());
    }
    let found = text.to_socket_addrs().map_err(|_| expected())?.min_by_key(SocketAddr::is_ipv6);
    found.ok_or_else(expected)
}

/// Parses the name of a host.
pub fn domain(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.is_empty() || !text.chars().all(fits) {
        return Err("it is the name of a host, without scheme, port and path".into());
    }
    Ok(text.to_owned())
}
