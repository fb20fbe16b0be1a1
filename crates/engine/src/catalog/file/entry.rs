//! A statement of the catalog file.

use datafusion::sql::parser::{CreateExternalTable, DFParser, Statement};
use datafusion::sql::sqlparser::ast::ObjectNamePart;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use pushdowndb_contract::{Error, Result};

/// The kind of table that a statement of the catalog file creates.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TableKind {
    /// A table of objects.
    External,
    /// A view.
    View,
    /// A table in memory.
    Memory,
}

/// The parts of a statement that the file needs.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) locations: Vec<String>,
    pub(super) kind: TableKind,
}

impl Entry {
    /// Parses a single statement that makes a table or view and refuses all else, since the file is
    /// run at start.
    pub(super) fn parse(statement: &str) -> Result<Self> {
        if let Some(entry) = of_session(statement) {
            return Ok(entry);
        }
        let parsed = DFParser::parse_sql(statement).map_err(crate::error::from_datafusion)?;
        let mut parsed = parsed.into_iter();
        match (parsed.next(), parsed.next()) {
            (Some(Statement::CreateExternalTable(CreateExternalTable { name, locations, .. })), None) => {
                let part = |part: &ObjectNamePart| {
                    let ident = part.as_ident()?;
                    Some(if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() })
                };
                let parts: Option<Vec<String>> = name.0.iter().map(part).collect();
                let parts = parts.ok_or_else(|| Error::invalid(format!("'{name}' is no table name")))?;
                Ok(Self { name: plain(&parts.join(".")), locations, kind: TableKind::External })
            }
            _ => Err(Error::invalid(
                "only CREATE EXTERNAL TABLE, CREATE VIEW and CREATE TABLE statements can be remembered",
            )),
        }
    }
}

/// Parses a CREATE VIEW or CREATE TABLE by its tokens, since its query may use syntax that
/// DataFusion's parser does not have. Returns `None` for other statements, and for several at once.
fn of_session(statement: &str) -> Option<Entry> {
    let tokens = Tokenizer::new(&GenericDialect {}, statement).tokenize().ok()?;
    let mut tokens = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).peekable();
    if tokens.clone().any(|token| *token == Token::SemiColon) {
        return None;
    }
    let mut takes = |words: &[&str]| {
        let next = tokens.clone().take(words.len());
        let is_next = next.clone().count() == words.len() && next.zip(words).all(|(token, word)| is_word(token, word));
        if is_next {
            tokens.by_ref().take(words.len()).for_each(drop);
        }
        is_next
    };
    if !takes(&["CREATE"]) {
        return None;
    }
    takes(&["OR", "REPLACE"]);
    let kind = match (takes(&["VIEW"]), takes(&["TABLE"])) {
        (true, _) => TableKind::View,
        (_, true) => TableKind::Memory,
        _ => return None,
    };
    takes(&["IF", "NOT", "EXISTS"]);
    let mut parts = Vec::new();
    loop {
        parts.push(match tokens.next()? {
            Token::Word(word) if word.quote_style.is_none() => word.value.to_lowercase(),
            Token::Word(word) => word.value.clone(),
            _ => return None,
        });
        if tokens.next_if_eq(&&Token::Period).is_none() {
            break;
        }
    }
    // A statement that ends after the name is incomplete.
    tokens.peek()?;
    Some(Entry { name: plain(&parts.join(".")), locations: vec![], kind })
}

fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
}

/// Removes the default catalog and schema from a name.
pub(super) fn plain(name: &str) -> String {
    let name = name.strip_prefix("datafusion.").unwrap_or(name);
    name.strip_prefix("public.").unwrap_or(name).to_owned()
}
