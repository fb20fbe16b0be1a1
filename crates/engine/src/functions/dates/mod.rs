//! Functions of dates and timestamps that DataFusion lacks, with the meaning that they have in
//! DuckDB.
//!
//! ```text
//! difference   date_diff, date_sub, age
//! format       strftime, strptime, try_strptime
//! epoch        epoch_ms, epoch_us, epoch_ns, make_timestamp
//! intervals    to_days and the like
//! times        what they share
//! ```

mod difference;
mod epoch;
mod format;
mod intervals;
mod times;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

/// Returns the functions of these modules.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    [difference::functions(), format::functions(), epoch::functions(), intervals::functions()].concat()
}
