//! Fields of structs, elements and slices: `s.Name`, `l[1]`, `t[1:3]`, `m[key]`.
//!
//! The name of a field matches in any case, like that of a column, if this leaves one field. Texts
//! have elements and slices like lists: they count characters from 1, or from the end if negative.
//! The key of a map may be an expression. On a text column, `j.key` is the JSON at that key.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int64Type};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference, plan_err};
use datafusion::functions::core::get_field;
use datafusion::functions_nested::extract::array_element;
use datafusion::functions_nested::map_extract::map_extract;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, ScalarUDF, cast, lit};

use super::json;
use super::simple::Simple;

/// Plans access by brackets or by a dot after a value.
#[derive(Debug)]
pub(crate) struct FieldAccess;

impl ExprPlanner for FieldAccess {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let Ok(data_type) = access.expr.get_type(schema) else { return Ok(PlannerResult::Original(access)) };
        let RawFieldAccessExpr { expr, field_access } = access;
        Ok(match (field_access, &data_type) {
            (GetFieldAccess::NamedStructField { name }, DataType::Struct(fields)) => {
                let own = name.try_as_str().flatten().and_then(|name| own_name(fields, name));
                let name = own.map_or(name, ScalarValue::from);
                PlannerResult::Planned(get_field().call(vec![expr, lit(name)]))
            }
            (GetFieldAccess::ListIndex { key }, DataType::Map(..)) if !matches!(*key, Expr::Literal(..)) => {
                PlannerResult::Planned(array_element(map_extract(expr, *key), lit(1_i64)))
            }
            (GetFieldAccess::ListIndex { key }, text) if is_text(text) => {
                PlannerResult::Planned(text_slice().call(vec![expr, (*key).clone(), *key]))
            }
            (GetFieldAccess::ListRange { start, stop, .. }, text) if is_text(text) => {
                let [start, stop] = [start, stop].map(|at| cast(*at, DataType::Int64));
                PlannerResult::Planned(text_slice().call(vec![expr, start, stop]))
            }
            (field_access, _) => PlannerResult::Original(RawFieldAccessExpr { expr, field_access }),
        })
    }

    fn plan_compound_identifier(
        &self,
        field: &Field,
        qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let mut expr = Expr::Column(Column::from((qualifier, field)));
        let mut data_type = Some(field.data_type());
        for name in nested_names {
            // A text is read as JSON.
            if data_type.is_some_and(is_text) {
                expr = json::extract().call(vec![expr, lit(name.as_str())]);
                continue;
            }
            let fields = data_type.and_then(|own| if let DataType::Struct(fields) = own { Some(fields) } else { None });
            let own = fields.and_then(|fields| own_name(fields, name)).unwrap_or(name);
            data_type = fields.and_then(|fields| Some(fields.find(own)?.1.data_type()));
            expr = get_field().call(vec![expr, lit(own)]);
        }
        Ok(PlannerResult::Planned(expr))
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => value.is_string(),
        other => other.is_string(),
    }
}

/// Returns the field that `name` means: the one of that name, or the only one that differs in case
/// alone.
fn own_name<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    if let Some((_, field)) = fields.find(name) {
        return Some(field.name());
    }
    let mut alike = fields.iter().filter(|field| field.name().to_lowercase() == name.to_lowercase());
    alike.next().filter(|_| alike.next().is_none()).map(|field| field.name().as_str())
}

/// Returns the function of slices of texts: `text_slice(text, from, to)`.
fn text_slice() -> Arc<ScalarUDF> {
    let slice = Simple {
        name: "text_slice",
        takes: |types| match types {
            [_, _, _] => Ok(vec![DataType::Utf8, DataType::Int64, DataType::Int64]),
            _ => plan_err!("text_slice takes a text, and the first and the last position"),
        },
        returns: |_| Ok(DataType::Utf8),
        compute: slices,
        simplify: None,
    };
    slice.function()
}

/// Returns the functions to register in a session.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![text_slice()]
}

fn slices(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let [texts, from, to] = args else { return plan_err!("text_slice takes three values") };
    let (texts, from, to) =
        (texts.as_string::<i32>(), from.as_primitive::<Int64Type>(), to.as_primitive::<Int64Type>());
    let mut slices = StringBuilder::new();
    for ((text, from), to) in texts.iter().zip(from).zip(to).take(rows) {
        let (Some(text), Some(from), Some(to)) = (text, from, to) else {
            slices.append_null();
            continue;
        };
        let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        let from_start = |at: i64| if at < 0 { length.saturating_add(at).saturating_add(1) } else { at };
        let (first, last) = (from_start(from).max(1), from_start(to).min(length));
        let skipped = usize::try_from(first - 1).unwrap_or(usize::MAX);
        let taken = usize::try_from(last.saturating_sub(first).saturating_add(1)).unwrap_or(0);
        slices.append_value(text.chars().skip(skipped).take(taken).collect::<String>());
    }
    Ok(Arc::new(slices.finish()))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, StringArray};

    use super::*;

    #[test]
    fn slices_are_counted_from_both_ends() {
        let slice = |from: i64, to: i64| {
            let args: [ArrayRef; 3] = [
                Arc::new(StringArray::from(vec!["héllo"])),
                Arc::new(Int64Array::from(vec![from])),
                Arc::new(Int64Array::from(vec![to])),
            ];
            slices(&args, 1).unwrap().as_string::<i32>().value(0).to_owned()
        };
        for (from, to, expected) in [
            (1, 3, "hél"),
            (2, 2, "é"),
            (-2, -1, "lo"),
            (4, 99, "lo"),
            (3, 1, ""),
            (0, 2, "hé"),
            (9, 9, ""),
            (-9, 2, "hé"),
        ] {
            assert_eq!(slice(from, to), expected, "{from}:{to}");
        }
    }

    #[test]
    fn fields_match_whatever_their_case() {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let fields: Fields = vec![field("eventName"), field("Id"), field("id"), field("ID")].into();
        assert_eq!(own_name(&fields, "eventname"), Some("eventName"));
        assert_eq!(own_name(&fields, "id"), Some("id"));
        assert_eq!(own_name(&fields, "iD"), None);
        assert_eq!(own_name(&fields, "x"), None);
    }
}
