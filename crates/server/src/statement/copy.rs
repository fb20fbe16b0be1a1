//! `COPY … TO STDOUT`.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::words::Words;
use crate::error::{PgError, code};

/// The format of copied rows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CopyFormat {
    Text,
    Csv,
    Binary,
}

/// A COPY of rows to the client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct CopyOut {
    /// The query whose rows are copied.
    pub query: String,
    pub format: CopyFormat,
    pub header: bool,
    pub delimiter: u8,
    /// The text that represents NULL.
    pub null: String,
    pub quote: u8,
    pub escape: u8,
    /// Whether every value is quoted in CSV.
    pub force_quote: bool,
}

impl CopyOut {
    /// Parses `COPY … TO STDOUT`. Returns `None` for a COPY to files, which the engine runs.
    ///
    /// # Errors
    ///
    /// COPY from the client, or an unknown option.
    pub fn parse(words: &mut Words) -> Result<Option<Self>, PgError> {
        let syntax = |message: &str| PgError::new(code::SYNTAX, message.to_owned());
        words.takes("COPY");
        let query = match words.parenthesized() {
            Some(query) => query,
            None => {
                let Some(source) = source(words) else { return Ok(None) };
                source
            }
        };
        if words.takes("FROM") {
            return Err(PgError::new(
                code::UNSUPPORTED,
                "COPY from the client: objects are written whole, by COPY (SELECT …) TO 's3://bucket/key'",
            ));
        }
        if !words.takes_all(&["TO", "STDOUT"]) {
            return Ok(None);
        }
        let mut given = Given::default();
        words.takes("WITH");
        if words.takes_mark(&Token::LParen) {
            while !words.takes_mark(&Token::RParen) {
                given.option(words)?;
                words.takes_mark(&Token::Comma);
                if words.is_end() {
                    return Err(syntax("the options of COPY have no end"));
                }
            }
        } else {
            while !words.is_end() {
                given.old_option(words)?;
            }
        }
        if !words.is_end() {
            return Err(syntax("nothing stands after the options of COPY"));
        }
        given.finish(query).map(Some)
    }
}

/// Parses a table with an optional list of columns, and returns it as a query.
fn source(words: &mut Words) -> Option<String> {
    let table = match words.peek()? {
        Token::SingleQuotedString(address) => {
            let address = format!("'{address}'");
            words.next();
            address
        }
        _ => {
            let mut name = String::new();
            loop {
                name.push_str(&format!("\"{}\"", words.name()?.replace('"', "\"\"")));
                if !words.takes_mark(&Token::Period) {
                    break name;
                }
                name.push('.');
            }
        }
    };
    let columns = words.parenthesized();
    Some(format!("SELECT {} FROM {table}", columns.as_deref().unwrap_or("*")))
}

#[derive(Default)]
struct Given {
    format: Option<CopyFormat>,
    header: bool,
    delimiter: Option<String>,
    null: Option<String>,
    quote: Option<String>,
    escape: Option<String>,
    force_quote: bool,
}

impl Given {
    fn option(&mut self, words: &mut Words) -> Result<(), PgError> {
        let name = words.keyword().unwrap_or_default();
        let missing = || PgError::new(code::SYNTAX, format!("the option {name} of COPY has no value"));
        match name.as_str() {
            "FORMAT" => self.format = Some(format(&words.value().ok_or_else(missing)?)?),
            "HEADER" => {
                let is_given = !matches!(words.peek(), Some(Token::Comma | Token::RParen) | None);
                let value = if is_given { words.value().unwrap_or_default() } else { "true".to_owned() };
                self.header = match value.to_ascii_lowercase().as_str() {
                    "true" | "on" | "1" => true,
                    "false" | "off" | "0" => false,
                    other => return Err(invalid(format!("HEADER is true or false, not {other}"))),
                };
            }
            "DELIMITER" => self.delimiter = Some(words.value().ok_or_else(missing)?),
            "NULL" => self.null = Some(words.value().ok_or_else(missing)?),
            "QUOTE" => self.quote = Some(words.value().ok_or_else(missing)?),
            "ESCAPE" => self.escape = Some(words.value().ok_or_else(missing)?),
            "ENCODING" => encoding(&words.value().ok_or_else(missing)?)?,
            "FORCE_QUOTE" if words.takes_mark(&Token::Mul) => self.force_quote = true,
            _ => return Err(PgError::new(code::UNSUPPORTED, format!("COPY has no option {name}"))),
        }
        Ok(())
    }

    /// Parses an option in the syntax before PostgreSQL 9.0.
    fn old_option(&mut self, words: &mut Words) -> Result<(), PgError> {
        let name = words.keyword().unwrap_or_default();
        words.takes("AS");
        let missing = || PgError::new(code::SYNTAX, format!("the option {name} of COPY has no value"));
        match name.as_str() {
            "BINARY" => self.format = Some(CopyFormat::Binary),
            "CSV" => self.format = Some(CopyFormat::Csv),
            "HEADER" => self.header = true,
            "DELIMITER" => self.delimiter = Some(words.value().ok_or_else(missing)?),
            "NULL" => self.null = Some(words.value().ok_or_else(missing)?),
            "QUOTE" => self.quote = Some(words.value().ok_or_else(missing)?),
            "ESCAPE" => self.escape = Some(words.value().ok_or_else(missing)?),
            _ => return Err(PgError::new(code::SYNTAX, format!("COPY has no option {name}"))),
        }
        Ok(())
    }

    fn finish(self, query: String) -> Result<CopyOut, PgError> {
        let format = self.format.unwrap_or(CopyFormat::Text);
        let byte = |what: &str, given: Option<String>, default: u8| match given.as_deref().map(str::as_bytes) {
            None => Ok(default),
            Some([byte]) if byte.is_ascii() && !matches!(byte, b'\r' | b'\n') => Ok(*byte),
            Some(_) => Err(invalid(format!("{what} of COPY must be one ASCII character"))),
        };
        let is_csv = format == CopyFormat::Csv;
        if format == CopyFormat::Binary && (self.header || self.delimiter.is_some() || self.null.is_some()) {
            return Err(PgError::new(code::SYNTAX, "binary COPY takes no HEADER, DELIMITER or NULL"));
        }
        if !is_csv && (self.quote.is_some() || self.escape.is_some() || self.force_quote) {
            return Err(PgError::new(code::UNSUPPORTED, "QUOTE, ESCAPE and FORCE_QUOTE are for CSV"));
        }
        let delimiter = byte("DELIMITER", self.delimiter, if is_csv { b',' } else { b'\t' })?;
        let quote = byte("QUOTE", self.quote, b'"')?;
        let escape = byte("ESCAPE", self.escape, quote)?;
        if is_csv && delimiter == quote {
            return Err(invalid("DELIMITER and QUOTE of COPY must differ".to_owned()));
        }
        if format == CopyFormat::Text && (delimiter.is_ascii_alphanumeric() || matches!(delimiter, b'\\' | b'.')) {
            return Err(invalid("this DELIMITER could be taken for data".to_owned()));
        }
        let null = self.null.unwrap_or_else(|| if is_csv { String::new() } else { "\\N".to_owned() });
        if null.contains(['\r', '\n']) {
            return Err(invalid("NULL of COPY cannot hold the end of a line".to_owned()));
        }
        let (header, force_quote) = (self.header, self.force_quote);
        Ok(CopyOut { query, format, header, delimiter, null, quote, escape, force_quote })
    }
}

fn invalid(message: String) -> PgError {
    PgError::new(code::INVALID_VALUE, message)
}

fn format(name: &str) -> Result<CopyFormat, PgError> {
    match name.to_ascii_lowercase().as_str() {
        "text" => Ok(CopyFormat::Text),
        "csv" => Ok(CopyFormat::Csv),
        "binary" => Ok(CopyFormat::Binary),
        other => Err(invalid(format!("COPY has no format {other}: text, csv or binary"))),
    }
}

fn encoding(name: &str) -> Result<(), PgError> {
    match name.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
        "utf8" | "unicode" => Ok(()),
        _ => Err(PgError::new(code::UNSUPPORTED, format!("the encoding {name}: all text is UTF-8"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(sql: &str) -> Result<Option<CopyOut>, PgError> {
        CopyOut::parse(&mut Words::new(sql))
    }

    #[test]
    fn both_forms_of_options_are_read() {
        let new = parsed("COPY (SELECT 1) TO STDOUT WITH (FORMAT csv, HEADER, DELIMITER ';', NULL 'x')").unwrap();
        let old = parsed("copy (SELECT 1) to stdout csv header delimiter ';' null as 'x'").unwrap();
        assert_eq!(new, old);
        let new = new.unwrap();
        assert_eq!((new.format, new.header, new.delimiter), (CopyFormat::Csv, true, b';'));
        assert_eq!(parsed("COPY (SELECT 1) TO STDOUT (FORMAT binary)").unwrap().unwrap().format, CopyFormat::Binary);
        assert_eq!(parsed("COPY s.\"T\"(a, b) TO STDOUT").unwrap().unwrap().query, "SELECT a, b FROM \"s\".\"T\"");
    }

    #[test]
    fn a_copy_to_files_is_the_engines() {
        assert_eq!(parsed("COPY (SELECT 1) TO 's3://b/x.csv'").unwrap(), None);
        assert_eq!(parsed("COPY t TO 'x.parquet' STORED AS PARQUET").unwrap(), None);
    }

    #[test]
    fn what_there_is_not_is_refused() {
        for sql in [
            "COPY t FROM STDIN",
            "COPY t TO STDOUT (FORMAT xml)",
            "COPY t TO STDOUT (DELIMITER 'ab')",
            "COPY t TO STDOUT (FORMAT csv, DELIMITER '\"')",
            "COPY t TO STDOUT (FORMAT binary, HEADER)",
            "COPY t TO STDOUT (FORMAT csv",
            "COPY t TO STDOUT (QUOTE 'x')",
        ] {
            assert!(parsed(sql).is_err(), "{sql}");
        }
    }
}
