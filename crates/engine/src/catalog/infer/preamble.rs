//! Detection of lines before the header of CSV, of its encoding, and of escaped quotes.

use pushdowndb_contract::CsvOptions;
use pushdowndb_scan::tokenize_sample;

use super::sample::Sample;
use super::value::Look;
use crate::catalog::TableOptions;

/// The delimiters to try if none is declared, the most usual first.
pub(super) const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];

/// Maximum number of lines that are examined.
const MAX_LINES: usize = 64;

/// Lines before the header.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Preamble {
    pub(super) lines: u64,
    /// Whether all of them begin with `#`.
    pub(super) is_comment: bool,
    /// Whether lines that begin with `#` also stand between records.
    pub(super) later: bool,
}

/// Finds the lines before the header: a title, comments, `sep=;`. A line counts as one of them if
/// it has fewer fields than the records, or begins with `#`, and the header and at least one record
/// follow, all with the same number of fields. Returns `None` if no delimiter gives such lines.
pub(super) fn find(sample: &Sample, base: &CsvOptions, declared: &TableOptions) -> Option<Preamble> {
    if sample.is_utf16 || base.wide.is_some() {
        return None;
    }
    let text = sample.bytes.as_ref();
    let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').take(MAX_LINES + 1).collect();
    // The last one may be cut off.
    if !sample.is_whole || lines.len() > MAX_LINES {
        lines.pop();
    }
    let first = lines.first()?;
    if let [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', _, rest @ ..] = *first
        && matches!(rest, [] | [b'\r'])
    {
        return Some(Preamble { lines: 1, is_comment: false, later: false });
    }
    let delimiters = match declared.delimiter.is_some() || base.delimiter != CsvOptions::default().delimiter {
        true => vec![base.delimiter],
        false => DELIMITERS.to_vec(),
    };
    let found = delimiters.into_iter().filter_map(|delimiter| {
        let csv = CsvOptions { delimiter, translation: None, ..base.clone() };
        let widths = lines.iter().map(|line| width(line, &csv)).collect::<Option<Vec<_>>>()?;
        of_widths(&lines, &widths).filter(|(_, preamble)| is_title(&lines, preamble, &csv))
    });
    let (_, preamble) = found.max_by_key(|(score, _)| *score)?;
    // In a log, only comments count: the delimiters in its messages vary from line to line.
    Some(preamble).filter(|preamble| preamble.lines > 0 && (preamble.is_comment || !sample.is_log))
}

/// The number of fields of a line; `None` if a quote is open at its end.
fn width(line: &[u8], csv: &CsvOptions) -> Option<usize> {
    let records = tokenize_sample(line, true, csv).ok()?;
    Some(records.first().map_or(0, |record| if is_blank(line) { 0 } else { record.len() }))
}

/// Returns whether each line before the header is a comment or has at most one field that is not
/// empty, and every field of the header is a name. Otherwise the first lines may be a header with
/// fewer fields than the records.
fn is_title(lines: &[&[u8]], preamble: &Preamble, csv: &CsvOptions) -> bool {
    let Ok(begin) = usize::try_from(preamble.lines) else { return false };
    let fields = |line: &[u8]| tokenize_sample(line, true, csv).ok().and_then(|records| records.into_iter().next());
    let is_title = |line: &&[u8]| {
        line.first() == Some(&b'#')
            || fields(line).is_none_or(|fields| fields.iter().filter(|field| !field.is_empty()).count() <= 1)
    };
    let names = lines.get(begin).and_then(|line| fields(line)).unwrap_or_default();
    begin == 0
        || lines.iter().take(begin).all(is_title)
            && names.iter().all(|name| !name.is_empty() && Look::of(name) == Look::Text)
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// Returns the number of records with the same number of fields at the end of `lines`, that number
/// of fields, and the lines before them.
fn of_widths(lines: &[&[u8]], widths: &[usize]) -> Option<((usize, usize), Preamble)> {
    let is_comment = |at: usize| lines.get(at).is_some_and(|line| line.first() == Some(&b'#'));
    let last = widths.iter().rposition(|width| *width > 0)?;
    let width = *widths.get(last)?;
    if width < 2 || is_comment(last) {
        return None;
    }
    let mut begin = last;
    let (mut records, mut later) = (1, false);
    for at in (0..last).rev() {
        match widths.get(at).copied() {
            Some(own) if own == width => {
                records += 1;
                begin = at;
            }
            // A blank line, or a comment, between records.
            Some(own) if own == 0 || is_comment(at) => {}
            _ => break,
        }
    }
    let all = begin..last;
    later |= all.clone().any(|at| is_comment(at) && widths.get(at) != Some(&width));
    let before = || widths.iter().zip(lines).enumerate().take(begin).filter(|(_, (width, _))| **width > 0);
    let fits = before().all(|(at, (own, _))| *own < width || is_comment(at));
    let preamble = Preamble {
        lines: u64::try_from(begin).ok()?,
        is_comment: before().next().is_some() && before().all(|(at, _)| is_comment(at)),
        later,
    };
    // Blank lines alone are no preamble: the reader skips them anyway.
    let preamble = if before().next().is_none() { Preamble { lines: 0, ..preamble } } else { preamble };
    (fits && records >= 2).then_some(((records, width), preamble))
}

/// Whether the bytes are UTF-8, as far as the sample goes.
pub(super) fn is_utf8(sample: &Sample) -> bool {
    match std::str::from_utf8(&sample.bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && !sample.is_whole,
    }
}

/// Returns whether all samples may be Windows-1252, which includes Latin-1: at least one is not
/// UTF-8, none is UTF-8 with non-ASCII letters, and none of the others has NUL bytes. Most
/// non-ASCII letters of western languages stand alone; those of other alphabets stand side by side.
pub(super) fn is_western<'a>(samples: impl Iterator<Item = &'a Sample> + Clone) -> bool {
    let fits = |sample: &Sample| match is_utf8(sample) {
        true => sample.bytes.is_ascii(),
        false => !sample.bytes.contains(&0) && are_apart(&sample.bytes),
    };
    samples.clone().any(|sample| !is_utf8(sample)) && samples.into_iter().all(fits)
}

/// Returns whether most non-ASCII bytes have only ASCII bytes beside them.
fn are_apart(text: &[u8]) -> bool {
    let beyond = text.iter().filter(|byte| !byte.is_ascii()).count();
    let beside = text.windows(2).filter(|pair| pair.iter().all(|byte| !byte.is_ascii())).count();
    beside * 4 <= beyond
}

/// Returns whether quotes inside quoted values are escaped by a backslash: `"a \"b\""`. This is so
/// if some field continues after such a quote and no quote is doubled.
pub(super) fn has_escaped_quotes(text: &[u8]) -> bool {
    let ends_field =
        |byte: Option<&u8>| byte.is_none_or(|byte| DELIMITERS.contains(byte) || matches!(byte, b'\r' | b'\n'));
    let mut found = false;
    for at in memchr::memchr_iter(b'"', text) {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        let after = text.get(at + 1);
        if before == Some(&b'\\') {
            found |= !ends_field(after) && after != Some(&b'"');
        } else if after == Some(&b'"') && !(ends_field(before) && ends_field(text.get(at + 2))) && before != Some(&b'"')
        {
            // Doubled, unless a text begins with an escaped one.
            return false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(text: &[u8]) -> Sample {
        Sample { bytes: text.to_vec().into(), is_whole: true, is_utf16: false, is_log: false }
    }

    fn lines(text: &str) -> Option<u64> {
        let found = find(&sample(text.as_bytes()), &CsvOptions::default(), &TableOptions::default());
        found.map(|preamble| preamble.lines)
    }

    #[test]
    fn headers_are_found_below_titles_and_comments() {
        for (text, expected) in [
            ("Report of May\n\nid,t\n1,a\n2,b\n", Some(2)),
            ("# made by x\n# a,b,c\nid,t\n1,a\n# mid\n2,b\n", Some(2)),
            ("sep=;\r\nid;t\r\n1;a\r\n", Some(1)),
            ("title;\nid;t;u\n1;2;3\n", Some(1)),
            ("id,t\n1,a\n2,b\n", None),
            ("#id,t\n1,a\n2,b\n", None),
            ("one\ntwo, or more\n", None),
            ("\n\nid,t\n1,a\n", None),
            ("a,b,c\n1,2,3\n4,5\n6\n", None),
            ("a,b\n1,2,3\n4,5,6\n", None),
            ("x\n1,5\n2,6\n", None),
            ("a\nb\n", None),
            ("id,t\n1,\"a\nb\"\n", None),
        ] {
            assert_eq!(lines(text), expected, "{text}");
        }
        let found = find(&sample(b"# x\nid,t\n1,a\n# mid\n2,b\n"), &CsvOptions::default(), &TableOptions::default());
        assert_eq!(found, Some(Preamble { lines: 1, is_comment: true, later: true }));
    }

    #[test]
    fn bytes_tell_encodings() {
        let western = |texts: &[&[u8]]| {
            let samples: Vec<_> = texts.iter().map(|text| sample(text)).collect();
            is_western(samples.iter())
        };
        assert!(western(&[b"Orl\xe9ans", b"plain"]));
        assert!(!western(&[b"plain"]));
        assert!(!western(&["Orléans".as_bytes(), b"Orl\xe9ans"]), "both");
        assert!(!western(&[b"\xff\0\x01"]), "no text");
        assert!(!western(&[b"id,\x93\x8c\x8b\x9e"]), "Shift JIS");
        assert!(!western(&[b"id,\xcc\xee\xf1\xea\xe2\xe0"]), "Cyrillic");
        let cut = Sample {
            bytes: "é".as_bytes().get(..1).unwrap().to_vec().into(),
            is_whole: false,
            is_utf16: false,
            is_log: false,
        };
        assert!(is_utf8(&cut));
    }

    #[test]
    fn escapes_are_told_from_doubled_quotes() {
        for (text, expected) in [
            ("1,\"a \\\"b\\\" c\"\n", true),
            ("1,\"{\\\"a\\\":1}\"\n2,\"\"\n", true),
            ("1,\"a \"\"b\"\" c\"\n", false),
            ("1,\"C:\\dir\\\",2\n", false),
            ("1,\"{\"\"a\"\":\"\"C:\\\\\"\"x\"\"}\"\n", false),
            ("1,,\"\"\n", false),
        ] {
            assert_eq!(has_escaped_quotes(text.as_bytes()), expected, "{text}");
        }
    }
}
