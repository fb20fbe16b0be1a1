//! `timezone(zone, time)`, which is `time AT TIME ZONE zone`.
//!
//! As in PostgreSQL and DuckDB, an instant becomes the local time of the zone, and a local time
//! becomes an instant:
//!
//! ```text
//! TIMESTAMPTZ '2024-07-01 12:00:00Z' AT TIME ZONE 'Europe/Berlin'  =  TIMESTAMP '2024-07-01 14:00:00'
//! TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'Europe/Berlin'     =  TIMESTAMPTZ '2024-07-01 10:00:00Z'
//! ```
//!
//! In DataFusion 55.2, both results are instants that are shown in the zone. A date or a text
//! counts as an instant, as in PostgreSQL.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::functions::datetime::to_local_time;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Returns the function `timezone`.
pub(crate) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Timezone { signature: Signature::user_defined(Volatility::Immutable) }))
}

#[derive(Debug, Eq, Hash, PartialEq)]
struct Timezone {
    signature: Signature,
}

/// The zone in which instants are shown, whatever zone they were computed from.
const UTC: &str = "UTC";

/// Returns the type of `time AT TIME ZONE`.
fn result_type(time: &DataType) -> Result<DataType> {
    match time {
        DataType::Timestamp(unit, None) => Ok(DataType::Timestamp(*unit, Some(UTC.into()))),
        DataType::Timestamp(unit, Some(_)) => Ok(DataType::Timestamp(*unit, None)),
        other => plan_err!("AT TIME ZONE takes a timestamp, not {other}"),
    }
}

impl ScalarUDFImpl for Timezone {
    fn name(&self) -> &str {
        "timezone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [zone, time] = types else {
            return plan_err!("timezone takes a zone and a timestamp");
        };
        if !matches!(zone, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
            return plan_err!("the zone of AT TIME ZONE is a text such as 'Europe/Berlin', not {zone}");
        }
        let time = match time {
            DataType::Timestamp(..) => time.clone(),
            DataType::Null
            | DataType::Date32
            | DataType::Date64
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View => DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into())),
            other => return plan_err!("AT TIME ZONE takes a timestamp, not {other}"),
        };
        Ok(vec![DataType::Utf8, time])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the zone of AT TIME ZONE must be a constant")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let (Some(Some(ScalarValue::Utf8(Some(_)))), [_, time]) = (args.scalar_arguments.first(), args.arg_fields)
        else {
            return plan_err!("the zone of AT TIME ZONE must be a constant");
        };
        Ok(Arc::new(Field::new(self.name(), result_type(time.data_type())?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(ScalarValue::Utf8(Some(zone))), time] = args.args.as_slice() else {
            return exec_err!("the zone of AT TIME ZONE must be a constant");
        };
        let DataType::Timestamp(unit, given) = time.data_type() else {
            return exec_err!("AT TIME ZONE takes a timestamp, not {}", time.data_type());
        };
        let instant = time.cast_to(&DataType::Timestamp(unit, Some(zone.as_str().into())), None)?;
        if given.is_none() {
            return instant.cast_to(&DataType::Timestamp(unit, Some(UTC.into())), None);
        }
        let arg_fields = vec![Arc::new(Field::new("time", instant.data_type(), true))];
        to_local_time().invoke_with_args(ScalarFunctionArgs { args: vec![instant], arg_fields, ..args })
    }
}
