//! The plan of a Parquet scan, shared by all row groups of a file and all scans of a fragment.

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

/// Maximum number of column sets that are cached: row groups of a file are mostly alike.
const MAX_SETS: usize = 8;

/// Maximum number of cached plans of a fragment: about as many objects are scanned at a time as
/// there are cores.
const MAX_PLANS: usize = 16;

/// A plan holds the footer. One with more column chunks takes some megabytes, and is the only one
/// cached.
const MIN_CHUNKS_OF_LARGE: usize = 4096;

/// The input of a plan: the `wanted` rows of `schema`, which are columns of `table`, the `output`
/// columns, those of them that may be `dictionaries`, and the footer.
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
    /// All columns that are read, under the table's names.
    pub(crate) declared: SchemaRef,
    /// The same under the file's names; the output columns, and those of them that may be
    /// dictionaries.
    pub(crate) schema: SchemaRef,
    pub(crate) output: Vec<usize>,
    pub(crate) dictionaries: Vec<usize>,
    pub(crate) stages: Vec<Stage>,
    /// The bound of the first rows in an order, and the column they are ordered by.
    pub(crate) first: Option<(LiveBound, Field)>,
    /// Output columns that may be read as dictionary codes.
    pub(crate) singles: Vec<Single>,
    /// Leaf indexes of all columns that are read.
    pub(crate) leaves: Vec<usize>,
    /// For each row group, whether it may hold rows that pass, by statistics.
    kept: Vec<bool>,
    /// Sets of columns that were decoded together before.
    together: Latest<(Vec<usize>, Arc<Columns>)>,
}

#[derive(Debug)]
pub(crate) struct Single {
    /// Its index among the columns that are read, and its leaf index in the file.
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

    /// True if a plan of `of` would be the same, whatever the location of the object.
    fn is_of(&self, of: Planned<'_>) -> bool {
        Arc::ptr_eq(&self.metadata, of.metadata)
            && (&self.declared, &self.predicate) == (of.schema, &of.wanted.predicate)
            && (self.output.as_slice(), self.dictionaries.as_slice()) == (of.output, of.dictionaries)
    }

    /// True if statistics leave the row group.
    pub(crate) fn is_kept(&self, group: usize) -> bool {
        self.kept.get(group).copied().unwrap_or(true)
    }

    /// True if the page index may rule out pages. If values are clustered, whole row groups show
    /// it: if none was ruled out, pages will not be either, and reading the page index takes a
    /// while. Decided by the file and not by the scanned piece, so that the bytes read do not
    /// depend on the pieces.
    pub(crate) fn may_rule_out_pages(&self) -> bool {
        self.kept.len() == 1 || self.kept.contains(&false)
    }

    /// The decoder of these columns together.
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
    /// `None` if it is a list or a struct, or not in the file.
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

/// Recent plans of a fragment: each piece of an object is a scan of a few milliseconds, and a plan
/// takes a tenth of one.
#[derive(Debug, Default)]
pub(crate) struct LastPlans(Latest<Arc<Plan>>);

impl LastPlans {
    /// True if there is a plan.
    pub(crate) fn is_made(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns the cached plan of `of`, or a new one.
    pub(crate) fn of(&self, of: Planned<'_>) -> Result<Arc<Plan>> {
        if of.wanted.first.is_some() {
            // The bound of the first rows belongs to one scan.
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
