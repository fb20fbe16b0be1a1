//! Inference of CSV: delimiter, header and the columns' types, from a sample.
//!
//! A first record is a header if each of its fields is text (no number, date or BOOLEAN), none is
//! empty and no two are equal. A year or a date beside text also counts as a name if most values
//! below it are of another kind. The scan's own tokenizer cuts the records, so that the rows are
//! read as they were inferred.

use std::collections::HashSet;
use std::sync::Arc;

use pushdowndb_contract::{CsvOptions, NullRule, Result, Translation};
use pushdowndb_scan::tokenize_sample;

use super::merge::Column;
use super::preamble;
use super::sample::Sample;
use super::value::{Look, Looks, is_dotted_date, is_dotted_time};
use crate::catalog::TableOptions;

/// Minimum number of fields in a line of a log for the blank to be its delimiter.
const MIN_LOG_FIELDS: usize = 5;

/// Maximum size of the text from which the delimiter is inferred, in bytes.
const MAX_SNIFFED_BYTES: usize = 32 * 1024;

/// The records of a sample, and its options with each one decided.
pub(crate) struct Sniffed {
    pub(crate) csv: CsvOptions,
    records: Vec<Vec<String>>,
}

/// Infers what the options do not declare, such as the delimiter, the header, and whether quoted
/// values contain line ends.
pub(crate) fn sniff(sample: &Sample, base: &CsvOptions, declared: &TableOptions) -> Result<Sniffed> {
    let mut csv = base.clone();
    if declared.terminator.is_none() && ends_with_returns(&sample.bytes) {
        csv.terminator = Some(b'\r');
    }
    let may_escape = csv.quote == Some(b'"') && csv.escape.is_none() && declared.escape.is_none();
    if may_escape && preamble::has_escaped_quotes(&sample.bytes) {
        csv.escape = Some(b'\\');
    }
    if declared.delimiter.is_none() && base.wide.is_none() && base.delimiter == CsvOptions::default().delimiter {
        csv.delimiter = sniff_delimiter(sample, &csv, declared);
    }
    let (records, newlines_in_values) = tokenize(sample, &csv, declared)?;
    csv.newlines_in_values = newlines_in_values;
    if declared.header.is_none() {
        csv.header = is_header(&records);
    }
    let rows = records.get(usize::from(csv.header)..).unwrap_or_default();
    if csv.wide.is_none() && has_blanks_around_values(rows) {
        let translation = csv.translation.as_deref().cloned().unwrap_or_default();
        csv.translation = Some(Arc::new(Translation { trims: true, ..translation }));
    }
    if csv.wide.is_none()
        && let Some(translation) = dotted_dates(rows, &csv)
    {
        csv.translation = Some(Arc::new(translation));
        let (records, _) = tokenize(sample, &csv, declared)?;
        return Ok(Sniffed { csv, records });
    }
    Ok(Sniffed { csv, records })
}

/// Returns a translation that reads dates and times such as `31.12.2024 23:59:59`, if all values of
/// a column are written like that and no column is written as in SQL.
fn dotted_dates(rows: &[Vec<String>], csv: &CsvOptions) -> Option<Translation> {
    let translation = csv.translation.as_deref().cloned().unwrap_or_default();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let values = |at: usize| {
        let fields = rows.iter().filter_map(move |row| row.get(at)).map(|field| field.trim());
        fields.filter(|field| !is_null(field, &csv.null) && !translation.nulls.iter().any(|null| null == field))
    };
    let some_column =
        |is_one: &dyn Fn(&str) -> bool| (0..columns).any(|at| values(at).next().is_some() && values(at).all(is_one));
    let is_time = |value: &str| matches!(Look::of(value), Look::Micros | Look::Nanos | Look::Instant);
    let dates = translation.date_format.is_none()
        && some_column(&is_dotted_date)
        && !some_column(&|value| Look::of(value) == Look::Date);
    let times = translation.timestamp_format.is_none() && some_column(&is_dotted_time) && !some_column(&is_time);
    (dates || times).then(|| Translation {
        date_format: if dates { Some("%d.%m.%Y".to_owned()) } else { translation.date_format.clone() },
        timestamp_format: if times {
            Some("%d.%m.%Y %H:%M:%S".to_owned())
        } else {
            translation.timestamp_format.clone()
        },
        ..translation.clone()
    })
}

/// Whether the sample holds a whole line.
pub(crate) fn has_record(sample: &Sample) -> bool {
    sample.bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
}

/// Whether lines end with carriage returns alone, as those of old Macintosh programs do.
fn ends_with_returns(text: &[u8]) -> bool {
    text.contains(&b'\r') && !text.contains(&b'\n')
}

/// Returns the records, and whether quoted values contain line ends. If that is not declared, the
/// text is first cut at every line end; if this fails, quoted line ends are kept.
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

/// Returns the delimiter that gives the most records the same number of fields; on a tie, the one
/// that makes more fields.
fn sniff_delimiter(sample: &Sample, csv: &CsvOptions, declared: &TableOptions) -> u8 {
    let start = match sample.bytes.get(..MAX_SNIFFED_BYTES) {
        Some(start) => Sample { bytes: sample.bytes.slice_ref(start), is_whole: false, ..sample.clone() },
        None => sample.clone(),
    };
    let mut best: Option<((usize, usize), u8)> = None;
    let decimal = csv.translation.as_ref().and_then(|translation| translation.decimal);
    let blank = Some(b' ').filter(|_| sample.is_log);
    for delimiter in preamble::DELIMITERS.into_iter().chain(blank).filter(|delimiter| Some(*delimiter) != decimal) {
        let csv = CsvOptions { delimiter, ..csv.clone() };
        // With a wrong delimiter the quotes may make no sense.
        let Ok((records, _)) = tokenize(&start, &csv, declared) else { continue };
        let alike = |width: usize| records.iter().filter(|record| record.len() == width).count();
        let widths: HashSet<usize> = records.iter().map(Vec::len).filter(|width| *width > 1).collect();
        // Blanks also separate the words of a message, so a log must have more fields than others.
        let is_wide = |width: &usize| delimiter != b' ' || *width >= MIN_LOG_FIELDS;
        let score = widths.into_iter().filter(is_wide).map(|width| (alike(width), width)).max();
        if let Some(score) = score.filter(|score| best.is_none_or(|(best, _)| *score > best)) {
            best = Some((score, delimiter));
        }
    }
    best.map_or(csv.delimiter, |(_, delimiter)| delimiter)
}

/// Returns whether a column of numbers, dates or the like has blanks around some of its values.
/// Without trimming, it would be inferred as text.
fn has_blanks_around_values(rows: &[Vec<String>]) -> bool {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    (0..columns).any(|at| {
        let values = || rows.iter().filter_map(|row| row.get(at)).filter(|value| !value.trim().is_empty());
        values().any(|value| value.len() > value.trim().len())
            && values().all(|value| Look::of(value.trim()) != Look::Text)
    })
}

/// Returns whether the first record is a header. All its fields must be text, except for years and
/// dates above values of another kind. And it must either give each column a name of its own, or
/// have values below it that are not text: pandas, for one, writes an index without a name.
fn is_header(records: &[Vec<String>]) -> bool {
    let Some((first, rest)) = records.split_first() else { return false };
    let named = || first.iter().enumerate().filter(|(_, field)| !field.is_empty());
    let is_text = |field: &String| Look::of(field) == Look::Text;
    let labels = || named().filter(|(_, field)| !is_text(field));
    let is_above_values = |at: usize| rest.iter().filter_map(|record| record.get(at)).any(|value| !value.is_empty());
    if named().next().is_none() || !labels().all(|(at, field)| may_be_label(at, field, rest)) {
        return false;
    }
    // Without records below, years cannot be distinguished from data.
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

/// Returns whether a field is a year or a date that may name its column: most values below it in
/// `rest` are of another kind.
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
    /// Returns the columns, with their types if a value shows one; `None` if there is not even a
    /// header.
    pub(crate) fn columns(&self, max_records: usize) -> Option<Vec<Column>> {
        columns(&self.records, &self.csv, max_records)
    }
}

/// Returns the columns of a further object, read with the options of the first, and whether its
/// quoted values contain line ends.
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
    let trims = csv.translation.as_ref().is_some_and(|translation| translation.trims);
    let mut seen = vec![Looks::default(); names.len()];
    for row in rows.iter().take(max_records) {
        for (seen, field) in seen.iter_mut().zip(row) {
            let field = if trims { field.trim() } else { field.as_str() };
            if !is_null(field, &csv.null) {
                seen.add(field);
            }
        }
    }
    Some(
        names
            .into_iter()
            .zip(seen)
            .map(|(name, seen)| Column { name, data_type: seen.data_type(), seen, mixed: false })
            .collect(),
    )
}

fn is_null(field: &str, rule: &NullRule) -> bool {
    match rule {
        NullRule::Empty => field.is_empty(),
        NullRule::Text(text) => field.is_empty() || field == text,
        NullRule::Never => false,
    }
}

/// Returns the names in a header without blanks around them. A column without a name is named by
/// its position, and a duplicate name gets a number.
fn header_names(first: &[String]) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut names = Vec::with_capacity(first.len());
    for (index, name) in first.iter().enumerate() {
        let name = name.trim();
        let plain = if name.is_empty() { format!("column_{}", index + 1) } else { name.to_owned() };
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
        Sample { bytes: text.to_owned().into(), is_whole: true, is_utf16: false, is_log: false }
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
        let line = "1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 23 \"Moz (X; Y)\"\n";
        assert_eq!(sniffed(line).delimiter, b';');
        let log = Sample { is_log: true, ..whole(line) };
        let found = sniff(&log, &CsvOptions::default(), &TableOptions::default()).unwrap().csv;
        assert_eq!((found.delimiter, found.header), (b' ', false));
    }

    #[test]
    fn headers_are_text_that_names() {
        assert!(sniffed("id,name\n1,a\n").header);
        assert!(sniffed("first,last\na,b\n").header);
        assert!(!sniffed("1,a\n2,b\n").header);
        assert!(!sniffed("a,a\nb,c\n").header);
        assert!(!sniffed("a,\nb,c\n").header);
        assert!(!sniffed(",\n1,2\n").header);
        // Years and dates are names if they stand above values of another kind.
        assert!(sniffed("region,2022,2023\nnorth,10,20\nsouth,1999,30\nwest,1,2\n").header);
        assert!(sniffed("region,2022,2023\nnorth,1.5,\n").header);
        assert!(sniffed("station,2024-01-01,2024-01-02\na,1,2\n").header);
        assert!(sniffed(",2022,2023\nnorth,10,20\n").header);
        assert!(!sniffed("ann,1950,2020\nbob,1940,2010\n").header);
        assert!(!sniffed("ann,2024-01-01\nbob,2024-01-02\n").header);
        assert!(!sniffed("region,2022,2023\n").header);
        assert!(!sniffed("2022,2023\n10,20\n").header);
        assert!(!sniffed("a,7,8\nb,2022,2023\n").header);
        // Above numbers, a record with equal or missing names is a header all the same; pandas
        // writes an index without a name.
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
        // If such line ends are declared absent, an open quote is an error that names its byte.
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
    fn blanks_around_numbers_are_left_out() {
        let found = sniff(&whole("id, v ,t\n1, 5 ,a \n2,6,b\n"), &CsvOptions::default(), &TableOptions::default());
        let found = found.unwrap();
        assert!(found.csv.translation.as_ref().unwrap().trims);
        let columns = found.columns(99).unwrap();
        assert_eq!(columns[1].name, "v");
        assert_eq!((&columns[1].data_type, &columns[2].data_type), (&Some(DataType::Int64), &Some(DataType::Utf8)));
        assert!(sniffed("id,t\n1, a\n2,5\n").translation.is_none());
    }

    #[test]
    fn days_with_points_are_dates_unless_others_are_in_the_table() {
        let found = |text: &str| {
            let sniffed = sniff(&whole(text), &CsvOptions::default(), &TableOptions::default()).unwrap();
            sniffed.columns(99).unwrap().into_iter().map(|column| column.data_type).collect::<Vec<_>>()
        };
        let time = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None);
        assert_eq!(
            found("d;t;n\n31.12.2023;01.02.2024 10:11:12;1\n;;2\n1.2.2024;;3\n")[..2],
            [Some(DataType::Date32), Some(time.clone())]
        );
        assert_eq!(found("d;t\n31.12.2023;2024-01-01 00:00:00\n")[..], [Some(DataType::Date32), Some(time)]);
        for text in
            ["d;e\n31.12.2023;2023-12-31\n", "d;e\n31.13.2023;1\n", "d;e\n31.12.23;1\n", "d;e\n31.12.2023;1\nx;2\n"]
        {
            assert_eq!(found(text)[0], Some(DataType::Utf8), "{text}");
        }
    }

    #[test]
    fn names_are_unique() {
        let names = header_names(&["a", "", "a", "a_2", "a"].map(String::from));
        assert_eq!(names, ["a", "column_2", "a_2", "a_2_2", "a_3"]);
        assert_eq!(header_names(&[" a b", " "].map(String::from)), ["a b", "column_2"]);
    }
}
