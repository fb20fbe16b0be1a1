//! How the rows of a file are decided and decoded: the same for all its row groups, and for all scans of one fragment.

use std::sync::Arc;

use ::parquet::file::metadata::ParquetMetaData;
use arrow::datatypes::{Field, SchemaRef};
use pushdown::{Expr, Result};

use super::decode::{Columns, FileSchema};
use super::flat::is_flat;
use super::prune::may_match;
use super::stages::{Stage, stages};
use crate::Latest;
use crate::errors::from_arrow;
use crate::row_filter::RowFilter;
use crate::top_k::{FirstRows, LiveBound};

/// Sets of columns that are kept ready: row groups of a file are alike, mostly.
const SETS: usize = 8;

/// Plans that are kept of one fragment: of the objects that it is run over at a time, which are about as many as there
/// are cores.
const PLANS: usize = 16;

/// A plan holds the footer. One with more column chunks takes some megabytes, and is kept alone.
const CHUNKS: usize = 4096;

/// What a plan is made of: rows as they are `wanted`, of `schema`, of which the columns `output` come out, `dictionaries` among
/// them as dictionaries where they are stored as that; and the footer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned<'a> {
    pub(super) location: &'a str,
    pub(super) schema: &'a SchemaRef,
    pub(super) wanted: &'a RowFilter,
    pub(super) output: &'a [usize],
    pub(super) dictionaries: &'a [usize],
    pub(super) metadata: &'a Arc<ParquetMetaData>,
}

/// What is made of a fragment and the footer of a file before any row is read.
#[derive(Debug)]
pub(super) struct Plan {
    /// The footer.
    metadata: Arc<ParquetMetaData>,
    predicate: Option<Expr>,
    pub(super) file: FileSchema,
    /// All columns that are read, those of them that come out, and of these the ones that may as dictionaries.
    pub(super) schema: SchemaRef,
    pub(super) output: Vec<usize>,
    pub(super) dictionaries: Vec<usize>,
    pub(super) stages: Vec<Stage>,
    /// What holds of the first rows in an order, if only those are wanted, and the column they are ordered by.
    pub(super) first: Option<(LiveBound, Field)>,
    /// The columns that come out which may be read as places in a dictionary.
    pub(super) singles: Vec<Single>,
    /// All columns that are read, by their place among all leaves of the file.
    pub(super) leaves: Vec<usize>,
    /// Of each row group, whether it may hold rows that pass, as far as statistics tell.
    kept: Vec<bool>,
    /// Columns that were decoded together before, by their indexes.
    together: Latest<(Vec<usize>, Arc<Columns>)>,
}

/// A column by itself.
#[derive(Debug)]
pub(super) struct Single {
    /// Its index among all columns that are read, and its place among all leaves of the file.
    pub(super) index: usize,
    pub(super) leaf: usize,
    pub(super) columns: Columns,
}

impl Plan {
    fn new(of: Planned<'_>) -> Result<Self> {
        let Planned { location, schema, wanted, output, dictionaries, metadata } = of;
        let file = FileSchema::new(location, metadata)?;
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
            schema: Arc::clone(schema),
            output: output.to_vec(),
            dictionaries: dictionaries.to_vec(),
            stages,
            first,
            together: Latest::default(),
        })
    }

    /// Whether it would be made of the same again, but for where the object lies.
    fn is_of(&self, of: Planned<'_>) -> bool {
        Arc::ptr_eq(&self.metadata, of.metadata)
            && (&self.schema, &self.predicate) == (of.schema, &of.wanted.predicate)
            && (self.output.as_slice(), self.dictionaries.as_slice()) == (of.output, of.dictionaries)
    }

    /// Whether statistics leave the row group.
    pub(super) fn is_kept(&self, group: usize) -> bool {
        self.kept.get(group).copied().unwrap_or(true)
    }

    /// Whether pages may be ruled out, too. Where values lie together, whole row groups show it: of a file where none was ruled
    /// out its pages will not be either, and their index takes a while to read. The file decides, not the piece of it that
    /// is scanned: what is read does not depend on how it is cut.
    pub(super) fn may_rule_out_pages(&self) -> bool {
        self.kept.len() == 1 || self.kept.contains(&false)
    }

    /// The columns of these indexes, decoded together.
    pub(super) fn columns(&self, location: &str, indexes: &[usize]) -> Result<Arc<Columns>> {
        let decoder = || {
            let declared = self.schema.project(indexes).map_err(from_arrow)?;
            let columns = Columns::new(location, Arc::new(declared), &self.file)?;
            Ok((indexes.to_vec(), Arc::new(columns)))
        };
        Ok(self.together.get_or_make(SETS, |(known, _)| known == indexes, decoder)?.1)
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

/// The plans that scans of one fragment made last, for those after them: each piece of an object is a scan, of a few
/// milliseconds, and a plan takes tenths of one.
#[derive(Debug, Default)]
pub(crate) struct LastPlans(Latest<Arc<Plan>>);

impl LastPlans {
    /// Whether there is one.
    pub(super) fn is_made(&self) -> bool {
        !self.0.is_empty()
    }

    /// The one that was made of this, or else a new one.
    pub(super) fn of(&self, of: Planned<'_>) -> Result<Arc<Plan>> {
        if of.wanted.first.is_some() {
            // What holds of the first rows in an order is learned from the rows of one scan.
            return Plan::new(of).map(Arc::new);
        }
        let columns = of.metadata.file_metadata().schema_descr().num_columns();
        let is_large = of.metadata.num_row_groups().saturating_mul(columns) > CHUNKS;
        let most = if is_large { 1 } else { PLANS };
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
            let of = Planned { location: "k", schema, wanted: &wanted, output: &[0], dictionaries: &[], metadata };
            plans.of(of).unwrap()
        };
        let first = objects.each_ref().map(of);
        let again = objects.each_ref().map(of);
        assert!(first.iter().zip(&again).all(|(first, again)| Arc::ptr_eq(first, again)));
        assert!(!Arc::ptr_eq(&first[0], &first[1]));
        (0..PLANS).for_each(|value| drop(of(&footer(value as i64))));
        assert!(!Arc::ptr_eq(&first[0], &of(&objects[0])));
    }
}
