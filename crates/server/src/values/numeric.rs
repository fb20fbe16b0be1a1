//! Decimals in PostgreSQL's binary format: digits in base 10,000.

/// The sign field of a negative decimal, and that of NaN.
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;

/// Writes a decimal, given as text without an exponent, in the binary format.
pub(crate) fn write(text: &str, out: &mut Vec<u8>) {
    let (sign, text) = text.strip_prefix('-').map_or((0, text), |rest| (NEGATIVE, rest));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = whole.trim_start_matches('0');
    let mut digits: Vec<i16> = Vec::with_capacity(whole.len() / 4 + fraction.len() / 4 + 2);
    let mut weight = i16::try_from(whole.len().div_ceil(4)).unwrap_or(i16::MAX) - 1;
    let group = |text: &[u8], width: usize| {
        let value = text.iter().fold(0_i16, |value, digit| value * 10 + i16::from(digit - b'0'));
        // The last group of a fraction is padded with zeros on the right.
        (text.len()..width).fold(value, |value, _| value * 10)
    };
    let (first, rest) = whole.as_bytes().split_at(whole.len() % 4);
    if !first.is_empty() {
        digits.push(group(first, first.len()));
    }
    digits.extend(rest.chunks(4).map(|chunk| group(chunk, 4)));
    digits.extend(fraction.as_bytes().chunks(4).map(|chunk| group(chunk, 4)));
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..zeros);
    weight -= i16::try_from(zeros).unwrap_or(i16::MAX);
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let (sign, weight) = if digits.is_empty() { (0, 0) } else { (sign, weight) };
    let count = |length: usize| i16::try_from(length).unwrap_or(i16::MAX).to_be_bytes();
    out.extend_from_slice(&count(digits.len()));
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&count(fraction.len()));
    for digit in digits {
        out.extend_from_slice(&digit.to_be_bytes());
    }
}

/// Reads a decimal in the binary format as text; `None` if it is malformed or NaN.
pub(crate) fn read(bytes: &[u8]) -> Option<String> {
    let mut words = bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
    let count = usize::from(words.next()?);
    let weight = i32::from(words.next()?.cast_signed());
    let sign = words.next()?;
    let scale = usize::from(words.next()?);
    if bytes.len() != 8 + 2 * count || sign == NAN || !matches!(sign, 0 | NEGATIVE) || scale > 16_383 {
        return None;
    }
    let digits: Vec<u16> = words.collect();
    if digits.iter().any(|digit| *digit > 9999) {
        return None;
    }
    let digit = |position: i32| usize::try_from(position).ok().and_then(|at| digits.get(at)).copied().unwrap_or(0);
    let mut text = String::new();
    if sign == NEGATIVE {
        text.push('-');
    }
    let whole: String = (0..=weight).map(|position| format!("{:04}", digit(position))).collect();
    let whole = whole.trim_start_matches('0');
    text.push_str(if whole.is_empty() { "0" } else { whole });
    if scale > 0 {
        let groups = i32::try_from(scale.div_ceil(4)).ok()?;
        let fraction: String = (1..=groups).map(|group| format!("{:04}", digit(weight + group))).collect();
        text.push('.');
        text.push_str(fraction.get(..scale)?);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_survive_both_ways() {
        let long = "9".repeat(76);
        for text in [
            "0",
            "1",
            "-1",
            "0.01",
            "-0.000001",
            "10000",
            "12345.678",
            "100000000",
            "0.00010000",
            "1.50",
            &long,
            "99999999999999999999999999999999999999",
            "-0.99999999999999999999999999999999999999",
        ] {
            let mut bytes = Vec::new();
            write(text, &mut bytes);
            assert_eq!(read(&bytes).as_deref(), Some(text));
        }
    }

    #[test]
    fn the_bytes_are_those_of_postgres() {
        let mut bytes = Vec::new();
        write("12345.678", &mut bytes);
        assert_eq!(bytes, [0, 3, 0, 1, 0, 0, 0, 3, 0, 1, 9, 41, 26, 124]);
    }

    #[test]
    fn malformed_decimals_are_refused() {
        for wrong in
            [&[][..], &[0, 1, 0, 0, 0, 0, 0, 0], &[0, 0, 0, 0, 0xC0, 0, 0, 0], &[0, 1, 0, 0, 0, 0, 0, 0, 255, 255]]
        {
            assert_eq!(read(wrong), None);
        }
        // A large weight means many zeros, but few bytes on the wire.
        assert!(read(&[0, 0, 0x7F, 0xFF, 0, 0, 0, 0]).is_some());
    }
}
