//! The parser from SQL text to a [`Statement`]. The clauses are here, expressions in [`expr`],
//! function calls in [`calls`].

mod calls;
mod expr;

use pushdowndb_contract::{JsonStep, limits};

use crate::SelectError;
use crate::ast::{Ast, Item, Items, Name, OrderKey, Query};
use crate::keywords::{is_reserved, is_structure};
use crate::lexer::{Token, tokens};

/// A parsed statement, not yet bound to the columns of an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    pub(crate) query: Query,
}

/// Parses one statement of S3 Select, with an optional semicolon at its end.
///
/// The statement may have at most 256 KiB and 128 levels of nesting.
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

/// A cursor over the tokens.
struct Parser {
    /// The tokens with their byte offsets; never empty, since the last one is [`Token::End`].
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
        let (from, alias) = self.source()?;
        if let Some(name) = star_of
            && !name.means("s3object")
            && !alias.as_ref().is_some_and(|alias| name.means(&alias.text))
        {
            return Err(SelectError::new("InvalidTableAlias", format!("no table is called \"{}\"", name.text)));
        }
        let filter = if self.keyword("WHERE") { Some(self.expression()?) } else { None };
        let groups = if self.keyword("GROUP") { self.groups()? } else { Vec::new() };
        let order = if self.keyword("ORDER") { self.order()? } else { Vec::new() };
        if let Some("HAVING" | "UNION" | "INTERSECT" | "EXCEPT" | "OFFSET") = self.word().as_deref() {
            let clause = self.peek().shown();
            return Err(self.error("UnsupportedSqlStructure", &format!("S3 Select has no {clause} clause")));
        }
        let limit = if self.keyword("LIMIT") { Some(self.limit()?) } else { None };
        self.symbol(";");
        if *self.peek() != Token::End {
            return Err(self.error("ParseUnexpectedToken", "expected the end of the statement"));
        }
        Ok(Query { items, from, alias, filter, groups, order, limit })
    }

    /// Parses the rest of GROUP BY, after GROUP.
    fn groups(&mut self) -> Result<Vec<Ast>, SelectError> {
        if !self.keyword("BY") {
            return Err(self.error("ParseExpectedKeyword", "expected BY after GROUP"));
        }
        let mut groups = Vec::new();
        loop {
            let key = self.expression()?;
            if matches!(key, Ast::Number(_) | Ast::Text(_) | Ast::Bool(_) | Ast::Null | Ast::Missing) {
                return Err(self.error("ParseUnsupportedLiteralsGroupBy", "GROUP BY takes columns and expressions"));
            }
            groups.push(key);
            self.keys_at_most(groups.len())?;
            if !self.symbol(",") {
                return Ok(groups);
            }
        }
    }

    /// Parses the rest of ORDER BY, after ORDER. By default, NULL sorts as greater than any other
    /// value.
    fn order(&mut self) -> Result<Vec<OrderKey>, SelectError> {
        if !self.keyword("BY") {
            return Err(self.error("ParseExpectedKeyword", "expected BY after ORDER"));
        }
        let mut order = Vec::new();
        loop {
            let expr = self.expression()?;
            let descending = self.keyword("DESC");
            if !descending {
                self.keyword("ASC");
            }
            let nulls_first = match self.keyword("NULLS") {
                false => descending,
                true if self.keyword("FIRST") => true,
                true if self.keyword("LAST") => false,
                true => return Err(self.error("ParseExpectedKeyword", "expected FIRST or LAST after NULLS")),
            };
            order.push(OrderKey { expr, descending, nulls_first });
            self.keys_at_most(order.len())?;
            if !self.symbol(",") {
                return Ok(order);
            }
        }
    }

    fn keys_at_most(&self, count: usize) -> Result<(), SelectError> {
        if count <= limits::KEYS {
            return Ok(());
        }
        Err(self.error("UnsupportedSqlStructure", &format!("at most {} keys are supported", limits::KEYS)))
    }

    /// Parses the select list. Also returns the alias before `.*`, if there is one.
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
                (true, _) | (false, Token::Quoted(_)) => Some(self.alias()?.text),
                (false, Token::Word(_)) if !self.at_structure() => Some(self.alias()?.text),
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

    /// Parses `S3Object[*].path` and an alias, which defaults to the last name of the path.
    fn source(&mut self) -> Result<(Vec<JsonStep>, Option<Name>), SelectError> {
        if *self.peek() == Token::Symbol("(") {
            return Err(self.error("ParseUnsupportedSelect", "subqueries are not supported"));
        }
        let table = self.name()?;
        if !table.text.eq_ignore_ascii_case("s3object") {
            return Err(SelectError::new(
                "InvalidTableAlias",
                format!("no table is called \"{}\": the only one is S3Object", table.text),
            ));
        }
        let from = self.source_path()?;
        let alias = match (self.keyword("AS"), self.peek()) {
            (true, _) | (false, Token::Quoted(_)) => Some(self.alias()?),
            (false, Token::Word(_)) if !self.at_structure() => Some(self.alias()?),
            (false, _) => match from.last() {
                Some(JsonStep::Key { name, exact }) => Some(Name { text: name.clone(), exact: *exact }),
                _ => None,
            },
        };
        match (self.peek(), self.word().as_deref()) {
            (Token::Symbol(","), _)
            | (_, Some("JOIN" | "INNER" | "LEFT" | "RIGHT" | "FULL" | "CROSS" | "NATURAL" | "OUTER")) => {
                Err(self.error("MultipleDataSourcesUnsupported", "one object is queried at a time: no joins"))
            }
            _ => Ok((from, alias)),
        }
    }

    /// Parses `[*].a[0]['b'].*` after S3Object. Returns the steps without the first wildcard.
    fn source_path(&mut self) -> Result<Vec<JsonStep>, SelectError> {
        let mut steps = Vec::new();
        if !self.symbol("[") {
            if *self.peek() == Token::Symbol(".") {
                return Err(self.error("UnsupportedSyntax", "a path starts with a wildcard: FROM S3Object[*].path"));
            }
            return Ok(steps);
        }
        if !(self.symbol("*") && self.symbol("]")) {
            return Err(self.error("ParseInvalidPathComponent", "expected S3Object[*]"));
        }
        loop {
            if steps.len() > limits::EXPRESSION_DEPTH {
                return Err(self.error("ParseInvalidPathComponent", "the path has more than 128 steps"));
            }
            if self.symbol(".") {
                if self.symbol("*") {
                    steps.push(JsonStep::AnyMember);
                } else {
                    let name = self.name()?;
                    steps.push(JsonStep::Key { name: name.text, exact: name.exact });
                }
            } else if self.symbol("[") {
                steps.push(match self.peek().clone() {
                    Token::Symbol("*") => JsonStep::AnyElement,
                    Token::Text(name) => JsonStep::Key { name, exact: true },
                    Token::Number(digits) => match digits.parse() {
                        Ok(index) => JsonStep::Index(index),
                        Err(_) => return Err(self.error("ParseInvalidPathComponent", "expected an index")),
                    },
                    _ => return Err(self.error("ParseInvalidPathComponent", "expected an index, a name or *")),
                });
                self.advance();
                if !self.symbol("]") {
                    return Err(self.error("ParseInvalidPathComponent", "expected ']'"));
                }
            } else {
                return Ok(steps);
            }
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

    /// Parses a name: of a column, a table or a step of a path.
    fn name(&mut self) -> Result<Name, SelectError> {
        if self.word().is_some_and(|word| is_reserved(&word)) {
            return Err(self.error("ParseUnExpectedKeyword", "a name that is a keyword needs double quotes"));
        }
        self.alias()
    }

    /// Parses an alias, which may be any word that is not part of the syntax of a statement.
    fn alias(&mut self) -> Result<Name, SelectError> {
        let name = match self.peek() {
            Token::Quoted(text) => Name { text: text.clone(), exact: true },
            Token::Word(_) if self.at_structure() => {
                return Err(self.error("ParseUnExpectedKeyword", "a name that is a keyword needs double quotes"));
            }
            Token::Word(text) => Name { text: text.clone(), exact: false },
            _ => return Err(self.error("ParseExpectedIdentForAlias", "expected a name")),
        };
        self.advance();
        Ok(name)
    }

    fn at_structure(&self) -> bool {
        self.word().is_some_and(|word| is_structure(&word))
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

    /// Returns the next token in capitals, if it is a word.
    fn word(&self) -> Option<String> {
        match self.peek() {
            Token::Word(word) => Some(word.to_ascii_uppercase()),
            _ => None,
        }
    }

    /// Consumes `keyword` if it is next.
    fn keyword(&mut self, keyword: &str) -> bool {
        let here = matches!(self.peek(), Token::Word(word) if word.eq_ignore_ascii_case(keyword));
        if here {
            self.advance();
        }
        here
    }

    /// Consumes `symbol` if it is next.
    fn symbol(&mut self, symbol: &str) -> bool {
        let here = matches!(self.peek(), Token::Symbol(next) if *next == symbol);
        if here {
            self.advance();
        }
        here
    }

    /// Creates an error at the next token.
    fn error(&self, code: &'static str, message: &str) -> SelectError {
        let (token, at) =
            self.tokens.get(self.next).or(self.tokens.last()).map_or((&Token::End, 0), |(t, at)| (t, *at));
        SelectError::new(code, format!("at byte {at}, {}: {message}", token.shown()))
    }
}
