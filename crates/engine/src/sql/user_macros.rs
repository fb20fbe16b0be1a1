//! Macros of the session: `CREATE MACRO f(a) AS a + 1`, `CREATE MACRO t(a) AS TABLE SELECT …`.
//!
//! A call is replaced by the expression or the query, in which names of parameters stand for the
//! arguments, before the statement is planned. So a macro costs the same as what it stands for, and
//! is pushed in the same way.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, MacroArg, MacroDefinition, ObjectName, TableAlias,
    TableFactor, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use parking_lot::RwLock;
use pushdowndb_contract::{Error, Result};

use super::syntax::visit::{each_expression, visit};
use super::words::Words;

/// Maximum number of calls of macros that are replaced in one pass over a statement.
const MAX_CALLS: usize = 10_000;

/// Maximum nesting of macros in macros.
const MAX_DEPTH: usize = 16;

/// A macro as it is declared.
#[derive(Clone, Debug)]
pub(crate) struct Macro {
    pub(crate) name: String,
    pub(crate) replaces: bool,
    parameters: Vec<MacroArg>,
    definition: MacroDefinition,
}

impl Macro {
    /// Creates the macro of a CREATE MACRO.
    ///
    /// # Errors
    ///
    /// Returns an error if the name has a schema.
    pub(crate) fn new(
        name: &ObjectName,
        replaces: bool,
        parameters: Option<Vec<MacroArg>>,
        definition: MacroDefinition,
    ) -> Result<Self> {
        let name = own_name(name).ok_or_else(|| Error::unsupported("a macro has a name without a schema"))?;
        Ok(Self { name, replaces, parameters: parameters.unwrap_or_default(), definition })
    }

    fn is_table(&self) -> bool {
        matches!(self.definition, MacroDefinition::Table(_))
    }

    /// Replaces the parameters in `body` by arguments.
    fn fill(&self, body: &mut impl VisitMut, arguments: &[FunctionArg]) -> Result<()> {
        let usage = || {
            let names: Vec<String> = self.parameters.iter().map(|parameter| parameter.to_string()).collect();
            Error::invalid(format!("the macro is called {}({})", self.name, names.join(", ")))
        };
        let mut values: Vec<Option<Expr>> = self.parameters.iter().map(|one| one.default_expr.clone()).collect();
        for (place, argument) in arguments.iter().enumerate() {
            let (place, value) = match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (Some(place), value),
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                    (self.parameters.iter().position(|one| is_same(&one.name, name)), value)
                }
                _ => return Err(usage()),
            };
            let place = place.and_then(|place| values.get_mut(place)).ok_or_else(usage)?;
            *place = Some(match value {
                Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_) => value.clone(),
                other => Expr::Nested(Box::new(other.clone())),
            });
        }
        let values = values.into_iter().collect::<Option<Vec<Expr>>>().ok_or_else(usage)?;
        each_expression(body, &mut |expr| {
            let Expr::Identifier(name) = expr else { return };
            let place = self.parameters.iter().position(|parameter| is_same(&parameter.name, name));
            if let Some(value) = place.and_then(|place| values.get(place)) {
                *expr = value.clone();
            }
        });
        Ok(())
    }
}

fn is_same(parameter: &Ident, name: &Ident) -> bool {
    match name.quote_style {
        None => parameter.value.eq_ignore_ascii_case(&name.value),
        Some(_) => parameter.value == name.value,
    }
}

/// Returns a name without a schema, in lower case unless it is quoted.
fn own_name(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [one] => one.as_ident().map(|name| match name.quote_style {
            None => name.value.to_lowercase(),
            Some(_) => name.value.clone(),
        }),
        _ => None,
    }
}

/// Parses `DROP MACRO [TABLE] [IF EXISTS] name`: the name, and whether it may be missing.
pub(crate) fn parse_drop(tokens: &[TokenWithSpan]) -> Result<Option<(String, bool)>> {
    let mut words = Words::new(tokens, "DROP MACRO [IF EXISTS] name");
    if !words.takes(&["DROP", "MACRO"]) {
        return Ok(None);
    }
    words.takes(&["TABLE"]);
    let may_miss = words.takes(&["IF", "EXISTS"]);
    let name = words.name("a macro")?;
    words.end()?;
    Ok(Some((name, may_miss)))
}

/// The macros of a session by name.
#[derive(Debug, Default)]
pub(crate) struct Macros(RwLock<BTreeMap<String, Macro>>);

impl Macros {
    /// Adds a macro.
    ///
    /// # Errors
    ///
    /// Returns an error if there is one with this name, and the new one does not replace it.
    pub(crate) fn put(&self, new: Macro) -> Result<()> {
        let mut all = self.0.write();
        if all.contains_key(&new.name) && !new.replaces {
            let name = &new.name;
            return Err(Error::invalid(format!("the macro {name} exists already; write CREATE OR REPLACE MACRO")));
        }
        all.insert(new.name.clone(), new);
        Ok(())
    }

    /// Removes a macro.
    ///
    /// # Errors
    ///
    /// Returns an error if there is none and `may_miss` is false.
    pub(crate) fn remove(&self, name: &str, may_miss: bool) -> Result<()> {
        match self.0.write().remove(name) {
            None if !may_miss => Err(Error::invalid(format!("there is no macro {name}"))),
            _ => Ok(()),
        }
    }

    /// Replaces the calls of macros in a statement.
    ///
    /// # Errors
    ///
    /// Returns an error if the arguments are not those of the macro, or macros call each other
    /// without end.
    pub(crate) fn expand(&self, statement: &mut Statement) -> Result<()> {
        let all = self.0.read().clone();
        if all.is_empty() {
            return Ok(());
        }
        for _ in 0..MAX_DEPTH {
            let mut expand = Expand { all: &all, calls: 0 };
            match visit(statement, &mut expand) {
                ControlFlow::Break(error) => return Err(*error),
                ControlFlow::Continue(()) if expand.calls == 0 => return Ok(()),
                ControlFlow::Continue(()) => {}
            }
        }
        Err(Error::invalid(format!("macros call each other more than {MAX_DEPTH} deep")))
    }
}

/// Replaces the calls in a statement, except those in the definitions that it inserts.
struct Expand<'a> {
    all: &'a BTreeMap<String, Macro>,
    calls: usize,
}

impl Expand<'_> {
    fn count(&mut self) -> ControlFlow<Box<Error>> {
        self.calls += 1;
        if self.calls > MAX_CALLS {
            let message = format!("the macros of this statement become more than {MAX_CALLS} calls");
            return ControlFlow::Break(Box::new(Error::unsupported(message)));
        }
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Expand<'_> {
    type Break = Box<Error>;

    // Called after the inner expressions, so that an inserted definition is not visited in this
    // pass.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let known = own_name(&function.name).and_then(|name| self.all.get(&name));
        let Some((called, MacroDefinition::Expr(body))) = known.map(|known| (known, &known.definition)) else {
            return ControlFlow::Continue(());
        };
        let arguments = match &function.args {
            FunctionArguments::List(list) => list.args.as_slice(),
            _ => &[],
        };
        let mut body = body.clone();
        if let Err(error) = called.fill(&mut body, arguments) {
            return ControlFlow::Break(Box::new(error));
        }
        *expr = Expr::Nested(Box::new(body));
        self.count()
    }

    fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<Self::Break> {
        let TableFactor::Table { name, alias, args: Some(args), .. } = table else {
            return ControlFlow::Continue(());
        };
        let Some(called) = own_name(name).and_then(|name| self.all.get(&name)).filter(|known| known.is_table()) else {
            return ControlFlow::Continue(());
        };
        let MacroDefinition::Table(body) = &called.definition else { return ControlFlow::Continue(()) };
        let mut subquery = body.clone();
        if let Err(error) = called.fill(&mut subquery, &args.args) {
            return ControlFlow::Break(Box::new(error));
        }
        let name = Ident::with_quote('"', called.name.clone());
        let named = || TableAlias { explicit: true, name, columns: vec![], at: None };
        let alias = Some(alias.take().unwrap_or_else(named));
        *table = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
        self.count()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;
    use datafusion::sql::sqlparser::ast::Statement as Tree;

    use super::*;

    fn parsed(sql: &str) -> Statement {
        DFParser::parse_sql(sql).unwrap().pop_front().unwrap()
    }

    fn created(all: &Macros, sql: &str) {
        let Statement::Statement(tree) = parsed(sql) else { panic!("{sql}") };
        let Tree::CreateMacro { or_replace, name, args, definition, .. } = *tree else { panic!("{sql}") };
        all.put(Macro::new(&name, or_replace, args, definition).unwrap()).unwrap();
    }

    #[test]
    fn calls_become_what_macros_mean() {
        let all = Macros::default();
        created(&all, "CREATE MACRO plus(a, b := 1) AS a + b");
        created(&all, "CREATE MACRO twice(x) AS plus(x, x)");
        created(&all, "CREATE MACRO large(n) AS TABLE SELECT * FROM t WHERE a > n");
        let expanded = |sql: &str| {
            let mut statement = parsed(sql);
            all.expand(&mut statement).map(|()| statement.to_string())
        };
        for (sql, expected) in [
            ("SELECT plus(1, 2 * 3), PLUS(c)", "SELECT (1 + (2 * 3)), (c + 1)"),
            ("SELECT twice(c)", "SELECT ((c + c))"),
            ("SELECT plus(b := 2, a := 1)", "SELECT (1 + 2)"),
            ("SELECT a FROM large(5) AS l", "SELECT a FROM (SELECT * FROM t WHERE a > 5) AS l"),
        ] {
            assert_eq!(expanded(sql).unwrap(), expected, "{sql}");
        }
        assert!(expanded("SELECT plus()").unwrap_err().to_string().contains("plus(a, b"));
        created(&all, "CREATE MACRO endless(x) AS endless(x)");
        assert!(expanded("SELECT endless(1)").unwrap_err().to_string().contains("call each other"));
        assert!(all.remove("endless", false).is_ok());
        assert!(all.remove("endless", false).is_err());
    }
}
