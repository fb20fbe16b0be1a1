//! The rows that a plan in stages handles, and those that its workers exchange.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use super::bytes::{self, StageNodes};
use crate::exec::remote_scan::RemoteScanExec;
use crate::statistics::width;

/// CPU time of exchanging a byte of rows between workers, as a multiple of that of an operator that
/// handles the byte: dealing rows by their keys, compressing, sending, and reading them. See
/// `docs/cluster.md`.
const EXCHANGE_FACTOR: f64 = 6.0;

/// The estimated bytes of rows that a plan in stages handles. Rows whose number is unknown do not
/// count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// The bytes that operators take as inputs, and that scans read in this process and return.
    pub handled: u64,
    /// The bytes that workers send to each other and to the coordinator.
    pub exchanged: u64,
}

impl Traffic {
    /// Estimates the rows of `plan`.
    pub fn of(plan: &Arc<dyn ExecutionPlan>, nodes: &dyn StageNodes) -> Self {
        let mut traffic = Self::default();
        traffic.add(plan, 1, &StatisticsContext::new(), nodes);
        traffic
    }

    /// Adds the rows of `node`, whose stage has `tasks` tasks, and of the operators below it.
    /// Returns the rows of `node`.
    fn add(
        &mut self,
        node: &Arc<dyn ExecutionPlan>,
        tasks: usize,
        statistics: &StatisticsContext,
        nodes: &dyn StageNodes,
    ) -> Rows {
        let below = nodes.tasks_below(node);
        let mut inputs = Vec::new();
        for input in node.children() {
            let rows = self.add(input, below.unwrap_or(tasks), statistics, nodes);
            let bytes = rows.estimated.saturating_mul(width_of(input));
            if below.is_some() {
                let receivers = if nodes.is_broadcast(node) { tasks as u64 } else { 1 };
                self.exchanged = self.exchanged.saturating_add(bytes.saturating_mul(receivers));
            } else {
                self.handled = self.handled.saturating_add(bytes);
            }
            inputs.push(rows);
        }
        let rows = Rows::of(node, &inputs, statistics, nodes);
        if inputs.is_empty() {
            let read = nodes.shared(node).unwrap_or(node).downcast_ref::<RemoteScanExec>().map_or(0, bytes::read_by);
            let returned = rows.estimated.saturating_mul(width_of(node));
            self.handled = self.handled.saturating_add(read).saturating_add(returned);
        }
        rows
    }

    /// Returns whether `workers` workers take less time than one process: each has its share of the
    /// rows to handle and to exchange, and one process has nothing to exchange.
    pub(crate) fn pays(&self, workers: usize) -> bool {
        let alone = self.handled as f64;
        let together = (alone + self.exchanged as f64 * EXCHANGE_FACTOR) / workers.max(1) as f64;
        together < alone
    }
}

/// The rows that an operator returns.
#[derive(Clone, Copy)]
struct Rows {
    /// Their estimated number; 0 if it is unknown.
    estimated: u64,
    /// The number of rows of the largest table below, if the operator joins whole tables.
    joined: Option<u64>,
}

impl Rows {
    fn of(
        node: &Arc<dyn ExecutionPlan>,
        inputs: &[Self],
        statistics: &StatisticsContext,
        nodes: &dyn StageNodes,
    ) -> Self {
        let effect = node.cardinality_effect();
        if let [input] = inputs
            && (matches!(effect, CardinalityEffect::Equal) || nodes.tasks_below(node).is_some())
        {
            return *input;
        }
        let known = statistics.compute(node.as_ref(), &StatisticsArgs::new()).ok();
        let known = known.and_then(|known| known.num_rows.get_value().copied());
        let mut estimated = match (known, inputs) {
            _ if !knows_groups(node, statistics) => 0,
            (Some(rows), _) => rows as u64,
            // Operators of `datafusion-distributed` have no statistics.
            (None, [input]) => input.estimated,
            (None, _) => 0,
        };
        let is_inner = || node.downcast_ref::<HashJoinExec>().is_some_and(|join| *join.join_type() == JoinType::Inner);
        let joined = match inputs {
            [] => {
                let scan = nodes.shared(node).unwrap_or(node).downcast_ref::<RemoteScanExec>();
                let is_whole = |scan: &RemoteScanExec| scan.is_whole() && scan.plan().key_filters.is_empty();
                scan.is_some_and(is_whole).then_some(estimated)
            }
            [input] if matches!(effect, CardinalityEffect::LowerEqual) => {
                estimated = estimated.min(input.estimated);
                None
            }
            // As in `rules/swap_semijoins`: a join by a foreign key has the rows of the largest table.
            [left, right] if is_inner() => left.joined.zip(right.joined).map(|(left, right)| left.max(right)),
            _ => None,
        };
        Self { estimated: estimated.max(joined.unwrap_or(0)), joined }
    }
}

/// Returns whether the number of groups is known, if `node` groups rows. DataFusion takes an unknown
/// number to be that of the rows.
fn knows_groups(node: &Arc<dyn ExecutionPlan>, statistics: &StatisticsContext) -> bool {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return true };
    let Ok(input) = statistics.compute(aggregate.input().as_ref(), &StatisticsArgs::new()) else { return false };
    aggregate.group_expr().expr().iter().all(|(key, _)| {
        let column = key.downcast_ref::<Column>().and_then(|column| input.column_statistics.get(column.index()));
        column.is_some_and(|column| column.distinct_count.get_value().is_some())
    })
}

/// Returns the assumed bytes of a row of `node`.
fn width_of(node: &Arc<dyn ExecutionPlan>) -> u64 {
    node.schema().fields().iter().map(|field| width::column_bytes(field.data_type())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanging_most_rows_pays_with_many_workers_only() {
        let traffic = Traffic { handled: 1200, exchanged: 400 };
        assert!(!traffic.pays(1));
        assert!(!traffic.pays(2));
        assert!(!traffic.pays(3));
        assert!(traffic.pays(4));
    }

    #[test]
    fn handling_without_exchanging_pays() {
        assert!(Traffic { handled: 1000, exchanged: 10 }.pays(2));
        assert!(!Traffic { handled: 1000, exchanged: 10 }.pays(1));
    }
}
