//! Decoding of plans.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::FieldRef;
use chrono::{DateTime, Utc};
use datafusion::common::ScalarValue;
use object_store::path::Path;
use prost::Message;
use pushdowndb_contract::wire::{read_expr, read_schema, read_type};
use pushdowndb_contract::{Error, Expr, Fragment, Output, Profile, Result};

use super::{
    KeyFilterMessage, KeyMessage, NamesMessage, ObjectMessage, PlanMessage, SampleMessage, StateMessage, TopKMessage,
    VERSION, ValueMessage, WithoutKeysMessage,
};
use crate::catalog::{DataObject, ObjectColumns};
use crate::plan::join_keys::{JoinId, KeyFilter, Shift};
use crate::plan::partial_aggregate::{PartialAggregate, State};
use crate::plan::scan_plan::{ScanPlan, ScanTable, WithoutKeys};
use crate::plan::split_sample::SplitSample;
use crate::plan::top_k::TopK;

impl ScanPlan {
    /// Decodes the result of [`Self::to_bytes`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let message = PlanMessage::decode(bytes).map_err(malformed)?;
        if message.version != VERSION {
            let version = message.version;
            return Err(Error::unsupported(format!("a plan of version {version}, where {VERSION} is known")));
        }
        let fragment = Fragment::from_bytes(&message.fragment)?;
        let columns = fragment.schema.fields().len();
        let table = ScanTable {
            location: message.location,
            store: message.store,
            format: fragment.format,
            compression_by_name: message.compression_by_name,
            file_schema: fragment.schema,
            partition_columns: read_schema(&message.partition_columns)?.fields().iter().cloned().collect(),
            profile: message.profile.as_deref().map(str::parse::<Profile>).transpose()?,
        };
        let aggregate = match (fragment.output, message.states) {
            (Output::Aggregate { groups, calls }, Some(message)) => {
                let state = |state: &StateMessage| {
                    Ok(State { call: index(state.call, calls.len())?, zero_is_null: state.zero_is_null })
                };
                let states = message.states.iter().map(state).collect::<Result<_>>()?;
                Some(PartialAggregate { groups, states, calls, schema: read_schema(&message.schema)? })
            }
            (Output::Rows(_), None) => None,
            _ => return Err(Error::invalid("a plan has the states of aggregates that it does not compute")),
        };
        let objects = message.objects.into_iter().map(|object| read_object(object, &table)).collect::<Result<_>>()?;
        let all = columns + table.partition_columns.len();
        Ok(Self {
            name: message.name,
            objects: Arc::new(objects),
            table: Arc::new(table),
            partitions: size(message.partitions)?,
            projection: message.projection.into_iter().map(|column| index(column, all)).collect::<Result<_>>()?,
            predicate: fragment.predicate,
            limit: message.limit.map(size).transpose()?,
            aggregate,
            group_bytes: size(message.group_bytes)?,
            top_k: message.top_k.map(|top_k| read_top_k(top_k, columns)).transpose()?,
            key_filters: message.key_filters.into_iter().map(|f| read_key_filter(f, columns)).collect::<Result<_>>()?,
            without_keys: message.without_keys.map(|without| read_without_keys(&without, columns)).transpose()?,
            sample: message.sample.map(|SampleMessage { share, seed }| SplitSample { share, seed }),
        })
    }
}

fn read_key(message: &KeyMessage, columns: usize) -> Result<(Expr, SortOptions)> {
    let KeyMessage { expr, descending, nulls_first } = message;
    Ok((read_expr(expr, columns)?, SortOptions { descending: *descending, nulls_first: *nulls_first }))
}

fn read_top_k(message: TopKMessage, columns: usize) -> Result<TopK> {
    let first = message.first.ok_or_else(|| Error::invalid("an order without a key"))?;
    let (key, order) = read_key(&first, columns)?;
    let rest = message.rest.iter().map(|key| read_key(key, columns)).collect::<Result<_>>()?;
    Ok(TopK { key, order, rest: Some(rest).filter(|_| message.is_complete), k: size(message.k)? })
}

fn read_key_filter(message: KeyFilterMessage, columns: usize) -> Result<KeyFilter> {
    let join_keys = size(message.join_keys)?;
    Ok(KeyFilter {
        join: JoinId(message.join),
        join_keys,
        nulls_match: message.nulls_match,
        index: index(message.index, join_keys)?,
        key_type: read_type(&message.key_type)?,
        key: read_expr(&message.key, columns)?,
        shift: Shift { negated: message.negated, offset: message.offset },
        of: message.of,
        side: message.side.map(|side| side.parse()).transpose()?,
    })
}

fn read_without_keys(message: &WithoutKeysMessage, columns: usize) -> Result<WithoutKeys> {
    let predicate = message.predicate.as_deref().map(|predicate| read_expr(predicate, columns)).transpose()?;
    Ok(WithoutKeys { predicate, rows: message.rows })
}

fn read_object(message: ObjectMessage, table: &ScanTable) -> Result<DataObject> {
    if message.values.len() != table.partition_columns.len() {
        return Err(malformed("an object lacks the values of columns in its path"));
    }
    let value = |(value, field): (ValueMessage, &FieldRef)| match value.text {
        Some(text) => ScalarValue::try_from_string(text, field.data_type()).map_err(malformed),
        None => ScalarValue::try_new_null(field.data_type()).map_err(malformed),
    };
    let columns = |columns: NamesMessage| ObjectColumns::new(&columns.names, &table.file_schema).map(Arc::new);
    Ok(DataObject {
        // Parsed without encoding, since an object key may contain characters that a path would
        // encode.
        path: Path::parse(&message.path).map_err(malformed)?,
        size: message.size,
        etag: message.etag,
        last_modified: DateTime::<Utc>::from_timestamp(message.modified_s, message.modified_ns)
            .ok_or_else(|| malformed("an object was written at no time"))?,
        partition_values: message.values.into_iter().zip(&table.partition_columns).map(value).collect::<Result<_>>()?,
        columns: message.columns.and_then(columns),
        replicas: message.replicas.into_iter().map(size).collect::<Result<_>>()?,
    })
}

fn size(number: u64) -> Result<usize> {
    usize::try_from(number).map_err(|_| Error::invalid(format!("{number} is too large for this machine")))
}

/// Returns `number` as a position in a list of `count` items.
fn index(number: u64, count: usize) -> Result<usize> {
    let index = size(number)?;
    let is_in = index < count;
    is_in.then_some(index).ok_or_else(|| Error::invalid(format!("a plan names item {number} of {count}")))
}

fn malformed(error: impl std::fmt::Display) -> Error {
    Error::invalid(format!("a plan is malformed: {error}"))
}
