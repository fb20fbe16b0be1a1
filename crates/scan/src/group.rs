//! Aggregates with groups: a hash table of keys, and a state for each key and aggregate.
//!
//! Everything is in memory and bounded: more groups or more bytes than [`limits`] allow are an error, never a wrong
//! or partial answer.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Decimal128Type, Field, Int64Type, SchemaRef, UInt64Type};
use arrow::row::{RowConverter, SortField};
use datafusion_expr::{AggregateUDF, EmitTo, GroupsAccumulator};
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::GroupsAccumulatorAdapter;
use pushdown::{AggregateCall, AggregateFunction, Error, ErrorKind, NamedExpr, Result};

use crate::aggregate::{aggregate_expr, numeric, sum_overflow, sums};
use crate::coerce;
use crate::errors::{from_arrow, from_datafusion};
use crate::evaluate::Evaluator;
use crate::limits;
use crate::lower::{Physical, lower};
use crate::token_aggregate::TokenTotal;

/// A grouped aggregation under way.
pub(crate) struct HashAggregate {
    keys: Vec<(String, Evaluator)>,
    converter: RowConverter,
    /// Each key and the number of its group.
    table: HashMap<Box<[u8]>, usize>,
    key_bytes: usize,
    calls: Vec<(String, State)>,
    /// The group of each row of the batch at hand.
    groups: Vec<usize>,
}

enum State {
    CountRows(Vec<i64>),
    Count(Physical, Vec<i64>),
    /// Over Int64, UInt64 or Decimal128.
    Sum(Physical, DataType, Vec<Option<i128>>),
    Tokens(Physical, AggregateFunction, Vec<TokenTotal>),
    Other(Physical, DataType, Box<dyn GroupsAccumulator>),
}

impl HashAggregate {
    /// For batches of `schema`.
    pub(crate) fn new(groups: &[NamedExpr], calls: &[AggregateCall], schema: &SchemaRef) -> Result<Self> {
        let keys = groups.iter().map(|key| Ok((key.name.clone(), Evaluator::expr(&key.expr, schema)?)));
        let keys: Vec<(String, Evaluator)> = keys.collect::<Result<_>>()?;
        let fields = keys.iter().map(|(_, key)| SortField::new(key.data_type().clone())).collect();
        let converter = RowConverter::new(fields).map_err(from_arrow)?;
        let calls = calls.iter().map(|call| Ok((call.name.clone(), State::new(call, schema)?)));
        let calls = calls.collect::<Result<_>>()?;
        Ok(Self { keys, converter, table: HashMap::new(), key_bytes: 0, calls, groups: vec![] })
    }

    /// The columns of the result.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let keys = self.keys.iter().map(|(name, key)| Field::new(name, key.data_type().clone(), key.nullable()));
        let calls = self.calls.iter().map(|(name, state)| {
            let (data_type, nullable) = match state {
                State::CountRows(_) | State::Count(..) => (DataType::Int64, false),
                State::Tokens(..) => (DataType::Utf8, true),
                State::Sum(_, data_type, _) | State::Other(_, data_type, _) => (data_type.clone(), true),
            };
            Field::new(name, data_type, nullable)
        });
        keys.chain(calls).collect()
    }

    /// Takes in all rows of a batch.
    pub(crate) fn update(&mut self, batch: &RecordBatch) -> Result<()> {
        let keys = self.keys.iter().map(|(_, key)| key.evaluate(batch)).collect::<Result<Vec<_>>>()?;
        let rows = self.converter.convert_columns(&keys).map_err(from_arrow)?;
        self.groups.clear();
        for row in &rows {
            let key: &[u8] = row.as_ref();
            let next = self.table.len();
            self.groups.push(match self.table.get(key) {
                Some(group) => *group,
                None => {
                    self.key_bytes += key.len() + KEY_OVERHEAD_BYTES;
                    self.table.insert(key.into(), next);
                    next
                }
            });
        }
        if self.table.len() > limits::GROUPS {
            return Err(too_much(format!("GROUP BY finds more than {} groups", limits::GROUPS)));
        }
        let mut bytes = self.key_bytes;
        for (_, state) in &mut self.calls {
            state.update(batch, &self.groups, self.table.len())?;
            bytes += state.bytes();
        }
        if bytes > limits::AGGREGATE_BYTES {
            return Err(too_much(format!("GROUP BY needs more than {} bytes", limits::AGGREGATE_BYTES)));
        }
        Ok(())
    }

    /// The result's columns, and how many rows they have.
    pub(crate) fn finish(self) -> Result<(Vec<ArrayRef>, usize)> {
        let count = self.table.len();
        let mut ordered: Vec<&[u8]> = vec![&[]; count];
        for (key, group) in &self.table {
            if let Some(place) = ordered.get_mut(*group) {
                *place = key;
            }
        }
        let parser = self.converter.parser();
        let rows = ordered.into_iter().map(|key| parser.parse(key));
        let mut columns = self.converter.convert_rows(rows).map_err(from_arrow)?;
        for (_, state) in self.calls {
            columns.push(state.finish(count)?);
        }
        Ok((columns, count))
    }
}

/// What a key costs in the table besides its bytes.
const KEY_OVERHEAD_BYTES: usize = 40;

pub(crate) fn too_much(message: String) -> Error {
    Error::new(ErrorKind::Limit, message).with_code("ExternalEvalException")
}

impl State {
    fn new(call: &AggregateCall, schema: &SchemaRef) -> Result<Self> {
        let function = call.function;
        let Some(argument) = &call.argument else {
            return match function {
                AggregateFunction::Count => Ok(Self::CountRows(vec![])),
                _ => Err(Error::invalid(format!("{} needs an argument", function.sql()))),
            };
        };
        let lowered = lower(argument, schema)?;
        if call.yields_token() {
            return Ok(Self::Tokens(lowered, function, vec![]));
        }
        match function {
            AggregateFunction::Count => Ok(Self::Count(lowered, vec![])),
            AggregateFunction::Min => Self::other(min_udaf(), lowered, schema),
            AggregateFunction::Max => Self::other(max_udaf(), lowered, schema),
            AggregateFunction::Avg => Self::other(avg_udaf(), numeric(lowered, function, schema)?, schema),
            AggregateFunction::Sum => {
                let argument = numeric(lowered, function, schema)?;
                let (to, result) = match argument.data_type(schema).map_err(from_datafusion)? {
                    t if t.is_signed_integer() => (DataType::Int64, DataType::Int64),
                    t if t.is_unsigned_integer() => (DataType::UInt64, DataType::UInt64),
                    t @ DataType::Decimal128(precision, scale) => {
                        (t, DataType::Decimal128((precision + 10).min(38), scale))
                    }
                    _ => return Self::other(sum_udaf(), argument, schema),
                };
                Ok(Self::Sum(coerce::cast(argument, &to, schema)?, result, vec![]))
            }
        }
    }

    fn other(function: Arc<AggregateUDF>, argument: Physical, schema: &SchemaRef) -> Result<Self> {
        let (aggregate, argument) = aggregate_expr(&function, argument, schema).map_err(from_datafusion)?;
        let data_type = aggregate.field().data_type().clone();
        let accumulator: Box<dyn GroupsAccumulator> = if aggregate.groups_accumulator_supported() {
            aggregate.create_groups_accumulator().map_err(from_datafusion)?
        } else {
            // One accumulator for each group: slower, and right for every type.
            Box::new(GroupsAccumulatorAdapter::new(move || aggregate.create_accumulator()))
        };
        Ok(Self::Other(argument, data_type, accumulator))
    }

    fn update(&mut self, batch: &RecordBatch, groups: &[usize], count: usize) -> Result<()> {
        let rows = batch.num_rows();
        let values = |expr: &Physical| expr.evaluate(batch).and_then(|v| v.into_array(rows)).map_err(from_datafusion);
        match self {
            Self::CountRows(counts) => {
                counts.resize(count, 0);
                for group in groups {
                    if let Some(count) = counts.get_mut(*group) {
                        *count += 1;
                    }
                }
            }
            Self::Count(expr, counts) => {
                counts.resize(count, 0);
                let values = values(expr)?;
                let nulls = values.logical_nulls();
                for (row, group) in groups.iter().enumerate() {
                    if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
                        && let Some(count) = counts.get_mut(*group)
                    {
                        *count += 1;
                    }
                }
            }
            Self::Sum(expr, data_type, totals) => {
                totals.resize(count, None);
                let values = values(expr)?;
                let wide: Vec<Option<i128>> = match values.data_type() {
                    DataType::UInt64 => values.as_primitive::<UInt64Type>().iter().map(|v| v.map(i128::from)).collect(),
                    DataType::Decimal128(..) => values.as_primitive::<Decimal128Type>().iter().collect(),
                    _ => values.as_primitive::<Int64Type>().iter().map(|v| v.map(i128::from)).collect(),
                };
                for (value, group) in wide.into_iter().zip(groups) {
                    if let (Some(value), Some(total)) = (value, totals.get_mut(*group)) {
                        let sum = total.unwrap_or(0).checked_add(value);
                        *total = Some(sum.ok_or_else(|| sum_overflow(data_type))?);
                    }
                }
            }
            Self::Tokens(expr, function, totals) => {
                totals.resize(count, TokenTotal::new(*function));
                let values = values(expr)?;
                for (token, group) in values.as_string::<i32>().iter().zip(groups) {
                    if let (Some(token), Some(total)) = (token, totals.get_mut(*group)) {
                        total.add(token)?;
                    }
                }
            }
            Self::Other(expr, _, accumulator) => {
                accumulator.update_batch(&[values(expr)?], groups, None, count).map_err(from_datafusion)?;
            }
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        match self {
            Self::CountRows(counts) | Self::Count(_, counts) => counts.len() * 8,
            Self::Sum(_, _, totals) => totals.len() * size_of::<Option<i128>>(),
            Self::Tokens(_, _, totals) => {
                totals.len() * size_of::<TokenTotal>() + totals.iter().map(TokenTotal::bytes).sum::<usize>()
            }
            Self::Other(_, _, accumulator) => accumulator.size(),
        }
    }

    fn finish(self, count: usize) -> Result<ArrayRef> {
        Ok(match self {
            Self::CountRows(counts) | Self::Count(_, counts) => Arc::new(Int64Array::from(counts)),
            Self::Sum(_, data_type, totals) => sums(totals, &data_type)?,
            Self::Tokens(_, _, totals) => {
                Arc::new(totals.into_iter().map(TokenTotal::finish).collect::<Result<StringArray>>()?)
            }
            Self::Other(_, data_type, mut accumulator) => {
                if count == 0 {
                    return Ok(arrow::array::new_empty_array(&data_type));
                }
                let values = accumulator.evaluate(EmitTo::All).map_err(from_datafusion)?;
                arrow::compute::cast(&values, &data_type).map_err(from_arrow)?
            }
        })
    }
}
