//! Inference of CSV: delimiter, header and the columns' types, from a sample.
//!
//! A first record is a header if each of its fields is text (no number, date or BOOLEAN), none is
//! empty and no two are equal. A year or a date beside text also counts as a name if most values
//! below it are of another kind. The scan's own tokenizer cuts the records, so that the rows are
//! read as they were inferred.

use std::collections::HashSet;

use pushdowndb_contract::{CsvOptions, NullRule, Result};
use pushdowndb_scan::tokenize_sample;

use super::merge::Column;
use super::sample::Sample;
use super::value::{Look, Looks};
use crate::catalog::TableOptions;

/// The delimiters to try if none is declared, the most usual first.
const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];

/// The most text from which a delimiter is judged.
const MAX_SNIFFED_BYTES: usize = 32 * 1024;

/// The records of a sample, and options with nothing left open.
pub(crate) struct Sniffed {
    pub(crate) csv: CsvOptions,
    records: Vec<Vec<String>>,
}

/// Decides what the options leave open: the delimiter, the header, and line ends in quotes.
pub(crate) fn sniff(sample: &Sample, base: &CsvOptions, declared: &TableOptions) -> Result<Sniffed> {
    let mut csv = base.clone();
    if declared.terminator.is_none() && ends_with_returns(&sample.bytes) {
        csv.terminator = Some(b'\r');
    }
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

/// Whether lines end with carriage returns alone, as those of old Macintosh programs do.
fn ends_with_returns(text: &[u8]) -> bool {
    text.contains(&b'\r') && !text.contains(&b'\n')
}

/// The records, and whether quotes hold line ends. That is tried if it is not declared and a quote
/// is open at the end of a line.
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
    let start = match sample.bytes.get(..MAX_SNIFFED_BYTES) {
        Some(start) => Sample { bytes: sample.bytes.slice_ref(start), is_whole: false },
        None => sample.clone(),
    };
    let mut best: Option<((usize, usize), u8)> = None;
    for delimiter in DELIMITERS {
        let csv = CsvOptions { delimiter, ..csv.clone() };
        // With a wrong delimiter the quotes may make no sense.
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

/// Whether the first record names the columns. It must be text throughout, but for years and dates
/// above values of another kind. And it must either name each column once, or stand above a column
/// of another kind, as the nameless index does that pandas writes.
fn is_header(records: &[Vec<String>]) -> bool {
    let Some((first, rest)) = records.split_first() else { return false };
    let named = || first.iter().enumerate().filter(|(_, field)| !field.is_empty());
    let is_text = |field: &String| Look::of(field) == Look::Text;
    let labels = || named().filter(|(_, field)| !is_text(field));
    let is_above_values = |at: usize| rest.iter().filter_map(|record| record.get(at)).any(|value| !value.is_empty());
    if named().next().is_none() || !labels().all(|(at, field)| may_be_label(at, field, rest)) {
        return false;
    }
    // Without records below, years cannot be told from data.
    if labels().next().is_some() && !labels().any(|(at, _)| is_above_values(at)) {
        return false;
    }
    // Years and dates alone are no names, unless they stand beside the index that pandas writes.
    if !named().any(|(_, field)| is_text(field)) && first.first().is_none_or(|field| !field.is_empty()) {
        return false;
    }
    let mut seen = HashSet::new();
    let names_each = first.iter().all(|field| !field.is_empty() && seen.insert(field));
    let is_other = |field: &String| !field.is_empty() && !is_text(field);
    names_each || rest.iter().flatten().any(is_other)
}

/// Whether a field is a year or a date that may name its column: most values below it in `rest` are
/// of another kind.
fn may_be_label(at: usize, field: &str, rest: &[Vec<String>]) -> bool {
    let is_year = |field: &str| {
        matches!(field.as_bytes(), [b'1', b'8' | b'9', ..] | [b'2', b'0' | b'1', ..])
            && field.len() == 4
            && Look::of(field) == Look::Integer
    };
    let is_date = |field: &str| Look::of(field) == Look::Date;
    let alike = |value: &&String| is_year(field) && is_year(value) || is_date(field) && is_date(value);
    let below = || rest.iter().filter_map(|record| record.get(at)).filter(|value| !value.is_empty());
    (is_year(field) || is_date(field))
        && (below().next().is_none() || below().filter(alike).count() * 2 < below().count())
}

impl Sniffed {
    /// The columns, with their types if a value shows one; `None` without even a header.
    pub(crate) fn columns(&self, max_records: usize) -> Option<Vec<Column>> {
        columns(&self.records, &self.csv, max_records)
    }
}

/// The columns of a further object with the first one's options, and whether it has line ends in
/// quotes.
pub(crate) fn further_columns(
    sample: &Sample,
    csv: &CsvOptions,
    declared: &TableOptions,
    max_records: usize,
) -> Result<(Option<Vec<Column>>, bool)> {
    let (records, newlines_in_values) = tokenize(sample, csv, declared)?;
    Ok((columns(&records, csv, max_records), newlines_in_values))
}

/// The column names in an object's first bytes; `None` if they do not hold its first record.
pub(crate) fn header(sample: &Sample, csv: &CsvOptions) -> Result<Option<Vec<String>>> {
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
    let mut seen = vec![Looks::default(); names.len()];
    for row in rows.iter().take(max_records) {
        for (seen, field) in seen.iter_mut().zip(row) {
            if !is_null(field, &csv.null) {
                seen.add(field);
            }
        }
    }
    Some(names.into_iter().zip(seen).map(|(name, seen)| Column { name, data_type: seen.data_type(), seen }).collect())
}

fn is_null(field: &str, rule: &NullRule) -> bool {
    match rule {
        NullRule::Empty => field.is_empty(),
        NullRule::Text(text) => field.is_empty() || field == text,
        NullRule::Never => false,
    }
}

/// The names in a header: a column without one is named by its position, a duplicate gets a number.
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
        // Years and dates are names above what is none.
        assert!(sniffed("region,2022,2023\nnorth,10,20\nsouth,1999,30\nwest,1,2\n").header);
        assert!(sniffed("region,2022,2023\nnorth,1.5,\n").header);
        assert!(sniffed("station,2024-01-01,2024-01-02\na,1,2\n").header);
        assert!(sniffed(",2022,2023\nnorth,10,20\n").header);
        assert!(!sniffed("ann,1950,2020\nbob,1940,2010\n").header);
        assert!(!sniffed("ann,2024-01-01\nbob,2024-01-02\n").header);
        assert!(!sniffed("region,2022,2023\n").header);
        assert!(!sniffed("2022,2023\n10,20\n").header);
        assert!(!sniffed("a,7,8\nb,2022,2023\n").header);
        // Above numbers it is one all the same; pandas writes an index without a name.
        assert!(sniffed("a,a\n1,2\n").header);
        assert!(sniffed(",price\n0,1.5\n").header);
    }

    #[test]
    fn carriage_returns_end_lines_where_nothing_else_does() {
        let found = sniffed("id,text\r1,a\r2,b\r");
        assert_eq!(found.terminator, Some(b'\r'));
        assert!(found.header);
        assert_eq!(sniffed("id,text\r\n1,a\r\n").terminator, None);
        assert_eq!(sniffed("id,text\n1,\"a\rb\"\n").terminator, None);
        let declared = TableOptions { terminator: Some(b'\n'), ..Default::default() };
        let found = sniff(&whole("a\r1\r"), &CsvOptions::default(), &declared).unwrap().csv;
        assert_eq!(found.terminator, None);
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
