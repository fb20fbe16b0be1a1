//! The stages of a filter. Each stage decodes its columns for the rows that passed earlier stages.
//!
//! Conditions on a single column come first, each as a separate stage, which may be decided without
//! decoding rows ([`crate::parquet::decode::dictionary`]). Text comes after columns that are
//! cheaper to decode. Then come conditions on several columns, join keys, and the bound of the
//! first rows of an order. If a condition may fail on some rows, all conditions form a single
//! stage, in the order in which the query has them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use ::parquet::basic::Type;
use ::parquet::column::page::Page;
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::schema::types::ColumnDescPtr;
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{and, cast};
use arrow::datatypes::Schema;
use pushdowndb_contract::{Expr, Result};

use crate::batch::record_batch;
use crate::error::from_arrow;
use crate::expr::columns::{place, renumber};
use crate::expr::evaluator::Evaluator;
use crate::expr::lower::MAX_SHORT_LIST;
use crate::operators::row_filter::RowFilter;
use crate::operators::top_k::live::LiveBound;
use crate::parquet::decode::batches::{Columns, FileSchema};
use crate::parquet::decode::dictionary::{Answers, decide};
use crate::parquet::decode::levels::is_flat;
use crate::parquet::decode::text_search::TextSearch;
use crate::parquet::read::pages::Pages;
use crate::runtime::memory::MemoryBudget;
use crate::text::predicate::condition::stored_range;

/// A condition and its columns.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) columns: Columns,
    /// The indexes of the columns among those that are read.
    pub(crate) indexes: Vec<usize>,
    predicate: Option<Evaluator>,
    /// The bound of the first rows of an order.
    bound: Option<LiveBound>,
    /// The only column, if it is flat, so that its pages can be evaluated directly.
    pub(crate) flat: Option<(usize, ColumnDescPtr)>,
    /// The bytes that matching values of that column must contain, if it is text.
    pub(crate) search: Option<TextSearch>,
    /// The range of selected numbers, if the condition is only a range.
    pub(crate) range: Option<RangeInclusive<i64>>,
}

pub(crate) fn stages(location: &str, wanted: &RowFilter, schema: &Schema, file: &FileSchema) -> Result<Vec<Stage>> {
    let new = |predicate: Option<Expr>, first: bool| {
        let wanted = RowFilter { predicate, first: wanted.first.clone().filter(|_| first) };
        Stage::new(location, &wanted, schema, file)
    };
    let mut stages = Vec::new();
    if let Some(predicate) = &wanted.predicate {
        let all = new(Some(predicate.clone()), false)?;
        if all.indexes.len() < 2 || !all.predicate.as_ref().is_some_and(Evaluator::cannot_fail) {
            stages.push(all);
        } else {
            // Ordered by rank, and then as written. Conditions on the same column are combined.
            let mut ranked: Vec<(Place, Vec<Expr>)> = Vec::new();
            for conjunct in predicate.clone().into_conjuncts() {
                let only = match conjunct.columns().as_slice() {
                    [column] => Some(*column),
                    _ => None,
                };
                let key = (Rank::of(&conjunct, schema), only);
                match ranked.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, conjuncts)) => conjuncts.push(conjunct),
                    None => ranked.push((key, vec![conjunct])),
                }
            }
            // Among join keys, single columns come before several columns together.
            ranked.sort_by_key(|((rank, only), _)| (*rank, only.is_none()));
            for (_, conjuncts) in ranked {
                stages.push(new(Some(Expr::conjunction(conjuncts)), false)?);
            }
        }
    }
    if wanted.first.is_some() {
        stages.push(new(None, true)?);
    }
    Ok(stages)
}

/// The cost of a condition, cheapest first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Rank {
    Number,
    Text,
    SeveralColumns,
    /// A lookup in a Bloom filter or a long list, for each row that passed all other conditions.
    Keys,
}

/// The key by which conditions are grouped: their rank, and the only column that they read.
type Place = (Rank, Option<usize>);

impl Rank {
    fn of(condition: &Expr, schema: &Schema) -> Self {
        let of_keys = |expr: &Expr| match expr {
            Expr::Bloom { .. } => true,
            Expr::InList { list, .. } => list.len() > MAX_SHORT_LIST,
            _ => false,
        };
        if of_keys(condition) || matches!(condition, Expr::Or(any) if any.iter().any(of_keys)) {
            return Self::Keys;
        }
        match condition.columns().as_slice() {
            [column] if schema.fields().get(*column).is_some_and(|field| field.data_type().is_string()) => Self::Text,
            [_] => Self::Number,
            _ => Self::SeveralColumns,
        }
    }
}

impl Stage {
    fn new(location: &str, wanted: &RowFilter, schema: &Schema, file: &FileSchema) -> Result<Self> {
        let indexes = wanted.columns();
        let columns = Columns::new(location, schema.project(&indexes).map_err(from_arrow)?.into(), file)?;
        let condition = wanted.predicate.as_ref().map(|predicate| renumber(predicate, &indexes));
        let predicate = condition.as_ref().map(|condition| Evaluator::predicate(condition, columns.schema()));
        let predicate = predicate.transpose()?;
        let bound = wanted
            .first
            .as_ref()
            .map(|first| first.learning_bound(columns.schema(), &mut |index| place(&indexes, index)));
        let bound = bound.transpose()?.flatten();
        let flat = match columns.leaves.as_slice() {
            [leaf] if indexes.len() == 1 && bound.is_none() => {
                Some((*leaf, columns.descriptor(*leaf))).filter(|(_, column)| is_flat(column))
            }
            _ => None,
        };
        let is_text = |(_, column): &(usize, ColumnDescPtr)| {
            let stored = file.field(column.name());
            let declared = columns.schema().fields().first();
            column.physical_type() == Type::BYTE_ARRAY
                && stored.is_some_and(|field| field.data_type().is_string())
                && declared.is_some_and(|field| field.data_type().is_string())
        };
        // The condition must not fail on values for which it is not evaluated.
        let cannot_fail = predicate.as_ref().is_some_and(Evaluator::cannot_fail);
        let search = match &condition {
            Some(condition) if cannot_fail && flat.as_ref().is_some_and(is_text) => TextSearch::new(condition),
            _ => None,
        };
        let range = match (&predicate, columns.schema().fields().first()) {
            (Some(predicate), Some(field)) if flat.is_some() => stored_range(predicate.conjuncts(), field.data_type()),
            _ => None,
        };
        Ok(Self { columns, indexes, predicate, bound, flat, search, range })
    }

    /// Returns whether each row of the batch passes. Only the rows in `asked` can pass, if it is
    /// given.
    pub(crate) fn matches(&self, batch: &RecordBatch, asked: Option<&BooleanArray>) -> Result<BooleanArray> {
        let mut passed = match &self.predicate {
            Some(predicate) => predicate.matches(batch)?,
            None => BooleanArray::from(vec![true; batch.num_rows()]),
        };
        if let Some(asked) = asked {
            passed = and(&passed, asked).map_err(from_arrow)?;
        }
        self.bound.as_ref().map_or(Ok(passed.clone()), |bound| bound.matches_among(batch, &passed))
    }

    /// Returns whether each of `rows` rows passes, if the pages of the only column decide it
    /// without decoding rows; otherwise returns `None`. `is_coded` is true if all values are
    /// dictionary codes.
    pub(crate) fn decide(
        &self,
        pages: Pages,
        is_coded: bool,
        rows: usize,
        memory: &MemoryBudget,
    ) -> ParquetResult<Option<BooleanBuffer>> {
        let Some((_, column)) = &self.flat else { return Ok(None) };
        let answers = pages.dictionary().and_then(|dictionary| self.answers(dictionary, memory));
        if is_coded {
            let Some(answers) = &answers else { return Ok(None) };
            if !answers.any(column) {
                return Ok(Some(BooleanBuffer::new_unset(rows)));
            }
            return decide(pages, column, Some(answers), None, rows);
        }
        match &self.search {
            Some(search) => {
                let of_values = |values: &[u8], count: usize| self.searched(search, values, count);
                decide(pages, column, answers.as_ref(), Some(&of_values), rows)
            }
            None => Ok(None),
        }
    }

    /// Evaluates the condition on the values of a dictionary. Returns `None` if too much memory is
    /// needed, or if the condition fails on a value, which may not belong to any relevant row.
    fn answers(&self, dictionary: &Page, memory: &MemoryBudget) -> Option<Answers> {
        let predicate = self.predicate.as_ref()?;
        let (values, _reserved) = self.columns.decode_dictionary(dictionary, memory).ok()??;
        let values = predicate.matches(&values).ok()?;
        let schema = self.columns.schema();
        let nulls =
            schema.fields().iter().map(|field| field.is_nullable().then(|| new_null_array(field.data_type(), 1)));
        let null = match nulls.collect::<Option<Vec<_>>>() {
            Some(nulls) => {
                let null = record_batch(schema, nulls, 1).and_then(|batch| predicate.matches(&batch)).ok()?;
                !null.is_empty() && null.value(0)
            }
            // A NULL in a required column is an error, which decoding reports.
            None if self.flat.as_ref().is_some_and(|(_, column)| column.max_def_level() > 0) => return None,
            None => false,
        };
        Some(Answers { values: values.values().iter().map(u8::from).collect(), null })
    }

    /// Returns whether each of `count` values of a plain page passes.
    fn searched(&self, search: &TextSearch, values: &[u8], count: usize) -> ParquetResult<BooleanBuffer> {
        let candidates = search.find(values, count)?;
        let mut passed = vec![false; count];
        if let (Some(predicate), false) = (&self.predicate, candidates.is_empty()) {
            let external = |error: pushdowndb_contract::Error| ParquetError::External(Box::new(error));
            let schema = self.columns.schema();
            let mut column: ArrayRef = Arc::new(StringArray::from_iter_values(candidates.iter().map(|(_, text)| text)));
            for field in schema.fields() {
                column = cast(&column, field.data_type()).map_err(from_arrow).map_err(external)?;
            }
            let matches = record_batch(schema, vec![column], candidates.len())
                .and_then(|batch| predicate.matches(&batch))
                .map_err(external)?;
            for ((place, _), matches) in candidates.iter().zip(matches.values()) {
                if let Some(passed) = passed.get_mut(*place) {
                    *passed = matches;
                }
            }
        }
        Ok(BooleanBuffer::from(passed))
    }
}
