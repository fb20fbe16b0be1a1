//! CSV columns in which S3 Select does not distinguish empty text from NULL.
//!
//! In a CSV table, a pair of quotes is empty text and an empty field is NULL; S3 Select returns
//! empty text for both. Wherever the difference could matter, rows with an empty field in a text
//! column are therefore requested, and the engine reads the object itself to distinguish the two.

use arrow_schema::Schema;

use crate::{CompareOp, CsvOptions, Expr, Format, Key, Literal, NullRule};

/// Returns whether the column `index` of `schema` can hold both empty text and NULL in objects of
/// this `format`.
pub fn has_empty_and_null(index: usize, schema: &Schema, format: &Format) -> bool {
    let tells = matches!(format, Format::Csv(CsvOptions { null: NullRule::Empty | NullRule::Text(_), .. }));
    tells && schema.fields().get(index).is_some_and(|field| field.is_nullable() && field.data_type().is_string())
}

/// Returns the columns that satisfy `has_both` and for which the value of `expr` may depend on the
/// difference between empty text and NULL.
pub(super) fn ambiguous(expr: &Expr, has_both: &dyn Fn(usize) -> bool) -> Vec<usize> {
    let of_all = |all: &[&Expr]| all.iter().flat_map(|part| ambiguous(part, has_both)).collect();
    let mut columns = match expr {
        Expr::And(all) | Expr::Or(all) => of_all(&all.iter().collect::<Vec<_>>()),
        Expr::Case { branches, otherwise } => {
            let parts = branches.iter().flat_map(|(when, then)| [when, then]).chain(otherwise.as_deref());
            of_all(&parts.collect::<Vec<_>>())
        }
        atom if is_of_other_texts(atom) => vec![],
        other => other.columns().into_iter().filter(|column| has_both(*column)).collect(),
    };
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// Returns whether `atom` is a condition on a column that is TRUE neither for empty text nor for
/// NULL.
fn is_of_other_texts(atom: &Expr) -> bool {
    let is_column = |expr: &Expr| matches!(expr, Expr::Column(_));
    let is_text = |expr: &Expr| matches!(expr, Expr::Literal(Literal::Utf8(text)) if !text.is_empty());
    match atom {
        Expr::Compare(CompareOp::Eq | CompareOp::Gt | CompareOp::GtEq, column, text) => {
            is_column(column) && is_text(text)
        }
        Expr::InList { expr, list, negated: false } => {
            is_column(expr) && list.iter().all(|item| is_text(item) || matches!(item, Expr::Literal(Literal::Null)))
        }
        Expr::Like { expr, pattern, negated: false, .. } => {
            let needs_more = |pattern: &str| pattern.chars().any(|c| c != '%' && c != '\\');
            is_column(expr) && matches!(&**pattern, Expr::Literal(Literal::Utf8(pattern)) if needs_more(pattern))
        }
        Expr::Bloom { keys, filter } => matches!(keys.as_slice(), [Expr::Column(_)]) && !filter.contains(Key::Text("")),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field};

    use super::*;

    #[test]
    fn conditions_on_other_texts_are_unambiguous() {
        let is = |op, text: &str| Expr::compare(op, Expr::Column(0), Expr::text(text));
        let like = |pattern: &str, negated| Expr::Like {
            expr: Box::new(Expr::Column(0)),
            pattern: Box::new(Expr::text(pattern)),
            negated,
            case_insensitive: false,
        };
        let list = |items: Vec<Expr>, negated| Expr::InList { expr: Box::new(Expr::Column(0)), list: items, negated };
        let null = || Expr::Literal(Literal::Null);
        let found = |expr: &Expr| ambiguous(expr, &|_| true);
        for unambiguous in [
            is(CompareOp::Eq, "a"),
            is(CompareOp::Gt, "a"),
            like("a%", false),
            list(vec![Expr::text("a"), null()], false),
            Expr::Or(vec![is(CompareOp::Eq, "a"), is(CompareOp::Eq, "b")]),
            Expr::Case { branches: vec![(is(CompareOp::Eq, "a"), Expr::int(1))], otherwise: None },
        ] {
            assert_eq!(found(&unambiguous), [] as [usize; 0], "{unambiguous:?}");
        }
        for other in [
            is(CompareOp::Eq, ""),
            is(CompareOp::NotEq, "a"),
            is(CompareOp::Lt, "a"),
            like("%", false),
            like("a%", true),
            list(vec![Expr::text("")], false),
            list(vec![Expr::text("a")], true),
            Expr::IsNull(Box::new(Expr::Column(0))),
            Expr::Not(Box::new(is(CompareOp::Eq, "a"))),
            Expr::Case { branches: vec![(is(CompareOp::Eq, "a"), Expr::Column(0))], otherwise: None },
            Expr::conjunction(vec![is(CompareOp::Eq, "a"), is(CompareOp::NotEq, "b")]),
        ] {
            assert_eq!(found(&other), [0], "{other:?}");
            assert!(ambiguous(&other, &|_| false).is_empty());
        }
    }

    #[test]
    fn columns_of_text_in_csv_have_both() {
        let field = |data_type, nullable| Field::new("c", data_type, nullable);
        let schema =
            Schema::new(vec![field(DataType::Utf8, true), field(DataType::Utf8, false), field(DataType::Int64, true)]);
        let csv = |null| Format::Csv(CsvOptions { null, ..CsvOptions::default() });
        let both = |format: Format| (0..4).map(|at| has_empty_and_null(at, &schema, &format)).collect::<Vec<_>>();
        assert_eq!(both(csv(NullRule::Empty)), [true, false, false, false]);
        assert_eq!(both(csv(NullRule::Text("NA".into()))), [true, false, false, false]);
        assert_eq!(both(csv(NullRule::Never)), [false; 4]);
        assert_eq!(both(Format::Parquet), [false; 4]);
    }
}
