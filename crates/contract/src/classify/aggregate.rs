//! Aggregates that a backend computes exactly.

use super::classifier::Classifier;
use super::value::Class;
use crate::{AggregateCall, AggregateFunction, Expr, Format};

impl Classifier<'_> {
    pub(super) fn aggregate(&self, call: &AggregateCall) -> bool {
        let Some(argument) = &call.argument else {
            return call.function == AggregateFunction::Count;
        };
        let never_null = match argument {
            Expr::Column(index) => self.schema.fields().get(*index).is_some_and(|field| !field.is_nullable()),
            _ => false,
        };
        let Some(class) = self.value(argument).filter(|_| self.ambiguous(argument).is_empty()) else {
            return false;
        };
        let dialect = self.dialect;
        match call.function {
            AggregateFunction::Count => never_null || dialect.three_valued,
            AggregateFunction::Sum => match class {
                Class::Integer => dialect.exact_sums && dialect.three_valued,
                Class::Decimal { .. } => dialect.exact_sums && dialect.decimals && dialect.three_valued,
                Class::Float => dialect.same_evaluator,
                _ => false,
            },
            AggregateFunction::Min | AggregateFunction::Max => match class {
                // Integers are returned with their digits; doubles may be returned with an
                // exponent.
                Class::Integer => dialect.three_valued || (never_null && matches!(self.format, Format::Csv(_))),
                Class::Decimal { .. } => dialect.decimals && dialect.three_valued,
                // AWS accepts numbers only. For JSON so does every server, since types differ from
                // record to record.
                Class::Float | Class::Text | Class::Date | Class::Boolean => {
                    dialect.same_evaluator && !matches!(self.format, Format::Json(_))
                }
            },
            // Averages cannot be merged, so engines push SUM and COUNT instead.
            AggregateFunction::Avg => false,
            // S3 Select does not have these functions.
            AggregateFunction::Mean | AggregateFunction::SquaredDeviations => false,
        }
    }
}
