//! Which scans by storage are measured: their route and the kind of their format.

use pushdowndb_contract::{Expr, Format, Fragment, Output};

/// A route by which storage scans.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scanner {
    /// S3 Select.
    Select,
    /// The fragment route.
    Fragment,
}

/// The kind of format that is scanned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// CSV or JSON, compressed or not.
    Text,
    /// Parquet.
    Parquet,
}

impl Kind {
    /// Returns the kind whose scan rate a scan for `fragment` shows; `None` if it does more than
    /// scan. The cost of groups, Bloom filters and CASE is in the models of the strategies that
    /// push them.
    pub(crate) fn shown_by(fragment: &Fragment) -> Option<Self> {
        let more = match &fragment.output {
            Output::Rows(outputs) => outputs.iter().any(|output| has_more(&output.expr)),
            Output::Aggregate { groups, calls } => {
                !groups.is_empty() || calls.iter().filter_map(|call| call.argument.as_ref()).any(has_more)
            }
        };
        let more = more || !fragment.order.is_empty() || fragment.predicate.as_ref().is_some_and(has_more);
        let kind = if matches!(fragment.format, Format::Parquet) { Self::Parquet } else { Self::Text };
        (!more).then_some(kind)
    }
}

fn has_more(expr: &Expr) -> bool {
    matches!(expr, Expr::Bloom { .. } | Expr::Case { .. } | Expr::Call(..)) || expr.children().into_iter().any(has_more)
}
