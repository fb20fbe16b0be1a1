//! The plan of a Parquet scan, shared by all row groups of a file and by scans of the same
//! fragment.

use std::sync::Arc;

use ::parquet::file::metadata::ParquetMetaData;
use arrow::datatypes::{Field, SchemaRef};
use pushdowndb_contract::{Expr, Result};

use crate::error::from_arrow;
use crate::lru::Latest;
use crate::operators::row_filter::RowFilter;
use crate::operators::top_k::live::{FirstRows, LiveBound};
use crate::parquet::decode::batches::{Columns, FileSchema};
use crate::parquet::decode::levels::is_flat;
use crate::parquet::prune::row_groups::may_match;
use crate::parquet::stages::{Stage, stages};

/// The maximum number of column sets whose decoders are cached. Most row groups of a file need the
/// same set.
const MAX_SETS: usize = 8;

/// The maximum number of cached plans of a fragment. About as many objects are scanned at the same
/// time as there are cores.
const MAX_PLANS: usize = 16;

/// The number of column chunks from which a plan counts as large. It contains the footer, which
/// then takes some megabytes, so it is the only plan that is cached.
const MIN_CHUNKS_OF_LARGE: usize = 4096;

/// The input of a plan: the columns `schema` to read, of all columns in `table`; the `wanted` rows;
/// the `output` columns and those of them that may be `dictionaries`; and the footer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned<'a> {
    pub(crate) location: &'a str,
    pub(crate) table: &'a SchemaRef,
    pub(crate) schema: &'a SchemaRef,
    pub(crate) wanted: &'a RowFilter,
    pub(crate) output: &'a [usize],
    pub(crate) dictionaries: &'a [usize],
    pub(crate) metadata: &'a Arc<ParquetMetaData>,
}

/// The parts of a scan that are prepared before any row is read.
#[derive(Debug)]
pub(crate) struct Plan {
    metadata: Arc<ParquetMetaData>,
    predicate: Option<Expr>,
    pub(crate) file: FileSchema,
    /// All columns that are read, under their names in the table.
    pub(crate) declared: SchemaRef,
    /// The same columns under their names in the file; the indexes of the output columns, and of
    /// those that may be dictionaries.
    pub(crate) schema: SchemaRef,
    pub(crate) output: Vec<usize>,
    pub(crate) dictionaries: Vec<usize>,
    pub(crate) stages: Vec<Stage>,
    /// The bound on the first rows of an order, and the column that it is about.
    pub(crate) first: Option<(LiveBound, Field)>,
    /// Output columns that may be read directly from their pages.
    pub(crate) singles: Vec<Single>,
    /// The leaf indexes of all columns that are read.
    pub(crate) leaves: Vec<usize>,
    /// For each row group, whether its statistics allow rows that pass.
    kept: Vec<bool>,
    /// Decoders for sets of columns that were decoded together before.
    together: Latest<(Vec<usize>, Arc<Columns>)>,
}

#[derive(Debug)]
pub(crate) struct Single {
    /// The index among the columns that are read, and the leaf index in the file.
    pub(crate) index: usize,
    pub(crate) leaf: usize,
    pub(crate) columns: Columns,
}

impl Plan {
    fn new(of: Planned<'_>) -> Result<Self> {
        let Planned { location, table, schema: declared, wanted, output, dictionaries, metadata } = of;
        let file = FileSchema::new(location, metadata)?;
        let schema = &file.named(declared, table);
        let all: Vec<usize> = (0..metadata.num_row_groups()).collect();
        let kept = match &wanted.predicate {
            Some(predicate) => may_match(predicate, schema, &file.schema, metadata, &all)?,
            None => vec![true; all.len()],
        };
        let stages = stages(location, wanted, schema, &file)?;
        let first = match &wanted.first {
            Some(FirstRows { key: Expr::Column(index), .. }) => schema.fields().get(*index).zip(wanted.first.as_ref()),
            _ => None,
        };
        let bound = |(key, first): (&Arc<Field>, &FirstRows)| -> Result<Option<(LiveBound, Field)>> {
            Ok(first.bound(schema, &mut |index| index)?.map(|bound| (bound, key.as_ref().clone())))
        };
        let first = first.map(bound).transpose()?.flatten();
        let singles = output.iter().filter_map(|index| Single::new(location, *index, schema, &file).transpose());
        Ok(Self {
            metadata: Arc::clone(metadata),
            predicate: wanted.predicate.clone(),
            singles: singles.collect::<Result<_>>()?,
            leaves: Columns::new(location, Arc::clone(schema), &file)?.leaves,
            kept,
            file,
            declared: Arc::clone(declared),
            schema: Arc::clone(schema),
            output: output.to_vec(),
            dictionaries: dictionaries.to_vec(),
            stages,
            first,
            together: Latest::default(),
        })
    }

    /// Returns whether a plan for `of` would be equal to this one. The location of the object is
    /// ignored.
    fn is_of(&self, of: Planned<'_>) -> bool {
        Arc::ptr_eq(&self.metadata, of.metadata)
            && (&self.declared, &self.predicate) == (of.schema, &of.wanted.predicate)
            && (self.output.as_slice(), self.dictionaries.as_slice()) == (of.output, of.dictionaries)
    }

    /// Returns whether statistics allow rows of this row group to pass.
    pub(crate) fn is_kept(&self, group: usize) -> bool {
        self.kept.get(group).copied().unwrap_or(true)
    }

    /// Returns whether the page index may exclude pages.
    ///
    /// If values are clustered, statistics exclude whole row groups, too. If none was excluded, the
    /// page index will not exclude pages either, and reading it takes a while. The decision is for
    /// the whole file, so that the bytes read do not depend on the pieces in which it is scanned.
    pub(crate) fn may_rule_out_pages(&self) -> bool {
        self.kept.len() == 1 || self.kept.contains(&false)
    }

    /// Returns a decoder for these columns together.
    pub(crate) fn columns(&self, location: &str, indexes: &[usize]) -> Result<Arc<Columns>> {
        let decoder = || {
            let declared = self.schema.project(indexes).map_err(from_arrow)?;
            let columns = Columns::new(location, Arc::new(declared), &self.file)?;
            Ok((indexes.to_vec(), Arc::new(columns)))
        };
        Ok(self.together.get_or_make(MAX_SETS, |(known, _)| known == indexes, decoder)?.1)
    }
}

impl Single {
    /// Returns `None` if the column is a list or a struct, or not in the file.
    fn new(location: &str, index: usize, schema: &SchemaRef, file: &FileSchema) -> Result<Option<Self>> {
        let declared = schema.project(&[index]).map_err(from_arrow)?;
        let columns = Columns::new(location, Arc::new(declared), file)?;
        let leaf = match columns.leaves.as_slice() {
            [leaf] if is_flat(&columns.descriptor(*leaf)) => *leaf,
            _ => return Ok(None),
        };
        Ok(Some(Self { index, leaf, columns }))
    }
}

/// Recent plans of a fragment. Each piece of an object is scanned in a few milliseconds, and
/// creating a plan takes a tenth of a millisecond.
#[derive(Debug, Default)]
pub(crate) struct LastPlans(Latest<Arc<Plan>>);

impl LastPlans {
    /// Returns whether there is a cached plan.
    pub(crate) fn is_made(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns the cached plan for `of`, or a new one.
    pub(crate) fn of(&self, of: Planned<'_>) -> Result<Arc<Plan>> {
        if of.wanted.first.is_some() {
            // The bound on the first rows belongs to a single scan, so such a plan is not cached.
            return Plan::new(of).map(Arc::new);
        }
        let columns = of.metadata.file_metadata().schema_descr().num_columns();
        let is_large = of.metadata.num_row_groups().saturating_mul(columns) > MIN_CHUNKS_OF_LARGE;
        let most = if is_large { 1 } else { MAX_PLANS };
        self.0.get_or_make(most, |plan| plan.is_of(of), || Plan::new(of).map(Arc::new))
    }
}

#[cfg(test)]
mod tests {
    use ::parquet::arrow::ArrowWriter;
    use ::parquet::file::metadata::ParquetMetaDataReader;
    use arrow::array::{Int64Array, RecordBatch};
    use bytes::Bytes;

    use super::*;

    fn footer(value: i64) -> (Arc<ParquetMetaData>, SchemaRef) {
        let batch = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![value])) as _)]).unwrap();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        (Arc::new(ParquetMetaDataReader::new().parse_and_finish(&Bytes::from(bytes)).unwrap()), batch.schema())
    }

    #[test]
    fn plans_of_several_objects_are_kept_and_not_of_any_number() {
        let (plans, objects) = (LastPlans::default(), [footer(1), footer(2)]);
        let wanted = RowFilter::default();
        let of = |(metadata, schema): &(Arc<ParquetMetaData>, SchemaRef)| {
            let of = Planned {
                location: "k",
                table: schema,
                schema,
                wanted: &wanted,
                output: &[0],
                dictionaries: &[],
                metadata,
            };
            plans.of(of).unwrap()
        };
        let first = objects.each_ref().map(of);
        let again = objects.each_ref().map(of);
        assert!(first.iter().zip(&again).all(|(first, again)| Arc::ptr_eq(first, again)));
        assert!(!Arc::ptr_eq(&first[0], &first[1]));
        (0..MAX_PLANS).for_each(|value| drop(of(&footer(value as i64))));
        assert!(!Arc::ptr_eq(&first[0], &of(&objects[0])));
    }
}
