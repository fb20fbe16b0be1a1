//! Calls of functions in the syntax tree.

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName,
};

/// A call of the function `name`.
pub(super) fn call(name: &str, args: impl IntoIterator<Item = Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Returns the arguments of a call; `None` if they are not all plain expressions.
pub(super) fn arguments(function: &Function) -> Option<Vec<Expr>> {
    let list = match &function.args {
        FunctionArguments::List(list) => list,
        FunctionArguments::None => return Some(vec![]),
        FunctionArguments::Subquery(_) => return None,
    };
    if !list.clauses.is_empty() || matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct)) {
        return None;
    }
    let expression = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(expression).collect()
}
