//! What a sample of delimited text says about its delimiter, its header and its columns' types.
//!
//! A first record is a header when each of its fields is text (no number, date or BOOLEAN), none is empty and no two
//! are equal; whoever has columns named by years says so with `has_header`. Records are cut by the scan's own
//! tokenizer, so that what is inferred is what will be read.

use std::collections::HashSet;

use pushdown::{CsvOptions, NullRule, Result};
use pushdowndb_scan::tokenize_sample;

use super::merge::Column;
use super::sample::Sample;
use super::value::{Look, Seen};
use crate::table::TableOptions;

/// What is tried when the delimiter is not declared, the most usual first.
const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];

/// How much text a delimiter is judged by.
const SNIFFED_BYTES: usize = 32 * 1024;

/// What a sample holds: its records, and the options with nothing left open.
pub(super) struct Sniffed {
    pub(super) csv: CsvOptions,
    records: Vec<Vec<String>>,
}

/// Settles what the options left open about the delimiter, the header and line ends in quotes.
pub(super) fn sniff(sample: &Sample, base: &CsvOptions, declared: &TableOptions) -> Result<Sniffed> {
    let mut csv = base.clone();
    if declared.delimiter.is_none() && base.delimiter == CsvOptions::default().delimiter {
        csv.delimiter = sniff_delimiter(sample, &csv, declared);
    }
    let (records, newlines_in_values) = tokenize(sample, &csv, declared)?;
    csv.newlines_in_values = newlines_in_values;
    if declared.header.is_none() {
        csv.header = is_header(&records);
    }
    Ok(Sniffed { csv, records })
}

/// The records, and whether they can be cut only by minding line ends in quotes. That is tried where it was not
/// declared and a quote is open at the end of a line.
fn tokenize(sample: &Sample, csv: &CsvOptions, declared: &TableOptions) -> Result<(Vec<Vec<String>>, bool)> {
    let cut = |newlines_in_values| {
        let csv = CsvOptions { newlines_in_values, ..csv.clone() };
        tokenize_sample(&sample.bytes, sample.is_whole, &csv)
    };
    match declared.newlines_in_values {
        Some(minded) => cut(minded).map(|records| (records, minded)),
        None => match cut(false) {
            Ok(records) => Ok((records, false)),
            Err(error) => match cut(true) {
                Ok(records) if !records.is_empty() => Ok((records, true)),
                _ => Err(error),
            },
        },
    }
}

/// The delimiter that splits most records alike; of equals the one that makes more fields.
fn sniff_delimiter(sample: &Sample, csv: &CsvOptions, declared: &TableOptions) -> u8 {
    let start = match sample.bytes.get(..SNIFFED_BYTES) {
        Some(start) => Sample { bytes: sample.bytes.slice_ref(start), is_whole: false },
        None => sample.clone(),
    };
    let mut best: Option<((usize, usize), u8)> = None;
    for delimiter in DELIMITERS {
        let csv = CsvOptions { delimiter, ..csv.clone() };
        // A delimiter with which the quotes make no sense is none.
        let Ok((records, _)) = tokenize(&start, &csv, declared) else { continue };
        let alike = |width: usize| records.iter().filter(|record| record.len() == width).count();
        let widths: HashSet<usize> = records.iter().map(Vec::len).filter(|width| *width > 1).collect();
        let score = widths.into_iter().map(|width| (alike(width), width)).max();
        if let Some(score) = score.filter(|score| best.is_none_or(|(best, _)| *score > best)) {
            best = Some((score, delimiter));
        }
    }
    best.map_or(csv.delimiter, |(_, delimiter)| delimiter)
}

/// Whether the first record names the columns: it looks like text throughout, and either names each of them once, or stands
/// over a column that looks like something else, as the index does that pandas writes without a name.
fn is_header(records: &[Vec<String>]) -> bool {
    let Some((first, rest)) = records.split_first() else { return false };
    let mut named = first.iter().filter(|field| !field.is_empty()).peekable();
    if named.peek().is_none() || named.any(|field| Look::of(field) != Look::Text) {
        return false;
    }
    let mut seen = HashSet::new();
    let names_each = first.iter().all(|field| !field.is_empty() && seen.insert(field));
    let is_other = |field: &String| !field.is_empty() && Look::of(field) != Look::Text;
    names_each || rest.iter().flatten().any(is_other)
}

impl Sniffed {
    /// The columns with their types, where a value showed one; `None` if there is not even a header.
    pub(super) fn columns(&self, max_records: usize) -> Option<Vec<Column>> {
        columns(&self.records, &self.csv, max_records)
    }
}

/// The columns of a further object of the table, written as the first one was, and whether it has line ends in quotes.
pub(super) fn further_columns(
    sample: &Sample,
    csv: &CsvOptions,
    declared: &TableOptions,
    max_records: usize,
) -> Result<(Option<Vec<Column>>, bool)> {
    let (records, newlines_in_values) = tokenize(sample, csv, declared)?;
    Ok((columns(&records, csv, max_records), newlines_in_values))
}

/// The column names of an object whose first bytes these are; `None` if they do not hold its first record.
pub(super) fn header(sample: &Sample, csv: &CsvOptions) -> Result<Option<Vec<String>>> {
    let records = tokenize_sample(&sample.bytes, sample.is_whole, csv)?;
    Ok(records.first().map(|first| header_names(first)))
}

fn columns(records: &[Vec<String>], csv: &CsvOptions, max_records: usize) -> Option<Vec<Column>> {
    let (first, rest) = records.split_first()?;
    let (names, rows) = if csv.header {
        (header_names(first), rest)
    } else {
        ((1..=first.len()).map(|n| format!("column_{n}")).collect(), records)
    };
    let mut seen = vec![Seen::default(); names.len()];
    for row in rows.iter().take(max_records) {
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
fn header_names(first: &[String]) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    fn whole(text: &str) -> Sample {
        Sample { bytes: text.to_owned().into(), is_whole: true }
    }

    fn sniffed(text: &str) -> CsvOptions {
        sniff(&whole(text), &CsvOptions::default(), &TableOptions::default()).unwrap().csv
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
        assert!(!sniffed("a,a\nb,c\n").header);
        assert!(!sniffed("a,\nb,c\n").header);
        assert!(!sniffed(",\n1,2\n").header);
        // Above numbers it is one all the same; pandas writes an index without a name.
        assert!(sniffed("a,a\n1,2\n").header);
        assert!(sniffed(",price\n0,1.5\n").header);
    }

    #[test]
    fn line_ends_in_quotes_are_found() {
        assert!(sniffed("id,text\n1,\"two\nlines\"\n").newlines_in_values);
        assert!(!sniffed("id,text\n1,\"one, line\"\n").newlines_in_values);
        // Where they were declared away, an open quote is an error that names its byte.
        let declared = TableOptions { newlines_in_values: Some(false), ..Default::default() };
        let error = sniff(&whole("id,text\n1,\"two\nlines\"\n"), &CsvOptions::default(), &declared).err().unwrap();
        assert!(error.to_string().contains("byte 10"), "{error}");
    }

    #[test]
    fn columns_have_types() {
        let text = "id,x,when,ok,t,none\n1,,2024-01-01,true,a,\n2,1.5,2024-01-02,,\n";
        let sniff = |text| sniff(&whole(text), &CsvOptions::default(), &TableOptions::default()).unwrap();
        let found = sniff(text).columns(99).unwrap();
        let types: Vec<_> = found.iter().map(|c| c.data_type.clone()).collect();
        let some = [DataType::Int64, DataType::Float64, DataType::Date32, DataType::Boolean, DataType::Utf8];
        assert_eq!(types[..5], some.map(Some));
        assert_eq!(types[5], None);
        assert_eq!(sniff("").columns(99), None);
    }

    #[test]
    fn names_are_unique() {
        let names = header_names(&["a", "", "a", "a_2", "a"].map(String::from));
        assert_eq!(names, ["a", "column_2", "a_2", "a_2_2", "a_3"]);
    }
}
