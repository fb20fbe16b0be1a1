//! A parsed statement and the columns of an input, to a [`Fragment`].
//!
//! S3 Select reads text without types; a fragment is typed. Binding makes every conversion explicit, so that
//! the evaluator needs no rules of S3 Select: an untyped CSV field is Utf8 and compares as text, a JSON path
//! is a raw token that [`Function::JsonText`] or [`Function::ToNumber`] opens by what it meets, and a
//! constant takes the type of the other side.
//!
//! [`Function::JsonText`]: pushdown::Function::JsonText
//! [`Function::ToNumber`]: pushdown::Function::ToNumber

mod columns;
mod compare;
mod constant;
mod expr;
mod kind;

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pushdown::{
    AggregateCall, AggregateFunction, CsvOptions, Expr, Format, Fragment, JsonOptions, NamedExpr, NullRule, Output,
    Ragged,
};

use crate::ast::{Ast, Item, Items, Query, Step};
use crate::{SelectError, Statement};
use columns::Columns;
use kind::Kind;

/// What is known of an input before its rows are read.
#[derive(Clone, Debug)]
pub enum InputColumns {
    /// A CSV object. Whatever the options say of NULL and short records, S3 Select knows no NULL in CSV and
    /// takes records as long as they are.
    Csv {
        /// How it is written.
        options: CsvOptions,
        /// The names in its header, if the request said USE.
        names: Option<Vec<String>>,
        /// How many fields its first record has; names beyond may still be asked for by `_N`.
        count: usize,
    },
    /// A JSON object: any path may be asked for.
    Json(JsonOptions),
    /// A Parquet object with this schema.
    Parquet(SchemaRef),
}

impl Statement {
    /// The columns and paths that the statement refers to, as they are written and each once.
    pub fn columns(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut add = |ast: &Ast| {
            visit(ast, &mut |steps| {
                let text = columns::path_text(columns::without_alias(steps, self.query.alias.as_ref()));
                if !all.contains(&text) {
                    all.push(text);
                }
            });
        };
        match &self.query.items {
            Items::All => {}
            Items::Some(items) => items.iter().for_each(|item| add(&item.expr)),
        }
        self.query.filter.iter().for_each(&mut add);
        all
    }

    /// Whether every column is selected, by `*`.
    pub fn selects_all(&self) -> bool {
        self.query.items == Items::All
    }

    /// Binds the statement to an input.
    pub fn bind(&self, input: &InputColumns) -> Result<Fragment, SelectError> {
        let Query { items, alias, filter, limit } = &self.query;
        let mut binder = Binder { columns: Columns::new(input, alias.as_ref()) };
        let output = match items {
            Items::All => Output::Rows(binder.columns.all()),
            Items::Some(items) if items.iter().any(|item| matches!(item.expr, Ast::Aggregate(..))) => Output::scalar(
                items.iter().enumerate().map(|(i, item)| binder.aggregate(i, item)).collect::<Result<_, _>>()?,
            ),
            Items::Some(items) => {
                Output::Rows(items.iter().enumerate().map(|(i, item)| binder.item(i, item)).collect::<Result<_, _>>()?)
            }
        };
        let predicate = filter.as_ref().map(|filter| binder.condition(filter)).transpose()?;
        let format = match input {
            InputColumns::Csv { options, .. } => {
                Format::Csv(CsvOptions { null: NullRule::Never, ragged: Ragged::Lenient, ..options.clone() })
            }
            InputColumns::Json(options) => Format::Json(JsonOptions { raw_tokens: true, ..options.clone() }),
            InputColumns::Parquet(_) => Format::Parquet,
        };
        let schema = binder.columns.into_schema();
        Ok(Fragment { format, schema, predicate, output, order: vec![], limit: *limit, project: None })
    }
}

/// Binds expressions, collecting the columns they need.
struct Binder<'a> {
    columns: Columns<'a>,
}

impl Binder<'_> {
    fn item(&mut self, index: usize, item: &Item) -> Result<NamedExpr, SelectError> {
        // A path of JSON keeps its token: the writer of the result knows best how to print it.
        let expr = self.expr(&item.expr)?.expr;
        Ok(NamedExpr { expr, name: item_name(index, item) })
    }

    fn aggregate(&mut self, index: usize, item: &Item) -> Result<AggregateCall, SelectError> {
        let Ast::Aggregate(function, argument) = &item.expr else {
            return Err(SelectError::structure("aggregates and columns cannot be selected together without GROUP BY"));
        };
        let argument = argument.as_deref().map(|argument| self.argument(*function, argument)).transpose()?;
        Ok(AggregateCall { function: *function, argument, name: item_name(index, item) })
    }

    fn argument(&mut self, function: AggregateFunction, argument: &Ast) -> Result<Expr, SelectError> {
        let argument = self.expr(argument)?;
        let wide = |expr: Expr, precision, scale| Expr::Cast(Box::new(expr), DataType::Decimal128(precision, scale));
        match function {
            AggregateFunction::Count => Ok(argument.opened().expr),
            AggregateFunction::Min | AggregateFunction::Max => Ok(match argument.kind {
                Kind::Token => argument.number()?.expr,
                _ => argument.expr,
            }),
            AggregateFunction::Sum | AggregateFunction::Avg => {
                let number = argument.number().map_err(|_| {
                    let message = format!("{} adds numbers: write CAST(… AS DECIMAL) or INT", function.sql());
                    SelectError::new("IncorrectSqlFunctionArgumentType", message)
                })?;
                Ok(match (number.kind, function) {
                    // Wide enough that no number of integers overflows.
                    (Kind::Int, AggregateFunction::Sum) => wide(number.expr, 38, 0),
                    (Kind::Int, _) => wide(number.expr, 29, 6),
                    _ => number.expr,
                })
            }
        }
    }

    /// A predicate.
    fn condition(&mut self, ast: &Ast) -> Result<Expr, SelectError> {
        let typed = self.expr(ast)?;
        match typed.kind {
            Kind::Bool | Kind::Null => Ok(typed.expr),
            Kind::Token => Ok(Expr::compare(pushdown::CompareOp::Eq, typed.text()?.expr, Expr::text("true"))),
            other => Err(SelectError::types(format!("a condition is TRUE or FALSE; this is {other}"))),
        }
    }
}

/// The name of a selected expression: its alias, the last name of its path, or its position.
fn item_name(index: usize, item: &Item) -> String {
    match (&item.alias, &item.expr) {
        (Some(alias), _) => alias.clone(),
        (None, Ast::Path(steps)) => match steps.last() {
            Some(Step::Name(name)) => name.text.clone(),
            _ => format!("_{}", index + 1),
        },
        _ => format!("_{}", index + 1),
    }
}

/// Calls `found` with every path.
fn visit(ast: &Ast, found: &mut dyn FnMut(&[Step])) {
    match ast {
        Ast::Path(steps) => found(steps),
        Ast::Number(_) | Ast::Text(_) | Ast::Bool(_) | Ast::Null | Ast::Aggregate(_, None) => {}
        Ast::Negate(a) | Ast::Not(a) | Ast::IsNull(a) | Ast::IsMissing(a) | Ast::Cast(a, _) => visit(a, found),
        Ast::Aggregate(_, Some(a)) => visit(a, found),
        Ast::And(all) | Ast::Or(all) | Ast::Call(_, all) => all.iter().for_each(|a| visit(a, found)),
        Ast::Compare(_, a, b) | Ast::Arithmetic(_, a, b) => {
            visit(a, found);
            visit(b, found);
        }
        Ast::In { expr, list, .. } => {
            visit(expr, found);
            list.iter().for_each(|a| visit(a, found));
        }
        Ast::Between { expr, low, high } => [expr, low, high].into_iter().for_each(|a| visit(a, found)),
        Ast::Like { expr, pattern, escape, .. } => {
            [Some(expr), Some(pattern), escape.as_ref()].into_iter().flatten().for_each(|a| visit(a, found));
        }
        Ast::Case { operand, branches, otherwise } => {
            operand.iter().chain(otherwise).for_each(|a| visit(a, found));
            branches.iter().for_each(|(when, then)| {
                visit(when, found);
                visit(then, found);
            });
        }
    }
}

fn schema_of(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}

#[cfg(test)]
mod tests;
