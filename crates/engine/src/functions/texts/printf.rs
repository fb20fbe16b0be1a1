//! `printf('%d of %s', 1, 'x')` and `format('{} of {}', 1, 'x')`.
//!
//! | part | meaning |
//! | --- | --- |
//! | `%d`, `%5d`, `%05d`, `%,d` | a whole number, filled with blanks or zeros, with separators |
//! | `%x`, `%X`, `%o` | a whole number in base 16 or 8 |
//! | `%f`, `%.2f`, `%e` | a number with places, with an exponent |
//! | `%s`, `%-8s` | any value as text, filled to the right |
//! | `{}`, `{0}`, `{:>8}`, `{:05d}`, `{:.2f}`, `{:,}` | the same, in the order of the values or by number |

use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, StringArray, StringBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::ScalarUDF;
use pushdowndb_contract::Error;

use super::super::simple::Simple;
use crate::error::to_datafusion;

/// Maximum width that a value is padded to, and maximum number of places of a number.
const MAX_WIDTH: usize = 1_000;

/// Returns the functions of this module.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let takes = |types: &[DataType]| match types {
        [format, values @ ..] if format.is_string() || format.is_null() => {
            let value = |own: &DataType| if own.is_string() { DataType::Utf8 } else { own.clone() };
            Ok([DataType::Utf8].into_iter().chain(values.iter().map(value)).collect())
        }
        _ => plan_err!("printf and format take a format, a text, and values"),
    };
    let returns = |_: &[DataType]| Ok(DataType::Utf8);
    let printf =
        Simple { name: "printf", takes, returns, compute: |args, rows| all(args, rows, printf), simplify: None };
    let braces =
        Simple { name: "format", takes, returns, compute: |args, rows| all(args, rows, braces), simplify: None };
    vec![printf.function(), braces.function()]
}

/// The values of one argument.
enum Values {
    Whole(Decimal128Array),
    Number(Float64Array),
    Text(StringArray),
}

impl Values {
    fn of(values: &ArrayRef) -> Result<Self> {
        Ok(match values.data_type() {
            whole if whole.is_integer() => {
                Self::Whole(cast(values, &DataType::Decimal128(38, 0))?.as_primitive::<Decimal128Type>().clone())
            }
            DataType::Float32
            | DataType::Float64
            | DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => {
                Self::Number(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
            }
            _ => Self::Text(cast(values, &DataType::Utf8)?.as_string::<i32>().clone()),
        })
    }

    fn value(&self, row: usize) -> Option<Value<'_>> {
        match self {
            Self::Whole(values) => values.is_valid(row).then(|| Value::Whole(values.value(row))),
            Self::Number(values) => values.is_valid(row).then(|| Value::Number(values.value(row))),
            Self::Text(values) => values.is_valid(row).then(|| Value::Text(values.value(row))),
        }
    }
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Whole(i128),
    Number(f64),
    Text(&'a str),
}

/// Applies `write` to the format and the values of each row; NULL if one of them is NULL.
fn all(args: &[ArrayRef], rows: usize, write: fn(&str, &[Value<'_>]) -> Result<String, String>) -> Result<ArrayRef> {
    let [formats, values @ ..] = args else { return plan_err!("a format is expected") };
    let formats = formats.as_string::<i32>();
    let values = values.iter().map(Values::of).collect::<Result<Vec<_>>>()?;
    let mut texts = StringBuilder::new();
    for row in 0..rows {
        let own: Option<Vec<Value<'_>>> = values.iter().map(|values| values.value(row)).collect();
        match own.filter(|_| formats.is_valid(row)) {
            None => texts.append_null(),
            Some(own) => {
                let format = formats.value(row);
                let text = write(format, &own)
                    .map_err(|what| to_datafusion(Error::invalid(format!("the format '{format}': {what}"))))?;
                texts.append_value(text);
            }
        }
    }
    Ok(Arc::new(texts.finish()))
}

/// The format of one value.
#[derive(Clone, Copy)]
struct Spec {
    /// `<`, `>` or `^`; without one, numbers are aligned to the right.
    align: Option<char>,
    /// The alignment of texts if `align` is `None`.
    of_texts: char,
    fill: char,
    sign: bool,
    zeros: bool,
    separators: bool,
    width: usize,
    places: Option<usize>,
    kind: char,
}

impl Spec {
    const PLAIN: Self = Self {
        align: None,
        of_texts: '<',
        fill: ' ',
        sign: false,
        zeros: false,
        separators: false,
        width: 0,
        places: None,
        kind: 's',
    };

    fn write(&self, value: Value<'_>, text: &mut String) -> Result<(), String> {
        let (negative, digits) = match (self.kind, value) {
            ('d' | 'i' | 'u', Value::Whole(whole)) | ('s', Value::Whole(whole)) => {
                (whole < 0, self.separated(whole.unsigned_abs().to_string()))
            }
            ('x', Value::Whole(whole)) => (whole < 0, format!("{:x}", whole.unsigned_abs())),
            ('X', Value::Whole(whole)) => (whole < 0, format!("{:X}", whole.unsigned_abs())),
            ('o', Value::Whole(whole)) => (whole < 0, format!("{:o}", whole.unsigned_abs())),
            ('f' | 'e', Value::Whole(whole)) => return self.write(Value::Number(whole as f64), text),
            ('f', Value::Number(number)) => {
                (number.is_sign_negative(), self.separated(format!("{:.*}", self.places.unwrap_or(6), number.abs())))
            }
            ('e', Value::Number(number)) => {
                (number.is_sign_negative(), exponential(number.abs(), self.places.unwrap_or(6)))
            }
            ('s', Value::Number(number)) => {
                let digits = match self.places {
                    Some(places) => format!("{:.places$}", number.abs()),
                    None => format!("{:?}", number.abs()),
                };
                (number.is_sign_negative(), self.separated(digits))
            }
            ('s', Value::Text(own)) => {
                let cut: String = own.chars().take(self.places.unwrap_or(usize::MAX)).collect();
                self.pad(&cut, self.of_texts, text);
                return Ok(());
            }
            (kind, Value::Text(own)) => return Err(format!("{kind} takes a number, not '{own}'")),
            (kind, _) => return Err(format!("{kind} takes a whole number")),
        };
        let sign = if negative {
            "-"
        } else if self.sign {
            "+"
        } else {
            ""
        };
        let zeros = match self.zeros && self.align.is_none() {
            true => self.width.saturating_sub(sign.len() + digits.len()),
            false => 0,
        };
        self.pad(&format!("{sign}{}{digits}", "0".repeat(zeros)), '>', text);
        Ok(())
    }

    /// Appends `value`, padded to the width. `align` applies if the format has no alignment of its
    /// own.
    fn pad(&self, value: &str, align: char, text: &mut String) {
        let lacking = self.width.saturating_sub(value.chars().count());
        let before = match self.align.unwrap_or(align) {
            '<' => 0,
            '^' => lacking / 2,
            _ => lacking,
        };
        text.extend(std::iter::repeat_n(self.fill, before));
        text.push_str(value);
        text.extend(std::iter::repeat_n(self.fill, lacking - before));
    }

    fn separated(&self, digits: String) -> String {
        if !self.separators {
            return digits;
        }
        let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
        let mut text = String::new();
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        text + rest
    }
}

/// `1.5e+10`, with at least two digits of the exponent.
fn exponential(number: f64, places: usize) -> String {
    let text = format!("{number:.places$e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{digits}e{sign}{exponent:0>2}")
}

fn number(chars: &mut Peekable<Chars<'_>>) -> Result<Option<usize>, String> {
    let mut value: Option<usize> = None;
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        chars.next();
        let own = value.unwrap_or(0) * 10 + digit as usize;
        if own > MAX_WIDTH {
            return Err(format!("widths and places go up to {MAX_WIDTH}"));
        }
        value = Some(own);
    }
    Ok(value)
}

fn printf(format: &str, values: &[Value<'_>]) -> Result<String, String> {
    let (mut text, mut values, mut chars) = (String::new(), values.iter(), format.chars().peekable());
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let mut spec = Spec { of_texts: '>', ..Spec::PLAIN };
        loop {
            match chars.peek() {
                Some('-') => spec.align = Some('<'),
                Some('+') => spec.sign = true,
                Some('0') => spec.zeros = true,
                Some(',' | '\'') => spec.separators = true,
                Some(' ' | '#') => {}
                _ => break,
            }
            chars.next();
        }
        spec.width = number(&mut chars)?.unwrap_or(0);
        if chars.next_if_eq(&'.').is_some() {
            spec.places = Some(number(&mut chars)?.unwrap_or(0));
        }
        while chars.next_if(|c| matches!(c, 'l' | 'h')).is_some() {}
        match chars.next() {
            Some('%') => text.push('%'),
            Some(kind @ ('d' | 'i' | 'u' | 'x' | 'X' | 'o' | 'f' | 'e' | 's')) => {
                spec.kind = kind;
                let value = values.next().ok_or("there are fewer values than %")?;
                spec.write(*value, &mut text)?;
            }
            Some(kind) => return Err(format!("%{kind} is not supported")),
            None => return Err("it ends with a %".to_owned()),
        }
    }
    Ok(text)
}

fn braces(format: &str, values: &[Value<'_>]) -> Result<String, String> {
    let (mut text, mut next, mut chars) = (String::new(), 0, format.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '{' if chars.next_if_eq(&'{').is_some() => text.push('{'),
            '}' if chars.next_if_eq(&'}').is_some() => text.push('}'),
            '{' => {
                let at = number(&mut chars)?.unwrap_or(next);
                next = at + 1;
                let mut spec = Spec::PLAIN;
                if chars.next_if_eq(&':').is_some() {
                    read_spec(&mut chars, &mut spec)?;
                }
                if chars.next() != Some('}') {
                    return Err("a { is not closed, or holds what is not supported".to_owned());
                }
                let value = values.get(at).ok_or("there are fewer values than braces")?;
                spec.write(*value, &mut text)?;
            }
            c => text.push(c),
        }
    }
    Ok(text)
}

/// Reads `[[fill]align][+][0][width][,][.places][kind]`.
fn read_spec(chars: &mut Peekable<Chars<'_>>, spec: &mut Spec) -> Result<(), String> {
    let is_align = |c: Option<&char>| matches!(c, Some('<' | '>' | '^'));
    let mut ahead = chars.clone();
    ahead.next();
    if is_align(ahead.peek()) {
        spec.fill = chars.next().unwrap_or(' ');
    }
    if is_align(chars.peek()) {
        spec.align = chars.next();
    }
    spec.sign = chars.next_if_eq(&'+').is_some();
    spec.zeros = chars.next_if_eq(&'0').is_some();
    spec.width = number(chars)?.unwrap_or(0);
    spec.separators = chars.next_if_eq(&',').is_some();
    if chars.next_if_eq(&'.').is_some() {
        spec.places = Some(number(chars)?.unwrap_or(0));
    }
    if let Some(kind) = chars.next_if(|c| matches!(c, 'd' | 'x' | 'X' | 'o' | 'f' | 'e' | 's')) {
        spec.kind = kind;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_write_as_in_duckdb() {
        let values = [Value::Whole(5), Value::Text("x"), Value::Number(1.5), Value::Whole(-42), Value::Whole(255)];
        assert_eq!(printf("%d-%s-%.2f-%05d-%x 100%%", &values).unwrap(), "5-x-1.50--0042-ff 100%");
        assert_eq!(
            printf("%,d|%5s|%-5s|", &[Value::Whole(1_234_567), Value::Text("a"), Value::Text("b")]).unwrap(),
            "1,234,567|    a|b    |"
        );
        assert_eq!(printf("%e", &[Value::Number(12345.678)]).unwrap(), "1.234568e+04");
        assert_eq!(
            braces("{1}{0}{{}} {:>5}|{:*^5}|{:05d}", &[Value::Whole(1), Value::Text("a"), Value::Whole(7)])
                .unwrap_err(),
            "there are fewer values than braces"
        );
        assert_eq!(
            braces("{} {} {:.1f} {:,}", &[Value::Text("a"), Value::Whole(1), Value::Number(2.25), Value::Whole(1000)])
                .unwrap(),
            "a 1 2.2 1,000"
        );
        assert_eq!(braces("{1} {0}", &[Value::Text("a"), Value::Text("b")]).unwrap(), "b a");
        assert_eq!(
            braces("{:>5}|{:*^5}|{:05d}", &[Value::Text("a"), Value::Text("b"), Value::Whole(42)]).unwrap(),
            "    a|**b**|00042"
        );
        assert!(printf("%d", &values[1..]).unwrap_err().contains("takes a number"));
        assert!(printf("%99999d", &values).unwrap_err().contains("1000"));
        assert!(printf("%d %d", &values[..1]).unwrap_err().contains("fewer values"));
    }
}
