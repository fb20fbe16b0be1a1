//! `date_part`, and with it `extract`, without a bug of DataFusion 55.2.
//!
//! DataFusion rewrites a comparison of a year to one of the timestamp with the ends of that year.
//! Years that a nanosecond timestamp cannot hold become NULL there, and no row passes.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::functions::datetime::date_part;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// The function that replaces DataFusion's.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(DatePart(date_part()))
}

#[derive(Debug, Eq, Hash, PartialEq)]
struct DatePart(Arc<ScalarUDF>);

impl ScalarUDFImpl for DatePart {
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
        self.0.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.0.invoke_with_args(args)
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        Ok(match self.0.preimage(args, literal, info)? {
            PreimageResult::Range { interval, .. } if interval.lower().is_null() || interval.upper().is_null() => {
                PreimageResult::None
            }
            other => other,
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}
