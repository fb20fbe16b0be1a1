//! SQL text to a [`Statement`]: the clauses. Expressions are in [`expr`].

mod expr;

use pushdown::limits;

use crate::SelectError;
use crate::ast::{Item, Items, Name, Query};
use crate::lexer::{Token, tokens};

/// A statement that parses, not yet bound to the columns of an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    pub(crate) query: Query,
}

/// Parses one statement of S3 Select.
///
/// At most 256 KiB and 128 levels deep; a semicolon may end it.
pub fn parse(sql: &str) -> Result<Statement, SelectError> {
    if sql.len() > limits::SELECT_EXPRESSION_BYTES {
        return Err(SelectError::new(
            "ExpressionTooLong",
            format!("the SQL has {} bytes; at most {} are allowed", sql.len(), limits::SELECT_EXPRESSION_BYTES),
        ));
    }
    let mut parser = Parser { tokens: tokens(sql)?, next: 0, depth: 0 };
    let query = parser.query()?;
    Ok(Statement { query })
}

/// Words that end an expression or an alias, so that names of columns must be quoted to be one of them.
const RESERVED: [&str; 44] = [
    "ALL",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CROSS",
    "DESC",
    "DISTINCT",
    "ELSE",
    "END",
    "ESCAPE",
    "EXCEPT",
    "FALSE",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INTERSECT",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "MISSING",
    "NATURAL",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "RIGHT",
    "SELECT",
    "THEN",
    "TRUE",
    "UNION",
    "WHEN",
    "WHERE",
];

/// A cursor over the tokens.
struct Parser {
    /// Never empty: the last one is [`Token::End`].
    tokens: Vec<(Token, usize)>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn query(&mut self) -> Result<Query, SelectError> {
        match self.word().as_deref() {
            Some("SELECT") => self.advance(),
            Some("INSERT" | "UPDATE" | "DELETE" | "CREATE" | "DROP" | "ALTER" | "WITH" | "EXPLAIN") => {
                return Err(self.error("UnsupportedSqlOperation", "only SELECT is supported"));
            }
            _ => return Err(self.error("ParseExpectedKeyword", "a statement starts with SELECT")),
        }
        if matches!(self.word().as_deref(), Some("DISTINCT" | "ALL")) {
            return Err(self.error("ParseUnsupportedSelect", "SELECT DISTINCT and SELECT ALL are not supported"));
        }
        let (items, star_of) = self.items()?;
        if !self.keyword("FROM") {
            return Err(match self.peek() {
                Token::End => self.error("ParseSelectMissingFrom", "expected FROM S3Object"),
                _ => self.error("ParseUnexpectedToken", "expected ',' or FROM"),
            });
        }
        let alias = self.source()?;
        if let Some(name) = star_of
            && !name.means("s3object")
            && !alias.as_ref().is_some_and(|alias| name.means(&alias.text))
        {
            return Err(SelectError::new("InvalidTableAlias", format!("no table is called \"{}\"", name.text)));
        }
        let filter = if self.keyword("WHERE") { Some(self.expression()?) } else { None };
        if let Some("GROUP" | "HAVING" | "ORDER" | "UNION" | "INTERSECT" | "EXCEPT" | "OFFSET") = self.word().as_deref()
        {
            let clause = self.peek().shown();
            return Err(self.error("UnsupportedSqlStructure", &format!("S3 Select has no {clause} clause")));
        }
        let limit = if self.keyword("LIMIT") { Some(self.limit()?) } else { None };
        self.symbol(";");
        if *self.peek() != Token::End {
            return Err(self.error("ParseUnexpectedToken", "expected the end of the statement"));
        }
        Ok(Query { items, alias, filter, limit })
    }

    /// The select list, and the alias before `.*` if there is one.
    fn items(&mut self) -> Result<(Items, Option<Name>), SelectError> {
        if self.symbol("*") {
            return self.lone_star().map(|()| (Items::All, None));
        }
        if let (Token::Word(_) | Token::Quoted(_), Token::Symbol("."), Token::Symbol("*")) =
            (self.ahead(0), self.ahead(1), self.ahead(2))
        {
            let name = self.name()?;
            self.advance();
            self.advance();
            return self.lone_star().map(|()| (Items::All, Some(name)));
        }
        if self.word().as_deref() == Some("FROM") {
            return Err(self.error("ParseEmptySelect", "nothing is selected"));
        }
        let mut items = Vec::new();
        loop {
            let expr = self.expression()?;
            let alias = match (self.keyword("AS"), self.peek()) {
                (true, Token::Text(text)) => {
                    let text = text.clone();
                    self.advance();
                    Some(text)
                }
                (true, _) => Some(self.name()?.text),
                (false, Token::Quoted(_)) => Some(self.name()?.text),
                (false, Token::Word(_)) if !self.at_reserved() => Some(self.name()?.text),
                (false, _) => None,
            };
            items.push(Item { expr, alias });
            if items.len() > limits::COLUMNS {
                return Err(SelectError::new(
                    "OverMaxColumn",
                    format!("more than {} columns are selected", limits::COLUMNS),
                ));
            }
            if !self.symbol(",") {
                return Ok((Items::Some(items), None));
            }
            if *self.peek() == Token::Symbol("*") {
                return Err(self.error("ParseAsteriskIsNotAloneInSelectList", "* stands alone"));
            }
        }
    }

    fn lone_star(&mut self) -> Result<(), SelectError> {
        match self.peek() {
            Token::Symbol(",") => Err(self.error("ParseAsteriskIsNotAloneInSelectList", "* stands alone")),
            _ => Ok(()),
        }
    }

    /// `S3Object`, `S3Object[*]`, and an alias.
    fn source(&mut self) -> Result<Option<Name>, SelectError> {
        if *self.peek() == Token::Symbol("(") {
            return Err(self.error("ParseUnsupportedSelect", "subqueries are not supported"));
        }
        let table = self.name()?;
        if !table.means("S3Object") && !table.text.eq_ignore_ascii_case("s3object") {
            return Err(SelectError::new(
                "InvalidTableAlias",
                format!("no table is called \"{}\": the only one is S3Object", table.text),
            ));
        }
        if self.symbol("[") && !(self.symbol("*") && self.symbol("]")) {
            return Err(self.error("ParseInvalidPathComponent", "expected S3Object[*]"));
        }
        if matches!(self.peek(), Token::Symbol("." | "[")) {
            return Err(self.error("UnsupportedSyntax", "paths after FROM S3Object[*] are not supported"));
        }
        let alias = match (self.keyword("AS"), self.peek()) {
            (true, _) | (false, Token::Quoted(_)) => Some(self.name()?),
            (false, Token::Word(_)) if !self.at_reserved() => Some(self.name()?),
            (false, _) => None,
        };
        match (self.peek(), self.word().as_deref()) {
            (Token::Symbol(","), _)
            | (_, Some("JOIN" | "INNER" | "LEFT" | "RIGHT" | "FULL" | "CROSS" | "NATURAL" | "OUTER")) => {
                Err(self.error("MultipleDataSourcesUnsupported", "one object is queried at a time: no joins"))
            }
            _ => Ok(alias),
        }
    }

    fn limit(&mut self) -> Result<u64, SelectError> {
        if *self.peek() == Token::Symbol("-") {
            return Err(self.error("EvaluatorNegativeLimit", "LIMIT must not be negative"));
        }
        match self.peek() {
            Token::Number(digits) => match digits.parse() {
                Ok(limit) => {
                    self.advance();
                    Ok(limit)
                }
                Err(_) => Err(self.error("ParseExpectedNumber", "LIMIT takes a whole number")),
            },
            _ => Err(self.error("ParseExpectedNumber", "LIMIT takes a whole number")),
        }
    }

    /// A name: of a column, a step of a path, an alias.
    fn name(&mut self) -> Result<Name, SelectError> {
        let name = match self.peek() {
            Token::Quoted(text) => Name { text: text.clone(), exact: true },
            Token::Word(_) if self.at_reserved() => {
                return Err(self.error("ParseUnExpectedKeyword", "a name that is a keyword needs double quotes"));
            }
            Token::Word(text) => Name { text: text.clone(), exact: false },
            _ => return Err(self.error("ParseExpectedTokenType", "expected a name")),
        };
        self.advance();
        Ok(name)
    }

    fn at_reserved(&self) -> bool {
        self.word().is_some_and(|word| RESERVED.binary_search(&word.as_str()).is_ok())
    }

    fn peek(&self) -> &Token {
        self.ahead(0)
    }

    fn ahead(&self, count: usize) -> &Token {
        self.tokens.get(self.next + count).map_or(&Token::End, |(token, _)| token)
    }

    fn advance(&mut self) {
        if self.next < self.tokens.len() {
            self.next += 1;
        }
    }

    /// The next token in capitals, if it is a word.
    fn word(&self) -> Option<String> {
        match self.peek() {
            Token::Word(word) => Some(word.to_ascii_uppercase()),
            _ => None,
        }
    }

    /// Takes the keyword if it comes next.
    fn keyword(&mut self, keyword: &str) -> bool {
        let here = matches!(self.peek(), Token::Word(word) if word.eq_ignore_ascii_case(keyword));
        if here {
            self.advance();
        }
        here
    }

    /// Takes the symbol if it comes next.
    fn symbol(&mut self, symbol: &str) -> bool {
        let here = matches!(self.peek(), Token::Symbol(next) if *next == symbol);
        if here {
            self.advance();
        }
        here
    }

    /// An error at the next token.
    fn error(&self, code: &'static str, message: &str) -> SelectError {
        let (token, at) =
            self.tokens.get(self.next).or(self.tokens.last()).map_or((&Token::End, 0), |(t, at)| (t, *at));
        SelectError::new(code, format!("at byte {at}, {}: {message}", token.shown()))
    }
}
