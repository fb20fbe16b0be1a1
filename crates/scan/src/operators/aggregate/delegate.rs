//! A macro for aggregate functions that wrap one of DataFusion's and change some of its methods.

/// The types in the methods of [`delegate_aggregate!`](crate::delegate_aggregate).
#[doc(hidden)]
pub mod types {
    pub use arrow::datatypes::{DataType, FieldRef};
    pub use datafusion_common::Result;
    pub use datafusion_expr::function::StateFieldsArgs;
    pub use datafusion_expr::utils::AggregateOrderSensitivity;
    pub use datafusion_expr::{Documentation, ReversedUDAF, SetMonotonicity, Signature};
}

/// Implements the methods of an `AggregateUDFImpl` that describe the function by delegation, but
/// not those that compute it. Field 0 must be the `Arc<AggregateUDF>` to which they delegate.
#[macro_export]
macro_rules! delegate_aggregate {
    () => {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn aliases(&self) -> &[String] {
            self.0.aliases()
        }

        fn signature(&self) -> &$crate::delegate::Signature {
            self.0.signature()
        }

        fn return_type(
            &self,
            types: &[$crate::delegate::DataType],
        ) -> $crate::delegate::Result<$crate::delegate::DataType> {
            self.0.inner().return_type(types)
        }

        fn coerce_types(
            &self,
            types: &[$crate::delegate::DataType],
        ) -> $crate::delegate::Result<Vec<$crate::delegate::DataType>> {
            self.0.inner().coerce_types(types)
        }

        fn state_fields(
            &self,
            args: $crate::delegate::StateFieldsArgs<'_>,
        ) -> $crate::delegate::Result<Vec<$crate::delegate::FieldRef>> {
            self.0.inner().state_fields(args)
        }

        fn order_sensitivity(&self) -> $crate::delegate::AggregateOrderSensitivity {
            self.0.inner().order_sensitivity()
        }

        fn reverse_expr(&self) -> $crate::delegate::ReversedUDAF {
            self.0.inner().reverse_expr()
        }

        fn set_monotonicity(&self, data_type: &$crate::delegate::DataType) -> $crate::delegate::SetMonotonicity {
            self.0.inner().set_monotonicity(data_type)
        }

        fn documentation(&self) -> Option<&$crate::delegate::Documentation> {
            self.0.inner().documentation()
        }
    };
}
