//! Intervals of computed lengths: `to_years`, `to_months`, `to_weeks`, `to_days`, `to_hours`,
//! `to_minutes`, `to_seconds`, `to_milliseconds`, `to_microseconds`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoBuilder};
use datafusion::arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::ScalarUDF;
use pushdowndb_contract::Error;

use super::super::simple::Simple;
use crate::error::to_datafusion;

/// Returns the functions of this module.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let of = |name, compute| Simple {
        name,
        takes: |types| match types {
            [count] if count.is_integer() || count.is_null() => Ok(vec![DataType::Int64]),
            _ => plan_err!("a whole number is expected"),
        },
        returns: |_| Ok(DataType::Interval(IntervalUnit::MonthDayNano)),
        compute,
        simplify: None,
    };
    const SECOND: i64 = 1_000_000_000;
    vec![
        of("to_years", |args, _| intervals(args, 12, 0, 0)).function(),
        of("to_months", |args, _| intervals(args, 1, 0, 0)).function(),
        of("to_weeks", |args, _| intervals(args, 0, 7, 0)).function(),
        of("to_days", |args, _| intervals(args, 0, 1, 0)).function(),
        of("to_hours", |args, _| intervals(args, 0, 0, 3_600 * SECOND)).function(),
        of("to_minutes", |args, _| intervals(args, 0, 0, 60 * SECOND)).function(),
        of("to_seconds", |args, _| intervals(args, 0, 0, SECOND)).function(),
        of("to_milliseconds", |args, _| intervals(args, 0, 0, 1_000_000)).function(),
        of("to_microseconds", |args, _| intervals(args, 0, 0, 1_000)).function(),
    ]
}

/// Returns intervals of `months`, `days` and `nanos`, each multiplied by the counts in `args`.
fn intervals(args: &[ArrayRef], months: i64, days: i64, nanos: i64) -> Result<ArrayRef> {
    let [counts] = args else { return plan_err!("one whole number is expected") };
    let counts = counts.as_primitive::<Int64Type>();
    let mut intervals = IntervalMonthDayNanoBuilder::new();
    for count in counts {
        let Some(count) = count else {
            intervals.append_null();
            continue;
        };
        let small = |length: i64| count.checked_mul(length).and_then(|length| i32::try_from(length).ok());
        let interval = small(months).zip(small(days)).zip(count.checked_mul(nanos));
        let Some(((months, days), nanos)) = interval else {
            return Err(to_datafusion(Error::invalid(format!("{count} is too long for an interval"))));
        };
        intervals.append_value(IntervalMonthDayNanoType::make_value(months, days, nanos));
    }
    Ok(Arc::new(intervals.finish()))
}
