//! Inclusion among the keys of joins.
//!
//! A scan that is filtered by keys K has all rows of one that is filtered by keys L, if L is a
//! subset of K. That holds in two cases:
//!
//! - L are values of a column in the result of the join whose keys are K.
//! - K and L are keys of the same rows: their build sides are equal, and contain nothing random, no
//!   LIMIT, and no filter that depends on the rest of the query.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use crate::exec::build_keys::BuildKeysExec;
use crate::exec::remote_scan::{RemoteScanExec, Rewrite};
use crate::plan::join_keys::{JoinId, KeyFilter};

/// The joins of a plan whose keys filter scans.
pub(super) struct Joins(HashMap<JoinId, Arc<dyn ExecutionPlan>>);

impl Joins {
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut joins = HashMap::new();
        find_joins(plan, &mut joins);
        Self(joins)
    }

    /// Returns the join whose build keys `filter` uses.
    fn of_filter(&self, filter: &KeyFilter) -> Option<&HashJoinExec> {
        self.0.get(&filter.join).and_then(|join| join.downcast_ref())
    }

    /// Returns whether all rows that pass the key filters of `taker` also pass those of `giver`.
    pub(super) fn keys_cover(&self, giver: &RemoteScanExec, taker: &RemoteScanExec) -> bool {
        let taken = &taker.plan().key_filters;
        giver.plan().key_filters.iter().all(|given| taken.iter().any(|taken| self.is_among(taken, given)))
    }

    /// Returns whether the keys of `taken` are a subset of those of `given`. Single keys of a join
    /// with several keys do not qualify, since scans are filtered by tuples of them.
    fn is_among(&self, taken: &KeyFilter, given: &KeyFilter) -> bool {
        if given.join_keys != 1
            || taken.key != given.key
            || taken.shift != given.shift
            || taken.nulls_match
            || given.nulls_match
            || taken.key_type != given.key_type
        {
            return false;
        }
        let Some(of_taken) = self.of_filter(taken) else { return false };
        let key = of_taken.on().get(taken.index).and_then(|(key, _)| key.downcast_ref::<Column>());
        key.is_some_and(|key| comes_of(of_taken.left(), key.index(), given)) || self.same_keys(taken, given)
    }

    /// Returns whether two filters have the same keys.
    fn same_keys(&self, a: &KeyFilter, b: &KeyFilter) -> bool {
        if (a.join_keys, b.join_keys) != (1, 1) {
            return false;
        }
        let (Some(of_a), Some(of_b)) = (self.of_filter(a), self.of_filter(b)) else { return false };
        let keys = of_a.on().get(a.index).zip(of_b.on().get(b.index));
        keys.is_some_and(|((a, _), (b, _))| same_expr(a, b)) && self.same_rows(of_a.left(), of_b.left())
    }

    /// Returns whether two plans always yield the same rows, apart from rows that joins above drop.
    fn same_rows(&self, a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
        let (a, b) = (source(a), source(b));
        if let (Some(a), Some(b)) = (a.downcast_ref::<RemoteScanExec>(), b.downcast_ref::<RemoteScanExec>()) {
            let (of_a, of_b) = (&a.plan().key_filters, &b.plan().key_filters);
            let same = |a: &KeyFilter, b: &KeyFilter| {
                (&a.key, a.shift, a.nulls_match) == (&b.key, b.shift, b.nulls_match) && self.same_keys(a, b)
            };
            return matches!(a.rewrite_of(b), Some(Rewrite::Same))
                && of_a.len() == of_b.len()
                && of_a.iter().zip(of_b).all(|(a, b)| same(a, b));
        }
        let same_inputs = || {
            let (a, b) = (a.children(), b.children());
            a.len() == b.len() && a.into_iter().zip(b).all(|(a, b)| self.same_rows(a, b))
        };
        if let (Some(a), Some(b)) = (a.downcast_ref::<ProjectionExec>(), b.downcast_ref::<ProjectionExec>()) {
            let (own, others) = (a.expr(), b.expr());
            let same = own.len() == others.len() && own.iter().zip(others).all(|(a, b)| same_expr(&a.expr, &b.expr));
            return same && same_inputs();
        }
        if let (Some(a), Some(b)) = (a.downcast_ref::<FilterExec>(), b.downcast_ref::<FilterExec>()) {
            let whole = a.fetch().is_none() && b.fetch().is_none() && a.projection() == b.projection();
            return whole && same_expr(a.predicate(), b.predicate()) && same_inputs();
        }
        if let (Some(a), Some(b)) = (a.downcast_ref::<HashJoinExec>(), b.downcast_ref::<HashJoinExec>()) {
            let pairs = a.on().iter().zip(b.on());
            let same_keys = a.on().len() == b.on().len()
                && pairs.into_iter().all(|(a, b)| same_expr(&a.0, &b.0) && same_expr(&a.1, &b.1));
            return same_keys
                && a.fetch().is_none()
                && b.fetch().is_none()
                && a.filter().is_none()
                && b.filter().is_none()
                && (a.join_type(), a.null_equality(), a.null_aware)
                    == (b.join_type(), b.null_equality(), b.null_aware)
                && a.projection == b.projection
                && same_inputs();
        }
        // Other operators, such as aggregates, are not compared.
        false
    }
}

/// Skips operators that pass rows on unchanged.
fn source(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    match plan.children()[..] {
        [input] if passes_rows(plan) && plan.fetch().is_none() => source(input),
        _ => plan,
    }
}

/// Returns whether two expressions are equal and deterministic.
fn same_expr(a: &Arc<dyn PhysicalExpr>, b: &Arc<dyn PhysicalExpr>) -> bool {
    a == b && !is_volatile(a) && !depends(a)
}

/// Returns whether `expr` depends on the rest of the query.
fn depends(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.is::<DynamicFilterPhysicalExpr>()
        || expr.is::<ScalarSubqueryExpr>()
        || expr.children().into_iter().any(depends)
}

/// Finds the joins whose build side collects keys.
fn find_joins(plan: &Arc<dyn ExecutionPlan>, joins: &mut HashMap<JoinId, Arc<dyn ExecutionPlan>>) {
    if let Some(collector) = plan.downcast_ref::<HashJoinExec>().and_then(|join| collector_of(join.left())) {
        joins.insert(collector.keys().id(), Arc::clone(plan));
    }
    plan.children().into_iter().for_each(|input| find_joins(input, joins));
}

/// Returns whether `plan` passes all rows of its only input on unchanged.
fn passes_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<BuildKeysExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
}

/// Returns whether `column` of `plan` contains only NULL and build keys of the filter's join.
fn comes_of(plan: &Arc<dyn ExecutionPlan>, column: usize, filter: &KeyFilter) -> bool {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return comes_of_join(join, column, filter);
    }
    let below =
        |expr: Option<&Arc<dyn PhysicalExpr>>| expr.and_then(|expr| expr.downcast_ref::<Column>()).map(Column::index);
    let column = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        below(projection.expr().get(column).map(|computed| &computed.expr))
    } else if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        below(groups.expr().get(column).map(|(group, _)| group)).filter(|_| groups.is_single())
    } else if let Some(filtered) = plan.downcast_ref::<FilterExec>() {
        filtered.projection().as_ref().map_or(Some(column), |picked| picked.get(column).copied())
    } else {
        passes_rows(plan).then_some(column)
    };
    match (column, plan.children().as_slice()) {
        (Some(column), [input]) => comes_of(input, column, filter),
        _ => false,
    }
}

fn comes_of_join(join: &HashJoinExec, column: usize, filter: &KeyFilter) -> bool {
    let picked = join.projection.as_ref().map_or(Some(column), |picked| picked.get(column).copied());
    let (_, places) = build_join_schema(&join.left().schema(), &join.right().schema(), join.join_type());
    let Some(place) = picked.and_then(|column| places.get(column)) else { return false };
    let is_column =
        |key: &Arc<dyn PhysicalExpr>| key.downcast_ref::<Column>().is_some_and(|key| key.index() == place.index);
    let (left, right) = (join.left(), join.right());
    let is_own = collector_of(left).is_some_and(|collector| collector.keys().id() == filter.join);
    // These joins yield rows of the probe side without a partner.
    let keeps_others =
        matches!(join.join_type(), JoinType::Right | JoinType::Full | JoinType::RightAnti | JoinType::RightMark);
    let is_key = is_own
        && join.on().get(filter.index).is_some_and(|(of_build, of_probe)| match place.side {
            JoinSide::Left => is_column(of_build),
            JoinSide::Right => is_column(of_probe) && !keeps_others,
            JoinSide::None => false,
        });
    is_key
        || match place.side {
            JoinSide::Left => comes_of(left, place.index, filter),
            JoinSide::Right => comes_of(right, place.index, filter),
            JoinSide::None => false,
        }
}

/// Returns the operator that collects the keys of the build side `plan`.
fn collector_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&BuildKeysExec> {
    if let Some(collector) = plan.downcast_ref::<BuildKeysExec>() {
        return Some(collector);
    }
    match plan.children()[..] {
        [input] if passes_rows(plan) => collector_of(input),
        _ => None,
    }
}
