//! Results of EXPLAIN: indented text under headings, without a box.

use std::io::Write;

use anyhow::Result;
use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;

use super::output::Output;
use super::writer::RowWriter;

/// Whether a schema is that of EXPLAIN.
pub fn is_plan(schema: &SchemaRef) -> bool {
    schema.fields().iter().map(|field| field.name().as_str()).eq(["plan_type", "plan"])
}

/// Writes plans as they are.
pub struct Plan(pub Output);

impl RowWriter for Plan {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let (kinds, plans) = (cast(batch.column(0), &DataType::Utf8)?, cast(batch.column(1), &DataType::Utf8)?);
        for (kind, plan) in kinds.as_string::<i32>().iter().zip(plans.as_string::<i32>()) {
            writeln!(self.0, "{}", kind.unwrap_or_default().replace('_', " "))?;
            for line in plan.unwrap_or_default().lines() {
                writeln!(self.0, "  {line}")?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        Ok(self.0.flush()?)
    }
}
