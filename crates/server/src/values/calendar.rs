//! Dates, times and intervals in text, as PostgreSQL writes them with `DateStyle = ISO` and
//! `IntervalStyle = postgres`.

use std::io::Write;

use pushdowndb_contract::civil_from_days;

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Days between 1970-01-01 and 2000-01-01, where PostgreSQL counts from.
pub(crate) const EPOCH_DAYS: i64 = 10_957;

/// Microseconds between 1970-01-01 and 2000-01-01, where PostgreSQL counts from.
pub(crate) const EPOCH_MICROS: i64 = EPOCH_DAYS * MICROS_PER_DAY;

/// The number of days between 1970-01-01 and a date.
#[cfg(test)]
fn day(year: i64, month: u32, day: u32) -> i64 {
    let (month, day) = (i64::from(month), i64::from(day));
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let from_march = (month + 9) % 12;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + (153 * from_march + 2) / 5 + day - 1;
    era * 146_097 + day_of_era - 719_468
}

/// Writes a date that is `days` after 1970-01-01.
pub(crate) fn date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil_from_days(days);
    let (shown, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    let _ = write!(out, "{shown:04}-{month:02}-{day:02}{era}");
}

/// Writes a time of `micros` after midnight.
pub(crate) fn time(micros: i64, out: &mut Vec<u8>) {
    let (seconds, fraction) = (micros.div_euclid(MICROS_PER_SECOND), micros.rem_euclid(MICROS_PER_SECOND));
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    fraction_of_second(fraction, out);
}

/// Writes a timestamp `micros` after 1970-01-01, with the UTC offset if it has a time zone.
pub(crate) fn timestamp(micros: i64, has_zone: bool, out: &mut Vec<u8>) {
    let (days, of_day) = (micros.div_euclid(MICROS_PER_DAY), micros.rem_euclid(MICROS_PER_DAY));
    let (year, month, day) = civil_from_days(days);
    let (shown, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    let _ = write!(out, "{shown:04}-{month:02}-{day:02} ");
    time(of_day, out);
    let _ = write!(out, "{}{era}", if has_zone { "+00" } else { "" });
}

/// Writes an interval.
pub(crate) fn interval(months: i32, days: i32, micros: i64, out: &mut Vec<u8>) {
    let start = out.len();
    // After a negative part, a positive one is written with its sign.
    let mut after_negative = false;
    let mut part = |value: i32, unit: &str, out: &mut Vec<u8>| {
        if value == 0 {
            return;
        }
        let gap = if out.len() > start { " " } else { "" };
        let sign = if after_negative && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        let _ = write!(out, "{gap}{sign}{value} {unit}{plural}");
        after_negative = value < 0;
    };
    part(months / 12, "year", out);
    part(months % 12, "mon", out);
    part(days, "day", out);
    if micros != 0 || out.len() == start {
        let gap = if out.len() > start { " " } else { "" };
        let sign = match micros < 0 {
            true => "-",
            false if after_negative => "+",
            false => "",
        };
        let absolute = micros.unsigned_abs();
        let (seconds, fraction) = (absolute / 1_000_000, absolute % 1_000_000);
        let _ = write!(out, "{gap}{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        fraction_of_second(i64::try_from(fraction).unwrap_or_default(), out);
    }
}

fn fraction_of_second(micros: i64, out: &mut Vec<u8>) {
    if micros != 0 {
        let digits = format!("{micros:06}");
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_go_far_back_and_forth() {
        let text = |days| written(|out| date(days, out));
        assert_eq!(text(0), "1970-01-01");
        assert_eq!(text(EPOCH_DAYS), "2000-01-01");
        assert_eq!(text(day(2024, 2, 29)), "2024-02-29");
        assert_eq!(text(day(0, 12, 31)), "0001-12-31 BC");
        assert_eq!(text(day(-4712, 11, 24)), "4713-11-24 BC");
        assert_eq!(text(i64::from(i32::MAX)), "5881580-07-11");
        assert_eq!(text(i64::from(i32::MIN)), "5877642-06-23 BC");
        for days in (-1_000_000..3_000_000).step_by(997) {
            let (year, month, of_month) = civil_from_days(days);
            assert_eq!(day(year, month, of_month), days);
        }
    }

    #[test]
    fn times_have_no_trailing_zeros() {
        let text = |micros| written(|out| timestamp(micros, false, out));
        assert_eq!(text(0), "1970-01-01 00:00:00");
        assert_eq!(text(-1), "1969-12-31 23:59:59.999999");
        assert_eq!(text(1_500_000), "1970-01-01 00:00:01.5");
        assert_eq!(written(|out| timestamp(EPOCH_MICROS, true, out)), "2000-01-01 00:00:00+00");
        // The extremes must not overflow.
        text(i64::MAX);
        text(i64::MIN);
    }

    #[test]
    fn intervals_are_postgres() {
        let text = |months, days, micros| written(|out| interval(months, days, micros, out));
        assert_eq!(text(0, 0, 0), "00:00:00");
        assert_eq!(text(14, 3, 14_706_789_000), "1 year 2 mons 3 days 04:05:06.789");
        assert_eq!(text(-1, 1, 0), "-1 mons +1 day");
        assert_eq!(text(0, -1, 3_600_000_000), "-1 days +01:00:00");
        assert_eq!(text(0, 0, -1), "-00:00:00.000001");
        text(i32::MIN, i32::MIN, i64::MIN);
    }
}
