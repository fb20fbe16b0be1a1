//! The text format of numbers, lists and bytes.

use std::io::Write;

/// Writes a floating-point number with the fewest digits that parse to the same value, as
/// PostgreSQL does. An exponent is used below 1e-4 and from `10^digits` on.
fn float(scientific: &str, digits: i32, out: &mut Vec<u8>) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let plain: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    out.extend_from_slice(sign.as_bytes());
    if !(-4..digits).contains(&exponent) {
        let _ = write!(out, "{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
        return;
    }
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + exponent.unsigned_abs() as usize - 1, b'0');
        out.extend_from_slice(plain.as_bytes());
        return;
    }
    let whole = exponent as usize + 1;
    match plain.split_at_checked(whole) {
        Some((whole, "")) => out.extend_from_slice(whole.as_bytes()),
        Some((whole, fraction)) => {
            let _ = write!(out, "{whole}.{fraction}");
        }
        None => {
            out.extend_from_slice(plain.as_bytes());
            out.resize(out.len() + whole - plain.len(), b'0');
        }
    }
}

/// Writes `NaN` or an infinity. Returns false, and writes nothing, for other numbers.
fn special(value: f64, out: &mut Vec<u8>) -> bool {
    let text: &[u8] = match value {
        value if value.is_nan() => b"NaN",
        f64::INFINITY => b"Infinity",
        f64::NEG_INFINITY => b"-Infinity",
        _ => return false,
    };
    out.extend_from_slice(text);
    true
}

/// Writes a `float8`.
pub(crate) fn float8(value: f64, out: &mut Vec<u8>) {
    if !special(value, out) {
        float(&format!("{value:e}"), 15, out);
    }
}

/// Writes a `float4`.
pub(crate) fn float4(value: f32, out: &mut Vec<u8>) {
    if !special(f64::from(value), out) {
        float(&format!("{value:e}"), 6, out);
    }
}

/// Writes a `bytea` in hexadecimal.
pub(crate) fn bytea(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\x");
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}

/// Parses a `bytea` in hexadecimal, or in the escape format, in which backslashes precede special
/// bytes.
pub(crate) fn parse_bytea(text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits = digits.as_bytes();
        let nibble = |digit: u8| char::from(digit).to_digit(16);
        let pairs = digits.chunks(2).map(|pair| match pair {
            [high, low] => u8::try_from(nibble(*high)? * 16 + nibble(*low)?).ok(),
            _ => None,
        });
        return pairs.collect();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return Some(bytes),
            [b'\\', b'\\', rest @ ..] => {
                bytes.push(b'\\');
                rest
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                bytes.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest
            }
            [b'\\', ..] => return None,
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        };
    }
}

/// Writes an element of a list. It is quoted if it could be misread, for example as NULL.
pub(crate) fn element(value: &[u8], out: &mut Vec<u8>) {
    let is_special = |byte: &u8| matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\') || byte.is_ascii_whitespace();
    if !value.is_empty() && !value.eq_ignore_ascii_case(b"null") && !value.iter().any(is_special) {
        out.extend_from_slice(value);
        return;
    }
    out.push(b'"');
    for byte in value {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// Parses a list of one dimension. An element that is `None` is NULL.
pub(crate) fn parse_list(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut elements = Vec::new();
    if inner.trim().is_empty() {
        return Some(elements);
    }
    let mut chars = inner.chars().peekable();
    loop {
        while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
        let mut value = String::new();
        if chars.next_if_eq(&'"').is_some() {
            loop {
                match chars.next()? {
                    '"' => break,
                    '\\' => value.push(chars.next()?),
                    other => value.push(other),
                }
            }
            while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
            elements.push(Some(value));
        } else {
            while let Some(next) = chars.next_if(|c| *c != ',') {
                match next {
                    '{' | '}' | '"' => return None,
                    '\\' => value.push(chars.next()?),
                    other => value.push(other),
                }
            }
            let value = value.trim_end();
            elements.push((!value.eq_ignore_ascii_case("null")).then(|| value.to_owned()));
        }
        match chars.next() {
            None => return Some(elements),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_by_postgres() {
        let text = |value| {
            let mut out = Vec::new();
            float8(value, &mut out);
            String::from_utf8(out).unwrap()
        };
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (100.0, "100"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e15, "1e+15"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(value), expected);
        }
        let mut out = Vec::new();
        float4(1_234_567.0, &mut out);
        assert_eq!(out, b"1.234567e+06");
    }

    #[test]
    fn lists_survive_both_ways() {
        let values = ["", "null", "a b", "a,b", "{x}", "\"q\"", "back\\slash", "plain", "ümläut"];
        let mut text = vec![b'{'];
        for value in values {
            element(value.as_bytes(), &mut text);
            text.push(b',');
        }
        text.extend_from_slice(b"NULL}");
        let read = parse_list(std::str::from_utf8(&text).unwrap()).unwrap();
        let expected: Vec<_> = values.iter().map(|value| Some((*value).to_owned())).chain([None]).collect();
        assert_eq!(read, expected);
        assert_eq!(parse_list("{}"), Some(vec![]));
        for wrong in ["", "{", "1,2", "{\"a}", "{{1},{2}}", "{\"a\"b}"] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bytes_survive_both_ways() {
        let mut text = Vec::new();
        bytea(&[0, 127, 255], &mut text);
        assert_eq!(text, b"\\x007fff");
        assert_eq!(parse_bytea("\\x007fff"), Some(vec![0, 127, 255]));
        assert_eq!(parse_bytea("a\\\\b\\001"), Some(vec![b'a', b'\\', b'b', 1]));
        assert_eq!(parse_bytea("\\xabc"), None);
        assert_eq!(parse_bytea("\\9"), None);
    }
}
