//! Aggregates without groups, which return a single row. For groups see
//! [`crate::operators::group::hash_aggregate`].
//!
//! Result types are those of DataFusion. Counts, and sums of integers and decimals, are exact, and
//! a sum that overflows its type is an error. Other aggregates use DataFusion's accumulators.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Decimal128Type, Field, Int64Type, SchemaRef, UInt64Type};
use datafusion_common::ScalarValue;
use datafusion_expr::type_coercion::functions::fields_with_udf;
use datafusion_expr::{Accumulator as DfAccumulator, AggregateUDF};
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_functions_aggregate::variance::var_pop_udaf;
use datafusion_physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use pushdowndb_contract::{AggregateCall, AggregateFunction, Error, Result};

use crate::error::from_datafusion;
use crate::expr::coerce;
use crate::expr::lower::lower;
use crate::expr::physical::Physical;
use crate::operators::aggregate::tokens::TokenTotal;
use crate::types::sql_type;

/// An aggregate in progress.
pub(crate) struct Accumulator {
    name: String,
    state: State,
}

enum State {
    CountRows(i64),
    Count(Physical, i64),
    /// The sum of Int64 or UInt64 values; `None` until there is a value.
    SumIntegers(Physical, DataType, Option<i128>),
    SumDecimals(Physical, DataType, Option<i128>),
    Tokens(Physical, TokenTotal),
    Other(Physical, DataType, Box<dyn DfAccumulator>),
    /// One of the states of a variance, computed by DataFusion's accumulator.
    Variance(Physical, usize, Box<dyn DfAccumulator>),
}

impl Accumulator {
    /// Creates the accumulator of `call` over batches of `schema`.
    pub(crate) fn new(call: &AggregateCall, schema: &SchemaRef) -> Result<Self> {
        let function = call.function;
        let argument = call.argument.as_ref().map(|expr| lower(expr, schema)).transpose()?;
        let tokens = call.yields_token();
        let state = match (function, argument) {
            (_, Some(argument)) if tokens => State::Tokens(argument, TokenTotal::new(function)),
            (AggregateFunction::Count, None) => State::CountRows(0),
            (_, None) => return Err(Error::invalid(format!("{} needs an argument", function.sql()))),
            (AggregateFunction::Count, Some(argument)) => State::Count(argument, 0),
            (AggregateFunction::Sum, Some(argument)) => sum(argument, schema)?,
            (AggregateFunction::Min, Some(argument)) => other(min_udaf(), argument, schema)?,
            (AggregateFunction::Max, Some(argument)) => other(max_udaf(), argument, schema)?,
            (AggregateFunction::Avg, Some(argument)) => {
                other(avg_udaf(), numeric(argument, function, schema)?, schema)?
            }
            (AggregateFunction::Mean | AggregateFunction::SquaredDeviations, Some(argument)) => {
                let State::Other(argument, _, accumulator) =
                    other(var_pop_udaf(), numeric(argument, function, schema)?, schema)?
                else {
                    return Err(Error::internal("a variance without an accumulator"));
                };
                State::Variance(argument, variance_state(function), accumulator)
            }
        };
        Ok(Self { name: call.name.clone(), state })
    }

    /// Returns the field of the result.
    pub(crate) fn field(&self) -> Field {
        let (data_type, nullable) = match &self.state {
            State::CountRows(_) | State::Count(..) => (DataType::Int64, false),
            State::Tokens(..) => (DataType::Utf8, true),
            State::Variance(..) => (DataType::Float64, false),
            State::SumIntegers(_, data_type, _)
            | State::SumDecimals(_, data_type, _)
            | State::Other(_, data_type, _) => (data_type.clone(), true),
        };
        Field::new(&self.name, data_type, nullable)
    }

    /// Adds all rows of a batch.
    pub(crate) fn update(&mut self, batch: &RecordBatch) -> Result<()> {
        let rows = batch.num_rows();
        let values = |expr: &Physical| expr.evaluate(batch).and_then(|v| v.into_array(rows)).map_err(from_datafusion);
        match &mut self.state {
            State::CountRows(count) => *count += rows as i64,
            State::Count(expr, count) => {
                let values = values(expr)?;
                *count += (rows - values.logical_null_count()) as i64;
            }
            State::SumIntegers(expr, data_type, total) => {
                let values = values(expr)?;
                let added = match data_type {
                    DataType::UInt64 => add_up(values.as_primitive::<UInt64Type>().iter().flatten().map(i128::from)),
                    _ => add_up(values.as_primitive::<Int64Type>().iter().flatten().map(i128::from)),
                };
                add(total, added, data_type)?;
            }
            State::SumDecimals(expr, data_type, total) => {
                let values = values(expr)?;
                let values = values.as_primitive::<Decimal128Type>();
                let added = if values.null_count() == 0 {
                    add_up(values.values().iter().copied())
                } else {
                    add_up(values.iter().flatten())
                };
                add(total, added, data_type)?;
            }
            State::Tokens(expr, total) => {
                let values = values(expr)?;
                values.as_string::<i32>().iter().flatten().try_for_each(|token| total.add(token))?;
            }
            State::Other(expr, _, accumulator) | State::Variance(expr, _, accumulator) => {
                accumulator.update_batch(&[values(expr)?]).map_err(from_datafusion)?;
            }
        }
        Ok(())
    }

    /// Merges another accumulator of the same aggregate over later rows.
    pub(crate) fn merge(&mut self, later: Self) -> Result<()> {
        match (&mut self.state, later.state) {
            (State::CountRows(count), State::CountRows(more)) | (State::Count(_, count), State::Count(_, more)) => {
                *count += more;
            }
            (State::SumIntegers(_, data_type, total), State::SumIntegers(_, _, more))
            | (State::SumDecimals(_, data_type, total), State::SumDecimals(_, _, more)) => {
                add(total, Some(more), data_type)?;
            }
            (State::Tokens(_, total), State::Tokens(_, more)) => total.merge(more)?,
            (State::Other(_, _, accumulator), State::Other(_, _, mut later))
            | (State::Variance(_, _, accumulator), State::Variance(_, _, mut later)) => {
                let states = later.state().map_err(from_datafusion)?;
                let states = states.iter().map(|state| state.to_array().map_err(from_datafusion));
                let states = states.collect::<Result<Vec<_>>>()?;
                accumulator.merge_batch(&states).map_err(from_datafusion)?;
            }
            _ => return Err(Error::internal("a state of another aggregate")),
        }
        Ok(())
    }

    /// Returns the approximate memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.state {
            State::CountRows(_) | State::Count(..) | State::SumIntegers(..) | State::SumDecimals(..) => {
                size_of::<i128>()
            }
            State::Tokens(_, total) => total.bytes(),
            State::Other(_, _, accumulator) | State::Variance(_, _, accumulator) => accumulator.size(),
        }
    }

    /// Returns the result as an array with one value.
    pub(crate) fn finish(self) -> Result<ArrayRef> {
        Ok(match self.state {
            State::CountRows(count) | State::Count(_, count) => Arc::new(Int64Array::from(vec![count])),
            State::Tokens(_, total) => Arc::new(StringArray::from(vec![total.finish()?])),
            State::SumIntegers(_, data_type, total) | State::SumDecimals(_, data_type, total) => {
                sums(vec![total], &data_type)?
            }
            State::Variance(_, place, mut accumulator) => {
                let states = accumulator.state().map_err(from_datafusion)?;
                let state = states.get(place).ok_or_else(|| Error::internal("a variance with too few states"))?;
                state.to_array().map_err(from_datafusion)?
            }
            State::Other(_, data_type, mut accumulator) => {
                let value = accumulator.evaluate().map_err(from_datafusion)?;
                let value = if value.is_null() { ScalarValue::try_from(&data_type) } else { value.cast_to(&data_type) };
                value.and_then(|v| v.to_array()).map_err(from_datafusion)?
            }
        })
    }
}

/// Converts totals to an array of the sum's type. Overflow is an error.
pub(crate) fn sums(totals: Vec<Option<i128>>, data_type: &DataType) -> Result<ArrayRef> {
    let overflow = || sum_overflow(data_type);
    Ok(match data_type {
        DataType::UInt64 => {
            let fit = |total: Option<i128>| total.map(u64::try_from).transpose().map_err(|_| overflow());
            Arc::new(totals.into_iter().map(fit).collect::<Result<UInt64Array>>()?)
        }
        DataType::Decimal128(precision, _) => {
            let limit = 10u128.pow(u32::from((*precision).min(38)));
            if totals.iter().flatten().any(|total| total.unsigned_abs() >= limit) {
                return Err(overflow());
            }
            Arc::new(Decimal128Array::from(totals).with_data_type(data_type.clone()))
        }
        _ => {
            let fit = |total: Option<i128>| total.map(i64::try_from).transpose().map_err(|_| overflow());
            Arc::new(totals.into_iter().map(fit).collect::<Result<Int64Array>>()?)
        }
    })
}

/// Returns the sum of the values: `None` if it overflows 128 bits, `Some(None)` if there are no
/// values.
fn add_up(mut values: impl Iterator<Item = i128>) -> Option<Option<i128>> {
    let Some(first) = values.next() else { return Some(None) };
    values.try_fold(first, i128::checked_add).map(Some)
}

fn add(total: &mut Option<i128>, added: Option<Option<i128>>, data_type: &DataType) -> Result<()> {
    match (&total, added) {
        (_, None) => return Err(sum_overflow(data_type)),
        (_, Some(None)) => {}
        (None, Some(added)) => *total = added,
        (Some(before), Some(Some(added))) => {
            *total = Some(before.checked_add(added).ok_or_else(|| sum_overflow(data_type))?);
        }
    }
    Ok(())
}

pub(crate) fn sum_overflow(data_type: &DataType) -> Error {
    let message = format!("SUM is out of the range of {}; cast its argument to DOUBLE", sql_type(data_type));
    Error::invalid(message).with_code("IntegerOverflow")
}

/// Returns the index of this aggregate among DataFusion's states of a variance, which are the
/// count, the mean and the squared deviations.
pub(crate) fn variance_state(function: AggregateFunction) -> usize {
    if function == AggregateFunction::Mean { 1 } else { 2 }
}

/// Returns the argument if it is a number or an untyped NULL, and otherwise an error.
pub(crate) fn numeric(argument: Physical, function: AggregateFunction, schema: &SchemaRef) -> Result<Physical> {
    let data_type = argument.data_type(schema).map_err(from_datafusion)?;
    match data_type {
        DataType::Null => coerce::cast(argument, &DataType::Int64, schema),
        t if t.is_numeric() => Ok(argument),
        other => Err(Error::invalid(format!("{} needs numbers, not {}", function.sql(), sql_type(&other)))),
    }
}

fn sum(argument: Physical, schema: &SchemaRef) -> Result<State> {
    let argument = numeric(argument, AggregateFunction::Sum, schema)?;
    Ok(match argument.data_type(schema).map_err(from_datafusion)? {
        t if t.is_signed_integer() => {
            State::SumIntegers(coerce::cast(argument, &DataType::Int64, schema)?, DataType::Int64, None)
        }
        t if t.is_unsigned_integer() => {
            State::SumIntegers(coerce::cast(argument, &DataType::UInt64, schema)?, DataType::UInt64, None)
        }
        DataType::Decimal128(precision, scale) => {
            let result = DataType::Decimal128((precision + 10).min(38), scale);
            State::SumDecimals(argument, result, None)
        }
        _ => other(sum_udaf(), argument, schema)?,
    })
}

/// Creates the state with DataFusion's accumulator. The argument is cast as required.
fn other(function: Arc<AggregateUDF>, argument: Physical, schema: &SchemaRef) -> Result<State> {
    let build = || -> datafusion_common::Result<_> {
        let (aggregate, argument) = aggregate_expr(&function, argument, schema)?;
        let accumulator = aggregate.create_accumulator()?;
        Ok(State::Other(argument, aggregate.field().data_type().clone(), accumulator))
    };
    build().map_err(from_datafusion)
}

/// Returns DataFusion's aggregate expression, and its argument cast as required.
pub(crate) fn aggregate_expr(
    function: &Arc<AggregateUDF>,
    argument: Physical,
    schema: &SchemaRef,
) -> datafusion_common::Result<(AggregateFunctionExpr, Physical)> {
    let field = Arc::new(Field::new("", argument.data_type(schema)?, true));
    let wanted = fields_with_udf(&[field], function.as_ref())?;
    let to = wanted.first().map_or(DataType::Null, |f| f.data_type().clone());
    let argument = coerce::cast(argument, &to, schema).map_err(crate::error::into_datafusion)?;
    let aggregate = AggregateExprBuilder::new(Arc::clone(function), vec![Arc::clone(&argument)])
        .schema(Arc::clone(schema))
        .alias(function.name())
        .build()?;
    Ok((aggregate, argument))
}
