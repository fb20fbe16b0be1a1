//! `FROM t WHERE a > 1`, which means `SELECT * FROM t WHERE a > 1`, as in DuckDB. The parser reads
//! only `FROM t`.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// Adds `SELECT *` before each FROM that begins a query and has no SELECT of its own.
pub(crate) fn add_select(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_) | Token::EOF);
    let words: Vec<&TokenWithSpan> = tokens.iter().filter(|token| !is_blank(token)).collect();
    let mut queries: Vec<&TokenWithSpan> = Vec::new();
    let mut scopes = vec![Scope::of_statement(&words)];
    for (at, token) in words.iter().enumerate() {
        let Some(scope) = scopes.last_mut() else { break };
        match (&token.token, keyword(token)) {
            (Token::LParen, _) => {
                // The operand of a set operation in parentheses, or the columns of `SELECT * EXCEPT
                // (a) FROM t`.
                let before = at.checked_sub(1).and_then(|before| keyword(words.get(before)?));
                let ends = matches!(before, Some(Keyword::ALL | Keyword::DISTINCT)) || before.is_some_and(combines);
                scope.awaits_query &= !ends;
                scopes.push(Scope::of_brackets(words.get(at + 1).copied()));
            }
            (Token::RParen, _) => drop(scopes.pop()),
            (_, Some(Keyword::SELECT | Keyword::VALUES)) => scope.awaits_query = false,
            // A query follows a set operation, and the AS of CREATE TABLE and CREATE VIEW.
            (_, Some(word)) if combines(word) => scope.awaits_query = true,
            (_, Some(Keyword::AS)) if scope.creates => (scope.awaits_query, scope.creates) = (true, false),
            (_, Some(Keyword::FROM)) if scope.awaits_query => {
                scope.awaits_query = false;
                if !selects_later(words.get(at..).unwrap_or_default()) {
                    queries.push(token);
                }
            }
            _ => {}
        }
    }
    let mut queries = queries.into_iter().peekable();
    let mut all = Vec::with_capacity(tokens.len());
    for token in tokens {
        if queries.next_if(|query| std::ptr::eq(*query, token)).is_some() {
            let space = Token::Whitespace(Whitespace::Space);
            for added in [Token::make_keyword("SELECT"), space.clone(), Token::Mul, space] {
                all.push(TokenWithSpan::new(added, token.span));
            }
        }
        all.push(token.clone());
    }
    all
}

/// A statement, or the text within parentheses.
struct Scope {
    /// Whether a FROM that comes next would begin a query.
    awaits_query: bool,
    /// Whether the statement creates a table or a view from a query.
    creates: bool,
}

impl Scope {
    fn of_statement(tokens: &[&TokenWithSpan]) -> Self {
        let first = tokens.first().and_then(|token| keyword(token));
        let awaits_query = matches!(first, Some(Keyword::FROM | Keyword::WITH | Keyword::EXPLAIN | Keyword::INSERT));
        Self { awaits_query, creates: first == Some(Keyword::CREATE) }
    }

    fn of_brackets(first: Option<&TokenWithSpan>) -> Self {
        let awaits_query = first.and_then(keyword).is_some_and(|first| matches!(first, Keyword::FROM | Keyword::WITH));
        Self { awaits_query, creates: false }
    }
}

fn keyword(token: &TokenWithSpan) -> Option<Keyword> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// Whether a keyword is a set operation.
fn combines(word: Keyword) -> bool {
    matches!(word, Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT)
}

/// Whether a SELECT belongs to the FROM that `tokens` begin with: within the same parentheses,
/// before the next set operation.
fn selects_later(tokens: &[&TokenWithSpan]) -> bool {
    let mut depth = 0_usize;
    for token in tokens {
        match (&token.token, keyword(token)) {
            (Token::LParen, _) => depth += 1,
            (Token::RParen, _) if depth == 0 => return false,
            (Token::RParen, _) => depth -= 1,
            (_, Some(Keyword::SELECT)) if depth == 0 => return true,
            (_, Some(word)) if depth == 0 && combines(word) => return false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Statement;

    fn with_select(sql: &str) -> String {
        let tokens = add_select(&Statement::parse(sql).unwrap().tokens);
        tokens.iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn a_select_is_put_before_queries_that_lack_one() {
        for (sql, expected) in [
            ("FROM t", "SELECT * FROM t"),
            ("from t where a > 1 order by a limit 2", "SELECT * from t where a > 1 order by a limit 2"),
            ("EXPLAIN FROM t", "EXPLAIN SELECT * FROM t"),
            ("CREATE TABLE u AS FROM t", "CREATE TABLE u AS SELECT * FROM t"),
            ("COPY (FROM t) TO 'x'", "COPY (SELECT * FROM t) TO 'x'"),
            ("SELECT * FROM (FROM t) s", "SELECT * FROM (SELECT * FROM t) s"),
            ("WITH w AS (FROM t) FROM w", "WITH w AS (SELECT * FROM t) SELECT * FROM w"),
            (
                "SELECT 1 UNION ALL FROM 'é' EXCEPT FROM u",
                "SELECT 1 UNION ALL SELECT * FROM 'é' EXCEPT SELECT * FROM u",
            ),
            ("(SELECT 1) EXCEPT ALL (FROM t)", "(SELECT 1) EXCEPT ALL (SELECT * FROM t)"),
            ("INSERT INTO t FROM u", "INSERT INTO t SELECT * FROM u"),
            ("INSERT INTO t (a, b) FROM u", "INSERT INTO t (a, b) SELECT * FROM u"),
            ("FROM t UNION SELECT 1", "SELECT * FROM t UNION SELECT 1"),
        ] {
            assert_eq!(with_select(sql), expected);
        }
    }

    #[test]
    fn other_statements_stay_as_they_are() {
        for sql in [
            "FROM t SELECT a",
            "FROM (SELECT 1) s SELECT *",
            "SELECT a FROM t",
            "SELECT extract(YEAR FROM d), trim(BOTH 'x' FROM s) FROM t",
            "WITH w AS (SELECT 1) SELECT * FROM w",
            "DELETE FROM t",
            "SHOW COLUMNS FROM t",
            "INSERT INTO t SELECT * FROM u",
            "CREATE VIEW v AS SELECT x AS y FROM t",
            "EXPLAIN SELECT x FROM t",
            "SELECT 'FROM t', \"from\" FROM t",
            "VALUES (1)",
            "SELECT * EXCEPT (a) FROM t",
            "SELECT t.* EXCEPT (a, b), c FROM t UNION ALL SELECT 1",
            "(SELECT a FROM t)",
        ] {
            assert_eq!(with_select(sql), sql);
        }
    }
}
