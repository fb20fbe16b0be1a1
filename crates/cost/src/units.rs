//! Formatting of numbers, and parsing of sizes in bytes.

use std::time::Duration;

/// Formats bytes in decimal units, as in networks and price lists.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if count < 1000 {
        return format!("{count} B");
    }
    let mut value = count as f64;
    let mut unit = "B";
    for next in UNITS {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    let digits = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {unit}")
}

/// Parses a number of bytes. The suffixes K, M, G and T (also KB, KiB and the like) are powers of
/// 1024.
///
/// # Errors
///
/// Returns a message with examples of valid sizes if `text` is not a size or does not fit in `T`.
pub fn parse_bytes<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let expected = || format!("'{text}' is no size, such as 16M, 512MiB or 1073741824");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..).unwrap_or_default().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(expected()),
    };
    let bytes = digits.trim_end().parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.and_then(|bytes| T::try_from(bytes).ok()).ok_or_else(expected)
}

/// Formats a count with separators of thousands.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats `number` and the noun `of`, followed by an "s" unless `number` is 1.
pub fn counted(number: u64, of: &str) -> String {
    format!("{} {of}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Formats seconds with up to three significant digits.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.9995 => format!("{:.0} ms", s * 1000.0),
        s if s < 9.995 => format!("{s:.2} s"),
        s if s < 99.95 => format!("{s:.1} s"),
        s if s < 600.0 => format!("{s:.0} s"),
        s => format!("{:.0} min", s / 60.0),
    }
}

/// Formats a duration with up to three significant digits.
pub fn duration(duration: Duration) -> String {
    seconds(duration.as_secs_f64())
}

/// Formats dollars with three significant digits: queries cost fractions of a cent.
pub fn dollars(amount: f64) -> String {
    if amount == 0.0 {
        return "$0".into();
    }
    let digits = (2.0 - amount.abs().log10().floor()).clamp(2.0, 12.0) as usize;
    format!("${amount:.digits$}")
}

/// Formats the ratio of `before` to `after`.
pub fn factor(before: f64, after: f64) -> String {
    match before / after {
        f if !f.is_finite() => "-".into(),
        f if f < 9.95 => format!("{f:.1}×"),
        f => format!("{}×", count(f.round() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            ["0", "7", "3k", "16M", "2MiB", "1 GB", "1T"].map(|text| parse_bytes::<u64>(text).unwrap()),
            [0_u64, 7, 3 << 10, 16 << 20, 2 << 20, 1 << 30, 1 << 40]
        );
        for none in ["", "G", "1P", "1.5G", "-1", "M 1", "99999999999999999999", "99999999999G"] {
            assert!(parse_bytes::<u64>(none).is_err(), "{none}");
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!([bytes(0), bytes(999), bytes(1000), bytes(12_345_678)], ["0 B", "999 B", "1.00 kB", "12.3 MB"]);
        assert_eq!([bytes(999_999), bytes(753_862_072), bytes(u64::MAX)], ["1.00 MB", "754 MB", "18447 PB"]);
        assert_eq!([count(7), count(1234), count(6_001_215)], ["7", "1,234", "6,001,215"]);
        assert_eq!([counted(0, "row"), counted(1, "row"), counted(1000, "row")], ["0 rows", "1 row", "1,000 rows"]);
        assert_eq!([seconds(0.0123), seconds(1.5), seconds(61.0)], ["12 ms", "1.50 s", "61.0 s"]);
        assert_eq!([dollars(0.0), dollars(0.000154), dollars(1.5)], ["$0", "$0.000154", "$1.50"]);
        assert_eq!([factor(100.0, 50.0), factor(12_345.0, 1.0), factor(1.0, 0.0)], ["2.0×", "12,345×", "-"]);
    }
}
