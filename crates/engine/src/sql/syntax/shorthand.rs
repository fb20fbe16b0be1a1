//! Short spellings of DuckDB and PostgreSQL that the parser does not read, replaced in the tokens.
//!
//! | written | read |
//! | --- | --- |
//! | `a ** b` | `a ^ b` ([`super::power`]) |
//! | `a ISNULL`, `a NOTNULL` | `a IS NULL`, `a IS NOT NULL` |
//! | `a IN [1, 2]` | `a IN (1, 2)` |
//! | `a GLOB 'x*'` | `a ~ '^x.*$'` |
//! | `TABLE t` | `FROM t` |
//! | `count(*) FILTER (a > 1)` | `count(*) FILTER (WHERE a > 1)` |
//! | `SELECT * LIKE 'a%'` | `SELECT COLUMNS(c -> c LIKE 'a%')` ([`super::columns`]) |
//! | `[x + 1 FOR x IN l IF x > 2]` | `list_transform(list_filter(l, x -> x > 2), x -> x + 1)` |
//! | `a ASOF JOIN b` | `a GLOBAL JOIN b` ([`super::asof`]) |

use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};
use pushdowndb_contract::{Error, Result};

/// Returns the tokens without blanks, and with these spellings replaced.
///
/// # Errors
///
/// Returns an error for a POSITIONAL JOIN, which the parser would read as an alias.
pub(super) fn replaced(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>> {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let words: Vec<TokenWithSpan> = tokens.iter().filter(|token| !is_blank(token)).cloned().collect();
    let words = comprehended(words);
    let mut read: Vec<TokenWithSpan> = Vec::with_capacity(words.len());
    // The depths at which a bracket of `IN [` is open.
    let mut lists = Vec::new();
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(token) = words.get(at) {
        let next = words.get(at + 1);
        let put = |read: &mut Vec<TokenWithSpan>, new: Token| read.push(TokenWithSpan::new(new, token.span));
        let behind_operand = read.last().is_some_and(ends_operand);
        at += 1;
        match &token.token {
            Token::LParen | Token::LBrace => depth += 1,
            Token::RParen | Token::RBrace => depth = depth.saturating_sub(1),
            Token::LBracket => {
                depth += 1;
                if read.last().is_some_and(|last| is_word(last, "IN")) {
                    lists.push(depth);
                    put(&mut read, Token::LParen);
                    continue;
                }
            }
            Token::RBracket => {
                let is_list = lists.last() == Some(&depth);
                depth = depth.saturating_sub(1);
                if is_list {
                    lists.pop();
                    put(&mut read, Token::RParen);
                    continue;
                }
            }
            Token::Mul if behind_operand && next.is_some_and(|next| is_next_to(token, next, &Token::Mul)) => {
                put(&mut read, Token::Caret);
                at += 1;
                continue;
            }
            Token::Mul if begins_item(read.last()) => {
                if let Some((condition, length)) = chosen(words.get(at..).unwrap_or_default()) {
                    condition.into_iter().for_each(|new| put(&mut read, new));
                    at += length;
                    continue;
                }
            }
            Token::Word(_) if behind_operand && is_word(token, "ISNULL") && !opens(next) => {
                ["IS", "NULL"].map(Token::make_keyword).into_iter().for_each(|new| put(&mut read, new));
                continue;
            }
            Token::Word(_) if behind_operand && is_word(token, "NOTNULL") && !opens(next) => {
                ["IS", "NOT", "NULL"].map(Token::make_keyword).into_iter().for_each(|new| put(&mut read, new));
                continue;
            }
            Token::Word(_) if behind_operand && is_word(token, "GLOB") => {
                if let Some(Token::SingleQuotedString(glob)) = next.map(|next| &next.token) {
                    put(&mut read, Token::Tilde);
                    put(&mut read, Token::SingleQuotedString(regex_of_glob(glob)));
                    at += 1;
                    continue;
                }
            }
            Token::Word(_)
                if is_word(token, "FILTER")
                    && opens(next)
                    && read.last().is_some_and(|last| last.token == Token::RParen)
                    && words.get(at + 1).is_some_and(|word| !is_word(word, "WHERE")) =>
            {
                read.push(token.clone());
                put(&mut read, Token::LParen);
                put(&mut read, Token::make_keyword("WHERE"));
                depth += 1;
                at += 1;
                continue;
            }
            Token::Word(_) if read.is_empty() && is_word(token, "TABLE") => {
                put(&mut read, Token::make_keyword("FROM"));
                continue;
            }
            Token::Word(_) if is_word(token, "ASOF") && joins(words.get(at..).unwrap_or_default()) => {
                put(&mut read, Token::make_keyword("GLOBAL"));
                continue;
            }
            Token::Word(_) if behind_operand && is_word(token, "POSITIONAL") && is_join(next) => {
                return Err(Error::unsupported(
                    "POSITIONAL JOIN is not supported: rows of objects are read side by side; number both by \
                     row_number() OVER (ORDER BY …), and join ON the numbers",
                ));
            }
            _ => {}
        }
        read.push(token.clone());
    }
    Ok(read)
}

fn is_word(token: &TokenWithSpan, name: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
}

fn is_join(token: Option<&TokenWithSpan>) -> bool {
    token.is_some_and(|token| is_word(token, "JOIN"))
}

fn opens(token: Option<&TokenWithSpan>) -> bool {
    token.is_some_and(|token| token.token == Token::LParen)
}

/// Returns whether `next` is `expected` and directly follows `token`.
fn is_next_to(token: &TokenWithSpan, next: &TokenWithSpan, expected: &Token) -> bool {
    next.token == *expected && token.span.end == next.span.start
}

/// Returns whether an operand ends with `token`.
fn ends_operand(token: &TokenWithSpan) -> bool {
    const NONE: [&str; 27] = [
        "ALL",
        "AND",
        "AS",
        "BETWEEN",
        "BY",
        "CASE",
        "DISTINCT",
        "ELSE",
        "EXCEPT",
        "FROM",
        "HAVING",
        "ILIKE",
        "IN",
        "INTERSECT",
        "IS",
        "JOIN",
        "LIKE",
        "LIMIT",
        "NOT",
        "ON",
        "OR",
        "QUALIFY",
        "SELECT",
        "THEN",
        "UNION",
        "WHEN",
        "WHERE",
    ];
    match &token.token {
        Token::Word(word) => {
            word.quote_style.is_some() || !NONE.iter().any(|none| none.eq_ignore_ascii_case(&word.value))
        }
        Token::Number(..) | Token::SingleQuotedString(_) | Token::RParen | Token::RBracket | Token::RBrace => true,
        Token::Placeholder(_) => true,
        _ => false,
    }
}

/// Returns whether a column of a SELECT begins after `token`.
fn begins_item(token: Option<&TokenWithSpan>) -> bool {
    token.is_some_and(|token| token.token == Token::Comma || is_word(token, "SELECT") || is_word(token, "DISTINCT"))
}

/// Returns whether `tokens` continue a join after its first word.
fn joins(tokens: &[TokenWithSpan]) -> bool {
    let mut rest = tokens.iter();
    let first = rest.find(|token| !["LEFT", "RIGHT", "FULL", "INNER", "OUTER"].iter().any(|word| is_word(token, word)));
    is_join(first)
}

/// Returns `COLUMNS(c -> condition)` for the condition of a `*` that `tokens` begin with, and the
/// number of its tokens.
fn chosen(tokens: &[TokenWithSpan]) -> Option<(Vec<Token>, usize)> {
    let not = usize::from(tokens.first().is_some_and(|token| is_word(token, "NOT")));
    let operator = tokens.get(not)?;
    let similar = is_word(operator, "SIMILAR") && tokens.get(not + 1).is_some_and(|token| is_word(token, "TO"));
    let is_pattern = ["LIKE", "ILIKE", "GLOB"].iter().any(|name| is_word(operator, name));
    if !similar && !is_pattern {
        return None;
    }
    let length = not + 1 + usize::from(similar);
    let Token::SingleQuotedString(text) = &tokens.get(length)?.token else { return None };
    let column = || Token::make_word("c", None);
    let mut read = vec![Token::make_word("COLUMNS", None), Token::LParen, column(), Token::Arrow];
    if not == 1 {
        read.push(Token::make_keyword("NOT"));
    }
    if is_pattern && !is_word(operator, "GLOB") {
        read.extend([column(), operator.token.clone(), Token::SingleQuotedString(text.clone())]);
    } else {
        // The pattern may match a part of the name, as in DuckDB.
        let pattern = if similar { text.clone() } else { regex_of_glob(text) };
        read.extend([Token::make_word("regexp_matches", None), Token::LParen, column(), Token::Comma]);
        read.extend([Token::SingleQuotedString(pattern), Token::RParen]);
    }
    read.push(Token::RParen);
    Some((read, length + 1))
}

/// Returns the regular expression of a pattern with `*`, `?` and `[…]`.
fn regex_of_glob(glob: &str) -> String {
    let mut regex = "^".to_owned();
    let mut in_set = false;
    for c in glob.chars() {
        match c {
            '*' if !in_set => regex.push_str("(?s:.)*"),
            '?' if !in_set => regex.push_str("(?s:.)"),
            '!' if in_set && regex.ends_with('[') => regex.push('^'),
            '[' | ']' => {
                in_set = c == '[';
                regex.push(c);
            }
            c if c.is_ascii_punctuation() && !(in_set && c == '-') => regex.extend(['\\', c]),
            c => regex.push(c),
        }
    }
    regex.push('$');
    regex
}

/// Replaces list comprehensions by calls of list functions. A comprehension within another is
/// replaced first, since its FOR comes first, and the result is searched again.
fn comprehended(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut looked_through = 0;
    loop {
        let next = tokens.iter().skip(looked_through).position(|token| is_word(token, "FOR"));
        let Some(for_at) = next.map(|next| looked_through + next) else { return tokens };
        match comprehension(&tokens, for_at) {
            Some(found) => {
                looked_through = found.from;
                tokens = as_calls(&tokens, for_at, found);
            }
            None => looked_through = for_at + 1,
        }
    }
}

/// Returns the tokens with the comprehension `found`, whose FOR is at `for_at`, written as calls.
fn as_calls(tokens: &[TokenWithSpan], for_at: usize, found: Comprehension) -> Vec<TokenWithSpan> {
    let Comprehension { from, to, parameter, list, condition } = found;
    let span = tokens.get(from).map_or_else(Span::empty, |token| token.span);
    let part = |range: std::ops::Range<usize>| tokens.get(range).unwrap_or_default().to_vec();
    let new = |token: Token| TokenWithSpan::new(token, span);
    let word = |name: &str| new(Token::make_word(name, None));
    let lambda = |body: Vec<TokenWithSpan>| {
        let mut all = parameter.clone();
        all.push(new(Token::Arrow));
        all.extend(body);
        all
    };
    let mut read = part(0..from);
    read.extend([word("list_transform"), new(Token::LParen)]);
    match condition {
        Some(condition) => {
            read.extend([word("list_filter"), new(Token::LParen)]);
            read.extend(part(list));
            read.push(new(Token::Comma));
            read.extend(lambda(part(condition)));
            read.push(new(Token::RParen));
        }
        None => read.extend(part(list)),
    }
    read.push(new(Token::Comma));
    read.extend(lambda(part(from + 1..for_at)));
    read.push(new(Token::RParen));
    read.extend(part(to + 1..tokens.len()));
    read
}

/// The positions of the parts of `[… FOR parameter IN list IF condition]`.
struct Comprehension {
    from: usize,
    to: usize,
    parameter: Vec<TokenWithSpan>,
    list: std::ops::Range<usize>,
    condition: Option<std::ops::Range<usize>>,
}

fn comprehension(tokens: &[TokenWithSpan], for_at: usize) -> Option<Comprehension> {
    let in_at = for_at + 2;
    if !is_word(tokens.get(in_at)?, "IN") {
        return None;
    }
    // The bracket that is open at FOR.
    let mut depth = 0_usize;
    let mut from = None;
    for (at, token) in tokens.iter().enumerate().take(for_at).rev() {
        match token.token {
            Token::RParen | Token::RBracket | Token::RBrace => depth += 1,
            Token::LBracket if depth == 0 => {
                from = Some(at);
                break;
            }
            Token::LParen | Token::LBrace if depth == 0 => return None,
            Token::LParen | Token::LBracket | Token::LBrace => depth -= 1,
            _ => {}
        }
    }
    let from = from?;
    let parameter = vec![tokens.get(for_at + 1)?.clone()];
    let (mut depth, mut if_at) = (0_usize, None);
    for (at, token) in tokens.iter().enumerate().skip(in_at + 1) {
        match token.token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RBracket if depth == 0 => {
                let list = in_at + 1..if_at.unwrap_or(at);
                let condition = if_at.map(|if_at| if_at + 1..at);
                return Some(Comprehension { from, to: at, parameter, list, condition });
            }
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.checked_sub(1)?,
            Token::Word(_) if depth == 0 && is_word(token, "IF") && !opens_call(tokens, at) => if_at = Some(at),
            _ => {}
        }
    }
    None
}

/// Returns whether the word at `at` is a call within an expression: after an operator or a comma.
fn opens_call(tokens: &[TokenWithSpan], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| tokens.get(before));
    !before.is_some_and(ends_operand)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Statement;

    fn read(sql: &str) -> Result<String> {
        let tokens = replaced(&Statement::parse(sql).unwrap().tokens)?;
        Ok(tokens.iter().map(|token| token.token.to_string()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn short_spellings_become_long_ones() {
        for (sql, expected) in [
            ("SELECT a ** 2, a * b", "SELECT a ^ 2 , a * b"),
            ("SELECT count(*)", "SELECT count ( * )"),
            ("SELECT a ISNULL, b.c NOTNULL, isnull, 1", "SELECT a IS NULL , b . c IS NOT NULL , isnull , 1"),
            ("SELECT a IN [1, b[2]], [3][1]", "SELECT a IN ( 1 , b [ 2 ] ) , [ 3 ] [ 1 ]"),
            ("SELECT a GLOB 'x*.?'", "SELECT a ~ '^x(?s:.)*\\.(?s:.)$'"),
            ("TABLE t", "FROM t"),
            ("SELECT * NOT LIKE 'a%', b FROM t", "SELECT COLUMNS ( c -> NOT c LIKE 'a%' ) , b FROM t"),
            ("SELECT * SIMILAR TO 'a.*' FROM t", "SELECT COLUMNS ( c -> regexp_matches ( c , 'a.*' ) ) FROM t"),
            ("SELECT [x + 1 FOR x IN [1, 2]]", "SELECT list_transform ( [ 1 , 2 ] , x -> x + 1 )"),
            (
                "SELECT [f(x, [y FOR y IN x]) FOR x IN l IF x > 1], 2",
                "SELECT list_transform ( list_filter ( l , x -> x > 1 ) , x -> f ( x , list_transform ( x , y -> y ) ) ) , 2",
            ),
            (
                "SELECT [substring(x FROM 1 FOR 2) FOR x IN [y FOR y IN l]]",
                "SELECT list_transform ( list_transform ( l , y -> y ) , x -> substring ( x FROM 1 FOR 2 ) )",
            ),
            ("SELECT * FROM a ASOF LEFT JOIN b ON c", "SELECT * FROM a GLOBAL LEFT JOIN b ON c"),
            ("SELECT substring(a FROM 1 FOR 2)", "SELECT substring ( a FROM 1 FOR 2 )"),
        ] {
            assert_eq!(read(sql).unwrap(), expected, "{sql}");
        }
        assert!(read("SELECT * FROM a POSITIONAL JOIN b").unwrap_err().to_string().contains("row_number()"));
    }
}
