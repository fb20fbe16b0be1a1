//! Tables read by name: each CSV object has its own order of columns, and may lack some.
//!
//! A CSV fragment addresses columns by position. So for a table whose objects have different
//! headers, each object whose header differs from the table's is scanned by a fragment over its own
//! columns. JSON and Parquet are read by name anyway.
//!
//! ```text
//! table   id, name, price          object   price, id, note
//! filter  #2 > 5                   adapted  #0 > 5
//! output  #0, #1                   adapted  #1, CAST(NULL AS Utf8)
//! ```

use std::convert::Infallible;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pushdowndb_contract::{AggregateCall, Expr, Fragment, Literal, NamedExpr, Output};

/// The columns of one object, mapped to those of its table.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectColumns {
    /// The object's columns in its order, with the table's types. Columns that the table lacks are
    /// text, and are not read.
    schema: SchemaRef,
    /// For each column of the table: its index in the object, or its type as `Err` if the object
    /// lacks it.
    places: Vec<Result<usize, DataType>>,
}

impl ObjectColumns {
    /// Maps the names in an object's `header` to the columns of `table`. Returns `None` if both
    /// have the same names in the same order.
    pub(crate) fn new(header: &[String], table: &Schema) -> Option<Self> {
        if header.iter().eq(table.fields().iter().map(|field| field.name())) {
            return None;
        }
        let mut own: Vec<Field> = header.iter().map(|name| Field::new(name, DataType::Utf8, true)).collect();
        let mut places = Vec::with_capacity(table.fields().len());
        for field in table.fields() {
            let place = place_of(field.name(), header, table);
            if let Some(own) = place.and_then(|place| own.get_mut(place)) {
                *own = field.as_ref().clone();
            }
            places.push(place.ok_or_else(|| field.data_type().clone()));
        }
        Some(Self { schema: Arc::new(Schema::new(own)), places })
    }

    /// The names of the object's columns, in its order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.schema.fields().iter().map(|field| field.name().as_str())
    }

    /// Whether the object has any column of the table.
    pub(crate) fn has_any(&self) -> bool {
        self.places.iter().any(Result::is_ok)
    }

    /// The object's own columns.
    #[cfg(test)]
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rewrites a fragment over the table's columns to one over this object's. Both return the same
    /// columns.
    pub fn adapt(&self, fragment: &Fragment) -> Fragment {
        let named = |columns: &[NamedExpr]| -> Vec<NamedExpr> {
            let column = |c: &NamedExpr| NamedExpr { expr: self.relocate(c.expr.clone()), name: c.name.clone() };
            columns.iter().map(column).collect()
        };
        let output = match &fragment.output {
            Output::Rows(columns) => Output::Rows(named(columns)),
            Output::Aggregate { groups, calls } => {
                let adapt = |call: &AggregateCall| AggregateCall {
                    argument: call.argument.clone().map(|argument| self.relocate(argument)),
                    ..call.clone()
                };
                Output::Aggregate { groups: named(groups), calls: calls.iter().map(adapt).collect() }
            }
        };
        Fragment {
            format: fragment.format.clone(),
            schema: Arc::clone(&self.schema),
            predicate: fragment.predicate.clone().map(|predicate| self.relocate(predicate)),
            output,
            order: fragment.order.clone(),
            limit: fragment.limit,
            project: fragment.project.clone(),
        }
    }

    fn relocate(&self, expr: Expr) -> Expr {
        let Ok(relocated) = expr.replace_columns(&mut |index| {
            Ok::<_, Infallible>(match self.places.get(index) {
                Some(Ok(place)) => Expr::Column(*place),
                Some(Err(data_type)) => Expr::Cast(Box::new(Expr::Literal(Literal::Null)), data_type.clone()),
                None => Expr::Column(index),
            })
        });
        relocated
    }
}

/// Returns the index of `name` in `header`, or else of the only name there that differs in case
/// alone and is not another column of the table: SQL lowers names without quotes.
fn place_of(name: &str, header: &[String], table: &Schema) -> Option<usize> {
    let exact = header.iter().position(|other| other == name);
    exact.or_else(|| {
        let folded = name.to_lowercase();
        let is_like = |other: &String| other.to_lowercase() == folded && table.column_with_name(other).is_none();
        let mut alike = header.iter().enumerate().filter(|(_, other)| is_like(other));
        alike.next().filter(|_| alike.next().is_none()).map(|(place, _)| place)
    })
}

#[cfg(test)]
mod tests {
    use pushdowndb_contract::{CompareOp, CsvOptions, Format};

    use super::*;

    #[test]
    fn fragments_follow_the_object() {
        let field = |name, data_type| Field::new(name, data_type, true);
        let table = Schema::new(vec![
            field("id", DataType::Int64),
            field("name", DataType::Utf8),
            field("price", DataType::Float64),
        ]);
        let names = |all: &[&str]| all.iter().map(|s| s.to_string()).collect::<Vec<_>>();
        assert_eq!(ObjectColumns::new(&names(&["id", "name", "price"]), &table), None);

        let columns = ObjectColumns::new(&names(&["Price", "id", "note"]), &table).unwrap();
        assert_eq!(columns.schema().field(0).data_type(), &DataType::Float64);
        let mut fragment = Fragment::all(Format::Csv(CsvOptions::default()), Arc::new(table));
        fragment.predicate = Some(Expr::compare(CompareOp::Gt, Expr::Column(2), Expr::int(5)));
        let adapted = columns.adapt(&fragment);
        assert_eq!(adapted.predicate, Some(Expr::compare(CompareOp::Gt, Expr::Column(0), Expr::int(5))));
        let Output::Rows(rows) = adapted.output else { panic!() };
        assert_eq!(rows[0].expr, Expr::Column(1));
        assert_eq!(rows[1].expr, Expr::Cast(Box::new(Expr::Literal(Literal::Null)), DataType::Utf8));
        assert_eq!(rows[1].name, "name");
        assert_eq!(adapted.schema.fields().len(), 3);
    }
}
