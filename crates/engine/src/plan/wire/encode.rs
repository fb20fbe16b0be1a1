//! Encoding of plans.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use prost::Message;
use pushdowndb_contract::wire::{write_expr, write_schema, write_type};
use pushdowndb_contract::{Error, Expr, Fingerprint, Fragment, Output, Result};

use super::{
    KeyFilterMessage, KeyMessage, NamesMessage, ObjectMessage, PlanMessage, SampleMessage, StateMessage, StatesMessage,
    TopKMessage, VERSION, ValueMessage, WithoutKeysMessage,
};
use crate::catalog::{DataObject, ObjectColumns};
use crate::plan::join_keys::KeyFilter;
use crate::plan::partial_aggregate::{PartialAggregate, State};
use crate::plan::scan_plan::{ScanPlan, WithoutKeys};
use crate::plan::split_sample::SplitSample;
use crate::plan::top_k::TopK;

/// The version of [`ScanPlan::rows_fingerprint`].
const FINGERPRINT_VERSION: u8 = 2;

impl ScanPlan {
    /// Encodes the plan. Fails with `Unsupported` if a type or an expression cannot be sent.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        Ok(self.to_message()?.encode_to_vec())
    }

    /// Returns the fingerprint of the rows that the scan yields, which is the same in every query
    /// and process.
    pub(crate) fn rows_fingerprint(&self) -> Result<Fingerprint> {
        let mut rows = PlanMessage {
            name: String::new(),
            partitions: 0,
            group_bytes: 0,
            without_keys: None,
            // Joins are numbered per process; their build sides have fingerprints of their own.
            key_filters: self
                .key_filters
                .iter()
                .map(|filter| Ok(KeyFilterMessage { join: 0, ..write_key_filter(filter)? }))
                .collect::<Result<_>>()?,
            ..self.to_message()?
        };
        // Replicas hold the same bytes.
        rows.objects.iter_mut().for_each(|object| object.replicas.clear());
        Ok(Fingerprint::builder("rows of a scan", FINGERPRINT_VERSION).bytes(&rows.encode_to_vec()).finish())
    }

    fn to_message(&self) -> Result<PlanMessage> {
        let output = match &self.aggregate {
            Some(aggregate) => Output::Aggregate { groups: aggregate.groups.clone(), calls: aggregate.calls.clone() },
            None => Output::Rows(vec![]),
        };
        let fragment = Fragment { output, limit: None, ..self.fragment() };
        let states = |aggregate: &PartialAggregate| {
            let state = |state: &State| StateMessage { call: state.call as u64, zero_is_null: state.zero_is_null };
            let states = aggregate.states.iter().map(state).collect();
            Ok::<_, Error>(StatesMessage { schema: write_schema(&aggregate.schema)?, states })
        };
        let partition_columns = Schema::new(self.table.partition_columns.clone());
        Ok(PlanMessage {
            version: VERSION,
            name: self.name.clone(),
            location: self.table.location.clone(),
            store: self.table.store.clone(),
            fragment: fragment.to_bytes()?,
            compression_by_name: self.table.compression_by_name,
            partition_columns: write_schema(&partition_columns)?,
            profile: self.table.profile.map(|profile| profile.name().to_owned()),
            objects: self.objects.iter().map(write_object).collect::<Result<_>>()?,
            partitions: self.partitions as u64,
            projection: self.projection.iter().map(|column| *column as u64).collect(),
            limit: self.limit.map(|limit| limit as u64),
            group_bytes: self.group_bytes as u64,
            states: self.aggregate.as_ref().map(states).transpose()?,
            top_k: self.top_k.as_ref().map(write_top_k).transpose()?,
            key_filters: self.key_filters.iter().map(write_key_filter).collect::<Result<_>>()?,
            without_keys: self.without_keys.as_ref().map(write_without_keys).transpose()?,
            sample: self.sample.map(|SplitSample { share, seed }| SampleMessage { share, seed }),
        })
    }
}

fn write_key(expr: &Expr, order: SortOptions) -> Result<KeyMessage> {
    Ok(KeyMessage { expr: write_expr(expr)?, descending: order.descending, nulls_first: order.nulls_first })
}

fn write_top_k(top_k: &TopK) -> Result<TopKMessage> {
    let rest = top_k.rest.iter().flatten().map(|(expr, order)| write_key(expr, *order));
    Ok(TopKMessage {
        first: Some(write_key(&top_k.key, top_k.order)?),
        rest: rest.collect::<Result<_>>()?,
        is_complete: top_k.rest.is_some(),
        k: top_k.k as u64,
    })
}

fn write_key_filter(filter: &KeyFilter) -> Result<KeyFilterMessage> {
    Ok(KeyFilterMessage {
        join: filter.join.0,
        join_keys: filter.join_keys as u64,
        nulls_match: filter.nulls_match,
        index: filter.index as u64,
        key_type: write_type(&filter.key_type)?,
        key: write_expr(&filter.key)?,
        negated: filter.shift.negated,
        offset: filter.shift.offset,
        of: filter.of.clone(),
        side: filter.side.map(|side| side.to_string()),
    })
}

fn write_without_keys(without: &WithoutKeys) -> Result<WithoutKeysMessage> {
    let predicate = without.predicate.as_ref().map(write_expr).transpose()?;
    Ok(WithoutKeysMessage { predicate, rows: without.rows })
}

/// Encodes `object`. Values of partition columns are encoded as text, as in its path.
fn write_object(object: &DataObject) -> Result<ObjectMessage> {
    let value = |value: &ScalarValue| {
        let text = value.cast_to(&DataType::Utf8).map_err(unsent)?;
        Ok(ValueMessage { text: text.try_as_str().flatten().map(str::to_owned) })
    };
    let names = |columns: &Arc<ObjectColumns>| NamesMessage { names: columns.names().map(str::to_owned).collect() };
    Ok(ObjectMessage {
        path: object.path.to_string(),
        size: object.size,
        etag: object.etag.clone(),
        modified_s: object.last_modified.timestamp(),
        modified_ns: object.last_modified.timestamp_subsec_nanos(),
        values: object.partition_values.iter().map(value).collect::<Result<_>>()?,
        columns: object.columns.as_ref().map(names),
        replicas: object.replicas.iter().map(|replica| *replica as u64).collect(),
    })
}

fn unsent(error: impl std::fmt::Display) -> Error {
    Error::unsupported(format!("a plan cannot be sent: {error}"))
}
