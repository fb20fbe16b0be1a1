//! `sampled_splits(share, seed, is_repeatable)`, the condition into which TABLESAMPLE SYSTEM is
//! rewritten. A rule makes it a part of the scan ([`crate::rules::sample_splits`]).

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// The name of the function.
pub(crate) const NAME: &str = "sampled_splits";

/// Returns the function.
pub(crate) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(SampledSplits { signature: Signature::any(3, Volatility::Volatile) }))
}

#[derive(Debug, Eq, Hash, PartialEq)]
struct SampledSplits {
    signature: Signature,
}

impl ScalarUDFImpl for SampledSplits {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!("{NAME} is written by TABLESAMPLE SYSTEM alone")
    }
}
