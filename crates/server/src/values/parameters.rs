//! Values of parameters, parsed from PostgreSQL's text or binary format.

use pushdowndb_contract::{Error, Result};
use pushdowndb_engine::ParameterValue;

use super::calendar::{self, EPOCH_DAYS, EPOCH_MICROS};
use super::types::of_parameter;
use super::{Format, numeric, text};

/// Maximum elements of a list.
const MAX_ELEMENTS: usize = 1 << 20;

/// Parses the value of the parameter `number`, counted from 1, whose type is `oid`; `None` is NULL.
///
/// # Errors
///
/// The bytes are not a value of the type in this format.
pub(crate) fn read(value: Option<&[u8]>, oid: u32, format: Format, number: usize) -> Result<ParameterValue> {
    let Some(bytes) = value else { return Ok(ParameterValue::Null) };
    let read = match format {
        Format::Text => std::str::from_utf8(bytes).ok().and_then(|text| from_text(text, oid)),
        Format::Binary => from_binary(bytes, oid),
    };
    read.ok_or_else(|| {
        let kind = if format == Format::Text { "text" } else { "binary" };
        Error::invalid(format!("parameter ${number} is no {kind} value of the type with oid {oid}"))
    })
}

fn from_text(value: &str, oid: u32) -> Option<ParameterValue> {
    if value.contains('\0') {
        return None;
    }
    if let Some(element) = element_of(oid) {
        let elements = text::parse_list(value)?;
        let elements = elements.into_iter().map(|element_value| match element_value {
            None => Some(ParameterValue::Null),
            Some(value) => from_text(&value, element),
        });
        return elements.collect::<Option<_>>().map(ParameterValue::List);
    }
    match oid {
        17 => text::parse_bytea(value).map(ParameterValue::Bytes),
        // Removes the time zone offset that the Java driver writes after a date.
        1082 => value.split(' ').next().map(|date| ParameterValue::Text(date.to_owned())),
        _ => Some(ParameterValue::Text(value.to_owned())),
    }
}

fn from_binary(bytes: &[u8], oid: u32) -> Option<ParameterValue> {
    if element_of(oid).is_some() {
        return list(bytes);
    }
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).ok()
    };
    let text = match oid {
        16 => match bytes {
            [0] => "false".to_owned(),
            [1] => "true".to_owned(),
            _ => return None,
        },
        17 => return Some(ParameterValue::Bytes(bytes.to_vec())),
        20 => i64::from_be_bytes(bytes.try_into().ok()?).to_string(),
        21 => i16::from_be_bytes(bytes.try_into().ok()?).to_string(),
        23 => i32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        26 => u32::from_be_bytes(bytes.try_into().ok()?).to_string(),
        700 => written(&|out| text::float4(f32::from_be_bytes(bytes.try_into().unwrap_or_default()), out))
            .filter(|_| bytes.len() == 4)?,
        701 => written(&|out| text::float8(f64::from_be_bytes(bytes.try_into().unwrap_or_default()), out))
            .filter(|_| bytes.len() == 8)?,
        1082 => {
            let days = i64::from(i32::from_be_bytes(bytes.try_into().ok()?)) + EPOCH_DAYS;
            written(&|out| calendar::date(days, out))?
        }
        1083 => {
            let micros = i64::from_be_bytes(bytes.try_into().ok()?);
            written(&|out| calendar::time(micros, out))?
        }
        1114 | 1184 => {
            let micros = i64::from_be_bytes(bytes.try_into().ok()?).checked_add(EPOCH_MICROS)?;
            written(&|out| calendar::timestamp(micros, oid == 1184, out))?
        }
        1186 => {
            let (micros, rest) = bytes.split_first_chunk::<8>()?;
            let (days, rest) = rest.split_first_chunk::<4>()?;
            let months = i32::from_be_bytes(rest.try_into().ok()?);
            let (micros, days) = (i64::from_be_bytes(*micros), i32::from_be_bytes(*days));
            // Written with units that every parser of intervals accepts, each part with its sign.
            let seconds = micros / 1_000_000;
            let fraction = (micros % 1_000_000).abs();
            let sign = if micros < 0 && seconds == 0 { "-" } else { "" };
            format!("{months} months {days} days {sign}{seconds}.{fraction:06} seconds")
        }
        1700 => numeric::read(bytes)?,
        2950 => {
            let id: [u8; 16] = bytes.try_into().ok()?;
            let hex = |part: &[u8]| part.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let parts = [&id[0..4], &id[4..6], &id[6..8], &id[8..10], &id[10..16]].map(hex);
            parts.join("-")
        }
        // `jsonb` begins with a version byte.
        3802 => std::str::from_utf8(bytes.strip_prefix(&[1])?).ok()?.to_owned(),
        _ => std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?.to_owned(),
    };
    Some(ParameterValue::Text(text))
}

/// The `oid` of the elements of an array type; `None` for other types.
fn element_of(oid: u32) -> Option<u32> {
    Some(match oid {
        1000 => 16,
        1001 => 17,
        1005 => 21,
        1007 => 23,
        1016 => 20,
        1021 => 700,
        1022 => 701,
        1028 => 26,
        1115 => 1114,
        1182 => 1082,
        1183 => 1083,
        1185 => 1184,
        1231 => 1700,
        1002 | 1003 | 1009 | 1014 | 1015 => 25,
        2951 => 2950,
        _ => return None,
    })
}

fn list(bytes: &[u8]) -> Option<ParameterValue> {
    let word = |bytes: &mut &[u8]| {
        let (word, rest) = bytes.split_first_chunk::<4>()?;
        *bytes = rest;
        Some(i32::from_be_bytes(*word))
    };
    let mut rest = bytes;
    let dimensions = word(&mut rest)?;
    let _has_nulls = word(&mut rest)?;
    let element = word(&mut rest)?.cast_unsigned();
    let length = match dimensions {
        0 => 0,
        1 => {
            let length = usize::try_from(word(&mut rest)?).ok()?;
            let _lower_bound = word(&mut rest)?;
            length
        }
        _ => return None,
    };
    // Each element takes at least the 4 bytes of its length.
    if length > MAX_ELEMENTS || length > rest.len() / 4 {
        return None;
    }
    // Nested lists are not supported: there are no types for them.
    if element_of(element).is_some() || (of_parameter(element).is_none() && element != 705) {
        return None;
    }
    let mut values = Vec::with_capacity(length);
    for _ in 0..length {
        let value = match word(&mut rest)? {
            -1 => ParameterValue::Null,
            size => {
                let (value, after) = rest.split_at_checked(usize::try_from(size).ok()?)?;
                rest = after;
                from_binary(value, element)?
            }
        };
        values.push(value);
    }
    rest.is_empty().then_some(ParameterValue::List(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(bytes: &[u8], oid: u32) -> Option<String> {
        match read(Some(bytes), oid, Format::Binary, 1) {
            Ok(ParameterValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    #[test]
    fn binary_values_are_read() {
        assert_eq!(binary(&i64::MIN.to_be_bytes(), 20).as_deref(), Some("-9223372036854775808"));
        assert_eq!(binary(&1.5_f64.to_be_bytes(), 701).as_deref(), Some("1.5"));
        assert_eq!(binary(&0_i32.to_be_bytes(), 1082).as_deref(), Some("2000-01-01"));
        assert_eq!(binary(&1_i64.to_be_bytes(), 1114).as_deref(), Some("2000-01-01 00:00:00.000001"));
        let interval = [(-1_500_000_i64).to_be_bytes().to_vec(), 3_i32.to_be_bytes().to_vec(), vec![0, 0, 0, 2]];
        assert_eq!(binary(&interval.concat(), 1186).as_deref(), Some("2 months 3 days -1.500000 seconds"));
        assert_eq!(binary(&[0x11; 16], 2950).as_deref(), Some("11111111-1111-1111-1111-111111111111"));
    }

    #[test]
    fn lists_are_read_and_their_lengths_not_believed() {
        let words = |words: &[i32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
        let list = |bytes: &[u8]| read(Some(bytes), 1007, Format::Binary, 1);
        let values = vec![ParameterValue::Text("7".to_owned()), ParameterValue::Null];
        assert_eq!(list(&words(&[1, 1, 23, 2, 1, 4, 7, -1])).unwrap(), ParameterValue::List(values));
        assert_eq!(list(&words(&[0, 0, 23])).unwrap(), ParameterValue::List(vec![]));
        for wrong in [
            &[1, 0, 23, i32::MAX, 1][..],
            &[1, 0, 23, -1, 1],
            &[1, 0, 1007, 1, 1, 4, 7],
            &[2, 0, 23, 1, 1, 1, 1, 4, 7],
            &[1, 0, 23, 1, 1, 400, 7],
            &[1],
        ] {
            assert!(list(&words(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn wrong_lengths_are_refused() {
        for oid in [16, 20, 21, 23, 26, 700, 701, 1082, 1083, 1114, 1186, 1700, 2950, 3802] {
            assert!(read(Some(&[9, 9, 9]), oid, Format::Binary, 1).is_err(), "{oid}");
        }
        assert!(read(Some(b"\xff"), 25, Format::Text, 1).is_err());
    }
}
