//! The functions that statements may call.

use std::sync::Arc;

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use pushdowndb_scan::extremes;

use crate::functions::checked_sum;

/// Each function once. A state has maps of them by all their names, which take a while to copy: that of a statement is made of
/// these instead.
#[derive(Debug, Default)]
pub(super) struct Functions {
    scalar: Vec<Arc<ScalarUDF>>,
    higher_order: Vec<Arc<HigherOrderUDF>>,
    aggregate: Vec<Arc<AggregateUDF>>,
    window: Vec<Arc<WindowUDF>>,
}

impl Functions {
    /// DataFusion's, which the builder has no longer, and ours instead of those that have the same name.
    pub(super) fn taken_from(builder: &mut SessionStateBuilder) -> Self {
        let mut functions = Self {
            scalar: builder.scalar_functions().take().unwrap_or_default(),
            higher_order: builder.higher_order_functions().take().unwrap_or_default(),
            aggregate: builder.aggregate_functions().take().unwrap_or_default(),
            window: builder.window_functions().take().unwrap_or_default(),
        };
        functions.aggregate.extend([extremes::min(), extremes::max(), checked_sum::function()]);
        functions
    }

    /// A builder that has them.
    pub(super) fn given_to(&self, builder: SessionStateBuilder) -> SessionStateBuilder {
        builder
            .with_scalar_functions(self.scalar.clone())
            .with_higher_order_functions(self.higher_order.clone())
            .with_aggregate_functions(self.aggregate.clone())
            .with_window_functions(self.window.clone())
    }

    /// Their names, in order; each is there once.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut add = |name: &str, aliases: &[String]| {
            names.push(name.to_owned());
            names.extend_from_slice(aliases);
        };
        self.scalar.iter().for_each(|function| add(function.name(), function.aliases()));
        self.higher_order.iter().for_each(|function| add(function.name(), function.aliases()));
        self.aggregate.iter().for_each(|function| add(function.name(), function.aliases()));
        self.window.iter().for_each(|function| add(function.name(), function.aliases()));
        names.sort();
        names.dedup();
        names
    }
}
