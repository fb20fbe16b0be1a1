//! Counts since 1970: `epoch_ms`, `epoch_us` and `epoch_ns` of a time, and the times of such
//! counts.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::ScalarUDF;
use pushdowndb_contract::Error;

use super::super::simple::Simple;
use super::times::{MICROSECONDS, time};
use crate::error::to_datafusion;

/// Returns the functions of this module.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let count = |name, compute| Simple {
        name,
        takes: |types| match types {
            [of] => Ok(vec![time(of)?]),
            _ => plan_err!("one date or timestamp is expected"),
        },
        returns: |_| Ok(DataType::Int64),
        compute,
        simplify: None,
    };
    let millis = Simple {
        name: "epoch_ms",
        takes: |types| match types {
            [count] if count.is_integer() => Ok(vec![DataType::Int64]),
            [of] => Ok(vec![time(of)?]),
            _ => plan_err!("epoch_ms takes a time, or milliseconds since 1970"),
        },
        returns: |types| Ok(if types == [DataType::Int64] { MICROSECONDS } else { DataType::Int64 }),
        compute: |args, _| match args {
            [counts] if *counts.data_type() == DataType::Int64 => times(counts, 1_000),
            [times] => divided(times, 1_000),
            _ => plan_err!("epoch_ms takes one value"),
        },
        simplify: None,
    };
    let made = Simple {
        name: "make_timestamp",
        takes: |types| match types {
            [count] if count.is_integer() || count.is_null() => Ok(vec![DataType::Int64]),
            _ => plan_err!("make_timestamp takes microseconds since 1970"),
        },
        returns: |_| Ok(MICROSECONDS),
        compute: |args, _| args.first().map_or_else(|| plan_err!("no argument"), |counts| times(counts, 1)),
        simplify: None,
    };
    vec![
        millis.function(),
        count("epoch_us", |args, _| divided_first(args, 1)).function(),
        count("epoch_ns", |args, _| multiplied_first(args)).function(),
        made.function(),
    ]
}

fn divided_first(args: &[ArrayRef], by: i64) -> Result<ArrayRef> {
    args.first().map_or_else(|| plan_err!("no argument"), |times| divided(times, by))
}

fn divided(times: &ArrayRef, by: i64) -> Result<ArrayRef> {
    let micros = cast(times, &DataType::Int64)?;
    let counts = micros.as_primitive::<Int64Type>().unary::<_, Int64Type>(|micros| micros.div_euclid(by));
    Ok(Arc::new(counts))
}

fn multiplied_first(args: &[ArrayRef]) -> Result<ArrayRef> {
    let Some(times) = args.first() else { return plan_err!("no argument") };
    scaled(&cast(times, &DataType::Int64)?, 1_000)
}

/// Returns the times of counts since 1970, in units of `micros` microseconds.
fn times(counts: &ArrayRef, micros: i64) -> Result<ArrayRef> {
    let scaled = scaled(counts, micros)?;
    Ok(cast(&scaled, &DataType::Timestamp(TimeUnit::Microsecond, None))?)
}

fn scaled(counts: &ArrayRef, by: i64) -> Result<ArrayRef> {
    let counts = counts.as_primitive::<Int64Type>();
    let out_of_range = || to_datafusion(Error::invalid("a time is out of the range of its type"));
    let scaled =
        counts.iter().map(|count| count.map(|count| count.checked_mul(by).ok_or_else(out_of_range)).transpose());
    Ok(Arc::new(scaled.collect::<Result<Int64Array>>()?))
}
