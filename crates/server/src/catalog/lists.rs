//! Types of parameters that are lists: DataFusion infers no type for them, and clients may send
//! them without one.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CastKind, DataType as SqlType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Statement,
    Value, ValueWithSpan, VisitMut, VisitorMut,
};

/// Adds casts to the parameters of `statement` that are lists, by their types in `given`. A
/// parameter without a type that is the first argument of `array_contains`, to which `= ANY` was
/// rewritten, becomes a list of text. Returns `given` with the types of such parameters added.
pub(super) fn typed(statement: &mut Statement, given: &[Option<DataType>]) -> Vec<Option<DataType>> {
    let mut lists = Lists { given: given.to_vec() };
    let _: ControlFlow<()> = VisitMut::visit(statement, &mut lists);
    lists.given
}

struct Lists {
    given: Vec<Option<DataType>>,
}

impl Lists {
    fn place(expr: &Expr) -> Option<usize> {
        let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = expr else { return None };
        name.strip_prefix('$')?.parse::<u16>().ok().and_then(|number| usize::from(number).checked_sub(1))
    }

    fn given(&self, place: usize) -> Option<&DataType> {
        self.given.get(place)?.as_ref()
    }
}

impl VisitorMut for Lists {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if function.name.to_string() == "array_contains"
            && let FunctionArguments::List(list) = &function.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first()
            && let Some(place) = Self::place(first)
            && self.given(place).is_none()
        {
            if self.given.len() <= place {
                self.given.resize(place + 1, None);
            }
            let texts = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
            if let Some(given) = self.given.get_mut(place) {
                *given = Some(texts);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(DataType::List(element)) = Self::place(expr).and_then(|place| self.given(place))
            && let Some(element) = sql_type(element.data_type())
        {
            let data_type = SqlType::Array(ArrayElemTypeDef::SquareBracket(Box::new(element), None));
            let parameter = Box::new(expr.clone());
            *expr = Expr::Cast { kind: CastKind::Cast, expr: parameter, data_type, array: false, format: None };
        }
        ControlFlow::Continue(())
    }
}

/// The SQL name of the type of a list's elements; `None` for types that are not supported.
fn sql_type(data_type: &DataType) -> Option<SqlType> {
    Some(match data_type {
        DataType::Utf8 => SqlType::Text,
        DataType::Boolean => SqlType::Boolean,
        DataType::Int16 => SqlType::SmallInt(None),
        DataType::Int32 => SqlType::Integer(None),
        DataType::Int64 => SqlType::BigInt(None),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[test]
    fn lists_have_a_type() {
        let list = |element| Some(DataType::List(Arc::new(Field::new_list_field(element, true))));
        let sql = "SELECT 1 WHERE array_contains($2, a) AND b = $1 AND array_contains($3, c)";
        let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
        let given = typed(&mut statement, &[None, None, list(DataType::Int64)]);
        assert_eq!(given, [None, list(DataType::Utf8), list(DataType::Int64)]);
        let text = statement.to_string();
        assert!(text.contains("array_contains(CAST($2 AS TEXT[]), a) AND b = $1"), "{text}");
        assert!(text.contains("array_contains(CAST($3 AS BIGINT[]), c)"), "{text}");
    }
}
