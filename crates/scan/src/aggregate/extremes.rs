//! MIN and MAX, right for floating-point numbers by group.
//!
//! DataFusion 55.2 forgets what came before a NaN in a group, so that the answer depends on the order of the rows. Its
//! accumulators of one group do not: NaN is greater than all numbers there, as in ORDER BY. So groups have one of these each
//! where values are floating-point numbers.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    Signature, StatisticsArgs,
};
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};

/// MIN, to stand in place of DataFusion's.
pub fn min() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Extreme(min_udaf())))
}

/// MAX, to stand in place of DataFusion's.
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
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.inner().return_type(types)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.inner().coerce_types(types)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.0.inner().state_fields(args)
    }

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

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.0.inner().order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.0.inner().reverse_expr()
    }

    fn is_descending(&self) -> Option<bool> {
        self.0.inner().is_descending()
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.0.inner().value_from_stats(args)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.0.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.inner().documentation()
    }
}
