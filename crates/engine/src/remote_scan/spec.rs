//! What a scan is told: the table, and what the optimizer has pushed into it.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use pushdown::{Expr, Fragment, NamedExpr, Output, Result};
use pushdowndb_cost::PriceBook;

use super::PartialAggregate;
use crate::backends::{Backend, Rates};
use crate::index::TableIndex;
use crate::settings::PushdownOptions;
use crate::statistics::SharedStatistics;
use crate::strategies::decision::Story;
use crate::strategies::join::KeyFilter;
use crate::strategies::top_k::TopK;
use crate::table::{DataObject, TableDefinition};

/// What the groups of a split may take in memory, in storage or where plain reads stand in.
pub(crate) const GROUP_BYTES: usize = 32 * 1024 * 1024;

/// What a scan reads and what it makes of it.
#[derive(Clone, Debug)]
pub(crate) struct ScanSpec {
    /// The table's name or location, for people.
    pub(crate) name: String,
    pub(crate) table: Arc<TableDefinition>,
    pub(crate) backend: Arc<Backend>,
    pub(crate) objects: Arc<Vec<DataObject>>,
    pub(crate) options: PushdownOptions,
    /// What is known of the table, for estimates.
    pub(crate) statistics: Option<SharedStatistics>,
    /// How many partitions there may be.
    pub(crate) partitions: usize,
    /// How many cores the engine has for them, and what a query costs: for estimates.
    pub(crate) cores: usize,
    pub(crate) prices: Arc<PriceBook>,
    /// Columns of the table's schema: those of the objects, then those of the paths.
    pub(crate) projection: Vec<usize>,
    /// What the optimizer pushed, over the object's columns.
    pub(crate) predicate: Option<Expr>,
    pub(crate) limit: Option<usize>,
    /// Aggregates instead of rows.
    pub(crate) aggregate: Option<PartialAggregate>,
    /// What the groups of a split may take in memory; others are passed on, aggregated a little.
    pub(crate) group_bytes: usize,
    /// Rows that cannot be among the first k by this may be left out.
    pub(crate) top_k: Option<TopK>,
    /// The indexes on columns that the query filters by.
    pub(crate) indexes: Arc<Vec<TableIndex>>,
    /// Filters that are known once the build sides of the joins above are read. Without them there are more rows,
    /// which the joins drop.
    pub(crate) key_filters: Vec<Arc<KeyFilter>>,
    /// With keys in the predicate: what passes without them.
    pub(crate) without_keys: Option<Arc<WithoutKeys>>,
    /// What the joins above chose for this scan and why, for EXPLAIN.
    pub(crate) joins: Vec<Arc<Story>>,
    /// What the operator above chose and why, for EXPLAIN.
    pub(crate) note: Option<Arc<Story>>,
}

/// A scan as it is without the keys of joins.
#[derive(Clone, Debug)]
pub(crate) struct WithoutKeys {
    pub(crate) predicate: Option<Expr>,
    /// About how many rows pass.
    pub(crate) rows: f64,
}

impl ScanSpec {
    /// What is believed of the backend's speed.
    pub(crate) fn rates(&self) -> Rates {
        match self.options.looks_at_tables() {
            true => self.backend.rates(self.table.backend),
            // The same choice whatever was seen.
            false => Rates::default(),
        }
    }

    /// Requests of fragments that are in flight for each partition.
    pub(crate) fn fragments_at_once(&self) -> usize {
        self.options.requests_at_once(self.partitions, self.rates().at_once)
    }

    /// Whether the objects are files of this machine.
    pub(super) fn is_local(&self) -> bool {
        self.backend.name().starts_with("file:")
    }

    fn file_columns(&self) -> usize {
        self.table.file_schema.fields().len()
    }

    /// The object's column behind an output column.
    pub(crate) fn file_column(&self, output: usize) -> Option<usize> {
        self.projection.get(output).copied().filter(|column| *column < self.file_columns())
    }

    /// What the scan means for each object, wherever it runs.
    pub(super) fn fragment(&self) -> Fragment {
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

    /// Which rows of which objects come out, in words that are the same whenever that is planned. Key filters are told by the sides
    /// of the joins that they come from.
    pub(crate) fn meaning(&self) -> String {
        let objects: Vec<_> = self.objects.iter().map(|object| (&object.path, object.size, &object.etag)).collect();
        let keys: Vec<_> = self.key_filters.iter().map(|filter| (&filter.key, filter.side)).collect();
        let aggregate = self.aggregate.as_ref().map(|aggregate| (&aggregate.groups, &aggregate.calls));
        let Self { projection, predicate, limit, top_k, .. } = self;
        format!("{objects:?} {projection:?} {predicate:?} {limit:?} {aggregate:?} {top_k:?} {keys:?}\n")
    }

    pub(super) fn output_schema(&self) -> Result<SchemaRef> {
        if let Some(aggregate) = &self.aggregate {
            return Ok(Arc::clone(&aggregate.schema));
        }
        let schema = self.table.schema();
        let fields: Vec<Field> = self.projection.iter().map(|index| schema.field(*index).clone()).collect();
        Ok(Arc::new(Schema::new(fields)))
    }
}
