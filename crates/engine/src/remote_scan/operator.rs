//! The scan as an operator of DataFusion's plans: what it takes over of the operators above, what it says of its rows, and
//! how it begins.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as DfResult, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr, PlanProperties, ReplaceChildrenOptions};
use futures::FutureExt;
use pushdown::Expr;

use super::{RemoteScanExec, ScanSpec, estimate, run};
use crate::convert::convert;
use crate::error::to_datafusion;
use crate::query::QueryContext;
use crate::strategies::{filter, group_by};

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
        // Filters are kept as the contract's expressions. Dynamic ones, which would have to be shown here, are
        // not taken over.
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
        // What an earlier run left to its other partitions is not for the next one.
        let shares = self.shares.as_ref().map(|_| Arc::default());
        Ok(Arc::new(Self { shares, ..self.as_ref().clone() }))
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        asked: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> DfResult<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let mut answers = Vec::with_capacity(asked.parent_filters.len());
        let mut spec = self.spec.clone();
        // A filter below an aggregate or a limit would mean something else.
        let open = spec.aggregate.is_none() && spec.limit.is_none();
        for asked in asked.parent_filters {
            let converted = if open { convert(&asked.filter, &|column| self.spec.file_column(column)) } else { None };
            answers.push(match converted {
                Some(expr) => {
                    spec.predicate = filter::both(spec.predicate.take(), Some(expr));
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
        let scan = self.in_place(spec).map_err(to_datafusion)?;
        Ok(propagation.with_updated_node(Arc::new(scan)))
    }

    /// Takes over a projection that only picks columns: what nobody reads any more is not asked for.
    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        if self.spec.aggregate.is_some() {
            return Ok(None);
        }
        let picked = projection.expr().iter().map(|picked| {
            let column = picked.expr.downcast_ref::<Column>().filter(|column| column.name() == picked.alias)?;
            self.spec.projection.get(column.index()).copied()
        });
        let Some(picked) = picked.collect::<Option<Vec<usize>>>() else { return Ok(None) };
        let scan = self.in_place(ScanSpec { projection: picked, ..self.spec.clone() }).map_err(to_datafusion)?;
        Ok(Some(Arc::new(scan)))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        if self.spec.aggregate.is_some() {
            return None;
        }
        let scan = self.in_place(ScanSpec { limit, ..self.spec.clone() }).ok()?;
        Some(Arc::new(scan))
    }

    fn fetch(&self) -> Option<usize> {
        self.spec.limit
    }

    fn partition_statistics(&self, partition: Option<usize>) -> DfResult<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        let bytes = match partition {
            None => self.bytes(),
            Some(index) => {
                let splits = self.partitions.get(index).into_iter().flatten();
                splits.map(|split| split.bytes(&self.spec.objects)).sum()
            }
        };
        let rows = match &self.spec.aggregate {
            Some(aggregate) if aggregate.groups.is_empty() => self.splits() as f64,
            Some(aggregate) => {
                let keys: Vec<Expr> = aggregate.groups.iter().map(|key| key.expr.clone()).collect();
                let groups = self.figures().groups(&keys).unwrap_or(group_by::ASSUMED_GROUPS as f64);
                // Of each split, but no split has more of them than rows.
                (self.splits() as f64 * groups).min(self.figures().rows())
            }
            None => match self.index.lookup() {
                Some(lookup) => lookup.hits.ceil() * bytes as f64 / self.bytes().max(1) as f64,
                None => self.figures().within(bytes).rows(),
            },
        };
        let rows = (rows as usize).min(self.spec.limit.unwrap_or(usize::MAX));
        let width: u64 = self.schema.fields().iter().map(|f| estimate::column_bytes(f.data_type())).sum();
        if let (Some(known), None) = (&self.spec.statistics, &self.spec.aggregate) {
            for (output, column) in statistics.column_statistics.iter_mut().enumerate() {
                let file_column = self.spec.file_column(output);
                if let Some(figures) = file_column.and_then(|file_column| known.column(file_column, rows as f64)) {
                    *column = figures;
                }
            }
        }
        statistics.num_rows = Precision::Inexact(rows);
        statistics.total_byte_size = Precision::Inexact(rows.saturating_mul(width as usize));
        Ok(Arc::new(statistics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        if let Some(kept) = &self.kept {
            let rows = Self { kept: None, ..self.clone() }.execute(partition, Arc::clone(&context))?;
            return Ok(kept.keep(rows, partition, &context));
        }
        let query = context
            .session_config()
            .get_extension::<QueryContext>()
            .ok_or_else(|| DataFusionError::Internal("a scan outside of a query".to_owned()))?;
        if let Some(reuse) = &self.reuse {
            return Ok(self.execute_reusing(reuse, query, partition, context));
        }
        if let Some(sampling) = &self.sampling {
            let (scan, sampling, learning) = (self.clone(), sampling.clone(), Arc::clone(&context));
            let bounded = async move { scan.bounded(&sampling, &query, &learning).await.map(Arc::new).map(Some) };
            return Ok(self.execute_learned(bounded, partition, context));
        }
        if !self.spec.key_filters.is_empty() {
            let scan = self.clone();
            let keyed = async move { scan.keyed(&query).await };
            return Ok(self.execute_learned(keyed, partition, context));
        }
        if self.index.pending().is_some() {
            let (scan, finding) = (self.clone(), Arc::clone(&context));
            let located = async move { scan.located(&query, &finding).boxed().await.map(Arc::new).map(Some) };
            return Ok(self.execute_learned(located, partition, context));
        }
        let splits = self.partitions.get(partition).cloned().unwrap_or_default();
        query.meter.strategy(format!("{}: {}", self.spec.name, self.story()));
        run::Run::start(self, query, splits, partition).map_err(to_datafusion)
    }
}
