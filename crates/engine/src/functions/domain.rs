//! Functions of floating-point numbers that fail outside of their domain, as those of PostgreSQL
//! and DuckDB do. DataFusion's return NaN, or minus infinity for the logarithm of zero.
//!
//! | function | domain |
//! | --- | --- |
//! | `sqrt` | numbers that are not negative |
//! | `ln`, `log`, `log2`, `log10` | positive numbers; the base of `log` is not 1 |
//! | `asin`, `acos`, `atanh` | numbers from -1 to 1 |
//! | `acosh` | numbers from 1 on |
//! | `sin`, `cos`, `tan`, `cot` | finite numbers |
//! | `power` | all numbers; a result that is no number is NaN |
//!
//! All of them take NaN and return NaN.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use pushdowndb_contract::Error;
use pushdowndb_scan::with_one_nan;

use crate::error::to_datafusion;

/// Wraps `function` with a check, if it needs one.
pub(crate) fn checked(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match Domain::of(function.name()) {
        Some(domain) => Arc::new(ScalarUDF::from(Checked { inner: function, domain })),
        None => function,
    }
}

/// The domain of a function.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Domain {
    All,
    NotNegative,
    Positive,
    UpToOne,
    FromOne,
    Finite,
}

impl Domain {
    fn of(function: &str) -> Option<Self> {
        Some(match function {
            "power" => Self::All,
            "sqrt" => Self::NotNegative,
            "ln" | "log" | "log2" | "log10" => Self::Positive,
            "asin" | "acos" | "atanh" => Self::UpToOne,
            "acosh" => Self::FromOne,
            "sin" | "cos" | "tan" | "cot" => Self::Finite,
            _ => return None,
        })
    }

    fn holds(self, number: f64) -> bool {
        number.is_nan()
            || match self {
                Self::All => true,
                Self::NotNegative => number >= 0.0,
                Self::Positive => number > 0.0,
                Self::UpToOne => number.abs() <= 1.0,
                Self::FromOne => number >= 1.0,
                Self::Finite => number.is_finite(),
            }
    }

    fn name(self) -> &'static str {
        match self {
            Self::All => "a number",
            Self::NotNegative => "a number that is not negative",
            Self::Positive => "a positive number",
            Self::UpToOne => "a number from -1 to 1",
            Self::FromOne => "a number that is not less than 1",
            Self::Finite => "a finite number",
        }
    }
}

#[derive(Debug, Eq, Hash, PartialEq)]
struct Checked {
    inner: Arc<ScalarUDF>,
    domain: Domain,
}

impl Checked {
    /// Fails if a row has a number outside of the domain.
    fn check(&self, args: &[ColumnarValue]) -> Result<()> {
        if self.domain == Domain::All {
            return Ok(());
        }
        for (at, arg) in args.iter().enumerate() {
            let is_base = self.name() == "log" && args.len() == 2 && at == 0;
            let numbers = cast(&arg.to_array(1)?, &DataType::Float64)?;
            for number in numbers.as_primitive::<Float64Type>().iter().flatten() {
                if !self.domain.holds(number) {
                    let message = format!("{} takes {}, not {number}", self.name(), self.domain.name());
                    return Err(to_datafusion(Error::invalid(message)));
                }
                if is_base && number == 1.0 {
                    return Err(to_datafusion(Error::invalid("there are no logarithms to the base of 1")));
                }
            }
        }
        Ok(())
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.check(&args.args)?;
        Ok(match self.inner.invoke_with_args(args)? {
            ColumnarValue::Array(values) => ColumnarValue::Array(with_one_nan(values)),
            ColumnarValue::Scalar(value) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&with_one_nan(value.to_array()?), 0)?)
            }
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
