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
    /// The URL of the store of its objects, or of the several stores that hold them. The paths of
    /// objects in several stores begin with the number of the store.
    pub(crate) store: String,
    pub(crate) format: Format,
    /// Whether the compression follows from each object's name instead of `format`.
    pub(crate) compression_by_name: bool,
    /// The columns stored in the objects; for CSV, all of them in order.
    pub(crate) file_schema: SchemaRef,
    /// The partition columns, whose values are in the paths. They come after those of
    /// `file_schema`.
    pub(crate) partition_columns: Vec<FieldRef>,
    /// The kind of server that was declared for the table.
    pub(crate) profile: Option<Profile>,
}

impl ScanTable {
    /// Returns the columns of the objects and then the partition columns, as queries see them.
    pub(crate) fn schema(&self) -> Schema {
        let fields = self.file_schema.fields().iter().chain(&self.partition_columns);
        Schema::new(fields.map(|field| unmarked(field)).collect::<Vec<_>>())
    }

    /// Returns the format of `object`, including its compression.
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
    /// Maximum number of partitions.
    pub(crate) partitions: usize,
    /// Projected columns, as positions in the table's schema: columns of the objects, then
    /// partition columns.
    pub(crate) projection: Vec<usize>,
    /// The filters that the optimizer pushed down, over the objects' columns.
    pub(crate) predicate: Option<Expr>,
    pub(crate) limit: Option<usize>,
    /// Aggregates to yield instead of rows.
    pub(crate) aggregate: Option<PartialAggregate>,
    /// Memory for the groups of a split, in bytes. Groups beyond it are only partly aggregated.
    pub(crate) group_bytes: usize,
    /// Order and number of the first rows that are needed; the scan may omit all others.
    pub(crate) top_k: Option<TopK>,
    /// Filters by the keys of joins above. They may pass too many rows; the joins drop these.
    pub(crate) key_filters: Vec<KeyFilter>,
    /// The scan before join keys were added to `predicate`, if they were.
    pub(crate) without_keys: Option<WithoutKeys>,
    /// Sample of the objects to scan; `None` if all of them are scanned.
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
    /// Returns the object's column that is the output column `output`; `None` for a partition
    /// column.
    pub(crate) fn file_column(&self, output: usize) -> Option<usize> {
        let columns = self.table.file_schema.fields().len();
        self.projection.get(output).copied().filter(|column| *column < columns)
    }

    /// Returns the fragment that the scan evaluates on each object, in storage or in the engine.
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

    /// Returns the size of all objects, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.size).sum()
    }
}
