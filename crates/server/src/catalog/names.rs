//! Names for the columns of a query that have none: DataFusion refuses two unnamed columns that
//! look alike.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Ident, Query, SelectItem, SetExpr, Statement, VisitMut, VisitorMut};

/// Gives an alias to the second and each further occurrence of an expression in a list of columns.
pub(super) fn distinct(statement: &mut Statement) {
    let _: ControlFlow<()> = VisitMut::visit(statement, &mut Distinct);
}

struct Distinct;

impl VisitorMut for Distinct {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        name_all(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn name_all(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let mut seen = HashSet::new();
            for (place, item) in select.projection.iter_mut().enumerate() {
                if let SelectItem::UnnamedExpr(expr) = item
                    && !seen.insert(expr.to_string())
                {
                    let alias = Ident::with_quote('"', format!("?column?{}", place + 1));
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            name_all(left);
            name_all(right);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[test]
    fn the_same_expressions_get_names() {
        let sql = "SELECT a, NULL, NULL FROM (SELECT 1, 1) AS t UNION SELECT b, 2, 2 FROM u";
        let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
        distinct(&mut statement);
        assert_eq!(
            statement.to_string(),
            "SELECT a, NULL, NULL AS \"?column?3\" FROM (SELECT 1, 1 AS \"?column?2\") AS t \
             UNION SELECT b, 2, 2 AS \"?column?3\" FROM u"
        );
    }
}
