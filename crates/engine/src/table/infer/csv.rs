//! What a sample of delimited text says about its delimiter, its header and its columns' types.
//!
//! A first record is a header when each of its fields is text (no number, date or BOOLEAN), none is empty and no two
//! are equal; whoever has columns named by years says so with `has_header`. The tokenizer here keeps the same
//! rules as the scan's, over a sample and with room to spare.

use std::collections::HashSet;

use pushdown::{CsvOptions, NullRule};

use super::merge::Column;
use super::sample::Sample;
use super::value::{Look, Seen};
use crate::table::TableOptions;

/// What is tried when the delimiter is not declared, the most usual first.
const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];

/// How many records a delimiter is judged by.
const SNIFFED_RECORDS: usize = 200;

/// Settles what the options left open about the delimiter, the header and line ends in quotes.
pub(super) fn sniff(sample: &Sample, base: &CsvOptions, declared: &TableOptions) -> CsvOptions {
    let mut csv = base.clone();
    if declared.delimiter.is_none() && base.delimiter == CsvOptions::default().delimiter {
        csv.delimiter = sniff_delimiter(sample, &csv);
    }
    let records = records(sample, &csv, usize::MAX);
    if declared.header.is_none() {
        csv.header = records.first().is_some_and(|first| is_header(first));
    }
    if declared.newlines_in_values.is_none() {
        csv.newlines_in_values = records.iter().flatten().any(|field| field.contains('\n'));
    }
    csv
}

/// The delimiter that splits most records alike; of equals the one that makes more fields.
fn sniff_delimiter(sample: &Sample, csv: &CsvOptions) -> u8 {
    let score = |delimiter: u8| {
        let csv = CsvOptions { delimiter, ..csv.clone() };
        let widths: Vec<usize> = records(sample, &csv, SNIFFED_RECORDS).iter().map(Vec::len).collect();
        let alike = |width: usize| widths.iter().filter(|w| **w == width).count();
        let best = widths.iter().copied().filter(|w| *w > 1).map(|w| (alike(w), w)).max();
        best.map(|(count, width)| (count, width, delimiter))
    };
    let mut best: Option<(usize, usize, u8)> = None;
    for found in DELIMITERS.into_iter().filter_map(score) {
        if best.is_none_or(|(count, width, _)| (found.0, found.1) > (count, width)) {
            best = Some(found);
        }
    }
    best.map_or(csv.delimiter, |(_, _, delimiter)| delimiter)
}

fn is_header(first: &[String]) -> bool {
    let mut seen = HashSet::new();
    first.iter().all(|field| !field.is_empty() && Look::of(field) == Look::Text && seen.insert(field))
}

/// The columns of an object with their types, where a value showed one; `None` if there is not even a header.
pub(super) fn columns(sample: &Sample, csv: &CsvOptions, max_records: usize) -> Option<Vec<Column>> {
    let records = records(sample, csv, max_records.saturating_add(usize::from(csv.header)));
    let (first, rest) = records.split_first()?;
    let (names, rows) = if csv.header {
        (header_names(first), rest)
    } else {
        ((1..=first.len()).map(|n| format!("column_{n}")).collect(), records.as_slice())
    };
    let mut seen = vec![Seen::default(); names.len()];
    for row in rows {
        for (seen, field) in seen.iter_mut().zip(row) {
            if !is_null(field, &csv.null) {
                seen.add(field);
            }
        }
    }
    Some(names.into_iter().zip(seen).map(|(name, seen)| Column { name, data_type: seen.data_type() }).collect())
}

fn is_null(field: &str, rule: &NullRule) -> bool {
    match rule {
        NullRule::Empty => field.is_empty(),
        NullRule::Text(text) => field.is_empty() || field == text,
        NullRule::Never => false,
    }
}

/// The names in a header: a column without one is called by its place, a second of a name gets a number.
pub(crate) fn header_names(first: &[String]) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut names = Vec::with_capacity(first.len());
    for (index, name) in first.iter().enumerate() {
        let plain = if name.is_empty() { format!("column_{}", index + 1) } else { name.clone() };
        let mut name = plain.clone();
        let mut number = 2;
        while !taken.insert(name.clone()) {
            name = format!("{plain}_{number}");
            number += 1;
        }
        names.push(name);
    }
    names
}

/// The records of a sample; a last one that the end of the sample cut is left out.
pub(super) fn records(sample: &Sample, csv: &CsvOptions, max: usize) -> Vec<Vec<String>> {
    let mut rest = sample.bytes.as_ref();
    let mut records = Vec::new();
    while !rest.is_empty() && records.len() < max {
        let record = next_record(rest, csv);
        if record.is_cut && !sample.is_whole {
            break;
        }
        let is_comment = csv.comment.is_some() && rest.first().copied() == csv.comment;
        let is_blank = record.fields.len() == 1 && record.length <= 2 && record.fields.iter().all(String::is_empty);
        if !is_comment && !is_blank {
            records.push(record.fields);
        }
        rest = rest.get(record.length..).unwrap_or_default();
    }
    records
}

struct Record {
    fields: Vec<String>,
    /// With its line end.
    length: usize,
    /// Whether the bytes ended before the record did.
    is_cut: bool,
}

/// Reads up to the first line end outside quotes.
fn next_record(bytes: &[u8], csv: &CsvOptions) -> Record {
    let (mut fields, mut field) = (Vec::new(), Vec::new());
    let (mut in_quotes, mut is_start) = (false, true);
    let mut at = 0;
    let text = |field: &mut Vec<u8>| String::from_utf8_lossy(&std::mem::take(field)).into_owned();
    // A comment's quotes and delimiters mean nothing.
    let is_comment = csv.comment.is_some() && bytes.first().copied() == csv.comment;
    while let Some(&byte) = bytes.get(at) {
        let next = bytes.get(at + 1).copied();
        at += 1;
        let is_quote = csv.quote == Some(byte) && !is_comment;
        if in_quotes {
            if csv.escape == Some(byte) && next.is_some() {
                field.extend(next);
                at += 1;
            } else if is_quote && csv.escape.is_none() && next == csv.quote {
                field.push(byte);
                at += 1;
            } else if is_quote {
                in_quotes = false;
            } else {
                field.push(byte);
            }
        } else if is_quote && is_start {
            (in_quotes, is_start) = (true, false);
        } else if byte == csv.delimiter && !is_comment {
            fields.push(text(&mut field));
            is_start = true;
        } else if byte == csv.terminator.unwrap_or(b'\n') {
            if csv.terminator.is_none() && field.last() == Some(&b'\r') {
                field.pop();
            }
            fields.push(text(&mut field));
            return Record { fields, length: at, is_cut: false };
        } else {
            field.push(byte);
            is_start = false;
        }
    }
    fields.push(text(&mut field));
    Record { fields, length: at, is_cut: true }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    fn whole(text: &str) -> Sample {
        Sample { bytes: text.to_owned().into(), is_whole: true }
    }

    fn sniffed(text: &str) -> CsvOptions {
        sniff(&whole(text), &CsvOptions::default(), &TableOptions::default())
    }

    #[test]
    fn records_follow_the_quotes() {
        let csv = CsvOptions::default();
        let sample = whole("a,\"b,\"\"c\"\"\nd\",\r\n\r\n,e\n\"\"\nlast");
        assert_eq!(
            records(&sample, &csv, 99),
            [vec!["a", "b,\"c\"\nd", ""], vec!["", "e"], vec![""], vec!["last"]]
                .map(|r| r.iter().map(|s| s.to_string()).collect::<Vec<_>>())
        );
        let cut = Sample { is_whole: false, ..sample };
        assert_eq!(records(&cut, &csv, 99).len(), 3);
        let csv = CsvOptions { escape: Some(b'\\'), comment: Some(b'#'), ..csv };
        let sample = whole("#it's \"a comment\n\"x\\\"y\",1\n");
        assert_eq!(records(&sample, &csv, 99), [["x\"y", "1"].map(String::from)]);
    }

    #[test]
    fn delimiters_are_found() {
        assert_eq!(sniffed("a;b;c\n1,5;2;3\n1,7;2;3\n").delimiter, b';');
        assert_eq!(sniffed("a\tb\n1\t2\n").delimiter, b'\t');
        assert_eq!(sniffed("a|b\n\"x|y\"|2\n").delimiter, b'|');
        assert_eq!(sniffed("one\ntwo, or more\n").delimiter, b',');
        assert_eq!(sniffed("one\ntwo\n").delimiter, b',');
    }

    #[test]
    fn headers_are_text_that_names() {
        assert!(sniffed("id,name\n1,a\n").header);
        assert!(sniffed("first,last\na,b\n").header);
        assert!(!sniffed("1,a\n2,b\n").header);
        assert!(!sniffed("a,a\n1,2\n").header);
        assert!(!sniffed("a,\n1,2\n").header);
        assert!(sniffed("id,text\n1,\"two\nlines\"\n").newlines_in_values);
    }

    #[test]
    fn columns_have_types() {
        let csv = sniffed("id,x,when,ok,t\n1,,2024-01-01,true,a\n2,1.5,2024-01-02,,\n");
        let found =
            columns(&whole("id,x,when,ok,t,none\n1,,2024-01-01,true,a,\n2,1.5,2024-01-02,,\n"), &csv, 99).unwrap();
        let types: Vec<_> = found.iter().map(|c| c.data_type.clone()).collect();
        let some = [DataType::Int64, DataType::Float64, DataType::Date32, DataType::Boolean, DataType::Utf8];
        assert_eq!(types[..5], some.map(Some));
        assert_eq!(types[5], None);
        assert_eq!(columns(&whole(""), &csv, 99), None);
    }

    #[test]
    fn names_are_unique() {
        let names = header_names(&["a", "", "a", "a_2", "a"].map(String::from));
        assert_eq!(names, ["a", "column_2", "a_2", "a_2_2", "a_3"]);
    }
}
