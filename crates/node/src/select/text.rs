//! Writes values as text into a buffer: the inner loop of CSV and JSON output.
//!
//! Integers and decimals are exact, doubles are the shortest text that parses to the same value,
//! dates and times are ISO 8601.

use std::io::Write;

use pushdowndb_contract::civil_from_days;

/// The digits of a number, filled in from the last to the first; 39 digits hold any u128.
struct Digits {
    buffer: [u8; 40],
    start: usize,
}

impl Digits {
    fn of(mut value: u128) -> Self {
        let mut digits = Self { buffer: [b'0'; 40], start: 40 };
        // Most numbers are small, and 64-bit division is several times faster.
        while u64::try_from(value).is_err() {
            digits.push((value % 10) as u8);
            value /= 10;
        }
        let mut value = value as u64;
        loop {
            digits.push((value % 10) as u8);
            value /= 10;
            if value == 0 {
                return digits;
            }
        }
    }

    fn push(&mut self, digit: u8) {
        self.start = self.start.saturating_sub(1);
        if let Some(place) = self.buffer.get_mut(self.start) {
            *place = b'0' + digit;
        }
    }

    fn get(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }
}

pub(super) fn unsigned(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(Digits::of(value.into()).get());
}

pub(super) fn signed(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    unsigned(out, value.unsigned_abs());
}

/// Writes `unscaled` times ten to the minus `scale`, with exactly `scale` digits after the point.
pub(super) fn decimal(out: &mut Vec<u8>, unscaled: i128, scale: i8) {
    if unscaled < 0 {
        out.push(b'-');
    }
    let digits = Digits::of(unscaled.unsigned_abs());
    let digits = digits.get();
    let Ok(scale) = usize::try_from(scale) else {
        // A negative scale means trailing zeros.
        out.extend_from_slice(digits);
        if unscaled != 0 {
            zeros(out, usize::from(scale.unsigned_abs()));
        }
        return;
    };
    match digits.len().checked_sub(scale) {
        Some(whole) if whole > 0 => {
            let (whole, fraction) = digits.split_at(whole);
            out.extend_from_slice(whole);
            if scale > 0 {
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
        }
        _ => {
            out.extend_from_slice(b"0.");
            zeros(out, scale.saturating_sub(digits.len()));
            out.extend_from_slice(digits);
        }
    }
}

pub(super) fn double(out: &mut Vec<u8>, value: f64) {
    // Debug is the shortest text that parses to the same value, with an exponent if that is
    // shorter.
    let _ = write!(out, "{value:?}");
}

pub(super) fn single(out: &mut Vec<u8>, value: f32) {
    let _ = write!(out, "{value:?}");
}

/// Writes `days` since 1970-01-01 as `YYYY-MM-DD`.
pub(super) fn date(out: &mut Vec<u8>, days: i64) {
    let (year, month, day) = civil_from_days(days);
    if year < 0 {
        out.push(b'-');
    }
    padded(out, year.unsigned_abs(), 4);
    out.push(b'-');
    padded(out, u64::from(month), 2);
    out.push(b'-');
    padded(out, u64::from(day), 2);
}

/// Writes `ticks` since 1970 as `YYYY-MM-DDTHH:MM:SS[.fraction][Z]`, without trailing zeros of the
/// fraction.
pub(super) fn timestamp(out: &mut Vec<u8>, ticks: i64, per_second: i64, utc: bool) {
    let seconds = ticks.div_euclid(per_second);
    let fraction = ticks.rem_euclid(per_second).unsigned_abs();
    let in_day = seconds.rem_euclid(86_400).unsigned_abs();
    date(out, seconds.div_euclid(86_400));
    out.push(b'T');
    padded(out, in_day / 3600, 2);
    out.push(b':');
    padded(out, in_day / 60 % 60, 2);
    out.push(b':');
    padded(out, in_day % 60, 2);
    if fraction != 0 {
        let mut fraction = fraction;
        let mut width = per_second.ilog10() as usize;
        while fraction.is_multiple_of(10) {
            fraction /= 10;
            width -= 1;
        }
        out.push(b'.');
        padded(out, fraction, width);
    }
    if utc {
        out.push(b'Z');
    }
}

fn zeros(out: &mut Vec<u8>, count: usize) {
    out.resize(out.len() + count, b'0');
}

fn padded(out: &mut Vec<u8>, value: u64, width: usize) {
    let digits = Digits::of(value.into());
    zeros(out, width.saturating_sub(digits.get().len()));
    out.extend_from_slice(digits.get());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers() {
        for value in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(text(|out| signed(out, value)), value.to_string());
        }
        let decimals = [
            (0, 2, "0.00"),
            (5, 2, "0.05"),
            (-5, 2, "-0.05"),
            (12_345, 2, "123.45"),
            (100, 2, "1.00"),
            (7, 0, "7"),
            (7, -2, "700"),
            (0, -2, "0"),
            (i128::MAX, 10, "17014118346046923173168730371.5884105727"),
            (i128::MIN, 0, "-170141183460469231731687303715884105728"),
        ];
        for (unscaled, scale, expected) in decimals {
            assert_eq!(text(|out| decimal(out, unscaled, scale)), expected);
        }
        for value in [0.1, 1.0, -2.5e-8, 1e300, f64::MAX, f64::MIN_POSITIVE, 1.0 / 3.0] {
            assert_eq!(text(|out| double(out, value)).parse::<f64>().unwrap().to_bits(), value.to_bits());
        }
    }

    #[test]
    fn dates_agree_with_chrono() {
        let epoch = chrono::NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
        for days in (-719_162..2_932_896).step_by(97).chain([0, -1, 59, 60, 11_016, 11_017]) {
            let expected = (epoch + chrono::Duration::days(days)).format("%Y-%m-%d").to_string();
            assert_eq!(text(|out| date(out, days)), expected);
        }
    }

    #[test]
    fn times() {
        assert_eq!(text(|out| timestamp(out, 1_500_000, 1_000_000, true)), "1970-01-01T00:00:01.5Z");
        assert_eq!(text(|out| timestamp(out, -1, 1000, false)), "1969-12-31T23:59:59.999");
        assert_eq!(text(|out| timestamp(out, 86_399, 1, false)), "1970-01-01T23:59:59");
        assert_eq!(text(|out| timestamp(out, 1_000_000_050, 1_000_000_000, false)), "1970-01-01T00:00:01.00000005");
    }
}
