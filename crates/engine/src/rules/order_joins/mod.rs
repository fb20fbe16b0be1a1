//! OrderJoins: runs inner joins in the order that fetches the fewest bytes.
//!
//! ```text
//! customer ⋈ orders ⋈ lineitem ⋈ supplier ⋈ nation ⋈ region     as in SQL
//! region ⋈ nation ⋈ supplier ⋈ customer ⋈ orders ⋈ lineitem     by selectivity
//! ```
//!
//! Each relation is then filtered by the join keys of earlier ones. Only inner joins by equality
//! are reordered; a subtree under any other operator counts as one relation. Without statistics
//! nothing is reordered, so level `none` runs the plan as written.

pub(crate) mod relation;
pub(crate) mod search;

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DataFusionError, JoinType, NullEquality, Result as DfResult};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::context::QueryContext;

/// Minimum number of relations to reorder; DataFusion itself orders two.
const MIN_RELATIONS: usize = 3;

#[derive(Debug)]
pub(crate) struct OrderJoins {
    pub(crate) query: Arc<QueryContext>,
}

impl OptimizerRule for OrderJoins {
    fn name(&self) -> &str {
        "order_joins"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> DfResult<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else { return Ok(Transformed::no(plan)) };
        match reordered(join, &self.query)? {
            Some(better) => Ok(Transformed::yes(better)),
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// A tree of inner joins, flattened.
#[derive(Default)]
struct Joined {
    relations: Vec<Arc<LogicalPlan>>,
    /// Equality conditions.
    on: Vec<(Expr, Expr)>,
    /// Other conditions.
    filters: Vec<Expr>,
}

impl Joined {
    fn add(&mut self, plan: &Arc<LogicalPlan>) {
        match below_projections(plan) {
            LogicalPlan::Join(join) if can_move(join) => self.add_join(join),
            _ => self.relations.push(Arc::clone(plan)),
        }
    }

    fn add_join(&mut self, join: &Join) {
        self.add(&join.left);
        self.add(&join.right);
        self.on.extend(join.on.iter().cloned());
        self.filters.extend(join.filter.iter().cloned());
    }

    /// Returns the equivalence classes of expressions that the joins equate, each expression with
    /// its relation. Returns `None` if an expression uses several relations, or if a class has two
    /// expressions of the same relation.
    fn classes(&self) -> Option<Vec<Vec<(usize, Expr)>>> {
        let mut classes: Vec<Vec<(usize, Expr)>> = Vec::new();
        for (left, right) in &self.on {
            let (left, right) = ((self.relation_of(left)?, left.clone()), (self.relation_of(right)?, right.clone()));
            let class_of = |member| classes.iter().position(|class| class.contains(member));
            match (class_of(&left), class_of(&right)) {
                (None, None) => classes.push(vec![left, right]),
                (Some(class), None) => classes.get_mut(class)?.push(right),
                (None, Some(class)) => classes.get_mut(class)?.push(left),
                (Some(one), Some(other)) if one != other => {
                    let merged = classes.remove(one.max(other));
                    classes.get_mut(one.min(other))?.extend(merged);
                }
                (Some(_), Some(_)) => {}
            }
        }
        let distinct = |class: &Vec<(usize, Expr)>| {
            let relations: BTreeSet<usize> = class.iter().map(|(relation, _)| *relation).collect();
            relations.len() == class.len()
        };
        classes.iter().all(distinct).then_some(classes)
    }

    /// Returns the relation that `expr` uses; `None` if it does not use exactly one.
    fn relation_of(&self, expr: &Expr) -> Option<usize> {
        let columns = expr.column_refs();
        let mut owners = columns.iter().map(|column| self.owner(column)).collect::<Option<BTreeSet<usize>>>()?;
        match owners.len() {
            1 => owners.pop_first(),
            _ => None,
        }
    }

    fn owner(&self, column: &Column) -> Option<usize> {
        self.relations.iter().position(|relation| relation.schema().has_column(column))
    }
}

/// Skips projections that only drop columns, which later rules insert between joins.
fn below_projections(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Projection(projection) if projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_))) => {
            below_projections(&projection.input)
        }
        other => other,
    }
}

fn can_move(join: &Join) -> bool {
    join.join_type == JoinType::Inner
        && join.null_equality == NullEquality::NullEqualsNothing
        && !join.null_aware
        && !join.on.is_empty()
}

/// Reorders the joins. Returns `None` if there is no better order, or no statistics.
fn reordered(join: &Join, query: &QueryContext) -> DfResult<Option<LogicalPlan>> {
    if !can_move(join) {
        return Ok(None);
    }
    let mut joined = Joined::default();
    joined.add_join(join);
    let relations = &joined.relations;
    if relations.len() < MIN_RELATIONS || !relations.iter().any(|plan| relation::has_statistics(plan, query)) {
        return Ok(None);
    }
    let is_owned = |filter: &Expr| filter.column_refs().iter().all(|column| joined.owner(column).is_some());
    if !joined.filters.iter().all(is_owned) {
        return Ok(None);
    }
    let Some(classes) = joined.classes() else { return Ok(None) };
    let mut sizes: Vec<search::Relation> = relations
        .iter()
        .map(|plan| search::Relation { rows: relation::rows(plan, query), width: relation::width(plan), keys: vec![] })
        .collect();
    for (class, members) in classes.iter().enumerate() {
        let of = |(index, key): &(usize, Expr)| relations.get(*index).map(|plan| relation::values(plan, key, query));
        let values: Vec<relation::Values> = members.iter().filter_map(of).collect();
        for ((index, _), values) in members.iter().zip(relation::values_of_class(&values)) {
            if let Some(size) = sizes.get_mut(*index) {
                size.keys.push((class, values));
            }
        }
    }
    match search::best_order(&sizes) {
        Some(order) if !order.iter().copied().eq(0..relations.len()) => {
            in_order(join, &joined, &classes, &order).map(Some)
        }
        _ => Ok(None),
    }
}

/// Joins the relations one after the other in `order`, and restores the original order of the
/// columns.
fn in_order(join: &Join, joined: &Joined, classes: &[Vec<(usize, Expr)>], order: &[usize]) -> DfResult<LogicalPlan> {
    let relation = |index: &usize| {
        let missing = || DataFusionError::Internal("a join of no relation".to_owned());
        joined.relations.get(*index).cloned().ok_or_else(missing)
    };
    let mut filters: Vec<Expr> = joined.filters.clone();
    let mut placed = BTreeSet::new();
    let mut plan: Option<Arc<LogicalPlan>> = None;
    for index in order {
        let right = relation(index)?;
        let Some(left) = plan else {
            placed.insert(*index);
            plan = Some(right);
            continue;
        };
        // Members of a class that have been joined are already equal.
        let on = classes.iter().filter_map(|members| {
            let (_, own) = members.iter().find(|(relation, _)| relation == index)?;
            let (_, other) = members.iter().find(|(relation, _)| placed.contains(relation))?;
            Some((other.clone(), own.clone()))
        });
        let on: Vec<(Expr, Expr)> = on.collect();
        placed.insert(*index);
        // A filter is applied once all of its columns are available.
        let (now, later): (Vec<Expr>, Vec<Expr>) = filters.into_iter().partition(|filter| {
            filter.column_refs().iter().all(|column| joined.owner(column).is_some_and(|owner| placed.contains(&owner)))
        });
        filters = later;
        let filter = now.into_iter().reduce(Expr::and);
        let (kind, constraint) = (JoinType::Inner, join.join_constraint);
        let next = Join::try_new(left, right, on, filter, kind, constraint, NullEquality::NullEqualsNothing, false)?;
        plan = Some(Arc::new(LogicalPlan::Join(next)));
    }
    let plan = plan.ok_or_else(|| DataFusionError::Internal("a join of nothing".to_owned()))?;
    let columns = join.schema.columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, plan)?))
}
