//! Pruning of pages by the page index, which has the smallest and the largest value of each page.
//!
//! Pages of different columns end at different rows, so each condition on a single column is
//! compared with the pages of that column. A row is read unless some condition excludes its page.

use std::sync::Arc;

use ::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use ::parquet::file::metadata::ParquetMetaData;
use arrow::array::Array;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{Field, Schema};
use pushdowndb_contract::{Expr, Result};

use crate::expr::columns::map_columns;
use crate::parquet::meta::nested::Place;
use crate::parquet::prune::row_groups::same_order;
use crate::parquet::read::chunks::Chunks;
use crate::parquet::read::selection::Rows;
use crate::zones::bounds::Possible;

/// Returns the conditions of the predicate that read a single column of the file and can be decided
/// by its bounds. Each is rewritten to a schema with only that column.
pub(crate) fn on_one_column(predicate: &Expr, schema: &Schema, file: &Schema) -> Vec<(Field, Possible)> {
    let conjuncts = predicate.conjuncts().into_iter();
    let own = conjuncts.filter_map(|conjunct| {
        let [column] = conjunct.columns()[..] else { return None };
        let declared = schema.fields().get(column).filter(|field| Place::is_root(field))?;
        let stored = file.field_with_name(declared.name()).ok()?;
        let condition = map_columns(conjunct, &mut |_| 0);
        let only = Schema::new(vec![Arc::clone(declared)]);
        let ordered = same_order(stored.data_type(), declared.data_type());
        let possible = Possible::of(&condition, &only).filter(|_| ordered)?;
        Some((declared.as_ref().clone(), possible))
    });
    own.collect()
}

/// Returns whether the file has a page index for one of these columns.
pub(crate) fn is_there(conditions: &[(Field, Possible)], metadata: &ParquetMetaData) -> bool {
    let columns = metadata.row_groups().first().map(|group| group.columns()).unwrap_or_default();
    columns.iter().any(|chunk| {
        let path = chunk.column_path().parts();
        chunk.column_index_offset().is_some()
            && conditions.iter().any(|(field, _)| matches!(path, [name] if name == field.name()))
    })
}

/// Returns the rows of a row group that may match all conditions.
pub(crate) fn surviving(
    conditions: &[(Field, Possible)],
    file: &Schema,
    chunks: &Chunks,
    group: usize,
    rows: usize,
) -> Result<Rows> {
    let mut left = Rows::all(rows);
    for (field, condition) in conditions {
        if let Some(own) = pages(field, condition, file, chunks, group, rows)? {
            left = left.and(&own);
        }
    }
    Ok(left)
}

fn pages(
    field: &Field,
    condition: &Possible,
    file: &Schema,
    chunks: &Chunks,
    group: usize,
    rows: usize,
) -> Result<Option<Rows>> {
    let metadata = &chunks.metadata;
    let (Some(columns), Some(offsets)) = (metadata.column_index(), metadata.offset_index()) else { return Ok(None) };
    let stored = metadata.file_metadata().schema_descr();
    let Ok(converter) = StatisticsConverter::try_new(field.name(), file, stored) else { return Ok(None) };
    let leaf = converter.parquet_column_index();
    let places = leaf.and_then(|leaf| chunks.places(group, leaf).ok()?);
    let Some(places) = places else { return Ok(None) };
    let options = CastOptions { safe: false, ..Default::default() };
    let bounds =
        [converter.data_page_mins(columns, offsets, [&group]), converter.data_page_maxes(columns, offsets, [&group])];
    let declared = bounds.map(|bounds| cast_with_options(&bounds.ok()?, field.data_type(), &options).ok());
    let [Some(smallest), Some(largest)] = declared else { return Ok(None) };
    if smallest.len() != places.len() || largest.len() != places.len() {
        return Ok(None);
    }
    let kept = condition.holds(places.len(), &|_| Some((Arc::clone(&smallest), Arc::clone(&largest))))?;
    let kept = places.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(place, _)| place.rows);
    Ok(Some(Rows::of(kept, rows)))
}
