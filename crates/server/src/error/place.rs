//! Finds the position of an error in a statement, by the line and column that the parser reports,
//! or by the name or literal that the message quotes.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// The position that `message` is about, in characters of `statement` from 1; `None` if it is
/// unknown.
pub(super) fn of(message: &str, statement: &str) -> Option<usize> {
    if let Some((line, column)) = named_place(message) {
        return character(statement, line, column);
    }
    let tokens = Tokenizer::new(&GenericDialect {}, statement).with_unescape(false).tokenize_with_location().ok()?;
    let tokens: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF)).collect();
    if message.ends_with("found: EOF") {
        return Some(statement.trim_end().chars().count() + 1);
    }
    let at =
        wrong_name(message).and_then(|name| find_name(&tokens, name)).or_else(|| find_literal(&tokens, message))?;
    let start = tokens.get(at)?.span.start;
    character(statement, usize::try_from(start.line).ok()?, usize::try_from(start.column).ok()?)
}

/// Parses the position in messages of the parser: `… at Line: 2, Column: 7`.
fn named_place(message: &str) -> Option<(usize, usize)> {
    let (_, rest) = message.rsplit_once("Line: ")?;
    let (line, rest) = rest.split_once(", Column: ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((line.parse().ok()?, digits.parse().ok()?))
}

/// Converts a line and a column, both counted from 1, to a position in characters.
fn character(statement: &str, line: usize, column: usize) -> Option<usize> {
    if line == 0 || column == 0 {
        return None;
    }
    let lines: usize = statement.split_inclusive('\n').take(line - 1).map(|line| line.chars().count()).sum();
    (lines + column <= statement.chars().count() + 1).then_some(lines + column)
}

/// The name that a message says is wrong, as it is written in the statement.
fn wrong_name(message: &str) -> Option<&str> {
    const BEFORE: [&str; 6] = [
        "there is no table ",
        "there is no function ",
        "No field named ",
        "Ambiguous reference to unqualified field ",
        "Ambiguous reference to qualified field ",
        "Unsupported SQL type ",
    ];
    if let Some(rest) = BEFORE.iter().find_map(|before| Some(message.split_once(before)?.1)) {
        let name = rest.split([';', ' ', '\n', ',']).next()?;
        return Some(name.strip_suffix('.').unwrap_or(name));
    }
    if let Some((_, rest)) = message.split_once("Invalid function '") {
        return rest.split('\'').next();
    }
    if let Some((_, rest)) = message.split_once("column ")
        && let Some((name, _)) = rest.split_once(" must stand in GROUP BY")
    {
        return Some(name);
    }
    message.split_once(" does not take ").map(|(name, _)| name)
}

/// The index of the token where `name` begins, which may have several parts.
fn find_name(tokens: &[TokenWithSpan], name: &str) -> Option<usize> {
    let parts: Vec<&str> = name.split('.').map(|part| part.trim_matches('"')).collect();
    // Messages qualify tables with catalog and schema, which the statement may leave out.
    (0..parts.len()).find_map(|first| {
        let parts = parts.get(first..)?;
        (0..tokens.len()).find(|at| {
            parts.iter().enumerate().all(|(place, part)| {
                let is_part = matches!(tokens.get(at + 2 * place).map(|token| &token.token),
                    Some(Token::Word(word)) if word.value.eq_ignore_ascii_case(part));
                let is_joined = place == 0
                    || matches!(tokens.get(at + 2 * place - 1).map(|token| &token.token), Some(Token::Period));
                is_part && is_joined
            })
        })
    })
}

/// The index of the string literal that could not be converted, if it occurs only once.
fn find_literal(tokens: &[TokenWithSpan], message: &str) -> Option<usize> {
    let rest =
        ["Cannot cast string '", "Cannot cast value '"].iter().find_map(|before| message.strip_prefix(before))?;
    let (text, _) = rest.rsplit_once("' to value of")?;
    let written = text.replace('\'', "''");
    let mut found = tokens.iter().enumerate().filter_map(|(at, token)| {
        matches!(&token.token, Token::SingleQuotedString(literal) if *literal == written).then_some(at)
    });
    found.next().filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_message_names_is_found() {
        for (message, statement, expected) in [
            ("Expected: x, found: y at Line: 2, Column: 3", "é\nab c", Some(5)),
            ("Expected: x at Line: 0, Column: 0", "x", None),
            ("Expected: an expression, found: EOF", "SELECT 1 + ", Some(11)),
            ("there is no table missing; declare it", "SELECT 'missing' FROM missing", Some(23)),
            ("there is no table a.b.missing; declare it", "TABLE b.Missing", Some(7)),
            ("No field named s.nope.\nValid fields are s.day.", "SELECT nope, s.nope FROM s", Some(14)),
            ("there is no function no_such; docs", "SELECT\n no_such(1)", Some(9)),
            ("column s.item must stand in GROUP BY, or in an aggregate", "SELECT item, sum(p) FROM s", Some(8)),
            ("sum does not take VARCHAR", "SELECT sum(item) FROM sales", Some(8)),
            ("Cannot cast string 'it's' to value of INT type", "SELECT CAST('it''s' AS INT)", Some(13)),
            ("Cannot cast string 'x' to value of INT type", "SELECT 'x', CAST('x' AS INT)", None),
            ("something else", "SELECT 1", None),
        ] {
            assert_eq!(of(message, statement), expected, "{message} in {statement}");
        }
    }
}
