//! GuardFilters: lets filters be pushed only through operators in which the names of the filters'
//! columns are unique.
//!
//! When DataFusion 55.2 pushes a filter, or the dynamic filter of a join, from an operator to its
//! input, it resolves the filter's columns by name. If two columns have the same name, it uses the
//! first one. The filter may then test another column, and the result has wrong rows.
//!
//! ```text
//! FilterExec: sm@1 IS NULL != sm@3 IS NULL        FilterExec: sm@1 IS NULL != sm@3 IS NULL
//! └ ProjectionExec: id, sm, id, sm                └ GuardExec            stops it
//!   └ HashJoinExec                                  └ ProjectionExec: id, sm, id, sm
//! ```
//!
//! The guards are in the plan only while DataFusion's rule runs.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result as DfResult, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties,
    ReplaceChildrenOptions,
};

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// A DataFusion rule that pushes filters, wrapped so that guards are in the plan while it runs.
#[derive(Debug)]
pub(super) struct GuardFilters(pub Rule);

impl PhysicalOptimizerRule for GuardFilters {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        let mut guards = 0;
        let guarded = plan.transform_up(|node| match reachable(&node) {
            None => Ok(Transformed::no(node)),
            Some(reachable) => {
                guards += 1;
                Ok(Transformed::yes(Arc::new(GuardExec::of(node, reachable)) as _))
            }
        })?;
        let pushed = self.0.optimize(guarded.data, config)?;
        if guards == 0 {
            return Ok(pushed);
        }
        let bare = pushed.transform_up(|node| match node.downcast_ref::<GuardExec>() {
            Some(guard) => Ok(Transformed::yes(Arc::clone(&guard.input))),
            None => Ok(Transformed::no(node)),
        })?;
        Ok(bare.data)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Returns the indexes of the columns of `node` that a filter from above may use; `None` if it may
/// use all columns.
fn reachable(node: &Arc<dyn ExecutionPlan>) -> Option<HashSet<usize>> {
    let schema = node.schema();
    let mut ambiguous = if node.is::<HashJoinExec>() {
        // DataFusion finds the side of a column by position, and then the column in that side by
        // name.
        HashSet::new()
    } else {
        repeated(&schema)
    };
    // A projection resolves its columns by position.
    if !node.is::<ProjectionExec>() {
        ambiguous.extend(node.children().into_iter().flat_map(|child| repeated(&child.schema())));
    }
    let is_unique = |(_, field): &(usize, &Arc<datafusion::arrow::datatypes::Field>)| !ambiguous.contains(field.name());
    (!ambiguous.is_empty()).then(|| schema.fields().iter().enumerate().filter(is_unique).map(|(at, _)| at).collect())
}

/// Returns the column names that occur more than once.
fn repeated(schema: &SchemaRef) -> HashSet<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for field in schema.fields() {
        *counts.entry(field.name()).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name.to_owned()).collect()
}

/// Operator that lets only filters on the columns `reachable` pass to its input. It is never
/// executed.
#[derive(Debug)]
struct GuardExec {
    input: Arc<dyn ExecutionPlan>,
    reachable: HashSet<usize>,
    properties: Arc<PlanProperties>,
}

impl GuardExec {
    fn of(input: Arc<dyn ExecutionPlan>, reachable: HashSet<usize>) -> Self {
        let properties = Arc::clone(input.properties());
        Self { input, reachable, properties }
    }
}

impl DisplayAs for GuardExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GuardExec")
    }
}

impl ExecutionPlan for GuardExec {
    fn name(&self) -> &str {
        "GuardExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let input = children.pop().unwrap_or_else(|| Arc::clone(&self.input));
        Ok(Arc::new(Self::of(input, self.reachable.clone())))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> DfResult<FilterDescription> {
        let reachable = self.reachable.clone();
        let child = ChildFilterDescription::from_child_with_allowed_indices(&filters, reachable, &self.input)?;
        Ok(FilterDescription::new().with_child(child))
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> DfResult<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(result))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        internal_err!("a guard was left in the plan")
    }
}
