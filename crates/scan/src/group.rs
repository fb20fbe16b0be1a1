//! Aggregates with groups: a hash table of keys, and a state for each key and aggregate.
//!
//! Everything is in memory and bounded, see [`Memory`]. Where the answer must be whole, more groups or more bytes than
//! [`limits`] allow are an error, never a wrong answer. Where somebody merges what comes out, a full table keeps the
//! groups it has, and the rows of other groups are passed on: aggregated among themselves in a small table that is
//! given out whenever it is full. This is the partial group-by that PushdownDB wishes for (Section X, suggestion 4):
//! large groups are met early and stay, the many small ones cost little more than their rows would.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{concat, take_record_batch};
use arrow::datatypes::{DataType, Decimal128Type, Field, Int64Type, SchemaRef, UInt64Type};
use arrow::row::{RowConverter, SortField};
use datafusion_expr::{AggregateUDF, EmitTo, GroupsAccumulator};
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_functions_aggregate::variance::var_pop_udaf;
use datafusion_physical_expr::GroupsAccumulatorAdapter;
use pushdown::{AggregateCall, AggregateFunction, Error, ErrorKind, NamedExpr, Result};

use crate::aggregate::{aggregate_expr, numeric, sum_overflow, sums, variance_state};
use crate::coerce;
use crate::errors::{from_arrow, from_datafusion};
use crate::evaluate::Evaluator;
use crate::limits;
use crate::lower::{Physical, lower};
use crate::token_aggregate::TokenTotal;

/// What happens when keys and states need more memory than they may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Memory {
    /// More than [`limits`] allow is an error.
    Whole,
    /// A group may come out more than once: with so many bytes taken, new groups are passed on.
    Partial(usize),
}

/// The columns of some results, and how many rows they have.
type Results = (Vec<ArrayRef>, usize);

/// A grouped aggregation under way.
pub(crate) struct HashAggregate {
    /// What it was made from: a full one makes others of its kind.
    plan: Arc<Plan>,
    memory: Memory,
    keys: Vec<(String, Evaluator)>,
    converter: RowConverter,
    /// Each key and the number of its group.
    table: HashMap<Box<[u8]>, usize>,
    key_bytes: usize,
    calls: Vec<(String, State)>,
    /// The group of each row of the batch at hand.
    groups: Vec<usize>,
    /// Groups that the full table did not take.
    aside: Option<Box<HashAggregate>>,
}

struct Plan {
    groups: Vec<NamedExpr>,
    calls: Vec<AggregateCall>,
    schema: SchemaRef,
}

enum State {
    CountRows(Vec<i64>),
    Count(Physical, Vec<i64>),
    /// Over Int64, UInt64 or Decimal128.
    Sum(Physical, DataType, Vec<Option<i128>>),
    Tokens(Physical, AggregateFunction, Vec<TokenTotal>),
    Other(Physical, DataType, Box<dyn GroupsAccumulator>),
    /// One of the states that DataFusion keeps for a variance.
    Variance(Physical, usize, Box<dyn GroupsAccumulator>),
}

impl HashAggregate {
    /// For batches of `schema`.
    pub(crate) fn new(
        groups: &[NamedExpr],
        calls: &[AggregateCall],
        schema: &SchemaRef,
        memory: Memory,
    ) -> Result<Self> {
        let plan = Plan { groups: groups.to_vec(), calls: calls.to_vec(), schema: Arc::clone(schema) };
        Self::of(Arc::new(plan), memory)
    }

    fn of(plan: Arc<Plan>, memory: Memory) -> Result<Self> {
        let keys = plan.groups.iter().map(|key| Ok((key.name.clone(), Evaluator::expr(&key.expr, &plan.schema)?)));
        let keys: Vec<(String, Evaluator)> = keys.collect::<Result<_>>()?;
        let fields = keys.iter().map(|(_, key)| SortField::new(key.data_type().clone())).collect();
        let converter = RowConverter::new(fields).map_err(from_arrow)?;
        let calls = plan.calls.iter().map(|call| Ok((call.name.clone(), State::new(call, &plan.schema)?)));
        let calls = calls.collect::<Result<_>>()?;
        let table = HashMap::new();
        Ok(Self { plan, memory, keys, converter, table, key_bytes: 0, calls, groups: vec![], aside: None })
    }

    /// The columns of the result.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let keys = self.keys.iter().map(|(name, key)| Field::new(name, key.data_type().clone(), key.nullable()));
        let calls = self.calls.iter().map(|(name, state)| {
            let (data_type, nullable) = match state {
                State::CountRows(_) | State::Count(..) => (DataType::Int64, false),
                State::Tokens(..) => (DataType::Utf8, true),
                State::Variance(..) => (DataType::Float64, false),
                State::Sum(_, data_type, _) | State::Other(_, data_type, _) => (data_type.clone(), true),
            };
            Field::new(name, data_type, nullable)
        });
        keys.chain(calls).collect()
    }

    /// Takes in all rows of a batch. Partial memory may be full: then groups come out that are no longer held.
    pub(crate) fn update(&mut self, batch: &RecordBatch) -> Result<Option<Results>> {
        let unknown = self.find_groups(batch)?;
        if unknown.is_empty() {
            self.add(batch)?;
        } else {
            let unknown = UInt32Array::from(unknown);
            let mut is_known = vec![true; batch.num_rows()];
            for row in unknown.values() {
                if let Some(known) = is_known.get_mut(*row as usize) {
                    *known = false;
                }
            }
            let known: UInt32Array = (0u32..).zip(&is_known).filter_map(|(row, known)| known.then_some(row)).collect();
            self.add(&take_record_batch(batch, &known).map_err(from_arrow)?)?;
            let aside = match &mut self.aside {
                Some(aside) => aside,
                // Its own table takes every group: it is given out as soon as it is large.
                none => none.insert(Box::new(Self::of(Arc::clone(&self.plan), Memory::Partial(usize::MAX))?)),
            };
            aside.update(&take_record_batch(batch, &unknown).map_err(from_arrow)?)?;
        }
        match self.memory {
            Memory::Partial(most) => self.make_room(most),
            Memory::Whole => self.check_limits().map(|()| None),
        }
    }

    /// The result.
    pub(crate) fn finish(mut self) -> Result<Results> {
        let aside = self.aside.take();
        let (columns, rows) = self.groups_as_columns()?;
        let Some(aside) = aside else { return Ok((columns, rows)) };
        let (others, more) = aside.groups_as_columns()?;
        let both = columns.iter().zip(&others).map(|(a, b)| concat(&[a, b]).map_err(from_arrow));
        Ok((both.collect::<Result<_>>()?, rows + more))
    }

    /// Sets the group of each row. Rows of groups that the table does not take are left out of that, and returned.
    fn find_groups(&mut self, batch: &RecordBatch) -> Result<Vec<u32>> {
        let keys = self.keys.iter().map(|(_, key)| key.evaluate(batch)).collect::<Result<Vec<_>>>()?;
        let rows = self.converter.convert_columns(&keys).map_err(from_arrow)?;
        let mut room = match self.memory {
            Memory::Partial(most) => most.saturating_sub(self.bytes()),
            Memory::Whole => usize::MAX,
        };
        let mut unknown = Vec::new();
        self.groups.clear();
        for (number, row) in (0u32..).zip(&rows) {
            let key: &[u8] = row.as_ref();
            if let Some(group) = self.table.get(key) {
                self.groups.push(*group);
                continue;
            }
            let bytes = key.len() + KEY_OVERHEAD_BYTES;
            let with_states = bytes + self.calls.len() * STATE_BYTES;
            if room < with_states {
                unknown.push(number);
                continue;
            }
            room -= with_states;
            self.key_bytes += bytes;
            let next = self.table.len();
            self.table.insert(key.into(), next);
            self.groups.push(next);
        }
        Ok(unknown)
    }

    /// Adds rows to the groups that were found for them.
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let count = self.table.len();
        self.calls.iter_mut().try_for_each(|(_, state)| state.update(batch, &self.groups, count))
    }

    fn bytes(&self) -> usize {
        self.key_bytes + self.calls.iter().map(|(_, state)| state.bytes()).sum::<usize>()
    }

    fn check_limits(&self) -> Result<()> {
        if self.table.len() > limits::GROUPS {
            return Err(too_much(format!("GROUP BY finds more than {} groups", limits::GROUPS)));
        }
        if self.bytes() > limits::AGGREGATE_BYTES {
            return Err(too_much(format!("GROUP BY needs more than {} bytes", limits::AGGREGATE_BYTES)));
        }
        Ok(())
    }

    /// Gives out what was set aside when that is large, or everything if the groups' own states have grown.
    fn make_room(&mut self, most: usize) -> Result<Option<Results>> {
        if self.aside.as_ref().is_some_and(|aside| aside.bytes() >= most / ASIDE_SHARE) {
            return self.aside.take().map(|aside| aside.groups_as_columns()).transpose();
        }
        if self.bytes() / 2 < most {
            return Ok(None);
        }
        let fresh = Self::of(Arc::clone(&self.plan), self.memory)?;
        std::mem::replace(self, fresh).finish().map(Some)
    }

    fn groups_as_columns(self) -> Result<Results> {
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

/// What a state of a new group probably costs.
const STATE_BYTES: usize = size_of::<Option<i128>>();

/// What is set aside may take this part of the memory before it is given out.
const ASIDE_SHARE: usize = 4;

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
            AggregateFunction::Mean | AggregateFunction::SquaredDeviations => {
                match Self::other(var_pop_udaf(), numeric(lowered, function, schema)?, schema)? {
                    Self::Other(argument, _, accumulator) => {
                        Ok(Self::Variance(argument, variance_state(function), accumulator))
                    }
                    _ => Err(Error::internal("a variance without an accumulator")),
                }
            }
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
            Self::Other(expr, _, accumulator) | Self::Variance(expr, _, accumulator) => {
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
            Self::Other(_, _, accumulator) | Self::Variance(_, _, accumulator) => accumulator.size(),
        }
    }

    fn finish(self, count: usize) -> Result<ArrayRef> {
        Ok(match self {
            Self::CountRows(counts) | Self::Count(_, counts) => Arc::new(Int64Array::from(counts)),
            Self::Sum(_, data_type, totals) => sums(totals, &data_type)?,
            Self::Tokens(_, _, totals) => {
                Arc::new(totals.into_iter().map(TokenTotal::finish).collect::<Result<StringArray>>()?)
            }
            Self::Variance(_, place, mut accumulator) => {
                let states = accumulator.state(EmitTo::All).map_err(from_datafusion)?;
                let state = states.into_iter().nth(place);
                state.ok_or_else(|| Error::internal("a variance with too few states"))?
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
