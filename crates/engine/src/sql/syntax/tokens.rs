//! Rewrites the tokens of a statement where the parser would not read them.
//!
//! | written | read |
//! | --- | --- |
//! | `1_000` | `1000` |
//! | `WITH a AS [NOT] MATERIALIZED (…)` | `WITH a AS (…)`: there is nothing to keep |
//! | `CREATE FUNCTION f(a) AS a + 1` | `CREATE MACRO f(a) AS a + 1` |
//! | `a ** b`, `a ISNULL` and the like | longer spellings ([`super::shorthand`]) |
//! | `FROM t USING SAMPLE 10%` | `FROM t TABLESAMPLE (10 PERCENT)` |
//! | `x -> x + 1` in a function of lists | a lambda ([`super::lambdas`]) |
//! | `CREATE TABLE t (index INT)` | `CREATE TABLE t ("index" INT)`: tables have no indexes there |
//! | `FROM t` | `SELECT * FROM t` ([`super::from_first`]) |
//! | `COPY … TO 'x' (FORMAT csv)` | `COPY … TO 'x' STORED AS CSV` ([`super::copy`]) |

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};
use pushdowndb_contract::Result;

use super::{copy, from_first, lambdas, shorthand};

/// Returns the tokens in a form that the parser reads.
///
/// # Errors
///
/// Returns an error for an unknown option of COPY, and for a POSITIONAL JOIN.
pub(crate) fn readable(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>> {
    let tokens = shorthand::replaced(&with_whole_numbers(tokens))?;
    let tokens = with_columns_named_as_indexes(functions_as_macros(tokens));
    let tokens = lambdas::mark(sampled(without_materialized(tokens)));
    copy::with_options(from_first::add_select(&tokens))
}

/// Returns the tokens of `INSERT INTO t BY NAME …` without BY NAME; `None` for other statements.
pub(crate) fn without_by_name(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let words: Vec<usize> = (0..tokens.len()).filter(|at| tokens.get(*at).is_some_and(|t| !is_blank(t))).collect();
    let named = |place: usize, name: &str| match words.get(place).and_then(|at| tokens.get(*at)).map(|t| &t.token) {
        Some(Token::Word(word)) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name),
        _ => false,
    };
    if !named(0, "INSERT") || !named(1, "INTO") {
        return None;
    }
    // After the name, which has at most three parts.
    let is_point =
        |place: usize| words.get(place).and_then(|at| tokens.get(*at)).is_some_and(|t| t.token == Token::Period);
    let is_behind_name = |by: usize| (3..by).step_by(2).all(is_point);
    let by = [3, 5, 7].into_iter().find(|by| is_behind_name(*by) && named(*by, "BY") && named(*by + 1, "NAME"))?;
    let (from, to) = (*words.get(by)?, *words.get(by + 1)?);
    Some(
        tokens.iter().enumerate().filter(|(at, _)| !(from..=to).contains(at)).map(|(_, token)| token.clone()).collect(),
    )
}

fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

fn is_blank(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}

/// Joins numbers with the digits that underscores separate from them.
fn with_whole_numbers(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        if let Token::Word(word) = &token.token
            && let Some(digits) = word.value.strip_prefix('_')
            && word.quote_style.is_none()
            && digits.split('_').all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
            && let Some(TokenWithSpan { token: Token::Number(number, false), .. }) = joined.last_mut()
        {
            number.extend(digits.chars().filter(|c| *c != '_'));
            continue;
        }
        joined.push(token.clone());
    }
    joined
}

/// Quotes the names of columns in `CREATE TABLE` that the parser would read as MySQL's indexes.
fn with_columns_named_as_indexes(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if tokens.iter().find(|token| !is_blank(token)).and_then(keyword) != Some(Keyword::CREATE) {
        return tokens;
    }
    let mut begins = false;
    for token in &mut tokens {
        if is_blank(token) {
            continue;
        }
        if let Token::Word(word) = &mut token.token
            && begins
            && word.quote_style.is_none()
            && matches!(word.keyword, Keyword::INDEX | Keyword::KEY | Keyword::FULLTEXT | Keyword::SPATIAL)
        {
            *word = Word { value: word.value.to_lowercase(), quote_style: Some('"'), keyword: Keyword::NoKeyword };
        }
        begins = matches!(token.token, Token::LParen | Token::Comma);
    }
    tokens
}

/// Turns `CREATE FUNCTION f(a) AS …`, DuckDB's other name of CREATE MACRO, into CREATE MACRO.
fn functions_as_macros(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_name = |token: &TokenWithSpan| matches!(token.token, Token::Word(_));
    let shown: Vec<usize> = (0..tokens.len()).filter(|at| tokens.get(*at).is_some_and(|t| !is_blank(t))).collect();
    let token = |place: usize| shown.get(place).and_then(|at| tokens.get(*at));
    let function = (1..5).find(|place| token(*place).and_then(keyword) == Some(Keyword::FUNCTION));
    let Some(function) = function.filter(|_| token(0).and_then(keyword) == Some(Keyword::CREATE)) else {
        return tokens;
    };
    let is_open =
        token(function + 1).is_some_and(is_name) && token(function + 2).is_some_and(|t| t.token == Token::LParen);
    // Functions of other systems have types, or a language.
    let close = (function + 3..shown.len()).find(|place| token(*place).is_some_and(|t| t.token == Token::RParen));
    let follows = close.and_then(|close| token(close + 1)).and_then(keyword) == Some(Keyword::AS);
    let is_text = close.and_then(|close| token(close + 2));
    let is_text =
        is_text.is_some_and(|t| matches!(t.token, Token::SingleQuotedString(_) | Token::DollarQuotedString(_)));
    if let Some(token) =
        shown.get(function).filter(|_| is_open && follows && !is_text).and_then(|at| tokens.get_mut(*at))
    {
        token.token = Token::make_keyword("MACRO");
    }
    tokens
}

/// Removes `MATERIALIZED` and `NOT MATERIALIZED` between `AS` and a bracket.
fn without_materialized(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut kept: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        let before_bracket = || {
            let after = tokens.get(at + 1..).unwrap_or_default();
            after.iter().find(|token| !is_blank(token)).is_some_and(|token| token.token == Token::LParen)
        };
        if keyword(token) == Some(Keyword::MATERIALIZED) && before_bracket() {
            let last = |kept: &[TokenWithSpan]| kept.iter().rposition(|token| !is_blank(token));
            if let Some(not) = last(&kept)
                && kept.get(not).and_then(keyword) == Some(Keyword::NOT)
            {
                kept.truncate(not);
            }
            if last(&kept).and_then(|place| keyword(kept.get(place)?)) == Some(Keyword::AS) {
                continue;
            }
        }
        kept.push(token.clone());
    }
    kept
}

/// Replaces `USING SAMPLE` after a SELECT by `TABLESAMPLE` after its FROM. The size is `10%`, `10
/// PERCENT`, `100 ROWS` or `100`. The method `bernoulli`, `system` or `reservoir` precedes the size
/// in brackets, or follows it in brackets. `10%` and `reservoir(100)` are also read after
/// TABLESAMPLE.
fn sampled(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let words: Vec<usize> = (0..tokens.len()).filter(|at| tokens.get(*at).is_some_and(|t| !is_blank(t))).collect();
    let word = |place: usize| words.get(place).and_then(|at| tokens.get(*at));
    let is = |place: usize, token: Token| word(place).is_some_and(|found| found.token == token);
    let named = |place: usize, name: &str| match word(place).map(|token| &token.token) {
        Some(Token::Word(word)) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name),
        _ => false,
    };
    let number = |place: usize| word(place).map(|word| word.token.clone()).filter(|t| matches!(t, Token::Number(..)));
    let is_using = |place: usize| named(place, "USING") && named(place + 1, "SAMPLE");
    let Some(start) = (0..words.len()).find(|place| is_using(*place) || named(*place, "TABLESAMPLE")) else {
        return tokens;
    };
    let is_using = is_using(start);
    let mut place = start + 1 + usize::from(is_using);
    let find_method = |place: usize| ["bernoulli", "system", "reservoir"].into_iter().find(|name| named(place, name));
    let mut method = find_method(place);
    place += usize::from(method.is_some());
    let in_brackets = is(place, Token::LParen);
    place += usize::from(in_brackets);
    let (Some(size), Some(span)) = (number(place), word(place).map(|word| word.span)) else { return tokens };
    place += 1;
    let unit = match word(place).map(|token| &token.token) {
        Some(Token::Mod) => Some("PERCENT"),
        Some(Token::Word(unit)) if unit.value.eq_ignore_ascii_case("percent") => Some("PERCENT"),
        Some(Token::Word(unit)) if unit.value.eq_ignore_ascii_case("rows") => Some("ROWS"),
        _ => None,
    };
    if !is_using && unit.is_none() && method != Some("reservoir") {
        return tokens;
    }
    place += usize::from(unit.is_some()) + usize::from(in_brackets);
    let mut seed = None;
    // `10% (bernoulli, 42)`
    if is_using && method.is_none() && is(place, Token::LParen) && find_method(place + 1).is_some() {
        method = find_method(place + 1);
        place += 2;
        if is(place, Token::Comma) {
            seed = number(place + 1);
            place += 2;
        }
        place += 1;
    }
    if named(place, "REPEATABLE") && is(place + 1, Token::LParen) {
        seed = number(place + 2);
        place += 4;
    }
    let mut read = vec![Token::make_keyword("TABLESAMPLE")];
    // TABLESAMPLE without a method draws a reservoir.
    read.extend(method.filter(|method| *method != "reservoir").map(|name| Token::make_keyword(&name.to_uppercase())));
    read.extend([Token::LParen, size, Token::make_keyword(unit.unwrap_or("ROWS")), Token::RParen]);
    if let Some(seed) = seed {
        read.extend([Token::make_keyword("REPEATABLE"), Token::LParen, seed, Token::RParen]);
    }
    let from = words.get(start).copied().unwrap_or_default();
    let to = words.get(place).copied().unwrap_or(tokens.len());
    let behind_table = if is_using { end_of_from(&tokens, from) } else { from };
    let mut all = tokens;
    all.drain(from..to);
    let blank = Token::Whitespace(Whitespace::Space);
    let read = [blank.clone()].into_iter().chain(read).chain([blank]);
    all.splice(behind_table..behind_table, read.map(|token| TokenWithSpan::new(token, span)));
    all
}

/// Returns where the FROM ends whose SELECT ends at `end`: at the first clause after it.
fn end_of_from(tokens: &[TokenWithSpan], end: usize) -> usize {
    let mut depth = 0_usize;
    let mut clause = end;
    for (at, token) in tokens.iter().enumerate().take(end).rev() {
        match (&token.token, keyword(token)) {
            (Token::RParen, _) => depth += 1,
            (Token::LParen, _) if depth == 0 => return clause,
            (Token::LParen, _) => depth -= 1,
            (_, Some(Keyword::FROM)) if depth == 0 => return clause,
            (
                _,
                Some(
                    Keyword::WHERE
                    | Keyword::GROUP
                    | Keyword::HAVING
                    | Keyword::ORDER
                    | Keyword::LIMIT
                    | Keyword::QUALIFY
                    | Keyword::WINDOW,
                ),
            ) if depth == 0 => clause = at,
            _ => {}
        }
    }
    clause
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Statement;

    fn read(sql: &str) -> String {
        let tokens = readable(&Statement::parse(sql).unwrap().tokens).unwrap();
        let texts: Vec<_> =
            tokens.iter().filter(|token| !is_blank(token)).map(|token| token.token.to_string()).collect();
        texts.join(" ")
    }

    #[test]
    fn by_name_is_taken_out_of_insert_alone() {
        let taken = |sql: &str| {
            let tokens = without_by_name(&Statement::parse(sql).unwrap().tokens)?;
            Some(tokens.iter().filter(|t| !is_blank(t)).map(|t| t.token.to_string()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(taken("INSERT INTO t BY NAME SELECT 1 AS a").as_deref(), Some("INSERT INTO t SELECT 1 AS a"));
        assert_eq!(taken("insert into a.b by name FROM x").as_deref(), Some("insert into a . b FROM x"));
        assert_eq!(taken("INSERT INTO t SELECT 1 UNION ALL BY NAME SELECT 2"), None);
        assert_eq!(taken("INSERT INTO t SELECT 1 UNION BY NAME SELECT 2"), None);
        assert_eq!(taken("SELECT 1 UNION BY NAME SELECT 2"), None);
    }

    #[test]
    fn what_the_parser_lacks_is_replaced() {
        for (sql, expected) in [
            ("SELECT 1_000, 12_345_678, a_1, 1 _b", "SELECT 1000 , 12345678 , a_1 , 1 _b"),
            ("WITH a AS MATERIALIZED (SELECT 1) FROM a", "WITH a AS ( SELECT 1 ) SELECT * FROM a"),
            ("WITH a AS NOT MATERIALIZED (SELECT 1) SELECT 1", "WITH a AS ( SELECT 1 ) SELECT 1"),
            (
                "CREATE TABLE t (INDEX BIGINT, b INT, key TEXT)",
                "CREATE TABLE t ( \"index\" BIGINT , b INT , \"key\" TEXT )",
            ),
            ("FROM t USING SAMPLE 10%", "SELECT * FROM t TABLESAMPLE ( 10 PERCENT )"),
            (
                "SELECT * FROM t USING SAMPLE bernoulli(10 PERCENT)",
                "SELECT * FROM t TABLESAMPLE BERNOULLI ( 10 PERCENT )",
            ),
            ("SELECT * FROM t USING SAMPLE reservoir(50 ROWS)", "SELECT * FROM t TABLESAMPLE ( 50 ROWS )"),
            ("SELECT * FROM t USING SAMPLE 50", "SELECT * FROM t TABLESAMPLE ( 50 ROWS )"),
            ("SELECT a FROM t WHERE a > 1 USING SAMPLE 10%", "SELECT a FROM t TABLESAMPLE ( 10 PERCENT ) WHERE a > 1"),
            ("SELECT a FROM t TABLESAMPLE 10%", "SELECT a FROM t TABLESAMPLE ( 10 PERCENT )"),
            (
                "SELECT a FROM t USING SAMPLE 10% (system, 42)",
                "SELECT a FROM t TABLESAMPLE SYSTEM ( 10 PERCENT ) REPEATABLE ( 42 )",
            ),
            (
                "SELECT a FROM t TABLESAMPLE reservoir(9) REPEATABLE (7)",
                "SELECT a FROM t TABLESAMPLE ( 9 ROWS ) REPEATABLE ( 7 )",
            ),
            ("CREATE FUNCTION f(a) AS a + 1", "CREATE MACRO f ( a ) AS a + 1"),
            ("CREATE FUNCTION f(a INT) RETURNS INT AS 'x'", "CREATE FUNCTION f ( a INT ) RETURNS INT AS 'x'"),
            ("SELECT * FROM t JOIN u USING (sample)", "SELECT * FROM t JOIN u USING ( sample )"),
        ] {
            assert_eq!(read(sql), expected, "{sql}");
        }
    }
}
