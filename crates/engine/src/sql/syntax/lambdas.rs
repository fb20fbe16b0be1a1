//! Lambdas: `list_transform(l, x -> x + 1)`, `list_filter(l, lambda x: x > 1)`.
//!
//! The parser reads an arrow as the JSON operator, unless it reads every arrow after a name as a
//! lambda. So lambdas in the arguments of functions that take one are marked in the tokens, as
//! calls of [`MARK`], and turned into lambdas in the tree.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction,
    LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens, Subscript, Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::visit::{each_expression, walk};

/// The functions that take a lambda.
const FUNCTIONS: &[&str] = &[
    "any_match",
    "apply",
    "array_any_match",
    "array_apply",
    "array_filter",
    "array_first",
    "array_transform",
    "columns",
    "filter",
    "list_any_match",
    "list_apply",
    "list_filter",
    "list_transform",
];

/// The function that stands for a lambda: its last argument is the body, the others are parameters.
const MARK: &str = "__lambda";

/// Marks the lambdas in `tokens`.
pub(crate) fn mark(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let mentions = |token: &TokenWithSpan| word(token).is_some_and(takes_lambda);
    if !tokens.iter().any(mentions) {
        return tokens;
    }
    let words: Vec<TokenWithSpan> = tokens.into_iter().filter(|token| !is_blank(token)).collect();
    let mut marked = Vec::with_capacity(words.len() + 8);
    // For each open bracket: whether a function that takes lambdas opened it, and whether a lambda
    // in it is open.
    let mut brackets: Vec<(bool, bool)> = Vec::new();
    let mut begins_argument = false;
    let mut at = 0;
    while let Some(token) = words.get(at) {
        if begins_argument
            && let Some((parameters, length)) = parameters(words.get(at..).unwrap_or_default())
            && let Some((_, has_lambda)) = brackets.last_mut()
        {
            *has_lambda = true;
            begins_argument = false;
            marked.push(TokenWithSpan::new(Token::make_word(MARK, None), token.span));
            marked.push(TokenWithSpan::new(Token::LParen, token.span));
            for parameter in parameters {
                marked.push(parameter.clone());
                marked.push(TokenWithSpan::new(Token::Comma, token.span));
            }
            at += length;
            continue;
        }
        begins_argument = false;
        match &token.token {
            Token::LParen => {
                let before = at.checked_sub(1).and_then(|before| words.get(before));
                let takes = before.and_then(word).is_some_and(takes_lambda);
                brackets.push((takes, false));
                begins_argument = takes;
            }
            Token::Comma => {
                if let Some((takes, has_lambda)) = brackets.last_mut() {
                    if std::mem::take(has_lambda) {
                        marked.push(TokenWithSpan::new(Token::RParen, token.span));
                    }
                    begins_argument = *takes;
                }
            }
            Token::RParen => {
                if let Some((_, true)) = brackets.pop() {
                    marked.push(TokenWithSpan::new(Token::RParen, token.span));
                }
            }
            // Commas inside these do not separate arguments.
            Token::LBracket | Token::LBrace => brackets.push((false, false)),
            Token::RBracket | Token::RBrace => drop(brackets.pop()),
            _ => {}
        }
        marked.push(token.clone());
        at += 1;
    }
    marked
}

fn word(token: &TokenWithSpan) -> Option<&str> {
    match &token.token {
        Token::Word(word) => Some(word.value.as_str()),
        _ => None,
    }
}

fn takes_lambda(name: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.eq_ignore_ascii_case(name))
}

/// Returns the parameters of the lambda that `tokens` begin with, and the number of tokens before
/// its body.
fn parameters(tokens: &[TokenWithSpan]) -> Option<(Vec<&TokenWithSpan>, usize)> {
    let token = |at: usize| tokens.get(at).map(|token| &token.token);
    let names = |from: usize, end: &Token| {
        let mut names = Vec::new();
        let mut at = from;
        loop {
            names.push(tokens.get(at).filter(|token| word(token).is_some())?);
            match token(at + 1)? {
                Token::Comma => at += 2,
                found if found == end => return Some((names, at + 2)),
                _ => return None,
            }
        }
    };
    match token(0)? {
        Token::LParen => {
            let (names, length) = names(1, &Token::RParen)?;
            (*token(length)? == Token::Arrow).then_some((names, length + 1))
        }
        Token::Word(first)
            if first.value.eq_ignore_ascii_case("lambda") && matches!(token(1), Some(Token::Word(_))) =>
        {
            names(1, &Token::Colon)
        }
        Token::Word(_) if *token(1)? == Token::Arrow => Some((vec![tokens.first()?], 2)),
        _ => None,
    }
}

/// Turns the calls that [`mark`] made into lambdas.
pub(super) fn restore(part: &mut impl VisitMut) {
    let done = walk(part, &mut Restore);
    debug_assert!(done.is_continue(), "nothing breaks off");
}

struct Restore;

impl VisitorMut for Restore {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else {
            return ControlFlow::Continue(());
        };
        if name.to_string() != MARK {
            return ControlFlow::Continue(());
        }
        let mut args: Vec<Expr> = std::mem::take(&mut list.args)
            .into_iter()
            .filter_map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                _ => None,
            })
            .collect();
        let Some(mut body) = args.pop() else { return ControlFlow::Continue(()) };
        let parameter = |expr: Expr| match expr {
            Expr::Identifier(name) => Some(LambdaFunctionParameter { name, data_type: None }),
            _ => None,
        };
        let mut parameters: Vec<_> = args.into_iter().filter_map(parameter).collect();
        let names: Vec<String> = parameters.iter().map(|parameter| parameter.name.value.clone()).collect();
        each_expression(&mut body, &mut |expr| fields_of_parameters(expr, &names));
        let params = match parameters.len() {
            1 => OneOrManyWithParens::One(parameters.remove(0)),
            _ => OneOrManyWithParens::Many(parameters),
        };
        *expr = Expr::Lambda(LambdaFunction { params, body: Box::new(body), syntax: LambdaSyntax::Arrow });
        ControlFlow::Continue(())
    }
}

/// Rewrites `x.a` to `x['a']` if `x` is a parameter: the planner would read it as a column of a
/// table `x`.
fn fields_of_parameters(expr: &mut Expr, parameters: &[String]) {
    let Expr::CompoundIdentifier(parts) = expr else { return };
    let Some((first, fields)) = parts.split_first() else { return };
    if first.quote_style.is_some() || !parameters.iter().any(|name| name.eq_ignore_ascii_case(&first.value)) {
        return;
    }
    let field = |name: &Ident| {
        let index = Expr::value(Value::SingleQuotedString(name.value.clone()));
        AccessExpr::Subscript(Subscript::Index { index })
    };
    let access_chain = fields.iter().map(field).collect();
    *expr = Expr::CompoundFieldAccess { root: Box::new(Expr::Identifier(first.clone())), access_chain };
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;
    use crate::sql::Statement;

    fn read(expr: &str) -> String {
        let tokens = mark(Statement::parse(&format!("SELECT {expr}")).unwrap().tokens);
        let mut parser = Parser::new(&GenericDialect {}).with_tokens_with_locations(tokens);
        let mut statement = parser.parse_statement().unwrap();
        restore(&mut statement);
        statement.to_string().replace("SELECT ", "")
    }

    #[test]
    fn arrows_of_functions_that_take_them_are_lambdas() {
        for (written, expected) in [
            ("list_transform([1, 2], x -> x + 1)", "list_transform([1, 2], x -> x + 1)"),
            ("list_filter(l, lambda x: x > 1)", "list_filter(l, x -> x > 1)"),
            ("list_filter(l, (x, i) -> x > i)", "list_filter(l, (x, i) -> x > i)"),
            (
                "list_transform(l, x -> list_filter(x, y -> y > f(1, 2)))",
                "list_transform(l, x -> list_filter(x, y -> y > f(1, 2)))",
            ),
            ("list_transform(data -> 'a', x -> x ->> 'b')", "list_transform(data -> 'a', x -> x ->> 'b')"),
            ("data -> 'a'", "data -> 'a'"),
            ("list_transform(l, x -> x.a.b + t.c)", "list_transform(l, x -> x['a']['b'] + t.c)"),
        ] {
            assert_eq!(read(written), expected);
        }
    }
}
