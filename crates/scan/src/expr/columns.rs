//! The columns that expressions and outputs read, and replacing them by other columns.

use std::convert::Infallible;

use pushdowndb_contract::{Expr, NamedExpr, Output, Result};

/// Replaces every expression of `output` by the result of `f`.
pub(crate) fn map_output(output: &Output, f: &mut impl FnMut(&Expr) -> Result<Expr>) -> Result<Output> {
    let mut named = |columns: &[NamedExpr]| -> Result<Vec<NamedExpr>> {
        columns.iter().map(|c| Ok(NamedExpr { expr: f(&c.expr)?, name: c.name.clone() })).collect()
    };
    Ok(match output {
        Output::Rows(columns) => Output::Rows(named(columns)?),
        Output::Aggregate { groups, calls } => {
            let groups = named(groups)?;
            let calls = calls.iter().map(|call| {
                let mut call = call.clone();
                call.argument = call.argument.as_ref().map(&mut *f).transpose()?;
                Ok(call)
            });
            Output::Aggregate { groups, calls: calls.collect::<Result<_>>()? }
        }
    })
}

pub(crate) fn expressions(output: &Output) -> Vec<&Expr> {
    match output {
        Output::Rows(columns) => columns.iter().map(|column| &column.expr).collect(),
        Output::Aggregate { groups, calls } => {
            let arguments = calls.iter().filter_map(|call| call.argument.as_ref());
            groups.iter().map(|group| &group.expr).chain(arguments).collect()
        }
    }
}

/// Returns the columns that an output reads, ascending.
pub(crate) fn columns_of(output: &Output) -> Vec<usize> {
    let mut columns: Vec<usize> = match output {
        Output::Rows(rows) => rows.iter().flat_map(|c| c.expr.columns()).collect(),
        Output::Aggregate { groups, calls } => {
            let arguments = calls.iter().filter_map(|c| c.argument.as_ref());
            groups.iter().map(|g| &g.expr).chain(arguments).flat_map(Expr::columns).collect()
        }
    };
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Returns the columns that an output uses only as plain group keys.
pub(crate) fn only_keys(output: &Output) -> Vec<usize> {
    let Output::Aggregate { groups, calls } = output else { return Vec::new() };
    let arguments = calls.iter().filter_map(|call| call.argument.as_ref());
    let computed = groups.iter().map(|group| &group.expr).filter(|expr| !matches!(expr, Expr::Column(_)));
    let others: Vec<usize> = arguments.chain(computed).flat_map(Expr::columns).collect();
    let keys = groups.iter().flat_map(|group| group.expr.columns());
    keys.filter(|column| !others.contains(column)).collect()
}

/// Replaces each column of `expr` by its position in `columns`. Expects `columns` to be ascending
/// and to contain all columns of `expr`.
pub(crate) fn renumber(expr: &Expr, columns: &[usize]) -> Expr {
    map_columns(expr, &mut |index| place(columns, index))
}

/// Returns the position of column `index` in `columns`. Expects `columns` to be ascending and to
/// contain it.
pub(crate) fn place(columns: &[usize], index: usize) -> usize {
    columns.binary_search(&index).unwrap_or(usize::MAX)
}

/// Replaces each column index in `expr` by the result of `f`.
pub(crate) fn map_columns(expr: &Expr, f: &mut impl FnMut(usize) -> usize) -> Expr {
    let Ok(mapped) = expr.clone().replace_columns(&mut |index| Ok::<_, Infallible>(Expr::Column(f(index))));
    mapped
}
