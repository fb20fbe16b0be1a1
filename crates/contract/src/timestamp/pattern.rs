//! Format patterns of TO_STRING and TO_TIMESTAMP, such as `MMMM d, y h:m a`.
//!
//! Letters are symbols, and the number of repetitions selects a form. Text in single quotes and all
//! other characters are literal. A pattern for parsing must have each field once, and must not skip
//! a field that is coarser than another.

use super::{DatePart, Precision, Timestamp};
use crate::{Error, Result};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The longest pattern, in bytes.
const PATTERN_BYTES: usize = 1024;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Symbol {
    Year,
    Month,
    Day,
    HalfDay,
    /// 1 to 12.
    ClockHour,
    /// 0 to 23.
    Hour,
    Minute,
    Second,
    Fraction,
    Nanos,
    /// An offset, formatted as `Z` if it is 0.
    OffsetOrZ,
    Offset,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Item {
    Symbol(Symbol, usize),
    Text(String),
}

/// A valid pattern.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pattern {
    items: Vec<Item>,
}

fn invalid(code: &'static str, message: String) -> Error {
    Error::invalid(message).with_code(code)
}

impl Pattern {
    /// Parses a pattern.
    pub fn parse(pattern: &str) -> Result<Self> {
        if pattern.len() > PATTERN_BYTES {
            let message = format!("a timestamp pattern has at most {PATTERN_BYTES} bytes");
            return Err(invalid("EvaluatorInvalidTimestampFormatPattern", message));
        }
        let mut items = Vec::new();
        let mut text = String::new();
        let mut rest = pattern.chars().peekable();
        while let Some(c) = rest.next() {
            if c == '\'' {
                if rest.next_if_eq(&'\'').is_some() {
                    text.push('\'');
                    continue;
                }
                loop {
                    match rest.next() {
                        Some('\'') if rest.next_if_eq(&'\'').is_some() => text.push('\''),
                        Some('\'') => break,
                        Some(c) => text.push(c),
                        None => {
                            let message = format!("the quote in the timestamp pattern {pattern} does not end");
                            return Err(invalid("EvaluatorUnterminatedTimestampFormatPatternToken", message));
                        }
                    }
                }
            } else if c.is_ascii_alphabetic() {
                let mut count = 1;
                while rest.next_if_eq(&c).is_some() {
                    count += 1;
                }
                if !text.is_empty() {
                    items.push(Item::Text(std::mem::take(&mut text)));
                }
                items.push(Item::Symbol(symbol(c, count)?, count));
            } else {
                text.push(c);
            }
        }
        if !text.is_empty() {
            items.push(Item::Text(text));
        }
        Ok(Self { items })
    }

    /// Formats a timestamp.
    pub fn format(&self, timestamp: &Timestamp) -> String {
        let mut out = String::new();
        for item in &self.items {
            match item {
                Item::Text(text) => out.push_str(text),
                Item::Symbol(symbol, count) => format_symbol(*symbol, *count, timestamp, &mut out),
            }
        }
        out
    }

    /// Checks that the pattern can be used to parse text.
    pub fn for_reading(&self) -> Result<()> {
        let count = |wanted: &[Symbol]| {
            let symbols = self.items.iter().filter(|item| matches!(item, Item::Symbol(s, _) if wanted.contains(s)));
            symbols.count()
        };
        if self.items.contains(&Item::Symbol(Symbol::Month, 5)) {
            let message = "MMMMM, the first letter of a month, cannot be read back".to_owned();
            return Err(invalid("EvaluatorInvalidTimestampFormatPatternSymbolForParsing", message));
        }
        let fields: [&[Symbol]; 8] = [
            &[Symbol::Year],
            &[Symbol::Month],
            &[Symbol::Day],
            &[Symbol::Hour, Symbol::ClockHour],
            &[Symbol::Minute],
            &[Symbol::Second],
            &[Symbol::Fraction, Symbol::Nanos],
            &[Symbol::OffsetOrZ, Symbol::Offset],
        ];
        if fields.iter().any(|field| count(field) > 1) || count(&[Symbol::HalfDay]) > 1 {
            let message = "a timestamp pattern that reads text names each field once".to_owned();
            return Err(invalid("EvaluatorTimestampFormatPatternDuplicateFields", message));
        }
        let clock = count(&[Symbol::ClockHour]) > 0;
        if clock != (count(&[Symbol::HalfDay]) > 0) {
            let message = "in a timestamp pattern h goes with a, and H without".to_owned();
            return Err(invalid("EvaluatorTimestampFormatPatternHourClockAmPmMismatch", message));
        }
        // A field requires all coarser fields, and an offset requires a time.
        let present: Vec<bool> = fields.iter().map(|field| count(field) > 0).collect();
        let time = present.get(..7).unwrap_or_default();
        let gap = time.iter().zip(time.iter().skip(1)).any(|(coarse, fine)| *fine && !*coarse);
        let offset_alone = present.get(7) == Some(&true) && present.get(3) == Some(&false);
        if gap || offset_alone || present.first() == Some(&false) {
            let message = "a timestamp pattern that reads text needs a year, and no field without the coarser ones";
            return Err(invalid("EvaluatorInvalidTimestampFormatPattern", message.to_owned()));
        }
        Ok(())
    }

    /// Parses a timestamp, which gets the pattern's precision. Returns `None` if `text` does not
    /// match.
    pub fn read(&self, text: &str) -> Option<Timestamp> {
        let mut read = Read { rest: text, ..Read::default() };
        for item in &self.items {
            match item {
                Item::Text(text) => read.rest = read.rest.strip_prefix(text.as_str())?,
                Item::Symbol(symbol, count) => read.symbol(*symbol, *count)?,
            }
        }
        if read.rest.is_empty() { read.finish() } else { None }
    }
}

fn symbol(c: char, count: usize) -> Result<Symbol> {
    let (symbol, counts): (_, &[usize]) = match c {
        'y' => (Symbol::Year, &[1, 2, 4]),
        'M' => (Symbol::Month, &[1, 2, 3, 4, 5]),
        'd' => (Symbol::Day, &[1, 2]),
        'a' => (Symbol::HalfDay, &[1]),
        'h' => (Symbol::ClockHour, &[1, 2]),
        'H' => (Symbol::Hour, &[1, 2]),
        'm' => (Symbol::Minute, &[1, 2]),
        's' => (Symbol::Second, &[1, 2]),
        'S' => (Symbol::Fraction, &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
        'n' => (Symbol::Nanos, &[1]),
        'X' => (Symbol::OffsetOrZ, &[1, 2, 3, 4, 5]),
        'x' => (Symbol::Offset, &[1, 2, 3, 4, 5]),
        other => {
            let message = format!("'{other}' is no symbol of a timestamp pattern");
            return Err(invalid("EvaluatorInvalidTimestampFormatPatternSymbol", message));
        }
    };
    if counts.contains(&count) {
        return Ok(symbol);
    }
    let message = format!("'{c}' {count} times is no symbol of a timestamp pattern");
    Err(invalid("EvaluatorInvalidTimestampFormatPatternToken", message))
}

fn format_symbol(symbol: Symbol, count: usize, timestamp: &Timestamp, out: &mut String) {
    let padded = |value: i64| format!("{value:0count$}");
    let month = usize::try_from(timestamp.month).unwrap_or(1);
    let name = MONTHS.get(month.saturating_sub(1)).copied().unwrap_or_default();
    let text = match symbol {
        Symbol::Year if count == 2 => format!("{:02}", timestamp.year % 100),
        Symbol::Year => padded(timestamp.part(DatePart::Year)),
        Symbol::Month => match count {
            3 => name.get(..3).unwrap_or_default().to_owned(),
            4 => name.to_owned(),
            5 => name.get(..1).unwrap_or_default().to_owned(),
            _ => padded(timestamp.part(DatePart::Month)),
        },
        Symbol::Day => padded(timestamp.part(DatePart::Day)),
        Symbol::HalfDay => if timestamp.hour < 12 { "AM" } else { "PM" }.to_owned(),
        Symbol::ClockHour => padded(i64::from((timestamp.hour + 11) % 12 + 1)),
        Symbol::Hour => padded(timestamp.part(DatePart::Hour)),
        Symbol::Minute => padded(timestamp.part(DatePart::Minute)),
        Symbol::Second => padded(timestamp.part(DatePart::Second)),
        Symbol::Fraction => {
            let digits = format!("{:09}", timestamp.nanos);
            digits.get(..count).unwrap_or(&digits).to_owned()
        }
        Symbol::Nanos => timestamp.nanos.to_string(),
        Symbol::OffsetOrZ if timestamp.offset.unwrap_or(0) == 0 => "Z".to_owned(),
        Symbol::OffsetOrZ | Symbol::Offset => offset_text(timestamp.offset.unwrap_or(0), count),
    };
    out.push_str(&text);
}

/// Formats an offset. One letter: hours, and minutes unless they are 0. Two or four letters: both.
/// Three or five letters: both with a colon between them.
fn offset_text(offset: i32, count: usize) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
    match count {
        1 if minutes == 0 => format!("{sign}{hours:02}"),
        1 | 2 | 4 => format!("{sign}{hours:02}{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}"),
    }
}

/// The state of parsing.
#[derive(Default)]
struct Read<'a> {
    rest: &'a str,
    year: u32,
    month: Option<u32>,
    day: Option<u32>,
    hour: Option<u32>,
    afternoon: Option<bool>,
    minute: u32,
    second: Option<u32>,
    fraction: Option<(u32, u8)>,
    offset: Option<i32>,
}

impl Read<'_> {
    fn symbol(&mut self, symbol: Symbol, count: usize) -> Option<()> {
        match symbol {
            Symbol::Year if count == 2 => {
                let short = self.number(2, 2)?;
                self.year = if short < 70 { 2000 + short } else { 1900 + short };
            }
            Symbol::Year => self.year = self.number(if count == 4 { 4 } else { 1 }, 4)?,
            Symbol::Month if count > 2 => self.month = Some(self.month_name(count == 3)?),
            Symbol::Month => self.month = Some(self.number(count, 2)?),
            Symbol::Day => self.day = Some(self.number(count, 2)?),
            Symbol::HalfDay => {
                let (word, rest) = self.rest.split_at_checked(2)?;
                self.afternoon = Some(match word.to_ascii_uppercase().as_str() {
                    "AM" => false,
                    "PM" => true,
                    _ => return None,
                });
                self.rest = rest;
            }
            Symbol::ClockHour => {
                let hour = self.number(count, 2)?;
                if !(1..=12).contains(&hour) {
                    return None;
                }
                self.hour = Some(hour % 12);
            }
            Symbol::Hour => self.hour = Some(self.number(count, 2)?),
            Symbol::Minute => self.minute = self.number(count, 2)?,
            Symbol::Second => self.second = Some(self.number(count, 2)?),
            Symbol::Fraction => {
                let value = self.number(count, count)?;
                let places = u32::try_from(count).ok()?;
                self.fraction = Some((value * 10u32.pow(9u32.checked_sub(places)?), u8::try_from(count).ok()?));
            }
            Symbol::Nanos => self.fraction = Some((self.number(1, 9)?, 9)),
            Symbol::OffsetOrZ | Symbol::Offset => {
                if symbol == Symbol::OffsetOrZ
                    && let Some(rest) = self.rest.strip_prefix('Z')
                {
                    self.offset = Some(0);
                    self.rest = rest;
                } else {
                    self.offset = Some(self.offset(count)?);
                }
            }
        }
        Some(())
    }

    /// Parses a number of `min` to `max` digits.
    fn number(&mut self, min: usize, max: usize) -> Option<u32> {
        let length = self.rest.bytes().take(max).take_while(u8::is_ascii_digit).count();
        if length < min {
            return None;
        }
        let (digits, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        digits.parse().ok()
    }

    fn month_name(&mut self, short: bool) -> Option<u32> {
        for (number, name) in (1..).zip(MONTHS) {
            let name = if short { name.get(..3)? } else { name };
            if let Some((word, rest)) = self.rest.split_at_checked(name.len())
                && word.eq_ignore_ascii_case(name)
            {
                self.rest = rest;
                return Some(number);
            }
        }
        None
    }

    fn offset(&mut self, count: usize) -> Option<i32> {
        let negative = self.rest.starts_with('-');
        self.rest = self.rest.strip_prefix(['+', '-'])?;
        let hours = self.number(2, 2)?;
        let minutes = match count {
            1 if !self.rest.starts_with(|c: char| c.is_ascii_digit()) => 0,
            1 | 2 | 4 => self.number(2, 2)?,
            _ => {
                self.rest = self.rest.strip_prefix(':')?;
                self.number(2, 2)?
            }
        };
        if hours > 23 || minutes > 59 {
            return None;
        }
        let total = i32::try_from(hours * 60 + minutes).ok()?;
        Some(if negative { -total } else { total })
    }

    fn finish(self) -> Option<Timestamp> {
        let date = Timestamp::date(i32::try_from(self.year).ok()?, self.month.unwrap_or(1), self.day.unwrap_or(1))?;
        let hour = self.hour.map(|hour| if self.afternoon == Some(true) { hour + 12 } else { hour });
        let precision = match (self.month, self.day, hour, self.second) {
            (None, ..) => Precision::Year,
            (_, None, ..) => Precision::Month,
            (_, _, None, _) => Precision::Day,
            (_, _, _, None) => Precision::Minute,
            _ => Precision::Second(self.fraction.map_or(0, |(_, places)| places)),
        };
        let (hour, second) = (hour.unwrap_or(0), self.second.unwrap_or(0));
        let valid = hour < 24 && self.minute < 60 && second < 60;
        valid.then_some(Timestamp {
            precision,
            hour,
            minute: self.minute,
            second,
            nanos: self.fraction.map_or(0, |(nanos, _)| nanos),
            offset: self.offset,
            ..date
        })
    }
}
