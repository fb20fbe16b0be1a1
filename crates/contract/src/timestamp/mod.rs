//! Timestamps of S3 Select: calendar fields with a precision and an offset, as in Amazon Ion.
//!
//! `2007T`, `2007-02T`, `2007-02-23`, `2007-02-23T12:14Z` and `2007-02-23T12:14:33.079-08:00` are
//! different values. Each is formatted as it was written, and stands for one instant. Arrow's
//! timestamps have neither precision nor offset, so S3 Select's timestamps are represented as this
//! text; comparisons use [`Timestamp::micros`].
//!
//! The fields are those of the local clock. Fractions have up to nine digits. Years are 1 to 9999.

mod pattern;

use std::fmt;

pub use pattern::Pattern;

/// The finest field that a timestamp specifies.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Precision {
    Year,
    Month,
    Day,
    Minute,
    /// A second with this number of fraction digits.
    Second(u8),
}

/// A part of a timestamp for DATE_ADD, DATE_DIFF and EXTRACT.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum DatePart {
    /// Year.
    Year,
    /// Month, 1 to 12.
    Month,
    /// Day of the month.
    Day,
    /// Hour, 0 to 23.
    Hour,
    /// Minute.
    Minute,
    /// Whole second.
    Second,
    /// The hours of the offset, for EXTRACT only.
    TimezoneHour,
    /// The minutes of the offset, for EXTRACT only.
    TimezoneMinute,
}

impl DatePart {
    /// Every part.
    pub const ALL: [Self; 8] = [
        Self::Year,
        Self::Month,
        Self::Day,
        Self::Hour,
        Self::Minute,
        Self::Second,
        Self::TimezoneHour,
        Self::TimezoneMinute,
    ];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::Year => "YEAR",
            Self::Month => "MONTH",
            Self::Day => "DAY",
            Self::Hour => "HOUR",
            Self::Minute => "MINUTE",
            Self::Second => "SECOND",
            Self::TimezoneHour => "TIMEZONE_HOUR",
            Self::TimezoneMinute => "TIMEZONE_MINUTE",
        }
    }

    /// Returns the part of this `name`, ignoring case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name().eq_ignore_ascii_case(name))
    }
}

/// A timestamp.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timestamp {
    precision: Precision,
    year: i32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    nanos: u32,
    /// Minutes east of UTC; `None` for dates and for an unknown offset (`-00:00`).
    offset: Option<i32>,
}

const NANOS: i64 = 1_000_000_000;
const DAY_SECONDS: i64 = 86_400;

impl Timestamp {
    /// Parses a timestamp in Ion's form. A date may end in `T`, and has to if the day is missing; a
    /// time must have an offset. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, time) = match text.split_once(['T', 't']) {
            Some((date, time)) => (date, Some(time)),
            None => (text, None),
        };
        let mut parts = date.split('-');
        let year = digits(parts.next()?, 4)?;
        let (month, day) = (parts.next(), parts.next());
        if parts.next().is_some() || (time.is_none() && day.is_none()) {
            return None;
        }
        let precision = match (month, day) {
            (None, _) => Precision::Year,
            (_, None) => Precision::Month,
            _ => Precision::Day,
        };
        let month = month.map_or(Some(1), |month| digits(month, 2))?;
        let day = day.map_or(Some(1), |day| digits(day, 2))?;
        let date = Self { precision, ..Self::date(i32::try_from(year).ok()?, month, day)? };
        match time {
            None | Some("") => Some(date),
            Some(_) if precision < Precision::Day => None,
            Some(time) => date.with_time(time),
        }
    }

    fn date(year: i32, month: u32, day: u32) -> Option<Self> {
        let valid =
            (1..=9999).contains(&year) && (1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day);
        valid.then_some(Self {
            precision: Precision::Day,
            year,
            month,
            day,
            hour: 0,
            minute: 0,
            second: 0,
            nanos: 0,
            offset: None,
        })
    }

    /// Adds a time, such as `12:14[:33[.079]]` and an offset, to a date.
    fn with_time(mut self, text: &str) -> Option<Self> {
        let (clock, offset) = split_offset(text)?;
        self.offset = offset;
        let mut parts = clock.split(':');
        self.hour = digits(parts.next()?, 2)?;
        self.minute = digits(parts.next()?, 2)?;
        self.precision = Precision::Minute;
        if let Some(seconds) = parts.next() {
            let (whole, fraction) = match seconds.split_once('.') {
                Some((_, "")) => return None,
                Some((whole, fraction)) => (whole, fraction),
                None => (seconds, ""),
            };
            if !fraction.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            self.second = digits(whole, 2)?;
            let kept = fraction.get(..9).unwrap_or(fraction);
            self.nanos = format!("{kept:0<9}").parse().ok()?;
            self.precision = Precision::Second(u8::try_from(kept.len()).ok()?);
        }
        let valid = parts.next().is_none() && self.hour < 24 && self.minute < 60 && self.second < 60;
        // The instant in UTC must be within the years 1 to 9999, too, since no other can be
        // written.
        valid.then_some(self)
    }

    /// Creates an instant in UTC with `fraction_digits`. Returns `None` outside the years 1 to
    /// 9999.
    pub fn from_micros(micros: i64, fraction_digits: u8) -> Option<Self> {
        let precision = Precision::Second(fraction_digits.min(9));
        Self::from_local(i128::from(micros) * 1000, Some(0), precision)
    }

    /// Creates a timestamp from the nanoseconds of its local clock since 1970.
    fn from_local(nanos: i128, offset: Option<i32>, precision: Precision) -> Option<Self> {
        let seconds = i64::try_from(nanos.div_euclid(i128::from(NANOS))).ok()?;
        let (year, month, day) = civil_from_days(seconds.div_euclid(DAY_SECONDS));
        let in_day = u32::try_from(seconds.rem_euclid(DAY_SECONDS)).ok()?;
        let date = Self::date(i32::try_from(year).ok()?, month, day)?;
        Some(Self {
            precision,
            hour: in_day / 3600,
            minute: in_day / 60 % 60,
            second: in_day % 60,
            nanos: u32::try_from(nanos.rem_euclid(i128::from(NANOS))).ok()?,
            offset,
            ..date
        })
    }

    fn days(&self) -> i64 {
        days_from_civil(self.year, self.month, self.day)
    }

    /// Returns the seconds of the local clock since 1970.
    fn local_seconds(&self) -> i64 {
        self.days() * DAY_SECONDS + i64::from(self.hour * 3600 + self.minute * 60 + self.second)
    }

    fn local_nanos(&self) -> i128 {
        i128::from(self.local_seconds()) * i128::from(NANOS) + i128::from(self.nanos)
    }

    fn instant_seconds(&self) -> i64 {
        self.local_seconds() - i64::from(self.offset.unwrap_or(0)) * 60
    }

    /// Returns the instant in microseconds since 1970-01-01T00:00Z. Finer fractions are truncated.
    pub fn micros(&self) -> i64 {
        self.instant_seconds() * 1_000_000 + i64::from(self.nanos / 1000)
    }

    /// Adds `count` units of `part`. A day that the resulting month does not have becomes its last
    /// day. If `part` is finer than the precision, the result has the precision of `part`. Returns
    /// `None` outside the years 1 to 9999.
    #[must_use]
    pub fn add(&self, part: DatePart, count: i64) -> Option<Self> {
        let months = match part {
            DatePart::Year => Some(count.checked_mul(12)?),
            DatePart::Month => Some(count),
            _ => None,
        };
        let precision = self.precision.max(match part {
            DatePart::Year => Precision::Year,
            DatePart::Month => Precision::Month,
            DatePart::Day => Precision::Day,
            DatePart::Hour | DatePart::Minute => Precision::Minute,
            DatePart::Second => Precision::Second(0),
            DatePart::TimezoneHour | DatePart::TimezoneMinute => return None,
        });
        if let Some(months) = months {
            let total = (i64::from(self.year) * 12 + i64::from(self.month) - 1).checked_add(months)?;
            let year = i32::try_from(total.div_euclid(12)).ok()?;
            let month = u32::try_from(total.rem_euclid(12)).ok()? + 1;
            let day = self.day.min(month_days(year, month));
            return Self::date(year, month, day).map(|_| Self { precision, year, month, day, ..*self });
        }
        let seconds: i64 = match part {
            DatePart::Day => DAY_SECONDS,
            DatePart::Hour => 3600,
            DatePart::Minute => 60,
            _ => 1,
        };
        let moved = self.local_nanos() + i128::from(count) * i128::from(seconds) * i128::from(NANOS);
        Self::from_local(moved, self.offset, precision)
    }

    /// Returns the number of whole units of `part` from this timestamp to `later`; negative if
    /// `later` is earlier. Years and months are counted by the calendar at this timestamp's offset,
    /// other units by elapsed time.
    pub fn until(&self, part: DatePart, later: &Self) -> Option<i64> {
        let nanos = (i128::from(later.instant_seconds()) - i128::from(self.instant_seconds())) * i128::from(NANOS)
            + i128::from(later.nanos)
            - i128::from(self.nanos);
        let unit: i64 = match part {
            DatePart::Year | DatePart::Month => {
                let there = later.at_offset(self.offset.unwrap_or(0))?;
                let months = i64::from(there.year - self.year) * 12 + i64::from(there.month) - i64::from(self.month);
                // A month is complete on the same day of the next month.
                let months = match there.day.cmp(&self.day) {
                    std::cmp::Ordering::Less if months > 0 => months - 1,
                    std::cmp::Ordering::Greater if months < 0 => months + 1,
                    _ => months,
                };
                return Some(if part == DatePart::Year { months / 12 } else { months });
            }
            DatePart::Day => DAY_SECONDS,
            DatePart::Hour => 3600,
            DatePart::Minute => 60,
            DatePart::Second => 1,
            DatePart::TimezoneHour | DatePart::TimezoneMinute => return None,
        };
        i64::try_from(nanos / (i128::from(unit) * i128::from(NANOS))).ok()
    }

    /// Converts the timestamp to another offset.
    fn at_offset(&self, offset: i32) -> Option<Self> {
        let nanos = i128::from(self.instant_seconds() + i64::from(offset) * 60) * i128::from(NANOS);
        Self::from_local(nanos + i128::from(self.nanos), Some(offset), self.precision)
    }

    /// Returns a part of the local time.
    pub fn part(&self, part: DatePart) -> i64 {
        let offset = i64::from(self.offset.unwrap_or(0));
        match part {
            DatePart::Year => i64::from(self.year),
            DatePart::Month => i64::from(self.month),
            DatePart::Day => i64::from(self.day),
            DatePart::Hour => i64::from(self.hour),
            DatePart::Minute => i64::from(self.minute),
            DatePart::Second => i64::from(self.second),
            DatePart::TimezoneHour => offset / 60,
            DatePart::TimezoneMinute => offset % 60,
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}", self.year)?;
        if self.precision == Precision::Year {
            return f.write_str("T");
        }
        write!(f, "-{:02}", self.month)?;
        if self.precision == Precision::Month {
            return f.write_str("T");
        }
        write!(f, "-{:02}", self.day)?;
        if self.precision == Precision::Day {
            return Ok(());
        }
        write!(f, "T{:02}:{:02}", self.hour, self.minute)?;
        if let Precision::Second(places) = self.precision {
            write!(f, ":{:02}", self.second)?;
            if places > 0 {
                let digits = format!("{:09}", self.nanos);
                write!(f, ".{}", digits.get(..usize::from(places)).unwrap_or(&digits))?;
            }
        }
        match self.offset {
            None => f.write_str("-00:00"),
            Some(0) => f.write_str("Z"),
            Some(minutes) => {
                let sign = if minutes < 0 { '-' } else { '+' };
                write!(f, "{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
        }
    }
}

/// Splits a time into its clock and its offset, `Z` or `+08:00`. `-00:00` is an unknown offset:
/// `None`.
fn split_offset(text: &str) -> Option<(&str, Option<i32>)> {
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, Some(0)));
    }
    let at = text.rfind(['+', '-'])?;
    let (clock, offset) = text.split_at_checked(at)?;
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let (hours, minutes) = (digits(hours, 2)?, digits(minutes, 2)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let total = i32::try_from(hours * 60 + minutes).ok()?;
    Some((
        clock,
        match (offset.starts_with('-'), total) {
            (true, 0) => None,
            (true, total) => Some(-total),
            (false, total) => Some(total),
        },
    ))
}

/// Parses a number of exactly `count` digits.
fn digits(text: &str, count: usize) -> Option<u32> {
    if text.len() == count && text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn month_days(year: i32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Returns days since 1970-01-01 in the proleptic Gregorian calendar, the inverse of
/// [`civil_from_days`].
fn days_from_civil(year: i32, month: u32, day: u32) -> i64 {
    let shifted = i64::from(if month <= 2 { year - 1 } else { year });
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let month = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let day_of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Returns year, month and day in the proleptic Gregorian calendar of a day since 1970-01-01, by
/// Howard Hinnant's algorithm.
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, u32::try_from(month).unwrap_or(1), u32::try_from(day).unwrap_or(1))
}

#[cfg(test)]
mod tests;
