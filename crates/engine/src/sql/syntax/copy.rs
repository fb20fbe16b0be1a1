//! COPY with the options of DuckDB and PostgreSQL, rewritten to DataFusion's syntax:
//!
//! | written | read |
//! | --- | --- |
//! | `COPY t TO 'x' (FORMAT csv, HEADER false)` | `COPY t TO 'x' STORED AS CSV OPTIONS ('format.has_header' 'false')` |
//! | `(PARTITION_BY (a, b), OVERWRITE)` | `PARTITIONED BY (a, b) OPTIONS ('format.overwrite' 'true')` |
//! | `TO 'x.csv.gz'`, `'x.tsv'`, `'x.ndjson'` | the format and the compression that the name says |
//! | `COPY t FROM 'x.csv'` | `INSERT INTO t SELECT * FROM 'x.csv'` |

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};
use pushdowndb_contract::{Error, Result};

use crate::nearest::nearest;

/// The names of options that are known.
const KNOWN: &[&str] = &[
    "append",
    "codec",
    "compression",
    "compression_level",
    "dateformat",
    "delim",
    "delimiter",
    "escape",
    "force_quote",
    "format",
    "header",
    "null",
    "nullstr",
    "overwrite",
    "overwrite_or_ignore",
    "partition_by",
    "quote",
    "row_group_size",
    "sep",
    "timestampformat",
    "write_partition_columns",
];

/// Suffixes of names, and the compression that they imply.
const COMPRESSIONS: [(&str, &str); 5] =
    [(".gz", "gzip"), (".zst", "zstd"), (".zstd", "zstd"), (".bz2", "bzip2"), (".xz", "xz")];

/// Suffixes of names, and the format that they imply.
const FORMATS: [(&str, &str); 6] = [
    (".csv", "CSV"),
    (".tsv", "TSV"),
    (".json", "JSON"),
    (".ndjson", "JSON"),
    (".jsonl", "JSON"),
    (".parquet", "PARQUET"),
];

/// The formats that FORMAT takes.
const WRITTEN: [&str; 6] = ["CSV", "TSV", "JSON", "NDJSON", "JSONL", "PARQUET"];

/// Returns the tokens of a COPY in the form that the parser reads; those of other statements
/// unchanged.
///
/// # Errors
///
/// Returns an error if an option is unknown or lacks its value.
pub(super) fn with_options(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>> {
    let words: Vec<&Token> =
        tokens.iter().map(|token| &token.token).filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    let explained = words.iter().position(|token| keyword(token) == Some(Keyword::COPY));
    let is_explain = words.first().is_some_and(|first| keyword(first) == Some(Keyword::EXPLAIN));
    let Some(start) = explained.filter(|at| *at == 0 || is_explain) else {
        return Ok(tokens);
    };
    // The keyword after the source.
    let mut depth = 0_usize;
    let mut direction = None;
    for (at, token) in words.iter().enumerate().skip(start + 1) {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            token => match keyword(token) {
                Some(word @ (Keyword::TO | Keyword::FROM)) => {
                    direction = Some((at, word));
                    break;
                }
                _ => continue,
            },
        }
    }
    let Some((at, word)) = direction else { return Ok(tokens) };
    let source = words.get(start + 1..at).unwrap_or_default();
    let target = match words.get(at + 1) {
        Some(Token::SingleQuotedString(target)) => target.clone(),
        Some(Token::Word(place)) if place.value.eq_ignore_ascii_case("stdout") => {
            return Err(Error::unsupported(
                "COPY … TO STDOUT is for the command line and the SQL server; elsewhere, SELECT",
            ));
        }
        _ => return Ok(tokens),
    };
    let rest = words.get(at + 2..).unwrap_or_default();
    if word == Keyword::FROM {
        return inserted(source, &target, rest).map(spanned);
    }
    let mut read: Vec<Token> = words.get(..at + 2).unwrap_or_default().iter().map(|token| (*token).clone()).collect();
    let rest = match rest {
        [with, rest @ ..] if keyword(with) == Some(Keyword::WITH) => rest,
        rest => rest,
    };
    let mut copy = Copy::of_name(&target);
    match rest {
        [Token::LParen, list @ .., Token::RParen] => copy.read(list)?,
        [] => {}
        // DataFusion's own clauses replace what the name implies.
        rest => {
            let says = |word: Keyword| rest.iter().any(|token| keyword(token) == Some(word));
            if says(Keyword::STORED) {
                copy.format = None;
            }
            if says(Keyword::OPTIONS) {
                copy.options.clear();
            }
            copy.write(&mut read);
            read.extend(rest.iter().map(|token| (*token).clone()));
            return Ok(spanned(read));
        }
    }
    copy.write(&mut read);
    Ok(spanned(read))
}

fn keyword(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

fn spanned(tokens: Vec<Token>) -> Vec<TokenWithSpan> {
    tokens.into_iter().map(|token| TokenWithSpan::new(token, Span::empty())).collect()
}

/// Returns `INSERT INTO t SELECT * FROM 'file'`.
fn inserted(table: &[&Token], file: &str, options: &[&Token]) -> Result<Vec<Token>> {
    if !options.is_empty() {
        return Err(Error::unsupported(
            "COPY … FROM takes no options; INSERT INTO a table what a SELECT reads of the file",
        ));
    }
    let mut read = ["INSERT", "INTO"].map(Token::make_keyword).to_vec();
    read.extend(table.iter().map(|token| (*token).clone()));
    read.extend([Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")]);
    read.push(Token::SingleQuotedString(file.to_owned()));
    Ok(read)
}

/// The options of a COPY.
#[derive(Default)]
struct Copy {
    format: Option<String>,
    partitioned_by: Vec<Token>,
    options: Vec<(&'static str, String)>,
}

impl Copy {
    /// Returns the options that the name of the target implies.
    fn of_name(target: &str) -> Self {
        let name = target.to_ascii_lowercase();
        let (name, compression) = COMPRESSIONS
            .iter()
            .find_map(|(ending, compression)| Some((name.strip_suffix(ending)?.to_owned(), Some(*compression))))
            .unwrap_or((name, None));
        let format = FORMATS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| (*format).to_owned());
        let mut copy = Self { format, ..Self::default() };
        if let Some(compression) = compression {
            copy.set("format.compression", compression);
        }
        copy
    }

    fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.options.retain(|(own, _)| *own != name);
        self.options.push((name, value.into()));
    }

    /// Parses the options between the brackets.
    fn read(&mut self, list: &[&Token]) -> Result<()> {
        let mut depth = 0_usize;
        let mut all = vec![vec![]];
        for token in list {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                Token::Comma if depth == 0 => {
                    all.push(vec![]);
                    continue;
                }
                _ => {}
            }
            if let Some(last) = all.last_mut() {
                last.push(*token);
            }
        }
        all.iter().filter(|option| !option.is_empty()).try_for_each(|option| self.option(option))
    }

    fn option(&mut self, option: &[&Token]) -> Result<()> {
        let [name, value @ ..] = option else { return Ok(()) };
        let name = match name {
            Token::Word(word) => word.value.to_ascii_lowercase(),
            Token::SingleQuotedString(name) => name.to_ascii_lowercase(),
            other => return Err(Error::invalid(format!("COPY: {other} is no name of an option"))),
        };
        let text = |name: &str| match value {
            [Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text)] => Ok(text.clone()),
            [Token::Word(word)] => Ok(word.value.clone()),
            [Token::Number(number, _)] => Ok(number.clone()),
            _ => Err(Error::invalid(format!("COPY: {name} takes one value"))),
        };
        // HEADER alone is HEADER true.
        let flag = |name: &str| if value.is_empty() { Ok("true".to_owned()) } else { text(name) };
        match name.as_str() {
            "format" => {
                let format = text("FORMAT")?.to_ascii_uppercase();
                if !WRITTEN.contains(&format.as_str()) {
                    let known = WRITTEN.join(", ").to_lowercase();
                    return Err(Error::unsupported(format!("COPY writes no {format}; FORMAT takes {known}")));
                }
                self.format = Some(format);
            }
            "header" => self.set("format.has_header", flag("HEADER")?),
            "delimiter" | "delim" | "sep" => self.set("format.delimiter", text("DELIMITER")?),
            "quote" => self.set("format.quote", text("QUOTE")?),
            "escape" => self.set("format.escape", text("ESCAPE")?),
            "null" | "nullstr" => self.set("format.null_value", text("NULL")?),
            "dateformat" => self.set("format.date_format", text("DATEFORMAT")?),
            "timestampformat" => self.set("format.timestamp_format", text("TIMESTAMPFORMAT")?),
            "force_quote" => match value {
                [Token::Mul] | [Token::LParen, Token::Mul, Token::RParen] => self.set("format.quote_style", "Always"),
                _ => return Err(Error::unsupported("COPY: FORCE_QUOTE takes * only: all columns")),
            },
            "compression" | "codec" => {
                let compression = text("COMPRESSION")?.to_ascii_lowercase();
                let none = matches!(compression.as_str(), "none" | "uncompressed");
                self.set("format.compression", if none { "uncompressed".to_owned() } else { compression });
            }
            "compression_level" => self.set("format.compression_level", text("COMPRESSION_LEVEL")?),
            "row_group_size" => self.set("format.max_row_group_size", text("ROW_GROUP_SIZE")?),
            "append" => self.set("format.append", flag("APPEND")?),
            "overwrite" => self.set("format.overwrite", flag("OVERWRITE")?),
            "overwrite_or_ignore" => {
                return Err(Error::unsupported(
                    "COPY: OVERWRITE_OR_IGNORE is not supported: OVERWRITE replaces all objects of the folder, and \
                     APPEND writes beside them",
                ));
            }
            "write_partition_columns" => {
                self.set("execution.keep_partition_by_columns", flag("WRITE_PARTITION_COLUMNS")?);
            }
            "partition_by" => {
                let columns = match value {
                    [Token::LParen, columns @ .., Token::RParen] if !columns.is_empty() => columns,
                    [column @ (Token::Word(_) | Token::SingleQuotedString(_))] => std::slice::from_ref(column),
                    _ => return Err(Error::invalid("COPY: PARTITION_BY takes columns: PARTITION_BY (a, b)")),
                };
                self.partitioned_by = columns.iter().map(|token| (*token).clone()).collect();
            }
            other => {
                let hint = nearest(other, KNOWN.iter().copied())
                    .map_or_else(|| format!("known are {}", KNOWN.join(", ")), |near| format!("did you mean {near}?"));
                return Err(Error::invalid(format!("COPY has no option {other}; {hint}")));
            }
        }
        Ok(())
    }

    /// Appends the clauses of DataFusion's COPY.
    fn write(mut self, tokens: &mut Vec<Token>) {
        let text = |text: &str| Token::SingleQuotedString(text.to_owned());
        let format = match self.format.take().as_deref() {
            Some("TSV") => {
                if !self.options.iter().any(|(name, _)| *name == "format.delimiter") {
                    self.set("format.delimiter", "\t");
                }
                Some("CSV".to_owned())
            }
            Some("NDJSON" | "JSONL") => Some("JSON".to_owned()),
            format => format.map(str::to_owned),
        };
        if let Some(format) = format {
            tokens.extend(["STORED", "AS"].map(Token::make_keyword));
            tokens.push(Token::make_word(&format, None));
        }
        if !self.partitioned_by.is_empty() {
            tokens.extend(["PARTITIONED", "BY"].map(Token::make_keyword));
            tokens.push(Token::LParen);
            tokens.append(&mut self.partitioned_by);
            tokens.push(Token::RParen);
        }
        if !self.options.is_empty() {
            tokens.push(Token::make_keyword("OPTIONS"));
            tokens.push(Token::LParen);
            for (at, (name, value)) in self.options.iter().enumerate() {
                if at > 0 {
                    tokens.push(Token::Comma);
                }
                tokens.extend([text(name), text(value)]);
            }
            tokens.push(Token::RParen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Statement;

    fn read(sql: &str) -> Result<String> {
        let tokens = with_options(Statement::parse(sql).unwrap().tokens)?;
        Ok(tokens.iter().map(|token| token.token.to_string()).filter(|text| text != " ").collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn options_are_said_in_datafusions_words() {
        for (sql, expected) in [
            (
                "COPY t TO 'x' (FORMAT csv, HEADER false)",
                "COPY t TO 'x' STORED AS CSV OPTIONS ( 'format.has_header' 'false' )",
            ),
            (
                "COPY (SELECT 1) TO 'x/' WITH (FORMAT parquet, PARTITION_BY (a, b), OVERWRITE, COMPRESSION zstd)",
                "COPY ( SELECT 1 ) TO 'x/' STORED AS PARQUET PARTITIONED BY ( a , b ) OPTIONS ( 'format.overwrite' \
                 'true' , 'format.compression' 'zstd' )",
            ),
            ("COPY t TO 'x.csv.gz'", "COPY t TO 'x.csv.gz' STORED AS CSV OPTIONS ( 'format.compression' 'gzip' )"),
            ("COPY t TO 'x.tsv'", "COPY t TO 'x.tsv' STORED AS CSV OPTIONS ( 'format.delimiter' '\t' )"),
            ("COPY t TO 'x.ndjson'", "COPY t TO 'x.ndjson' STORED AS JSON"),
            ("COPY t TO 'x.tsv' (DELIM ';')", "COPY t TO 'x.tsv' STORED AS CSV OPTIONS ( 'format.delimiter' ';' )"),
            (
                "COPY t TO 'x.csv' STORED AS CSV OPTIONS (append true)",
                "COPY t TO 'x.csv' STORED AS CSV OPTIONS ( append true )",
            ),
            ("COPY t FROM 'x.csv'", "INSERT INTO t SELECT * FROM 'x.csv'"),
            ("SELECT 1", "SELECT 1"),
        ] {
            assert_eq!(read(sql).unwrap(), expected, "{sql}");
        }
        for (sql, said) in [
            ("COPY t TO 'x' (HEDER)", "did you mean header?"),
            ("COPY t TO 'x' (FORMAT)", "FORMAT takes one value"),
            ("COPY t TO 'x.csv' (FORMAT xlsx)", "COPY writes no XLSX; FORMAT takes csv, tsv"),
            ("COPY t TO 'x' (OVERWRITE_OR_IGNORE)", "APPEND writes beside them"),
            ("COPY t TO STDOUT", "elsewhere, SELECT"),
        ] {
            let error = read(sql).unwrap_err().to_string();
            assert!(error.contains(said), "{sql}: {error}");
        }
    }
}
