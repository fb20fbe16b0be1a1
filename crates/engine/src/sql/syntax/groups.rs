//! Clauses that DataFusion 55.2 has in another form: `GROUP BY ()`, HAVING without groups, and
//! FETCH FIRST.

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, LimitClause, Query, Select, Value};
use pushdowndb_contract::{Error, Result};

use super::visit::any_expression;

/// Makes all rows one group for `GROUP BY ()` and for a HAVING of constants.
pub(super) fn rewrite(select: &mut Select) {
    let has_no_group = match &mut select.group_by {
        GroupByExpr::Expressions(keys, _) => {
            for key in keys.iter_mut() {
                if matches!(key, Expr::Tuple(none) if none.is_empty()) {
                    *key = one_group();
                }
            }
            keys.is_empty()
        }
        GroupByExpr::All(_) => false,
    };
    // Aggregates make one group of all rows anyway.
    if has_no_group && select.having.is_some() && !calls(&select.having) && !calls(&select.projection) {
        select.group_by = GroupByExpr::Expressions(vec![one_group()], Vec::new());
    }
}

fn one_group() -> Expr {
    Expr::GroupingSets(vec![Vec::new()])
}

fn calls(part: &impl datafusion::sql::sqlparser::ast::Visit) -> bool {
    any_expression(part, &mut |expr| matches!(expr, Expr::Function(_)))
}

/// Rewrites `FETCH FIRST n ROWS ONLY` to `LIMIT n`.
pub(super) fn fetch_as_limit(query: &mut Query) -> Result<()> {
    let Some(fetch) = query.fetch.take() else { return Ok(()) };
    if fetch.with_ties || fetch.percent {
        let what = if fetch.percent { "FETCH of a percentage" } else { "FETCH … WITH TIES" };
        return Err(Error::unsupported(format!(
            "{what} is not supported; rank() OVER (ORDER BY …) can say which rows to take"
        )));
    }
    let rows = fetch.quantity.unwrap_or_else(|| Expr::value(Value::Number("1".to_owned(), false)));
    query.limit_clause = Some(match query.limit_clause.take() {
        None => LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: Vec::new() },
        Some(LimitClause::LimitOffset { limit: None, offset, limit_by }) => {
            LimitClause::LimitOffset { limit: Some(rows), offset, limit_by }
        }
        Some(_) => return Err(Error::invalid("LIMIT and FETCH say the same; write one of them")),
    });
    Ok(())
}
