//! Common subexpressions of aggregate arguments, which are computed once per batch. An example is
//! `price * (1 - discount)` in `SUM(price * (1 - discount))` and `SUM(price * (1 - discount) * (1 +
//! tax))`.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use pushdowndb_contract::{AggregateCall, Expr, Result};

use crate::error::from_arrow;
use crate::expr::evaluator::Evaluator;

/// Columns that are computed in addition to those of a batch.
pub(crate) struct Shared {
    /// The expressions of the computed columns. Each may use the columns before it.
    columns: Vec<Evaluator>,
    /// The schema that includes the computed columns.
    schema: SchemaRef,
}

impl Shared {
    /// Extracts the common subexpressions of `calls` over batches of `schema`. Returns the calls
    /// with these subexpressions replaced by columns.
    pub(crate) fn of(calls: &[AggregateCall], schema: &SchemaRef) -> Result<(Self, Vec<AggregateCall>)> {
        let mut calls = calls.to_vec();
        let mut shared = Self { columns: vec![], schema: Arc::clone(schema) };
        while let Some(common) = smallest_common(&calls) {
            let evaluator = Evaluator::expr(&common, &shared.schema)?;
            let place = shared.schema.fields().len();
            let field = Field::new(format!("{place}"), evaluator.data_type().clone(), evaluator.nullable());
            let fields = shared.schema.fields().iter().cloned().chain([Arc::new(field)]);
            shared.schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            shared.columns.push(evaluator);
            for call in &mut calls {
                call.argument = call.argument.take().map(|argument| replaced(argument, &common, place)).transpose()?;
            }
        }
        Ok((shared, calls))
    }

    /// Returns the schema of the batches that [`Self::extend`] returns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds the computed columns to a batch.
    pub(crate) fn extend(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut extended = batch.clone();
        for column in &self.columns {
            let value = column.evaluate(&extended)?;
            let field = Field::new(format!("{}", extended.num_columns()), value.data_type().clone(), true);
            let fields = extended.schema().fields().iter().cloned().chain([Arc::new(field)]).collect::<Vec<_>>();
            let columns = extended.columns().iter().cloned().chain([value]).collect();
            extended = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(from_arrow)?;
        }
        Ok(extended)
    }
}

/// The maximum number of calculations that are compared with each other in the search for one
/// common subexpression.
const MAX_COMPARED: usize = 256;

/// Returns the smallest expression that occurs more than once. Larger ones are then built on it.
fn smallest_common(calls: &[AggregateCall]) -> Option<Expr> {
    let mut all: Vec<&Expr> = Vec::new();
    let arguments = calls.iter().filter_map(|call| call.argument.as_ref());
    arguments.filter(|argument| !argument.is_token()).for_each(|argument| always_computed(argument, &mut all));
    all.truncate(MAX_COMPARED);
    let common = all.iter().enumerate().filter(|(place, expr)| all.iter().skip(place + 1).any(|other| other == *expr));
    common.map(|(_, expr)| *expr).min_by_key(|expr| expr.size()).cloned()
}

/// Collects the calculations that are done for every row. Those inside conditions are not, since
/// they might fail on rows for which they are not evaluated.
fn always_computed<'a>(expr: &'a Expr, all: &mut Vec<&'a Expr>) {
    match expr {
        Expr::Arithmetic(..) => all.push(expr),
        // A calculation of constants is folded to a constant.
        Expr::Cast(value, _) if !value.columns().is_empty() => all.push(expr),
        Expr::Negate(_) | Expr::Cast(..) => {}
        _ => return,
    }
    expr.children().into_iter().for_each(|child| always_computed(child, all));
}

/// Replaces each occurrence of `common` by the column `place`.
fn replaced(expr: Expr, common: &Expr, place: usize) -> Result<Expr> {
    if expr == *common {
        return Ok(Expr::Column(place));
    }
    expr.map_children(&mut |child| replaced(child, common, place))
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::{DataType, Int64Type};
    use pushdowndb_contract::{AggregateFunction, ArithmeticOp};

    use super::*;

    #[test]
    fn what_occurs_twice_is_computed_once() {
        let product = |a, b| Expr::Arithmetic(ArithmeticOp::Multiply, Box::new(a), Box::new(b));
        let sum =
            |argument| AggregateCall { function: AggregateFunction::Sum, argument: Some(argument), name: "s".into() };
        let square = || product(Expr::Column(0), Expr::Column(0));
        let fields = vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)];
        let schema = Arc::new(Schema::new(fields));
        let calls = [sum(square()), sum(product(square(), Expr::Column(1))), sum(product(square(), Expr::Column(1)))];
        let (shared, calls) = Shared::of(&calls, &schema).unwrap();
        let arguments: Vec<_> = calls.into_iter().map(|call| call.argument).collect();
        assert_eq!(arguments, [Some(Expr::Column(2)), Some(Expr::Column(3)), Some(Expr::Column(3))]);
        let columns =
            [vec![Some(3), None], vec![Some(5), Some(7)]].map(|column| Arc::new(Int64Array::from(column)) as _);
        let batch = shared.extend(&RecordBatch::try_new(schema, columns.to_vec()).unwrap()).unwrap();
        let computed = [2, 3].map(|column| batch.column(column).as_primitive::<Int64Type>().iter().collect::<Vec<_>>());
        assert_eq!(computed, [[Some(9), None], [Some(45), None]]);

        let guarded =
            |then| Expr::Case { branches: vec![(Expr::IsNull(Box::new(Expr::Column(1))), then)], otherwise: None };
        let (shared, _) = Shared::of(&[sum(guarded(square())), sum(square())], &Arc::clone(shared.schema())).unwrap();
        assert!(shared.columns.is_empty(), "one of them is not computed for every row");
    }
}
