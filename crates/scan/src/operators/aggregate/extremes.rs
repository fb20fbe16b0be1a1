//! MIN and MAX that handle floating-point groups correctly.
//!
//! In grouped aggregation, DataFusion 55.2 forgets the values before a NaN in a group, so that the
//! result depends on the order of rows. Its ungrouped accumulators do not: there NaN is greater
//! than all numbers, as in ORDER BY. So each group of floating-point values gets an ungrouped
//! accumulator.

use std::sync::Arc;

use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, StatisticsArgs};
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};

/// Returns the MIN that replaces DataFusion's.
pub fn min() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Extreme(min_udaf())))
}

/// Returns the MAX that replaces DataFusion's.
pub fn max() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Extreme(max_udaf())))
}

#[derive(Debug, Eq, Hash, PartialEq)]
struct Extreme(Arc<AggregateUDF>);

impl Extreme {
    fn is_floating(&self, args: &AccumulatorArgs<'_>) -> bool {
        args.return_field.data_type().is_floating()
    }
}

impl AggregateUDFImpl for Extreme {
    crate::delegate_aggregate!();

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.0.inner().accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.0.inner().create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !self.is_floating(&args) && self.0.inner().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        self.0.inner().create_groups_accumulator(args)
    }

    fn is_descending(&self) -> Option<bool> {
        self.0.inner().is_descending()
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.0.inner().value_from_stats(args)
    }
}
