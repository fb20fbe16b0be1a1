//! PIVOT and UNPIVOT as statements, as DuckDB has them:
//!
//! ```sql
//! PIVOT t ON k [IN ('a', 'b')] USING sum(v) [GROUP BY g] [ORDER BY g] [LIMIT 10]
//! UNPIVOT t ON a, b [INTO NAME n VALUE v]
//! ```

use datafusion::sql::sqlparser::ast::{Expr, ExprWithAlias, Ident};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use pushdowndb_contract::{Error, Result};

use super::syntax::relations::{pivoted, unpivoted};
use super::words::Words;

/// Maximum number of values that become columns without being listed.
pub(crate) const MAX_VALUES: usize = 1_000;

/// A PIVOT or UNPIVOT.
#[derive(Clone, Debug)]
pub(crate) enum Pivot {
    /// PIVOT: the values of `key` become columns.
    Pivot {
        /// The table or query after FROM.
        source: String,
        /// The expression whose values become columns.
        key: Box<Expr>,
        /// Those values; `None` for all that occur.
        values: Option<Vec<ExprWithAlias>>,
        /// The aggregates to compute for each value.
        aggregates: Vec<ExprWithAlias>,
        /// The columns of GROUP BY; `None` for all remaining columns.
        groups: Option<String>,
        /// `ORDER BY` and `LIMIT`.
        rest: String,
    },
    /// UNPIVOT: the names and values of columns become rows.
    Unpivot {
        /// The table or query after FROM.
        source: String,
        /// The columns as written: names, or an expression that chooses them.
        columns: String,
        name: Ident,
        value: Ident,
    },
}

/// Parses `PIVOT` and `UNPIVOT`; `None` for other statements.
pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Result<Option<Pivot>> {
    let mut words = Words::new(tokens, "PIVOT t ON k USING sum(v) or UNPIVOT t ON a, b INTO NAME n VALUE v");
    let is_pivot = words.takes(&["PIVOT"]);
    if !is_pivot && !words.takes(&["UNPIVOT"]) {
        return Ok(None);
    }
    let parts = Parts::of(tokens);
    let source = parts.before(&["ON"], 1);
    let source = match source.split(|c: char| !c.is_ascii_alphabetic()).next() {
        Some(first) if ["SELECT", "FROM", "WITH"].iter().any(|word| first.eq_ignore_ascii_case(word)) => {
            format!("({source})")
        }
        _ => source,
    };
    if source.is_empty() || parts.find("ON").is_none() {
        return Err(words.expected("a table and ON"));
    }
    if !is_pivot {
        let columns = parts.from("ON", &["INTO"]);
        let name = parts.one_behind("NAME").unwrap_or_else(|| Ident::new("name"));
        let value = parts.one_behind("VALUE").unwrap_or_else(|| Ident::new("value"));
        return Ok(Some(Pivot::Unpivot { source, columns, name, value }));
    }
    if parts.find("USING").is_none() {
        return Err(words.expected("USING and an aggregate"));
    }
    let mut keys = list(&parts.from("ON", &["IN", "USING"]))?;
    let (Some(key), true) = (keys.pop(), keys.is_empty()) else {
        return Err(Error::unsupported("PIVOT takes one column behind ON"));
    };
    let before_using = parts.find("IN").zip(parts.find("USING")).is_some_and(|(values, using)| values < using);
    let values = match before_using {
        true => {
            let values = parts.from("IN", &["USING"]);
            let inner = values.trim().strip_prefix('(').and_then(|values| values.strip_suffix(')'));
            Some(list(inner.ok_or_else(|| words.expected("values in brackets behind IN"))?)?)
        }
        false => None,
    };
    let aggregates = list(&parts.from("USING", &["GROUP", "ORDER", "LIMIT"]))?;
    let groups = parts.find("GROUP").map(|_| parts.from("BY", &["ORDER", "LIMIT"]));
    let rest = match parts.find("ORDER").or_else(|| parts.find("LIMIT")) {
        Some(at) => parts.text(at, parts.tokens.len()),
        None => String::new(),
    };
    Ok(Some(Pivot::Pivot { source, key: Box::new(key.expr), values, aggregates, groups, rest }))
}

impl Pivot {
    /// Returns the query that finds the values that become columns; `None` if they are listed.
    pub(crate) fn values(&self) -> Option<String> {
        match self {
            Self::Pivot { source, key, values: None, .. } => Some(format!(
                "SELECT DISTINCT CAST({key} AS VARCHAR) FROM {source} WHERE {key} IS NOT NULL ORDER BY 1 LIMIT {}",
                MAX_VALUES + 1
            )),
            _ => None,
        }
    }

    /// Returns the query whose columns UNPIVOT takes; `None` if they are listed by name: `UNPIVOT t
    /// ON COLUMNS(* EXCLUDE id)`.
    pub(crate) fn chosen(&self) -> Option<String> {
        let Self::Unpivot { source, columns, .. } = self else { return None };
        let is_choice = columns.starts_with('*') || columns.to_ascii_lowercase().starts_with("columns");
        is_choice.then(|| format!("SELECT {columns} FROM {source}"))
    }

    /// Returns the query that the statement stands for, with the values or columns that were
    /// `found`.
    pub(crate) fn query(self, found: &[String]) -> Result<String> {
        match self {
            Self::Unpivot { source, columns, name, value } => {
                let quoted: Vec<_> =
                    found.iter().map(|column| Ident::with_quote('"', column.clone()).to_string()).collect();
                let columns = if found.is_empty() { list(&columns)? } else { list(&quoted.join(", "))? };
                unpivoted(&source, &value.to_string(), &name, &columns, false)
            }
            Self::Pivot { source, key, values, aggregates, groups, rest } => {
                if found.len() > MAX_VALUES {
                    return Err(Error::invalid(format!(
                        "PIVOT would make more than {MAX_VALUES} columns: list the values, ON {key} IN (…)"
                    )));
                }
                let (values, key) = match values {
                    Some(values) => (values, key),
                    None => {
                        let quoted: Vec<_> =
                            found.iter().map(|value| format!("'{}'", value.replace('\'', "''"))).collect();
                        (list(&quoted.join(", "))?, Box::new(expression(&format!("CAST({key} AS VARCHAR)"))?))
                    }
                };
                let query = pivoted(&source, &aggregates, &key, &values, groups.as_deref())?;
                Ok(if rest.is_empty() { query } else { format!("SELECT * FROM ({query}) AS pivoted {rest}") })
            }
        }
    }
}

fn expression(sql: &str) -> Result<Expr> {
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(sql).and_then(|mut parser| parser.parse_expr());
    parsed.map_err(unreadable)
}

/// Parses expressions separated by commas, with their aliases.
fn list(sql: &str) -> Result<Vec<ExprWithAlias>> {
    if sql.trim().is_empty() {
        return Ok(vec![]);
    }
    let parsed = Parser::new(&GenericDialect {})
        .try_with_sql(sql)
        .and_then(|mut parser| parser.parse_comma_separated(Parser::parse_expr_with_alias));
    parsed.map_err(unreadable)
}

fn unreadable(error: ParserError) -> Error {
    match error {
        ParserError::ParserError(said) | ParserError::TokenizerError(said) => Error::invalid(format!("PIVOT: {said}")),
        ParserError::RecursionLimitExceeded => Error::invalid("PIVOT: an expression lies too deep"),
    }
}

/// The tokens of the statement, and its words outside of brackets, which begin its clauses.
struct Parts<'a> {
    tokens: &'a [TokenWithSpan],
    /// The words outside of brackets, in upper case, with their index among the tokens.
    words: Vec<(usize, String)>,
}

impl<'a> Parts<'a> {
    fn of(tokens: &'a [TokenWithSpan]) -> Self {
        let mut depth = 0_usize;
        let mut words = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            match &token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                Token::Word(word) if depth == 0 && word.quote_style.is_none() => {
                    words.push((at, word.value.to_ascii_uppercase()));
                }
                _ => {}
            }
        }
        Self { tokens, words }
    }

    fn find(&self, word: &str) -> Option<usize> {
        self.words.iter().find(|(_, own)| own == word).map(|(at, _)| *at)
    }

    fn text(&self, from: usize, to: usize) -> String {
        let text: String = self.tokens.get(from..to).unwrap_or_default().iter().map(|t| t.token.to_string()).collect();
        text.trim().to_owned()
    }

    /// Returns the text from the token `from` to the first of `ends`.
    fn before(&self, ends: &[&str], from: usize) -> String {
        let ends = self.words.iter().filter(|(at, word)| *at >= from && ends.contains(&word.as_str()));
        let end = ends.map(|(at, _)| *at).min().unwrap_or(self.tokens.len());
        self.text(from, end)
    }

    /// Returns the text between `word` and the first of `ends`.
    fn from(&self, word: &str, ends: &[&str]) -> String {
        self.find(word).map(|at| self.before(ends, at + 1)).unwrap_or_default()
    }

    /// Returns the name after `word`.
    fn one_behind(&self, word: &str) -> Option<Ident> {
        let mut behind = self.tokens.get(self.find(word)? + 1..)?.iter().map(|token| &token.token);
        match behind.find(|token| !matches!(token, Token::Whitespace(_)))? {
            Token::Word(name) => Some(match name.quote_style {
                Some(quote) => Ident::with_quote(quote, name.value.clone()),
                None => Ident::new(name.value.clone()),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse_with;

    fn query(sql: &str, found: &[&str]) -> Result<String> {
        let pivot = parse_with(sql, parse)?.expect("a PIVOT");
        pivot.query(&found.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn pivots_are_aggregates_with_filters() {
        assert_eq!(
            query("PIVOT t ON k IN ('a', 'b') USING sum(v) GROUP BY g ORDER BY g LIMIT 2", &[]).unwrap(),
            "SELECT * FROM (SELECT g, sum(v) FILTER (WHERE (k) IS NOT DISTINCT FROM ('a')) AS \"a\", sum(v) FILTER \
             (WHERE (k) IS NOT DISTINCT FROM ('b')) AS \"b\" FROM t GROUP BY g) AS pivoted ORDER BY g LIMIT 2"
        );
        assert_eq!(
            query("PIVOT (SELECT * FROM t) ON k USING count(*) AS n", &["x"]).unwrap(),
            "SELECT * EXCLUDE (k), count(*) FILTER (WHERE (CAST(k AS VARCHAR)) IS NOT DISTINCT FROM ('x')) AS \
             \"x_n\" FROM (SELECT * FROM t) GROUP BY ALL"
        );
        assert_eq!(
            query("UNPIVOT t ON a, b INTO NAME n VALUE v", &[]).unwrap(),
            "SELECT * FROM (SELECT * EXCLUDE (a, b), unnest(make_array('a', 'b')) AS n, unnest(make_array(a, b)) AS \
             v FROM t) WHERE v IS NOT NULL"
        );
        assert_eq!(
            query("UNPIVOT t ON COLUMNS(* EXCLUDE id)", &["a"]).unwrap(),
            "SELECT * FROM (SELECT * EXCLUDE (\"a\"), unnest(make_array('a')) AS name, unnest(make_array(\"a\")) AS value \
             FROM t) WHERE value IS NOT NULL"
        );
        assert!(query("PIVOT t ON k", &[]).is_err());
        assert!(query("PIVOT t USING sum(v)", &[]).is_err());
    }
}
