//! SampleSplits: restricts a scan to the stretches of objects that TABLESAMPLE SYSTEM selects.
//!
//! In the plan, the clause is a condition `sampled_splits(share, seed, is_repeatable)`
//! ([`crate::sql::syntax::relations`]). Directly above a table of objects, the condition becomes a
//! part of the scan; above any other plan, it is replaced by one that selects single rows at
//! random.

use std::sync::Arc;

use datafusion::catalog::default_table_source::{provider_as_source, source_as_provider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::functions::math::random;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;

use crate::functions::sampled_splits::NAME;
use crate::plan::split_sample::{SplitSample, WHOLE};
use crate::provider::ObjectTable;

/// The rule.
#[derive(Debug)]
pub(super) struct SampleSplits;

impl AnalyzerRule for SampleSplits {
    fn name(&self) -> &'static str {
        "sample_splits"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| {
            let LogicalPlan::Filter(filter) = &node else { return Ok(Transformed::no(node)) };
            let Some((sample, is_repeatable)) = sample_of(&filter.predicate) else { return Ok(Transformed::no(node)) };
            if let Some(sampled) = sampled(&filter.input, sample)? {
                return Ok(Transformed::yes(sampled));
            }
            if is_repeatable {
                return plan_err!(
                    "TABLESAMPLE SYSTEM with REPEATABLE takes a table of objects; write BERNOULLI for others"
                );
            }
            let share = sample.share as f64 / WHOLE as f64;
            let drawn = random().call(vec![]).lt(lit(share));
            LogicalPlanBuilder::from(filter.input.as_ref().clone()).filter(drawn)?.build().map(Transformed::yes)
        })?;
        Ok(plan.data)
    }
}

/// Returns the arguments of the condition, or `None` if `predicate` is another one.
fn sample_of(predicate: &Expr) -> Option<(SplitSample, bool)> {
    let Expr::ScalarFunction(call) = predicate else { return None };
    if call.func.name() != NAME {
        return None;
    }
    let number = |place: usize| match call.args.get(place) {
        Some(Expr::Literal(ScalarValue::Int64(Some(number)), _)) => u64::try_from(*number).ok(),
        _ => None,
    };
    Some((SplitSample { share: number(0)?, seed: number(1)? }, number(2)? == 1))
}

/// Returns `plan` with the sample added to its scan, or `None` if `plan` is not a table of objects.
fn sampled(plan: &LogicalPlan, sample: SplitSample) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => {
            let Some(input) = sampled(&alias.input, sample)? else { return Ok(None) };
            LogicalPlanBuilder::from(input).alias(alias.alias.clone())?.build().map(Some)
        }
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source)?;
            let Some(table) = provider.downcast_ref::<ObjectTable>().filter(|_| scan.projection.is_none()) else {
                return Ok(None);
            };
            let source = provider_as_source(Arc::new(table.sampled(sample)));
            let (name, filters) = (scan.table_name.clone(), scan.filters.clone());
            LogicalPlanBuilder::scan_with_filters_fetch(name, source, None, filters, scan.fetch)?.build().map(Some)
        }
        _ => Ok(None),
    }
}
