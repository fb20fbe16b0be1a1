//! The type of times in which these functions compute.

use chrono::{DateTime, NaiveDateTime};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, plan_err};
use pushdowndb_contract::Error;

use crate::error::to_datafusion;

/// A timestamp of microseconds without a zone.
pub(super) const MICROSECONDS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Returns the type to which a time is cast. Fails if `data_type` is no time, date or text.
pub(super) fn time(data_type: &DataType) -> Result<DataType> {
    match data_type {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 | DataType::Null => Ok(MICROSECONDS),
        other if other.is_string() => Ok(MICROSECONDS),
        other => plan_err!("a date or a timestamp is expected, not {other}"),
    }
}

/// Returns the date and time of microseconds since 1970, without a zone.
pub(super) fn local(micros: i64) -> Result<NaiveDateTime> {
    let time = DateTime::from_timestamp_micros(micros).map(|time| time.naive_utc());
    time.ok_or_else(|| to_datafusion(Error::invalid(format!("a timestamp is out of range: {micros} µs since 1970"))))
}
