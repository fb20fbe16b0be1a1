//! Delimiters of a CSV input: one character each, of any script; field and record delimiters may
//! have two.
//!
//! Scans are fast with single-byte delimiters. If one is longer, all of them are passed as text and
//! the input is rewritten on the fly (see `pushdowndb_contract::WideMarks`).

use pushdowndb_contract::{CsvOptions, WideMarks};
use s3s::{S3Result, s3_error};

/// The delimiters that a request names, or their defaults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delimiters<'a> {
    pub delimiter: &'a str,
    /// `None` is any line ending.
    pub terminator: Option<&'a str>,
    pub quote: Option<&'a str>,
    pub escape: Option<&'a str>,
    pub comment: Option<&'a str>,
}

impl Delimiters<'_> {
    /// Checks that delimiters are short and distinct.
    pub fn check(&self) -> S3Result<()> {
        for (name, mark) in [("FieldDelimiter", Some(self.delimiter)), ("RecordDelimiter", self.terminator)] {
            if mark.is_some_and(|mark| mark.chars().count() > 2) {
                return Err(s3_error!(InvalidRequestParameter, "{} has one or two characters", name));
            }
        }
        let singles =
            [("QuoteCharacter", self.quote), ("QuoteEscapeCharacter", self.escape), ("Comments", self.comment)];
        for (name, mark) in singles {
            one_character(name, mark.unwrap_or("-"))?;
        }
        let delimiter = Some(self.delimiter);
        let line_end = self.terminator.is_none() && matches!(self.delimiter, "\n" | "\r\n");
        let record = self.terminator.is_some() && self.terminator == self.quote;
        if delimiter == self.quote || delimiter == self.terminator || line_end || record {
            return Err(s3_error!(
                InvalidRequestParameter,
                "FieldDelimiter, RecordDelimiter and QuoteCharacter must differ from each other"
            ));
        }
        Ok(())
    }

    /// Sets these delimiters in `options`.
    pub fn put_into(&self, options: CsvOptions) -> CsvOptions {
        let byte = |mark: &str| match mark.as_bytes() {
            [byte] => Some(*byte),
            _ => None,
        };
        let all = [Some(self.delimiter), self.terminator, self.quote, self.escape, self.comment];
        if all.into_iter().flatten().all(|mark| byte(mark).is_some()) {
            let quote = self.quote.and_then(byte);
            return CsvOptions {
                delimiter: byte(self.delimiter).unwrap_or(b','),
                terminator: self.terminator.and_then(byte),
                quote,
                // A quote that escapes itself is a doubled quote.
                escape: self.escape.and_then(byte).filter(|escape| Some(*escape) != quote),
                comment: self.comment.and_then(byte),
                ..options
            };
        }
        let text = |mark: Option<&str>| mark.map(str::to_owned);
        CsvOptions {
            wide: Some(WideMarks {
                delimiter: self.delimiter.to_owned(),
                terminator: text(self.terminator),
                quote: text(self.quote),
                escape: text(self.escape),
                comment: text(self.comment),
            }),
            ..options
        }
    }
}

/// Checks that a delimiter is one character.
pub(super) fn one_character(name: &str, mark: &str) -> S3Result<()> {
    if mark.chars().count() == 1 {
        return Ok(());
    }
    Err(s3_error!(InvalidRequestParameter, "{} must be one character, not '{}'", name, mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Delimiters<'_> =
        Delimiters { delimiter: ",", terminator: None, quote: Some("\""), escape: Some("\""), comment: Some("#") };

    #[test]
    fn long_marks_go_in_as_text() {
        let plain = PLAIN.put_into(CsvOptions::default());
        assert_eq!((plain.quote, plain.escape, plain.comment, plain.wide), (Some(b'"'), None, Some(b'#'), None));
        for marks in [Delimiters { delimiter: "¦", ..PLAIN }, Delimiters { terminator: Some("@@"), ..PLAIN }] {
            assert!(marks.check().is_ok());
            assert!(marks.put_into(CsvOptions::default()).wide.is_some());
        }
    }

    #[test]
    fn marks_must_differ_and_be_short() {
        for marks in [
            Delimiters { delimiter: "\"", ..PLAIN },
            Delimiters { delimiter: "\n", ..PLAIN },
            Delimiters { delimiter: "abc", ..PLAIN },
            Delimiters { quote: Some("ab"), ..PLAIN },
            Delimiters { terminator: Some(","), ..PLAIN },
            Delimiters { terminator: Some("\""), ..PLAIN },
        ] {
            assert!(marks.check().is_err(), "{marks:?}");
        }
    }
}
