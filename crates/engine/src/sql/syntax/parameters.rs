//! The statements of SQL's `PREPARE`, and the values that `EXECUTE` gives to their parameters.

use std::cell::Cell;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr};
use pushdowndb_contract::{Error, Result};

use super::bind::{place, replace};

/// A statement whose parameters have no values yet.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// The statement.
    pub statement: Statement,
    /// The types that were declared for its first parameters.
    pub types: Vec<DataType>,
}

impl Prepared {
    /// Returns the statement with `values` for its parameters.
    ///
    /// # Errors
    ///
    /// Returns an error if there are fewer values than parameters, or more.
    pub(crate) fn with_values(&self, values: &[Expr]) -> Result<Statement> {
        let mut statement = self.statement.clone();
        let wanted = Cell::new(0);
        replace(&mut statement, &|name| {
            let place = place(name)?;
            wanted.set(wanted.get().max(place + 1));
            let Some(value) = values.get(place) else {
                return Err(Error::invalid(format!("parameter {name} has no value: {} are given", values.len())));
            };
            Ok(Some(self.typed(place, value)))
        })?;
        if wanted.get() < values.len() {
            let (wanted, given) = (wanted.get(), values.len());
            return Err(Error::invalid(format!("the statement has {wanted} parameters, and {given} values are given")));
        }
        Ok(statement)
    }

    /// Casts a value to the type that was declared for the parameter at `place`, if there is one.
    fn typed(&self, place: usize, value: &Expr) -> Expr {
        match self.types.get(place) {
            None => value.clone(),
            Some(data_type) => Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(value.clone()),
                data_type: data_type.clone(),
                array: false,
                format: None,
            },
        }
    }
}
