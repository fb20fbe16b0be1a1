//! DataFusion's physical expressions, and a helper for functions with one argument.

use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion_common::Result as DfResult;
use datafusion_common::{ScalarValue, internal_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs};
use datafusion_physical_expr::PhysicalExpr;

pub(crate) type Physical = Arc<dyn PhysicalExpr>;

/// Applies `f` to the only argument of a function. A constant argument gives a constant result.
pub(crate) fn on_array(
    args: ScalarFunctionArgs,
    f: impl Fn(&ArrayRef) -> DfResult<ArrayRef>,
) -> DfResult<ColumnarValue> {
    match args.args.first() {
        Some(ColumnarValue::Array(array)) => f(array).map(ColumnarValue::Array),
        Some(ColumnarValue::Scalar(value)) => {
            let value = f(&value.to_array()?)?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&value, 0)?))
        }
        None => internal_err!("a function of one argument was called without"),
    }
}
