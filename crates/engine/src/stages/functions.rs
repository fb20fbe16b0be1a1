//! Functions that the engine makes for an expression, so that no registry has them.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};
use prost::Message;
use pushdowndb_contract::wire::{read_type, write_type};
use pushdowndb_contract::{Error, Result};

use super::messages::{CastMessage, Function, FunctionMessage};
use crate::functions::arithmetic::Checked;
use crate::functions::casts;

/// Encodes the functions of `plan` that no registry has; `None` if one of its functions cannot be
/// sent. `is_known` says whether a registry has a name.
pub(crate) fn made_for(plan: &LogicalPlan, is_known: &dyn Fn(&str) -> bool) -> Option<Vec<Vec<u8>>> {
    let (mut functions, mut all_sent) = (Vec::new(), true);
    let mut look_at = |expr: &Expr| {
        expr.apply(|expr| {
            if let Expr::ScalarFunction(call) = expr {
                match function_to_bytes(&call.func) {
                    Ok(Some(bytes)) if !functions.contains(&bytes) => functions.push(bytes),
                    Ok(Some(_)) => {}
                    Ok(None) => all_sent &= is_known(call.func.name()),
                    Err(_) => all_sent = false,
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })
    };
    let walked = plan.apply_with_subqueries(|node| node.apply_expressions(&mut look_at));
    (walked.is_ok() && all_sent).then_some(functions)
}

/// Encodes a function of the engine that no registry has; `None` for all other functions.
///
/// # Errors
///
/// Returns an error if it casts a type that cannot be sent.
fn function_to_bytes(function: &ScalarUDF) -> Result<Option<Vec<u8>>> {
    let message = if Checked::of_function(function).is_some() {
        Function::Checked(function.name().to_owned())
    } else if let Some((from, to, safe)) = casts::made_of(function) {
        Function::Cast(CastMessage { from: write_type(from)?, to: write_type(to)?, safe })
    } else {
        return Ok(None);
    };
    Ok(Some(FunctionMessage { function: Some(message) }.encode_to_vec()))
}

/// Decodes the result of [`function_to_bytes`].
pub(crate) fn function_from_bytes(bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
    let unknown = || Error::invalid("a function of a stage is not known here");
    match FunctionMessage::decode(bytes).map_err(|_| unknown())?.function {
        Some(Function::Checked(name)) => Checked::named(&name).map(Checked::function).ok_or_else(unknown),
        Some(Function::Cast(CastMessage { from, to, safe })) => {
            casts::function(&read_type(&from)?, &read_type(&to)?, safe).ok_or_else(unknown)
        }
        None => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use datafusion::logical_expr::Operator;

    use super::*;

    #[test]
    fn made_functions_are_made_again() {
        let checked = [Operator::Plus, Operator::Modulo, Operator::BitwiseShiftRight].map(Checked::Binary);
        let mut functions: Vec<Arc<ScalarUDF>> =
            checked.into_iter().chain([Checked::Negate]).map(Checked::function).collect();
        let decimal = DataType::Decimal128(12, 2);
        functions.extend(casts::function(&decimal, &DataType::Int32, true));
        functions.extend(casts::function(&DataType::Float64, &DataType::Utf8, false));
        assert_eq!(functions.len(), 6);
        for function in functions {
            let bytes = function_to_bytes(&function).unwrap().unwrap();
            assert_eq!(function_from_bytes(&bytes).unwrap(), function);
        }
        assert!(function_from_bytes(b"x").is_err());
        let known = datafusion::functions::math::abs();
        assert_eq!(function_to_bytes(&known).unwrap(), None, "found by its name");
    }
}
