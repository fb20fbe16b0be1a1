//! Limits the number of rows on which an expression is evaluated at a time, by the memory of
//! intermediate text.
//!
//! Text that is concatenated, cast or selected by a CASE is computed for all rows of a batch before
//! it is used. A short query can use the same column a thousand times, and a constant of some
//! hundred kilobytes is repeated for each row.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use pushdowndb_contract::{Expr, Literal};

use crate::batch::slice_bytes;
use crate::limits::MAX_EVALUATED_BYTES;

/// The length up to which a constant counts no more than a number, in bytes.
const MAX_SHORT_TEXT_BYTES: usize = 64;

/// The bytes of intermediate text per row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RowWeight {
    constants: usize,
    /// The number of times each column is used.
    columns: BTreeMap<usize, usize>,
}

impl RowWeight {
    /// Returns the weight of a row for all of these expressions together; `None` if they compute no
    /// text.
    pub(crate) fn of<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> Option<Self> {
        let mut weight = Self::default();
        for expr in exprs {
            weight.add(expr, matches!(expr, Expr::Literal(_)));
        }
        (weight != Self::default()).then_some(weight)
    }

    /// Adds the text that `expr` computes. `is_made` is true if `expr` is an operand of computed
    /// text.
    fn add(&mut self, expr: &Expr, is_made: bool) {
        let is_made = match expr {
            Expr::Column(index) if is_made => return *self.columns.entry(*index).or_default() += 1,
            Expr::Literal(Literal::Utf8(text)) if is_made => {
                let heavy = if text.len() > MAX_SHORT_TEXT_BYTES { text.len() } else { 0 };
                return self.constants = self.constants.saturating_add(heavy);
            }
            Expr::Column(_) | Expr::Literal(_) => return,
            Expr::Call(..) | Expr::Case { .. } | Expr::Cast(..) => true,
            Expr::Like { pattern, .. } => !matches!(**pattern, Expr::Literal(_)),
            // The operands are used for a Boolean or a number, not for text.
            Expr::Compare(..)
            | Expr::And(_)
            | Expr::Or(_)
            | Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::Arithmetic(..)
            | Expr::Negate(_)
            | Expr::InList { .. }
            | Expr::Bloom { .. } => false,
        };
        expr.children().into_iter().for_each(|child| self.add(child, is_made));
    }

    /// Returns the number of rows of the batch to evaluate at a time.
    pub(crate) fn rows_at_once(&self, batch: &RecordBatch) -> usize {
        let rows = batch.num_rows().max(1);
        let named = self.columns.iter().filter_map(|(index, times)| {
            let bytes = batch.columns().get(*index).map(text_bytes)?;
            Some(bytes.saturating_mul(*times))
        });
        let row = (named.fold(0, usize::saturating_add) / rows).saturating_add(self.constants);
        (MAX_EVALUATED_BYTES / row.max(1)).max(1)
    }
}

/// Returns the bytes of an array's own values, in constant time.
pub(crate) fn text_bytes(array: &ArrayRef) -> usize {
    let offsets = |ends: Option<(i64, i64)>| ends.map_or(0, |(first, last)| usize::try_from(last - first).unwrap_or(0));
    let views = array.len().saturating_mul(size_of::<u128>());
    match array.data_type() {
        DataType::Utf8 => {
            let ends = array.as_string::<i32>().value_offsets();
            offsets(ends.first().zip(ends.last()).map(|(first, last)| (i64::from(*first), i64::from(*last))))
        }
        DataType::LargeUtf8 => {
            let ends = array.as_string::<i64>().value_offsets();
            offsets(ends.first().zip(ends.last()).map(|(first, last)| (*first, *last)))
        }
        DataType::Utf8View => array.as_string_view().total_buffer_bytes_used().saturating_add(views),
        DataType::BinaryView => array.as_binary_view().total_buffer_bytes_used().saturating_add(views),
        _ => slice_bytes(array),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{StringArray, StringViewArray};
    use pushdowndb_contract::{CompareOp, Function};

    use super::*;

    fn batch(rows: usize, length: usize) -> RecordBatch {
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|_| "x".repeat(length))));
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..rows).map(|_| "x".repeat(length))));
        RecordBatch::try_from_iter([("a", texts), ("b", views)]).unwrap()
    }

    fn call(arguments: Vec<Expr>) -> Expr {
        Expr::Call(Function::Concat, arguments)
    }

    #[test]
    fn what_makes_no_text_is_evaluated_as_it_comes() {
        let long = || Expr::text("x".repeat(1_000_000));
        let compared = Expr::compare(CompareOp::Eq, Expr::Column(0), long());
        assert_eq!(RowWeight::of([&Expr::Column(0), &Expr::int(1), &compared]), None);
        assert!(RowWeight::of([&long()]).is_some(), "one for each row");
    }

    #[test]
    fn few_rows_at_a_time_where_a_row_makes_much() {
        let batch = batch(1000, 10_000);
        let doubled = call(vec![Expr::Column(0), Expr::Column(0)]);
        let twice = RowWeight::of([&doubled]).unwrap().rows_at_once(&batch);
        assert!((800..=850).contains(&twice), "{twice}");
        let view = RowWeight::of([&call(vec![Expr::Column(1), Expr::Column(1)])]).unwrap().rows_at_once(&batch);
        assert!((800..=850).contains(&view), "{view}");
        let thousand = (0..500).fold(Expr::Column(0), |sum, _| call(vec![sum, doubled.clone()]));
        assert_eq!(RowWeight::of([&thousand]).unwrap().rows_at_once(&batch), 1);
        let constant = call(vec![Expr::Column(0), Expr::text("x".repeat(4_000_000))]);
        assert_eq!(RowWeight::of([&constant]).unwrap().rows_at_once(&batch), 4);
    }
}
