//! The plan of a scan: its objects, and the operators pushed into it.
//!
//! A [`ScanPlan`] is data. It is compared by value, encoded and decoded ([`super::wire`]), and
//! holds no connection: services are in [`super::scan_context::ScanContext`].

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use pushdowndb_contract::{Expr, Format, Fragment, NamedExpr, Output, Profile, Result};

use super::join_keys::KeyFilter;
use super::partial_aggregate::PartialAggregate;
use super::split_sample::SplitSample;
use super::top_k::TopK;
use crate::catalog::{DataObject, FileName, unmarked};

/// The default of [`ScanPlan::group_bytes`].
pub(crate) const DEFAULT_GROUP_BYTES: usize = 32 * 1024 * 1024;

/// A table as input of scans.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScanTable {
    /// The address of the table: a store, and a prefix or glob of paths.
    pub(crate) location: String,
    /// The URL of the store of its objects, or of the several stores whose numbers begin their paths.
    pub(crate) store: String,
    pub(crate) format: Format,
    /// Whether the compression follows from each object's name instead of `format`.
    pub(crate) compression_by_name: bool,
    /// The columns in the objects: all of them in order for CSV.
    pub(crate) file_schema: SchemaRef,
    /// The columns in the paths, which come after those in the objects.
    pub(crate) partition_columns: Vec<FieldRef>,
    /// The kind of server that was declared.
    pub(crate) profile: Option<Profile>,
}

impl ScanTable {
    /// The columns in the objects, then those in the paths, as queries see them.
    pub(crate) fn schema(&self) -> Schema {
        let fields = self.file_schema.fields().iter().chain(&self.partition_columns);
        Schema::new(fields.map(|field| unmarked(field)).collect::<Vec<_>>())
    }

    /// The format of `object`, with its compression.
    pub(crate) fn format_of(&self, object: &DataObject) -> Format {
        match self.compression_by_name {
            true => self.format.clone().compressed(FileName::of(object.path.as_ref()).compression),
            false => self.format.clone(),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScanPlan {
    /// The table's name or location, for EXPLAIN.
    pub(crate) name: String,
    pub(crate) table: Arc<ScanTable>,
    pub(crate) objects: Arc<Vec<DataObject>>,
    /// Maximum partitions.
    pub(crate) partitions: usize,
    /// Columns of the table's schema: those of the objects, then those of the paths.
    pub(crate) projection: Vec<usize>,
    /// The filters that the optimizer pushed, over the objects' columns.
    pub(crate) predicate: Option<Expr>,
    pub(crate) limit: Option<usize>,
    /// Aggregates instead of rows.
    pub(crate) aggregate: Option<PartialAggregate>,
    /// The bytes of memory for a split's groups; groups beyond it are partly aggregated.
    pub(crate) group_bytes: usize,
    /// The order of which only the first rows are needed; all others may be left out.
    pub(crate) top_k: Option<TopK>,
    /// Filters by the keys of joins above. Rows that pass wrongly are dropped by the joins.
    pub(crate) key_filters: Vec<KeyFilter>,
    /// The scan before join keys were added to `predicate`, if they were.
    pub(crate) without_keys: Option<WithoutKeys>,
    /// The part of the objects that is scanned, if not all.
    pub(crate) sample: Option<SplitSample>,
}

/// A scan without join keys, for estimates.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WithoutKeys {
    pub(crate) predicate: Option<Expr>,
    /// The estimated number of rows that pass.
    pub(crate) rows: f64,
}

impl ScanPlan {
    /// The object's column behind the output column `output`; `None` for a column of the paths.
    pub(crate) fn file_column(&self, output: usize) -> Option<usize> {
        let columns = self.table.file_schema.fields().len();
        self.projection.get(output).copied().filter(|column| *column < columns)
    }

    /// The fragment that the scan evaluates on each object, in storage or in the engine.
    pub(crate) fn fragment(&self) -> Fragment {
        let output = match &self.aggregate {
            Some(aggregate) => Output::Aggregate { groups: aggregate.groups.clone(), calls: aggregate.calls.clone() },
            None => Output::Rows(
                (0..self.projection.len())
                    .filter_map(|output| self.file_column(output))
                    .map(|column| NamedExpr {
                        expr: Expr::Column(column),
                        name: self.table.file_schema.field(column).name().clone(),
                    })
                    .collect(),
            ),
        };
        Fragment {
            format: self.table.format.clone(),
            schema: Arc::clone(&self.table.file_schema),
            predicate: self.predicate.clone(),
            output,
            order: vec![],
            limit: self.limit.map(|limit| limit as u64).filter(|_| self.aggregate.is_none()),
            project: None,
        }
    }

    pub(crate) fn output_schema(&self) -> Result<SchemaRef> {
        if let Some(aggregate) = &self.aggregate {
            return Ok(Arc::clone(&aggregate.schema));
        }
        let schema = self.table.schema();
        let fields: Vec<Field> = self.projection.iter().map(|index| schema.field(*index).clone()).collect();
        Ok(Arc::new(Schema::new(fields)))
    }

    /// The size of all objects, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.size).sum()
    }
}
