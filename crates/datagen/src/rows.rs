//! The rows of one piece of a table, as record batches of the declared types.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use pushdowndb_contract::{Error, Result};
use tpchgen::generators as source;
use tpchgen_arrow as arrows;

use crate::synthetic;
use crate::tables::schema;

/// A piece of a table: number `index`, counted from zero, of `of` pieces in row order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece {
    pub table: &'static str,
    pub scale: f64,
    pub index: u32,
    pub of: u32,
}

/// Returns the rows of a piece in order.
pub(crate) fn batches(piece: Piece) -> Result<Box<dyn Iterator<Item = Result<RecordBatch>> + Send>> {
    if synthetic::schema(piece.table).is_some() {
        let rows = synthetic::batches(piece.table, piece.scale, piece.index, piece.of)?;
        return Ok(Box::new(rows));
    }
    let schema = schema(piece.table)?;
    let number = |n: u32| i32::try_from(n).map_err(|_| Error::invalid(format!("{n} pieces are too many")));
    let (part, parts, scale) = (number(piece.index)? + 1, number(piece.of)?, piece.scale);
    let rows: Box<dyn Iterator<Item = RecordBatch> + Send> = match piece.table {
        "region" => Box::new(arrows::RegionArrow::new(source::RegionGenerator::new(scale, part, parts))),
        "nation" => Box::new(arrows::NationArrow::new(source::NationGenerator::new(scale, part, parts))),
        "supplier" => Box::new(arrows::SupplierArrow::new(source::SupplierGenerator::new(scale, part, parts))),
        "customer" => Box::new(arrows::CustomerArrow::new(source::CustomerGenerator::new(scale, part, parts))),
        "part" => Box::new(arrows::PartArrow::new(source::PartGenerator::new(scale, part, parts))),
        "partsupp" => Box::new(arrows::PartSuppArrow::new(source::PartSuppGenerator::new(scale, part, parts))),
        "orders" => Box::new(arrows::OrderArrow::new(source::OrderGenerator::new(scale, part, parts))),
        _ => Box::new(arrows::LineItemArrow::new(source::LineItemGenerator::new(scale, part, parts))),
    };
    Ok(Box::new(rows.map(move |batch| declared_types(&batch, &schema))))
}

/// Casts columns to the declared types: the generator creates string views, while the tables have
/// plain strings.
fn declared_types(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let bug = |e| Error::internal("generated rows do not have the declared types").with_source(e);
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| cast(column, field.data_type()))
        .collect::<Result<Vec<ArrayRef>, _>>()
        .map_err(bug)?;
    RecordBatch::try_new(Arc::clone(schema), columns).map_err(bug)
}

#[cfg(test)]
mod tests {
    use arrow::compute::concat_batches;

    use super::*;
    use crate::TABLES;

    fn all(table: &'static str, of: u32) -> RecordBatch {
        let rows: Vec<_> = (0..of)
            .flat_map(|index| batches(Piece { table, scale: 0.002, index, of }).unwrap())
            .map(|batch| batch.unwrap())
            .collect();
        concat_batches(&schema(table).unwrap(), &rows).unwrap()
    }

    #[test]
    fn pieces_in_order_are_the_table() {
        for table in TABLES.into_iter().filter(|t| !matches!(*t, "region" | "nation")) {
            assert_eq!(all(table, 7), all(table, 1), "{table}");
        }
    }
}
