//! `COPY … TO STDOUT`: prints the rows of a query in the format that its options name.

use anyhow::Result;
use pushdowndb_contract::Error;

use crate::print::OutputFormat;

/// Returns the query and the format of a COPY to stdout; `None` for other statements.
///
/// # Errors
///
/// An option that is not supported.
pub fn query(statement: &str) -> Result<Option<(String, OutputFormat)>> {
    let Some(rest) = behind_word(statement.trim(), "COPY") else { return Ok(None) };
    let Some((subject, target)) = parts(rest) else { return Ok(None) };
    let Some(options) = behind_word(target, "STDOUT") else { return Ok(None) };
    let query = match subject.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(query) => query.to_owned(),
        None => format!("SELECT * FROM {subject}"),
    };
    Ok(Some((query, format(options)?)))
}

/// The text after `word`, if `text` begins with it.
fn behind_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (first, rest) = text.split_at_checked(word.len())?;
    let ends = !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    (first.eq_ignore_ascii_case(word) && ends).then(|| rest.trim())
}

/// The part between COPY and TO, and the part after TO.
fn parts(text: &str) -> Option<(&str, &str)> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) => quote = Some(open).filter(|open| *open != c),
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, c) if depth == 0 && c.is_whitespace() => {
                let (subject, rest) = text.split_at_checked(at)?;
                if let Some(target) = behind_word(rest.trim_start(), "TO") {
                    return Some((subject.trim(), target));
                }
            }
            (None, _) => {}
        }
        // Without a blank before TO: `COPY (SELECT 1)TO STDOUT`
        if quote.is_none() && depth == 0 && c == ')' {
            let (subject, rest) = text.split_at_checked(at + 1)?;
            if let Some(target) = behind_word(rest.trim_start(), "TO") {
                return Some((subject.trim(), target));
            }
        }
    }
    None
}

/// The format that the options name, or CSV with a header if they name none.
fn format(options: &str) -> Result<OutputFormat> {
    let options = behind_word(options, "WITH").unwrap_or(options);
    let options = options.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(options);
    let mut format = OutputFormat::Csv;
    let words: Vec<String> = options
        .split(|c: char| c.is_whitespace() || c == ',')
        .map(|word| word.trim_matches('\'').to_lowercase())
        .collect();
    for word in words.iter().filter(|word| !word.is_empty()) {
        format = match word.as_str() {
            "format" | "header" | "true" => format,
            "csv" => OutputFormat::Csv,
            "json" => OutputFormat::Json,
            "ndjson" | "jsonl" => OutputFormat::Ndjson,
            "parquet" => OutputFormat::Parquet,
            "arrow" => OutputFormat::Arrow,
            other => {
                return Err(Error::unsupported(format!(
                    "COPY TO STDOUT takes FORMAT csv, json, ndjson, parquet or arrow, and HEADER, not {other}; to a file \
                     it takes all options"
                ))
                .into());
            }
        };
    }
    Ok(format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_to_stdout_are_queries() {
        let of = |sql: &str| query(sql).unwrap();
        for (sql, expected, format) in [
            ("COPY t TO STDOUT", "SELECT * FROM t", OutputFormat::Csv),
            (
                "copy (SELECT 'a TO b' FROM (SELECT 1) x) to stdout (FORMAT json)",
                "SELECT 'a TO b' FROM (SELECT 1) x",
                OutputFormat::Json,
            ),
            (
                "COPY 'a TO b.csv' TO STDOUT WITH (FORMAT 'csv', HEADER)",
                "SELECT * FROM 'a TO b.csv'",
                OutputFormat::Csv,
            ),
            ("COPY (SELECT 1)TO STDOUT CSV HEADER", "SELECT 1", OutputFormat::Csv),
        ] {
            assert_eq!(of(sql), Some((expected.to_owned(), format)), "{sql}");
        }
        for other in
            ["COPY t TO 'x.csv'", "COPY t FROM 'x.csv'", "SELECT 1", "COPYING t TO STDOUT", "COPY stdout TO 'x'"]
        {
            assert_eq!(of(other), None, "{other}");
        }
        assert!(query("COPY t TO STDOUT (DELIMITER ';')").unwrap_err().to_string().contains("delimiter"));
    }
}
