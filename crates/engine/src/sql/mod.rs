//! The SQL front end: text becomes [`Statement`]s, and a statement a [`Command`].
//!
//! ```text
//! script         a script cut into statements; the only tokenizer
//! create_index   CREATE INDEX, DROP INDEX, SHOW INDEXES
//! analyze        ANALYZE TABLE
//! show           SHOW of our settings
//! vacuum         VACUUM TEMPORARY FILES
//! syntax/        rewrites of the syntax tree: SET of our settings, and what DataFusion reads differently
//! words          a reader of tokens for the statements that DataFusion does not have
//! ```

pub(crate) mod analyze;
pub(crate) mod create_index;
pub(crate) mod script;
pub(crate) mod show;
pub(crate) mod syntax;
pub(crate) mod vacuum;
pub(crate) mod words;

use datafusion::common::config::Dialect;
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::{DFParserBuilder, Statement as SqlStatement};
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::Tokenizer;
use pushdowndb_contract::Result;

use crate::error::from_datafusion;

use analyze::AnalyzeTable;
use create_index::IndexStatement;
use show::Shown;
use vacuum::Vacuum;

pub use script::Statement;

/// A statement, parsed.
pub(crate) enum Command {
    /// `CREATE INDEX`, `DROP INDEX`, `SHOW INDEXES`.
    Index(IndexStatement),
    /// `ANALYZE TABLE`.
    Analyze(AnalyzeTable),
    /// `SHOW` of settings of ours, or of all.
    Show(Shown),
    /// `VACUUM TEMPORARY FILES`.
    Vacuum(Vacuum),
    /// Any other statement, for DataFusion to plan.
    Query(Box<SqlStatement>),
}

impl Command {
    /// Parses a statement in the dialect of `state`.
    ///
    /// # Errors
    ///
    /// The text is no SQL, or a statement that would be ignored.
    pub(crate) fn parse(statement: &Statement, state: &SessionState) -> Result<Self> {
        if let Some(index) = create_index::parse(&statement.tokens)? {
            return Ok(Self::Index(index));
        }
        if let Some(analyze) = analyze::parse(&statement.tokens)? {
            return Ok(Self::Analyze(analyze));
        }
        if let Some(shown) = show::parse(&statement.tokens)? {
            return Ok(Self::Show(shown));
        }
        if let Some(vacuum) = vacuum::parse(&statement.tokens)? {
            return Ok(Self::Vacuum(vacuum));
        }
        let tree = parse_tree(statement, state);
        let mut tree = tree.map_err(|error| syntax::settings::hint_quotes(&statement.text, from_datafusion(error)))?;
        syntax::rewrite(&mut tree)?;
        Ok(Self::Query(Box::new(tree)))
    }
}

/// The syntax tree of DataFusion's parser.
fn parse_tree(statement: &Statement, state: &SessionState) -> Result<SqlStatement, DataFusionError> {
    let options = &state.config_options().sql_parser;
    let unknown = || DataFusionError::Plan(format!("there is no SQL dialect {}", options.dialect));
    let dialect = dialect_from_str(options.dialect).ok_or_else(unknown)?;
    let tokens = match options.dialect {
        Dialect::Generic => syntax::from_first::add_select(&statement.tokens),
        // Quotes differ between dialects.
        _ => {
            let tokens = Tokenizer::new(dialect.as_ref(), &statement.text).tokenize_with_location();
            syntax::from_first::add_select(&tokens.map_err(ParserError::from)?)
        }
    };
    let parser = DFParserBuilder::new(tokens).with_dialect(dialect.as_ref());
    let mut trees = parser.with_recursion_limit(options.recursion_limit.get()).build()?.parse_statements()?;
    match (trees.pop_front(), trees.is_empty()) {
        (Some(tree), true) => Ok(tree),
        _ => Err(DataFusionError::Plan(format!("this is not one statement in the dialect {}", options.dialect))),
    }
}

/// Parses the one statement of `sql` by `parse`; `None` if it has no tokens.
#[cfg(test)]
pub(crate) fn parse_with<T>(
    sql: &str,
    parse: impl Fn(&[datafusion::sql::sqlparser::tokenizer::TokenWithSpan]) -> Result<Option<T>>,
) -> Result<Option<T>> {
    Statement::parse(sql).map_or(Ok(None), |statement| parse(&statement.tokens))
}
