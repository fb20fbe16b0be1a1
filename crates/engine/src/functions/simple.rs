//! A scalar function that is made of a name and a few function pointers.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Simplifies a call with these arguments. The context gives their types.
pub(super) type Simplify = fn(Vec<Expr>, &SimplifyContext) -> Result<ExprSimplifyResult>;

/// A scalar function: its name, its types, and how it computes.
#[derive(Debug)]
pub(super) struct Simple {
    pub name: &'static str,
    /// Returns the types that arguments of these types are cast to. Fails if the function does not
    /// take them.
    pub takes: fn(&[DataType]) -> Result<Vec<DataType>>,
    /// Returns the type of the result for arguments of these types.
    pub returns: fn(&[DataType]) -> Result<DataType>,
    /// Computes the result of each row; the second argument is the number of rows.
    pub compute: fn(&[ArrayRef], usize) -> Result<ArrayRef>,
    pub simplify: Option<Simplify>,
}

impl Simple {
    /// Converts this to a DataFusion function.
    pub(super) fn function(self) -> Arc<ScalarUDF> {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::from(SimpleFunction { simple: self, signature }))
    }
}

#[derive(Debug)]
struct SimpleFunction {
    simple: Simple,
    signature: Signature,
}

impl PartialEq for SimpleFunction {
    fn eq(&self, other: &Self) -> bool {
        self.simple.name == other.simple.name
    }
}

impl Eq for SimpleFunction {}

impl Hash for SimpleFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.simple.name.hash(state);
    }
}

impl ScalarUDFImpl for SimpleFunction {
    fn name(&self) -> &str {
        self.simple.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        (self.simple.takes)(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        (self.simple.returns)(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match self.simple.simplify {
            Some(simplify) => simplify(args, info),
            None => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<Vec<_>>>()?;
        (self.simple.compute)(&arrays, args.number_rows).map(ColumnarValue::Array)
    }
}
