//! `COLUMNS('re.*')` and `* RENAME (a AS b)`: expressions that stand for one of each chosen column.
//!
//! The columns are known only when a SELECT is planned. So each of these becomes a name that no
//! column has; planning fails because of it, and the error lists the columns of the FROM. With
//! them, the expression is written out once per column, and the statement is planned again.
//!
//! | written | columns |
//! | --- | --- |
//! | `COLUMNS(*)`, `COLUMNS(* EXCLUDE (a) REPLACE (b + 1 AS b))` | all, all others |
//! | `COLUMNS('a.*')`, `COLUMNS(['a', 'b'])` | those whose name the pattern matches; these |
//! | `COLUMNS(c -> c LIKE 'a%')` | those of whose name the condition is true |
//! | `* RENAME (a AS b)`, `* EXCLUDE (c) RENAME (a AS b)` | all, under other names |
//!
//! In SELECT `min(COLUMNS(*))` is one column for each; in WHERE all conditions must hold.

use std::ops::ControlFlow;

use datafusion::common::{Column, DFSchema, DataFusionError, ScalarValue, SchemaError};
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr as Planned;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, ExprWithAlias, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    OneOrManyWithParens, RenameSelectItem, Select, SelectItem, SetExpr, Value, ValueWithSpan, VisitMut, VisitorMut,
    WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use pushdowndb_contract::{Error, Result};

use super::calls::call;
use super::headers;
use super::marks::{MARK, UNPACKED};
use super::parts::rewrite_part;
use super::visit::{any_expression, each_expression, visit, walk};
use super::wildcards::excluded;

/// Replaces such expressions in the SELECTs of `part` by names.
pub(super) fn mark(part: &mut impl VisitMut) {
    let done = walk(part, &mut Mark { found: 0 });
    debug_assert!(done.is_continue(), "nothing breaks off");
}

struct Mark {
    found: usize,
}

impl Mark {
    /// Returns a name for the expression `text`, different from all names before.
    fn name(&mut self, text: &str) -> Expr {
        self.found += 1;
        Expr::Identifier(Ident::with_quote('"', format!("{MARK}{} {text}", self.found)))
    }
}

impl VisitorMut for Mark {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::Wildcard(WildcardAdditionalOptions { opt_rename: Some(_), .. }) = item {
                *item = SelectItem::UnnamedExpr(self.name(&item.to_string()));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(Function { name, .. }) = expr
            && name.0.len() == 1
            && name.to_string().eq_ignore_ascii_case("columns")
        {
            let text = expr.to_string();
            *expr = self.name(&text);
        }
        ControlFlow::Continue(())
    }
}

/// Replaces the name that `error` says was not found by the columns that it stands for. Returns
/// whether anything was replaced.
///
/// # Errors
///
/// Returns an error if no column is chosen, or the choice cannot be parsed.
pub(crate) fn expand(statement: &mut Statement, error: &DataFusionError, state: &SessionState) -> Result<bool> {
    let DataFusionError::SchemaError(schema_error, _) = error.find_root() else { return Ok(false) };
    let SchemaError::FieldNotFound { field, valid_fields } = schema_error.as_ref() else { return Ok(false) };
    let Some(text) = field.name.strip_prefix(MARK) else { return Ok(false) };
    let text = text.split_once(' ').map_or(text, |(_, text)| text);
    let (is_unpacked, text) = match text.strip_prefix(UNPACKED) {
        Some(text) => (true, text),
        None => (false, text),
    };
    let choice = Choice::read(text)?;
    let chosen = choice.of(valid_fields, state)?;
    if chosen.is_empty() {
        return Err(Error::invalid(format!("{text} chooses no column")));
    }
    if is_unpacked {
        let mut unpack = Unpack { name: &field.name, chosen, written: false };
        let done = visit(statement, &mut unpack);
        debug_assert!(done.is_continue(), "nothing breaks off");
        return Ok(unpack.written);
    }
    let mut write = Write { name: &field.name, chosen, pattern: choice.pattern, state, written: false };
    match visit(statement, &mut write) {
        ControlFlow::Continue(()) => Ok(write.written),
        ControlFlow::Break(error) => Err(*error),
    }
}

/// How columns are chosen.
#[derive(Default)]
struct Choice {
    /// EXCLUDE, REPLACE and RENAME.
    options: WildcardAdditionalOptions,
    pattern: Option<String>,
    names: Option<Vec<String>>,
    /// The parameter and the body of a lambda.
    condition: Option<(String, Expr)>,
}

impl Choice {
    fn read(text: &str) -> Result<Self> {
        let wrong =
            || Error::invalid(format!("{text}: COLUMNS takes *, a pattern, a list of names, or c -> condition"));
        let tokens = super::lambdas::mark(crate::sql::Statement::parse(&format!("SELECT {text}"))?.tokens);
        let parser = Parser::new(&GenericDialect {});
        let parsed = parser.with_tokens_with_locations(tokens).parse_query().map_err(|_| wrong())?;
        let mut query = *parsed;
        super::lambdas::restore(&mut query);
        let SetExpr::Select(select) = *query.body else { return Err(wrong()) };
        let item = select.projection.into_iter().next().ok_or_else(wrong)?;
        let function = match item {
            SelectItem::Wildcard(options) => return Ok(Self { options, ..Self::default() }),
            SelectItem::UnnamedExpr(Expr::Function(function)) => function,
            _ => return Err(wrong()),
        };
        let FunctionArguments::List(list) = function.args else { return Err(wrong()) };
        if list.args.len() != 1 {
            return Err(wrong());
        }
        let mut choice = Self::default();
        match list.args.into_iter().next() {
            Some(FunctionArg::Unnamed(FunctionArgExpr::Wildcard)) => {}
            Some(FunctionArg::Unnamed(FunctionArgExpr::WildcardWithOptions(options))) => choice.options = options,
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => match expr {
                Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(pattern), .. }) => {
                    choice.pattern = Some(pattern);
                }
                Expr::Array(array) => {
                    let text = |expr: &Expr| match expr {
                        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text.clone()),
                        _ => None,
                    };
                    choice.names = Some(array.elem.iter().map(text).collect::<Option<_>>().ok_or_else(wrong)?);
                }
                Expr::Lambda(lambda) => {
                    let OneOrManyWithParens::One(parameter) = &lambda.params else { return Err(wrong()) };
                    choice.condition = Some((parameter.name.value.clone(), *lambda.body));
                }
                // A single name, as in COLUMNS(a).
                Expr::Identifier(name) => choice.names = Some(vec![name.value]),
                _ => return Err(wrong()),
            },
            _ => return Err(wrong()),
        }
        Ok(choice)
    }

    /// Returns the chosen columns, in the order of `columns` or of the list.
    fn of(&self, columns: &[Column], state: &SessionState) -> Result<Vec<Chosen>> {
        let several = columns.iter().any(|column| column.relation != columns.first().and_then(|c| c.relation.clone()));
        let chosen =
            |column: &Column| Chosen { expr: reference(column, several), name: column.name.clone(), label: None };
        if let Some(names) = &self.names {
            let find = |name: &String| {
                let is_it = |column: &&Column| column.name == *name;
                let like_it = |column: &&Column| column.name.eq_ignore_ascii_case(name);
                let found = columns.iter().find(is_it).or_else(|| columns.iter().find(like_it));
                found.map(chosen).ok_or_else(|| Error::invalid(format!("there is no column {name} for COLUMNS")))
            };
            return names.iter().map(find).collect();
        }
        let mut options = self.options.clone();
        let excluded = excluded(&mut options);
        let mut all = Vec::new();
        for column in columns {
            let is_named = |name: &Ident| name.value.eq_ignore_ascii_case(&column.name);
            let is_chosen = match (&self.pattern, &self.condition) {
                (Some(pattern), _) => {
                    let matched = call("regexp_like", [text_of(&column.name), text_of(pattern)]);
                    evaluated(matched, state)? == ScalarValue::Boolean(Some(true))
                }
                (None, Some((parameter, condition))) => is_true(condition, parameter, &column.name, state)?,
                (None, None) => !excluded.iter().any(|name| is_named(name)),
            };
            if !is_chosen {
                continue;
            }
            let mut one = chosen(column);
            let replaced = self.options.opt_replace.iter().flat_map(|replace| &replace.items);
            if let Some(item) = replaced.into_iter().find(|item| is_named(&item.column_name)) {
                one.expr = Expr::Nested(Box::new(item.expr.clone()));
                one.label = Some(column.name.clone());
            }
            let renamed = match &self.options.opt_rename {
                None => None,
                Some(RenameSelectItem::Single(one)) => Some(one).filter(|one| is_named(&one.ident)),
                Some(RenameSelectItem::Multiple(all)) => all.iter().find(|one| is_named(&one.ident)),
            };
            if let Some(renamed) = renamed {
                one.label = Some(renamed.alias.value.clone());
            }
            all.push(one);
        }
        Ok(all)
    }
}

/// A chosen column.
#[derive(Clone)]
struct Chosen {
    expr: Expr,
    name: String,
    /// The alias that it gets, if any.
    label: Option<String>,
}

/// Returns the expression that names a column, qualified by its table if there are `several`.
fn reference(column: &Column, several: bool) -> Expr {
    let name = Ident::with_quote('"', column.name.clone());
    match column.relation.as_ref().filter(|_| several) {
        Some(relation) => {
            let mut parts: Vec<Ident> =
                relation.to_vec().into_iter().map(|part| Ident::with_quote('"', part)).collect();
            parts.push(name);
            Expr::CompoundIdentifier(parts)
        }
        None => Expr::Identifier(name),
    }
}

/// Returns whether `condition` is true if `parameter` is the text `name`.
fn is_true(condition: &Expr, parameter: &str, name: &str, state: &SessionState) -> Result<bool> {
    let mut condition = condition.clone();
    each_expression(&mut condition, &mut |expr| {
        if let Expr::Identifier(own) = expr
            && own.value.eq_ignore_ascii_case(parameter)
        {
            *expr = Expr::value(Value::SingleQuotedString(name.to_owned()));
        }
    });
    match evaluated(condition, state)? {
        ScalarValue::Boolean(is_true) => Ok(is_true == Some(true)),
        ScalarValue::Null => Ok(false),
        other => Err(Error::invalid(format!("COLUMNS: {other} is no condition"))),
    }
}

fn text_of(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

/// Evaluates an expression of constants.
fn evaluated(mut expr: Expr, state: &SessionState) -> Result<ScalarValue> {
    rewrite_part(&mut expr)?;
    let wrong = |error: DataFusionError| crate::error::from_datafusion(error).context("COLUMNS");
    let schema = DFSchema::empty();
    let expr = ExprWithAlias { expr, alias: None };
    let planned = state.create_logical_expr_from_sql_expr(expr, &schema).map_err(wrong)?;
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().with_current_time().build());
    let planned = simplifier.coerce(planned, &schema).map_err(wrong)?;
    match simplifier.simplify(planned).map_err(wrong)? {
        Planned::Literal(value, _) => Ok(value),
        other => Err(Error::invalid(format!("COLUMNS: {other} is no condition of names alone"))),
    }
}

/// Replaces the expressions that have the name by one for each chosen column.
struct Write<'a> {
    name: &'a str,
    chosen: Vec<Chosen>,
    pattern: Option<String>,
    state: &'a SessionState,
    written: bool,
}

impl Write<'_> {
    fn has_name(&self, expr: &Expr) -> bool {
        any_expression(expr, &mut |expr| matches!(expr, Expr::Identifier(name) if name.value == self.name))
    }

    /// Returns `expr` with `of` in place of the name.
    fn with(&self, expr: &Expr, of: &Expr) -> Expr {
        let mut expr = expr.clone();
        each_expression(&mut expr, &mut |expr| {
            if matches!(expr, Expr::Identifier(name) if name.value == self.name) {
                *expr = of.clone();
            }
        });
        expr
    }

    /// Returns an item for each chosen column in place of the selected `expr`.
    fn items(&self, expr: &Expr, alias: Option<&Ident>) -> Result<Vec<SelectItem>> {
        let is_alone = matches!(expr, Expr::Identifier(_));
        let item = |one: &Chosen| {
            let label = match (alias, &one.label) {
                (Some(alias), _) => Some(label(&alias.value, &one.name, self.pattern.as_deref(), self.state)?),
                (None, Some(label)) => Some(label.clone()),
                (None, None) if is_alone => None,
                (None, None) => Some(headers::written(&self.with(expr, &Expr::Identifier(Ident::new(&one.name))))),
            };
            let expr = self.with(expr, &one.expr);
            Ok(match label {
                Some(label) => SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', label) },
                None => SelectItem::UnnamedExpr(expr),
            })
        };
        self.chosen.iter().map(item).collect()
    }
}

/// Replaces the name among the arguments of calls by the columns.
struct Unpack<'a> {
    name: &'a str,
    chosen: Vec<Chosen>,
    written: bool,
}

impl VisitorMut for Unpack<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = expr {
            let is_name = |arg: &FunctionArg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(name))) => name.value == self.name,
                _ => false,
            };
            if let Some(at) = list.args.iter().position(is_name) {
                let all = self.chosen.iter().map(|one| FunctionArg::Unnamed(FunctionArgExpr::Expr(one.expr.clone())));
                list.args.splice(at..=at, all);
                self.written = true;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Returns the alias of the column `name`: in `alias`, `\1` stands for the first group of
/// `pattern`, and `\0` for the whole match.
fn label(alias: &str, name: &str, pattern: Option<&str>, state: &SessionState) -> Result<String> {
    if !alias.contains('\\') {
        return Ok(alias.to_owned());
    }
    let pattern = pattern.unwrap_or(".*");
    let matched = call("regexp_match", [text_of(name), text_of(&format!("({pattern})"))]);
    let matched = call("array_element", [matched, Expr::value(Value::Number("1".to_owned(), false))]);
    let filled = call("regexp_replace", [matched, text_of(&format!("^(?:{pattern})$")), text_of(alias)]);
    Ok(evaluated(filled, state)?.try_as_str().flatten().unwrap_or(alias).to_owned())
}

impl VisitorMut for Write<'_> {
    type Break = Box<Error>;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let mut projection = Vec::with_capacity(select.projection.len());
        for item in std::mem::take(&mut select.projection) {
            let items = match &item {
                SelectItem::UnnamedExpr(expr) if self.has_name(expr) => self.items(expr, None),
                SelectItem::ExprWithAlias { expr, alias } if self.has_name(expr) => self.items(expr, Some(alias)),
                _ => {
                    projection.push(item);
                    continue;
                }
            };
            match items {
                Ok(items) => projection.extend(items),
                Err(error) => return ControlFlow::Break(Box::new(error)),
            }
            self.written = true;
        }
        select.projection = projection;
        let conditions = [&mut select.selection, &mut select.having, &mut select.qualify];
        for condition in conditions.into_iter().flatten() {
            if !self.has_name(condition) {
                continue;
            }
            let each = self.chosen.iter().map(|one| Expr::Nested(Box::new(self.with(condition, &one.expr))));
            let all = each.reduce(|one, other| Expr::BinaryOp {
                left: Box::new(one),
                op: BinaryOperator::And,
                right: Box::new(other),
            });
            if let Some(all) = all {
                *condition = all;
                self.written = true;
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    fn expanded(sql: &str) -> Result<String> {
        let tokens = super::super::lambdas::mark(crate::sql::Statement::parse(sql).unwrap().tokens);
        let text: String = tokens.iter().map(|token| format!("{} ", token.token)).collect();
        let mut statement = DFParser::parse_sql(&text).unwrap().pop_front().unwrap();
        let Statement::Statement(tree) = &mut statement else { panic!("{sql}") };
        super::super::lambdas::restore(tree);
        mark(tree);
        let mut found = None;
        any_expression(tree, &mut |expr| match expr {
            Expr::Identifier(name) if name.value.starts_with(MARK) => {
                found = Some(name.value.clone());
                true
            }
            _ => false,
        });
        let field = Box::new(Column::new_unqualified(found.unwrap()));
        let valid_fields = ["id", "at", "Amount"].map(|name| Column::new(Some("t"), name)).to_vec();
        let error = SchemaError::FieldNotFound { field, valid_fields };
        let error = DataFusionError::SchemaError(Box::new(error), Box::new(None));
        let state = datafusion::execution::SessionStateBuilder::new().with_default_features().build();
        assert!(expand(&mut statement, &error, &state)?, "{sql}");
        Ok(statement.to_string())
    }

    #[test]
    fn columns_are_written_out() {
        for (sql, expected) in [
            ("SELECT COLUMNS(*) FROM t", "SELECT \"id\", \"at\", \"Amount\" FROM t"),
            ("SELECT min(COLUMNS('a.*')), 1 FROM t", "SELECT min(\"at\") AS \"min(at)\", 1 FROM t"),
            ("SELECT COLUMNS('(a)(t)') AS 'x_\\2' FROM t", "SELECT \"at\" AS \"x_t\" FROM t"),
            ("SELECT COLUMNS(['amount', 'id']) FROM t", "SELECT \"Amount\", \"id\" FROM t"),
            ("SELECT COLUMNS(c -> c LIKE 'a%' OR c = 'id') FROM t", "SELECT \"id\", \"at\" FROM t"),
            (
                "SELECT * FROM t WHERE COLUMNS(* EXCLUDE (at)) > 1",
                "SELECT * FROM t WHERE (\"id\" > 1) AND (\"Amount\" > 1)",
            ),
            ("SELECT * RENAME (id AS key) FROM t", "SELECT \"id\" AS \"key\", \"at\", \"Amount\" FROM t"),
        ] {
            assert_eq!(expanded(sql).unwrap(), expected, "{sql}");
        }
        assert!(expanded("SELECT COLUMNS('x') FROM t").unwrap_err().to_string().contains("no column"));
    }
}
