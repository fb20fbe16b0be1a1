//! Which keys of joins are among which others.
//!
//! A scan that is filtered by keys K has all rows that one filtered by keys L wants, if L are some of K. They are in two cases:
//!
//! - L are values of a column that comes out of the join whose keys K are: only they pass it.
//! - Both are the keys of the same rows: of build sides that are the same, in which nothing is random, cut off by a LIMIT, or left
//!   out because of what happened elsewhere meanwhile.

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

use crate::key_tap::{JoinKeys, KeyTapExec};
use crate::remote_scan::{Derivation, RemoteScanExec};
use crate::strategies::join::KeyFilter;

/// The joins of a plan whose keys filter scans.
pub(super) struct Joins(HashMap<*const JoinKeys, Arc<dyn ExecutionPlan>>);

impl Joins {
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        let mut joins = HashMap::new();
        find_joins(plan, &mut joins);
        Self(joins)
    }

    /// The join whose keys filter this.
    fn of_filter(&self, filter: &KeyFilter) -> Option<&HashJoinExec> {
        self.0.get(&Arc::as_ptr(&filter.keys)).and_then(|join| join.downcast_ref())
    }

    /// Whether the keys leave the one scan all rows that they leave the other.
    pub(super) fn keys_cover(&self, giver: &RemoteScanExec, taker: &RemoteScanExec) -> bool {
        let taken = &taker.spec().key_filters;
        giver.spec().key_filters.iter().all(|given| taken.iter().any(|taken| self.is_among(taken, given)))
    }

    /// Whether all keys of the one filter are keys of the other. Of several keys of one join each by itself says nothing: scans look
    /// for their combinations, and rows that lack one have none of them.
    fn is_among(&self, taken: &KeyFilter, given: &KeyFilter) -> bool {
        if given.keys.count() != 1
            || taken.key != given.key
            || taken.shift != given.shift
            || taken.keys.nulls_match()
            || given.keys.nulls_match()
            || taken.keys.type_of(taken.index) != given.keys.type_of(given.index)
        {
            return false;
        }
        let Some(of_taken) = self.of_filter(taken) else { return false };
        let key = of_taken.on().get(taken.index).and_then(|(key, _)| key.downcast_ref::<Column>());
        key.is_some_and(|key| comes_of(of_taken.left(), key.index(), given)) || self.same_keys(taken, given)
    }

    /// Whether the two filters have the same keys.
    fn same_keys(&self, a: &KeyFilter, b: &KeyFilter) -> bool {
        if (a.keys.count(), b.keys.count()) != (1, 1) {
            return false;
        }
        let (Some(of_a), Some(of_b)) = (self.of_filter(a), self.of_filter(b)) else { return false };
        let keys = of_a.on().get(a.index).zip(of_b.on().get(b.index));
        keys.is_some_and(|((a, _), (b, _))| same_expr(a, b)) && self.same_rows(of_a.left(), of_b.left())
    }

    /// Whether two plans have the same rows, in any order, whenever each of them runs. What they have beside the rows that they should
    /// have is dropped by joins above both.
    fn same_rows(&self, a: &Arc<dyn ExecutionPlan>, b: &Arc<dyn ExecutionPlan>) -> bool {
        let (a, b) = (source(a), source(b));
        if let (Some(a), Some(b)) = (a.downcast_ref::<RemoteScanExec>(), b.downcast_ref::<RemoteScanExec>()) {
            let (of_a, of_b) = (&a.spec().key_filters, &b.spec().key_filters);
            let same = |a: &KeyFilter, b: &KeyFilter| {
                (&a.key, a.shift, a.keys.nulls_match()) == (&b.key, b.shift, b.keys.nulls_match())
                    && self.same_keys(a, b)
            };
            return matches!(a.derivation(b), Some(Derivation::Same))
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
        // Of others, such as groups, it is not looked into.
        false
    }
}

/// The plan below what passes rows on as they are.
fn source(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    match plan.children()[..] {
        [input] if passes_rows(plan) && plan.fetch().is_none() => source(input),
        _ => plan,
    }
}

/// Whether the two are the same, and give a row the same value whenever they are asked.
fn same_expr(a: &Arc<dyn PhysicalExpr>, b: &Arc<dyn PhysicalExpr>) -> bool {
    a == b && !is_volatile(a) && !depends(a)
}

/// Whether the expression depends on what happens elsewhere in the query.
fn depends(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.is::<DynamicFilterPhysicalExpr>()
        || expr.is::<ScalarSubqueryExpr>()
        || expr.children().into_iter().any(depends)
}

/// The joins whose build side has a tap, by the keys of that.
fn find_joins(plan: &Arc<dyn ExecutionPlan>, joins: &mut HashMap<*const JoinKeys, Arc<dyn ExecutionPlan>>) {
    if let Some(tap) = plan.downcast_ref::<HashJoinExec>().and_then(|join| tap_of(join.left())) {
        joins.insert(Arc::as_ptr(tap.keys()), Arc::clone(plan));
    }
    plan.children().into_iter().for_each(|input| find_joins(input, joins));
}

/// Whether the plan passes the rows of its one input on as they are, all of them.
fn passes_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<KeyTapExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<CooperativeExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>()
}

/// Whether a column of the plan holds nothing but keys of the filter's join, and NULL.
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
    let is_own = tap_of(left).is_some_and(|tap| Arc::ptr_eq(tap.keys(), &filter.keys));
    // Rows of the probe side without a partner, with any key.
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

/// The tap of a build side.
fn tap_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&KeyTapExec> {
    if let Some(tap) = plan.downcast_ref::<KeyTapExec>() {
        return Some(tap);
    }
    match plan.children()[..] {
        [input] if passes_rows(plan) => tap_of(input),
        _ => None,
    }
}
