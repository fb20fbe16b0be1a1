//! [`ExecutionPlan`] of a scan: pushdown into it, its statistics, and its start.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result as DfResult, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr, PlanProperties, ReplaceChildrenOptions};
use futures::TryStreamExt;
use pushdowndb_contract::Expr;

use super::RemoteScanExec;
use super::phases::query_of;
use crate::error::{carried, to_datafusion};
use crate::plan::lower::convert;
use crate::plan::scan_plan::ScanPlan;
use crate::statistics::width;
use crate::strategies::group_by;

impl ExecutionPlan for RemoteScanExec {
    fn name(&self) -> &str {
        "RemoteScanExec"
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        // Only dynamic filters would have to be visited; they are not pushed down.
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.reset()))
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        asked: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> DfResult<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let mut answers = Vec::with_capacity(asked.parent_filters.len());
        let mut plan = self.plan.clone();
        // A filter does not commute with an aggregate or a limit.
        let open = plan.aggregate.is_none() && plan.limit.is_none();
        for asked in asked.parent_filters {
            let converted = if open { convert(&asked.filter, &|column| self.plan.file_column(column)) } else { None };
            answers.push(match converted {
                Some(expr) => {
                    plan.predicate = Expr::and_opt(plan.predicate.take(), Some(expr));
                    PushedDown::Yes
                }
                None => PushedDown::No,
            });
        }
        let taken = answers.iter().any(|answer| matches!(answer, PushedDown::Yes));
        let propagation = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        if !taken {
            return Ok(propagation);
        }
        let scan = self.in_place(plan).map_err(to_datafusion)?;
        Ok(propagation.with_updated_node(Arc::new(scan)))
    }

    /// Absorbs a projection that only selects columns.
    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        if self.plan.aggregate.is_some() {
            return Ok(None);
        }
        let picked = projection.expr().iter().map(|picked| {
            let column = picked.expr.downcast_ref::<Column>().filter(|column| column.name() == picked.alias)?;
            self.plan.projection.get(column.index()).copied()
        });
        let Some(picked) = picked.collect::<Option<Vec<usize>>>() else { return Ok(None) };
        let scan = self.in_place(ScanPlan { projection: picked, ..self.plan.clone() }).map_err(to_datafusion)?;
        Ok(Some(Arc::new(scan)))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        if self.plan.aggregate.is_some() {
            return None;
        }
        let scan = self.in_place(ScanPlan { limit, ..self.plan.clone() }).ok()?;
        Some(Arc::new(scan))
    }

    fn fetch(&self) -> Option<usize> {
        self.plan.limit
    }

    fn partition_statistics(&self, partition: Option<usize>) -> DfResult<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        let bytes = match partition {
            None => self.bytes(),
            Some(index) => {
                let splits = self.placement().partitions.get(index).into_iter().flatten();
                splits.map(|split| split.bytes(&self.plan.objects)).sum()
            }
        };
        let rows = match &self.plan.aggregate {
            Some(aggregate) if aggregate.groups.is_empty() => self.splits() as f64,
            Some(aggregate) => {
                let keys: Vec<Expr> = aggregate.groups.iter().map(|key| key.expr.clone()).collect();
                let groups = self.cardinality().groups(&keys).unwrap_or(group_by::ASSUMED_GROUPS as f64);
                // Groups per split, but no more than rows.
                (self.splits() as f64 * groups).min(self.cardinality().rows())
            }
            None => match self.placement().index.lookup() {
                Some(lookup) => lookup.hits.ceil() * bytes as f64 / self.bytes().max(1) as f64,
                None => self.cardinality().within(bytes).rows(),
            },
        };
        let rows = (rows as usize).min(self.plan.limit.unwrap_or(usize::MAX));
        let width: u64 = self.schema.fields().iter().map(|f| width::column_bytes(f.data_type())).sum();
        if let (Some(known), None) = (&self.context.statistics, &self.plan.aggregate) {
            for (output, column) in statistics.column_statistics.iter_mut().enumerate() {
                let file_column = self.plan.file_column(output);
                if let Some(cardinality) = file_column.and_then(|file_column| known.column(file_column, rows as f64)) {
                    *column = cardinality;
                }
            }
        }
        statistics.num_rows = Precision::Inexact(rows);
        statistics.total_byte_size = Precision::Inexact(rows.saturating_mul(width as usize));
        Ok(Arc::new(statistics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.reported(self.metrics.clone_inner()))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let rows = self.start(partition, query_of(&context)?, Arc::clone(&context))?;
        if self.context.share.is_some() {
            let rows = rows.map_err(carried);
            return Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)));
        }
        Ok(match &self.shared_rows {
            Some(shared) => shared.tee(rows, partition, &context),
            None => rows,
        })
    }
}
