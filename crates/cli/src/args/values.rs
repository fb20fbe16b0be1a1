//! Values of arguments, read from text.

use std::net::{SocketAddr, ToSocketAddrs};

/// Parses a pair `KEY=VALUE`.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("write it as KEY=VALUE".into()),
    }
}

/// Parses a number other than 0, for limits at which a node would answer no request.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be 1 or more".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("it is no number".into()),
    }
}

/// Parses a number of bytes, with K, M or G (also KB, KiB and the like) for powers of 1024.
pub fn size<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let expected = || format!("'{text}' is no size, such as 16M, 512MiB or 1073741824");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return Err(expected()),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.and_then(|bytes| T::try_from(bytes).ok()).ok_or_else(expected)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            ["0", "7", "3k", "16M", "2MiB", "1G"].map(|text| size::<u64>(text).unwrap()),
            [0_u64, 7, 3 << 10, 16 << 20, 2 << 20, 1 << 30]
        );
        for none in ["", "G", "1T", "1.5G", "-1", "1 M", "99999999999999999999", "99999999999G"] {
            assert!(size::<u64>(none).is_err(), "{none}");
        }
    }
}
