//! Patterns that DataFusion 55.2 misreads: LIKE with another escape character than the backslash,
//! and SIMILAR TO, which it reads as a regular expression.

use std::iter::Peekable;
use std::str::Chars;

use datafusion::sql::sqlparser::ast::{Expr, Value, ValueWithSpan};
use pushdowndb_contract::{Error, Result};

/// The default escape character.
const BACKSLASH: char = '\\';

/// Rewrites a LIKE to escape by backslash, and a SIMILAR TO to a regular expression.
pub(super) fn translate(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
            let Some(escape) = escape_char.as_ref().map(escape_of).transpose()? else { return Ok(()) };
            if escape != Some(BACKSLASH) {
                let Some(text) = text_of(pattern) else {
                    return Err(Error::unsupported(
                        "LIKE with ESCAPE takes a constant pattern; in one that is computed, the backslash escapes",
                    ));
                };
                **pattern = Expr::value(Value::SingleQuotedString(with_backslashes(&text, escape)));
            }
            *escape_char = None;
        }
        Expr::SimilarTo { pattern, escape_char, .. } => {
            let escape = escape_char.take().as_ref().map_or(Ok(Some(BACKSLASH)), escape_of)?;
            let Some(text) = text_of(pattern) else {
                return Err(Error::unsupported(
                    "SIMILAR TO takes a constant pattern; write a regular expression, value ~ pattern",
                ));
            };
            **pattern = Expr::value(Value::SingleQuotedString(regular_expression(&text, escape)));
        }
        _ => {}
    }
    Ok(())
}

/// The text of a constant.
fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. })
        | Expr::Value(ValueWithSpan { value: Value::EscapedStringLiteral(text), .. }) => Some(text.clone()),
        Expr::Nested(inner) => text_of(inner),
        _ => None,
    }
}

/// The character of an ESCAPE clause; `None` for `ESCAPE ''`, which disables escaping.
fn escape_of(clause: &ValueWithSpan) -> Result<Option<char>> {
    if let Value::SingleQuotedString(text) = &clause.value {
        let mut characters = text.chars();
        if let (escape, None) = (characters.next(), characters.next()) {
            return Ok(escape);
        }
    }
    Err(Error::invalid(format!("ESCAPE takes one character in quotes, not {clause}")))
}

fn with_backslashes(pattern: &str, escape: Option<char>) -> String {
    let mut written = String::with_capacity(pattern.len());
    let literal = |written: &mut String, character: char| {
        if matches!(character, '%' | '_' | BACKSLASH) {
            written.push(BACKSLASH);
        }
        written.push(character);
    };
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            _ if Some(character) == escape => literal(&mut written, characters.next().unwrap_or(character)),
            '%' | '_' => written.push(character),
            _ => literal(&mut written, character),
        }
    }
    written
}

/// Returns the regular expression that matches the same texts as a pattern of SIMILAR TO.
fn regular_expression(pattern: &str, escape: Option<char>) -> String {
    let mut written = String::from("(?s)^(?:");
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            _ if Some(character) == escape => literal(&mut written, characters.next().unwrap_or(character)),
            '%' => written.push_str(".*"),
            '_' => written.push('.'),
            '(' => written.push_str("(?:"),
            ')' | '|' | '*' | '+' | '?' | '{' | '}' | ',' => written.push(character),
            '[' => class(&mut written, &mut characters, escape),
            _ => literal(&mut written, character),
        }
    }
    written.push_str(")$");
    written
}

/// Appends a character that stands for itself.
fn literal(written: &mut String, character: char) {
    if character.is_ascii_punctuation() {
        written.push('\\');
    }
    written.push(character);
}

/// Appends a class of characters, whose `[` was read already.
fn class(written: &mut String, characters: &mut Peekable<Chars<'_>>, escape: Option<char>) {
    written.push('[');
    written.extend(characters.next_if_eq(&'^'));
    // A bracket that comes first belongs to the class.
    if characters.next_if_eq(&']').is_some() {
        written.push_str("\\]");
    }
    while let Some(character) = characters.next() {
        match character {
            ']' => {
                written.push(']');
                return;
            }
            '[' if characters.peek() == Some(&':') => {
                written.push('[');
                for named in characters.by_ref() {
                    written.push(named);
                    if named == ']' {
                        break;
                    }
                }
            }
            '-' => written.push('-'),
            _ if Some(character) == escape => literal(written, characters.next().unwrap_or(character)),
            _ => literal(written, character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_backslashes() {
        for (pattern, escape, written) in [
            ("a!%b%", Some('!'), "a\\%b%"),
            ("a!!b", Some('!'), "a!b"),
            ("a\\b", Some('!'), "a\\\\b"),
            ("a!bc", Some('!'), "abc"),
            ("ab!", Some('!'), "ab!"),
            ("a\\_b_", None, "a\\\\_b_"),
            ("é%%%", Some('%'), "é\\%\\%"),
        ] {
            assert_eq!(with_backslashes(pattern, escape), written, "{pattern}");
        }
    }

    #[test]
    fn similar_patterns_become_regular_expressions() {
        for (pattern, written) in [
            ("a%", "a.*"),
            ("(a|b)_", "(?:a|b)."),
            ("a.c^$", "a\\.c\\^\\$"),
            ("a\\%b", "a\\%b"),
            ("a{2,3}b*", "a{2,3}b*"),
            ("[^a-c.]+", "[^a-c\\.]+"),
            ("[]&[:alpha:]]", "[\\]\\&[:alpha:]]"),
        ] {
            assert_eq!(regular_expression(pattern, Some('\\')), format!("(?s)^(?:{written})$"), "{pattern}");
        }
    }
}
