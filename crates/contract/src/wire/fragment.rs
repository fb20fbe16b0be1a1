//! Fragments on the wire.

use prost::Message;

use super::expr::{read_expr, write_expr};
use super::format::{FormatMessage, read_format, write_format};
use super::types::{read_schema, write_schema};
use super::{codes, malformed, missing, read_list, unknown, write_list};
use crate::{AggregateCall, AggregateFunction, Error, Fragment, NamedExpr, Output, Result, SortKey, limits};

#[derive(Clone, PartialEq, Message)]
pub(super) struct FragmentMessage {
    #[prost(message, optional, tag = "1")]
    format: Option<FormatMessage>,
    #[prost(bytes = "vec", tag = "2")]
    schema: Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "3")]
    predicate: Option<Vec<u8>>,
    /// 1: rows, 2: aggregates.
    #[prost(uint32, tag = "4")]
    output: u32,
    /// A list of [`NamedMessage`]: the columns of rows, or the keys of groups.
    #[prost(bytes = "vec", tag = "5")]
    columns: Vec<u8>,
    /// A list of [`CallMessage`].
    #[prost(bytes = "vec", tag = "6")]
    calls: Vec<u8>,
    /// A list of [`SortMessage`].
    #[prost(bytes = "vec", tag = "7")]
    order: Vec<u8>,
    #[prost(uint64, optional, tag = "8")]
    limit: Option<u64>,
    /// A list of [`NamedMessage`]: the final projection.
    #[prost(bytes = "vec", optional, tag = "9")]
    project: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct NamedMessage {
    #[prost(bytes = "vec", tag = "1")]
    expr: Vec<u8>,
    #[prost(string, tag = "2")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct CallMessage {
    #[prost(uint32, tag = "1")]
    function: u32,
    #[prost(bytes = "vec", optional, tag = "2")]
    argument: Option<Vec<u8>>,
    #[prost(string, tag = "3")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct SortMessage {
    #[prost(bytes = "vec", tag = "1")]
    expr: Vec<u8>,
    #[prost(bool, tag = "2")]
    descending: bool,
    #[prost(bool, tag = "3")]
    nulls_first: bool,
}

codes! {
    aggregate: AggregateFunction, "aggregate" {
        AggregateFunction::Count = 1;
        AggregateFunction::Sum = 2;
        AggregateFunction::Min = 3;
        AggregateFunction::Max = 4;
        AggregateFunction::Avg = 5;
        AggregateFunction::Mean = 6;
        AggregateFunction::SquaredDeviations = 7;
    }
}

impl Fragment {
    /// Encodes the fragment on its own, without the version of a request.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(write_fragment(self)?.encode_to_vec())
    }

    /// Decodes what [`Self::to_bytes`] encoded.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        read_fragment(FragmentMessage::decode(bytes).map_err(malformed)?)
    }
}

pub(super) fn write_fragment(fragment: &Fragment) -> Result<FragmentMessage> {
    let (output, columns, calls) = match &fragment.output {
        Output::Rows(columns) => (1, write_named(columns)?, vec![]),
        Output::Aggregate { groups, calls } => (2, write_named(groups)?, write_calls(calls)?),
    };
    let key = |key: &SortKey| {
        let expr = write_expr(&key.expr)?;
        Ok(SortMessage { expr, descending: key.descending, nulls_first: key.nulls_first })
    };
    Ok(FragmentMessage {
        format: Some(write_format(&fragment.format)?),
        schema: write_schema(&fragment.schema)?,
        predicate: fragment.predicate.as_ref().map(write_expr).transpose()?,
        output,
        columns,
        calls,
        order: write_list(fragment.order.iter().map(key).collect::<Result<Vec<_>>>()?)?,
        limit: fragment.limit,
        project: fragment.project.as_deref().map(write_named).transpose()?,
    })
}

pub(super) fn read_fragment(message: FragmentMessage) -> Result<Fragment> {
    let format = read_format(message.format.ok_or_else(|| missing("a format"))?)?;
    let schema = read_schema(&message.schema)?;
    let columns = schema.fields().len();
    let (output, width) = match message.output {
        1 => {
            let rows = read_named(&message.columns, limits::COLUMNS, columns)?;
            let width = rows.len();
            (Output::Rows(rows), width)
        }
        2 => {
            let groups = read_named(&message.columns, limits::KEYS, columns)?;
            let calls = read_calls(&message.calls, columns)?;
            let width = groups.len() + calls.len();
            (Output::Aggregate { groups, calls }, width)
        }
        other => return Err(unknown("kind of output", other)),
    };
    let key = |key: SortMessage| {
        Ok(SortKey { expr: read_expr(&key.expr, width)?, descending: key.descending, nulls_first: key.nulls_first })
    };
    let order = read_list::<SortMessage>(&message.order, limits::KEYS, "sort keys")?;
    let fragment = Fragment {
        format,
        predicate: message.predicate.map(|predicate| read_expr(&predicate, columns)).transpose()?,
        schema,
        output,
        order: order.into_iter().map(key).collect::<Result<_>>()?,
        limit: message.limit,
        project: message.project.map(|project| read_named(&project, limits::COLUMNS, width)).transpose()?,
    };
    if !fragment.order.is_empty() && fragment.limit.is_none_or(|limit| limit > limits::TOP_K_ROWS) {
        return Err(Error::invalid(format!("an order needs a limit of at most {} rows", limits::TOP_K_ROWS)));
    }
    Ok(fragment)
}

fn write_named(columns: &[NamedExpr]) -> Result<Vec<u8>> {
    let named = |column: &NamedExpr| Ok(NamedMessage { expr: write_expr(&column.expr)?, name: column.name.clone() });
    write_list(columns.iter().map(named).collect::<Result<Vec<_>>>()?)
}

fn read_named(bytes: &[u8], limit: usize, columns: usize) -> Result<Vec<NamedExpr>> {
    let named = |message: NamedMessage| Ok(NamedExpr { expr: read_expr(&message.expr, columns)?, name: message.name });
    read_list::<NamedMessage>(bytes, limit, "columns")?.into_iter().map(named).collect()
}

fn write_calls(calls: &[AggregateCall]) -> Result<Vec<u8>> {
    let call = |call: &AggregateCall| {
        Ok(CallMessage {
            function: aggregate::code(call.function),
            argument: call.argument.as_ref().map(write_expr).transpose()?,
            name: call.name.clone(),
        })
    };
    write_list(calls.iter().map(call).collect::<Result<Vec<_>>>()?)
}

fn read_calls(bytes: &[u8], columns: usize) -> Result<Vec<AggregateCall>> {
    let call = |message: CallMessage| {
        let function = aggregate::read(message.function)?;
        let argument = message.argument.map(|argument| read_expr(&argument, columns)).transpose()?;
        if argument.is_none() && function != AggregateFunction::Count {
            return Err(missing("the argument of an aggregate"));
        }
        Ok(AggregateCall { function, argument, name: message.name })
    };
    read_list::<CallMessage>(bytes, limits::COLUMNS, "aggregates")?.into_iter().map(call).collect()
}
