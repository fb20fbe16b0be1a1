//! Makes the relative paths of files in a view's query absolute.

use std::path::Path;

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
use pushdowndb_contract::{Error, Result};

use crate::access::Access;
use crate::catalog::TableLocation;

/// The context of a token inside the innermost brackets around it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// The tables of a query, after FROM or JOIN.
    Tables,
    /// The arguments of a function that reads files.
    Reader,
    /// Anything else.
    Other,
}

/// Returns `statement` with absolute paths where it names files: in FROM and JOIN, and as arguments
/// of `read_csv` and the like.
pub(super) fn absolute(statement: &str) -> Result<String> {
    let tokens = Tokenizer::new(&GenericDialect {}, statement)
        .tokenize_with_location()
        .map_err(|error| Error::invalid(format!("this is not SQL: {error}")))?;
    let mut places = vec![Place::Other];
    let (mut before, mut edits) = (Token::EOF, Vec::new());
    for token in tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))) {
        let place = places.last().copied().unwrap_or(Place::Other);
        match &token.token {
            Token::LParen | Token::LBracket => places.push(match (&token.token, &before) {
                (Token::LParen, Token::Word(word)) if reads_files(&word.value) => Place::Reader,
                (Token::LBracket, _) => place,
                _ => Place::Other,
            }),
            Token::RParen | Token::RBracket => drop(places.pop()),
            Token::Word(word) if word.quote_style.is_none() => {
                if let (Some(next), Some(place)) = (clause(&word.value), places.last_mut())
                    && *place != Place::Reader
                {
                    *place = next;
                }
            }
            Token::SingleQuotedString(text) => {
                let follows = match place {
                    Place::Tables => is_any(&before, &["FROM", "JOIN"]) || before == Token::Comma,
                    Place::Reader => matches!(before, Token::LParen | Token::LBracket | Token::Comma),
                    Place::Other => false,
                };
                if follows {
                    edits.extend(absolute_path(text, '\'')?.map(|text| (token.span, text)));
                }
            }
            Token::Word(word) if place == Place::Tables && names_file(&word.value) => {
                edits.extend(absolute_path(&word.value, '"')?.map(|text| (token.span, text)));
            }
            _ => {}
        }
        before = token.token.clone();
    }
    let mut text = statement.to_owned();
    for (span, new) in edits.iter().rev() {
        let (Some(from), Some(to)) = (byte(statement, span.start), byte(statement, span.end)) else {
            return Err(Error::internal("a token that is not in its text"));
        };
        text.replace_range(from..to, new);
    }
    Ok(text)
}

/// Returns the context that begins with `word`; `None` if it is not the first word of a clause.
fn clause(word: &str) -> Option<Place> {
    const TABLES: [&str; 2] = ["FROM", "JOIN"];
    const OTHERS: [&str; 14] = [
        "SELECT",
        "WHERE",
        "ON",
        "USING",
        "GROUP",
        "ORDER",
        "HAVING",
        "LIMIT",
        "QUALIFY",
        "WINDOW",
        "UNION",
        "VALUES",
        "INTERSECT",
        "EXCEPT",
    ];
    let is = |known: &[&str]| known.iter().any(|known| known.eq_ignore_ascii_case(word));
    match (is(&TABLES), is(&OTHERS)) {
        (true, _) => Some(Place::Tables),
        (_, true) => Some(Place::Other),
        _ => None,
    }
}

fn reads_files(function: &str) -> bool {
    let function = function.to_ascii_lowercase();
    function.starts_with("read_") || function.starts_with("parquet_") || function == "glob"
}

fn is_any(token: &Token, words: &[&str]) -> bool {
    matches!(token, Token::Word(found) if words.iter().any(|word| found.value.eq_ignore_ascii_case(word)))
}

/// Whether a name in double quotes is that of a file rather than of a table.
fn names_file(name: &str) -> bool {
    const EXTENSIONS: [&str; 8] = ["csv", "tsv", "json", "ndjson", "jsonl", "parquet", "txt", "log"];
    let plain = [".gz", ".zst", ".bz2"].iter().fold(name, |name, end| name.strip_suffix(end).unwrap_or(name));
    let extension = Path::new(plain).extension().and_then(|extension| extension.to_str());
    name.contains(['/', '*']) || extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
}

/// Returns the absolute form, in quotes, of the path `text`; `None` if it is not a relative path.
fn absolute_path(text: &str, quote: char) -> Result<Option<String>> {
    if text.contains("://") || text.starts_with('~') || Path::new(text).is_absolute() {
        return Ok(None);
    }
    // The statement ran already, so the policy permits its locations.
    let absolute = TableLocation::parse(text, &Access::everything())?.to_string();
    Ok(Some(format!("{quote}{}{quote}", absolute.replace(quote, &format!("{quote}{quote}")))))
}

/// Returns the byte offset of a position, whose line and column count characters from 1.
fn byte(text: &str, at: Location) -> Option<usize> {
    let (line, column) = (usize::try_from(at.line).ok()?, usize::try_from(at.column).ok()?);
    let start: usize = text.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let rest = text.get(start..)?;
    let skipped = column.checked_sub(1)?;
    Some(start + rest.char_indices().nth(skipped).map_or(rest.len(), |(at, _)| at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_this_machine_become_absolute() {
        let here = std::env::current_dir().unwrap();
        let at = |path: &str| format!("{}/{path}", here.display());
        for (statement, expected) in [
            (
                "CREATE VIEW v AS\n  SELECT 'a/b.csv', 'c.csv' FROM 'data/ö.csv' x, \"d/e.csv\" JOIN 'f.csv' ON a = 'g.csv'",
                format!(
                    "CREATE VIEW v AS\n  SELECT 'a/b.csv', 'c.csv' FROM '{}' x, \"{}\" JOIN '{}' ON a = 'g.csv'",
                    at("data/ö.csv"),
                    at("d/e.csv"),
                    at("f.csv")
                ),
            ),
            (
                "create view v as from read_csv(['a.csv', '/b.csv'], delim = '/') where x in (select y from 's3://b/c.csv')",
                format!(
                    "create view v as from read_csv(['{}', '/b.csv'], delim = '/') where x in (select y from 's3://b/c.csv')",
                    at("a.csv")
                ),
            ),
        ] {
            assert_eq!(absolute(statement).unwrap(), expected);
        }
    }
}
