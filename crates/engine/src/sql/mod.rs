//! The SQL front end: text becomes [`Statement`]s, and a statement a [`Command`].
//!
//! ```text
//! script         a script cut into statements; the only tokenizer
//! create_index   CREATE INDEX, DROP INDEX, SHOW INDEXES
//! analyze        ANALYZE TABLE
//! show           SHOW of a setting `pushdown.*`
//! vacuum         VACUUM TEMPORARY FILES
//! summarize      SUMMARIZE
//! pivot          PIVOT and UNPIVOT as statements
//! user_macros    CREATE MACRO, DROP MACRO
//! syntax/        rewrites of the syntax tree: SET, and what DataFusion reads differently
//! words          a reader of tokens for the statements that DataFusion does not have
//! ```

pub(crate) mod analyze;
pub(crate) mod create_index;
pub(crate) mod pivot;
pub(crate) mod script;
pub(crate) mod show;
pub(crate) mod summarize;
pub(crate) mod syntax;
pub(crate) mod user_macros;
pub(crate) mod vacuum;
pub(crate) mod words;

use datafusion::common::config::Dialect;
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::{DFParserBuilder, Statement as SqlStatement};
use datafusion::sql::sqlparser::ast::{Expr, Statement as SqlTree};
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::Tokenizer;
use pushdowndb_contract::{Error, Result};

use crate::error::{from_datafusion, to_datafusion};

use analyze::AnalyzeTable;
use create_index::IndexStatement;
use pivot::Pivot;
use show::Shown;
use summarize::Summarize;
use syntax::parameters::Prepared;
use user_macros::Macro;
use vacuum::Vacuum;

pub use script::Statement;
pub use syntax::bind::Parameters;

/// A statement, parsed.
pub(crate) enum Command {
    /// `CREATE INDEX`, `DROP INDEX`, `SHOW INDEXES`.
    Index(IndexStatement),
    /// `ANALYZE TABLE`.
    Analyze(AnalyzeTable),
    /// `SHOW` of a setting `pushdown.*`, or of all settings.
    Show(Shown),
    /// `VACUUM TEMPORARY FILES`.
    Vacuum(Vacuum),
    /// `SUMMARIZE`.
    Summarize(Summarize),
    /// `PIVOT` and `UNPIVOT` as statements.
    Pivot(Pivot),
    /// `PREPARE`: the name and the statement.
    Prepare(String, Box<Prepared>),
    /// `EXECUTE`: the name and the values of the parameters.
    Execute(String, Vec<Expr>),
    /// `DEALLOCATE`: the name; `None` for all statements.
    Deallocate(Option<String>),
    /// `CREATE MACRO`.
    CreateMacro(Box<Macro>),
    /// `DROP MACRO`: the name, and whether it may be missing.
    DropMacro(String, bool),
    /// `INSERT INTO t BY NAME query`, without BY NAME.
    InsertByName(Box<SqlStatement>),
    /// Any other statement, for DataFusion to plan.
    Query(Box<SqlStatement>),
}

impl Command {
    /// Parses a statement in the dialect of `state`.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not SQL, or part of the statement would be ignored.
    pub(crate) fn parse(statement: &Statement, state: &SessionState) -> Result<Self> {
        Self::parse_with(statement, &Parameters::None, state)
    }

    /// Parses a statement as [`Command::parse`] does, with the values of its parameters.
    ///
    /// # Errors
    ///
    /// Returns an error as [`Command::parse`] does, or if a parameter has no value.
    pub(crate) fn parse_with(statement: &Statement, parameters: &Parameters, state: &SessionState) -> Result<Self> {
        syntax::chains::check(&statement.tokens)?;
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
        if let Some(summarize) = summarize::parse(&statement.tokens)? {
            return Ok(Self::Summarize(summarize));
        }
        if let Some(pivot) = pivot::parse(&statement.tokens)? {
            return Ok(Self::Pivot(pivot));
        }
        if let Some((name, may_miss)) = user_macros::parse_drop(&statement.tokens)? {
            return Ok(Self::DropMacro(name, may_miss));
        }
        let by_name = syntax::tokens::without_by_name(&statement.tokens);
        if let Some(tokens) = by_name {
            let rest = Statement { tokens, ..statement.clone() };
            return match Self::parse_with(&rest, parameters, state)? {
                Self::Query(tree) => Ok(Self::InsertByName(tree)),
                _ => Err(Error::invalid("INSERT INTO t BY NAME takes a query")),
            };
        }
        let tree = parse_tree(statement, parameters, state);
        let mut tree = tree.map_err(|error| syntax::settings::hint_quotes(&statement.text, from_datafusion(error)))?;
        syntax::chains::halve(&mut tree);
        syntax::bind::bind(&mut tree, parameters)?;
        syntax::rewrite(&mut tree)?;
        match tree {
            SqlStatement::Statement(tree) => Self::of_tree(*tree),
            tree => Ok(Self::Query(Box::new(tree))),
        }
    }

    /// Converts a rewritten tree to a command.
    fn of_tree(tree: SqlTree) -> Result<Self> {
        Ok(match tree {
            SqlTree::Prepare { name, data_types, statement } => {
                let statement = SqlStatement::Statement(statement);
                Self::Prepare(name.value.to_lowercase(), Box::new(Prepared { statement, types: data_types }))
            }
            SqlTree::Execute { name: Some(name), parameters, immediate: false, into, using, .. }
                if into.is_empty() && using.is_empty() =>
            {
                Self::Execute(name.to_string().to_lowercase(), parameters)
            }
            SqlTree::Execute { .. } => {
                return Err(Error::unsupported("EXECUTE takes a name and values: EXECUTE p(1, 'a')"));
            }
            SqlTree::Deallocate { name, .. } => {
                let is_all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
                Self::Deallocate((!is_all).then(|| name.value.to_lowercase()))
            }
            SqlTree::CreateMacro { or_replace, name, args, definition, .. } => {
                Self::CreateMacro(Box::new(Macro::new(&name, or_replace, args, definition)?))
            }
            tree => Self::Query(Box::new(SqlStatement::Statement(Box::new(tree)))),
        })
    }
}

/// Parses a statement by DataFusion's parser.
fn parse_tree(
    statement: &Statement,
    parameters: &Parameters,
    state: &SessionState,
) -> Result<SqlStatement, DataFusionError> {
    let options = &state.config_options().sql_parser;
    let unknown = || DataFusionError::Plan(format!("there is no SQL dialect {}", options.dialect));
    let dialect = dialect_from_str(options.dialect).ok_or_else(unknown)?;
    let tokens = match options.dialect {
        Dialect::Generic => syntax::tokens::readable(&statement.tokens),
        // Quotes differ between dialects, so the text is tokenized again.
        _ => {
            let tokens = Tokenizer::new(dialect.as_ref(), &statement.text).tokenize_with_location();
            syntax::tokens::readable(&tokens.map_err(ParserError::from)?)
        }
    };
    let mut tokens = tokens.map_err(to_datafusion)?;
    syntax::bind::number(&mut tokens, parameters).map_err(to_datafusion)?;
    let parser = DFParserBuilder::new(tokens).with_dialect(dialect.as_ref());
    let levels = options.recursion_limit.get();
    let trees = parser.with_recursion_limit(levels).build()?.parse_statements();
    let mut trees = trees.map_err(|error| match error {
        DataFusionError::SQL(parse, _) if *parse == ParserError::RecursionLimitExceeded => {
            to_datafusion(too_deep(levels))
        }
        error => error,
    })?;
    match (trees.pop_front(), trees.is_empty()) {
        (Some(tree), true) => Ok(tree),
        _ => Err(DataFusionError::Plan(format!("this is not one statement in the dialect {}", options.dialect))),
    }
}

/// Returns the error for brackets, functions or subqueries that are nested deeper than `levels`.
fn too_deep(levels: usize) -> Error {
    let message = format!(
        "brackets, functions and queries lie in each other too deeply, beyond {levels} levels of the parser \
         (datafusion.sql_parser.recursion_limit)"
    );
    Error::unsupported(message)
}

/// Parses the one statement of `sql` by `parse`; `None` if it has no tokens.
#[cfg(test)]
pub(crate) fn parse_with<T>(
    sql: &str,
    parse: impl Fn(&[datafusion::sql::sqlparser::tokenizer::TokenWithSpan]) -> Result<Option<T>>,
) -> Result<Option<T>> {
    Statement::parse(sql).map_or(Ok(None), |statement| parse(&statement.tokens))
}
