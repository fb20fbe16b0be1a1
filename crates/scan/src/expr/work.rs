//! Limits the work of one evaluation, so that it can be interrupted between evaluations.
//!
//! Kernels of Arrow and DataFusion process whole batches and cannot be interrupted. Those used here
//! take time linear in rows and bytes, so the work of an expression is bounded by rows and bytes
//! times operators. If that would exceed some ten milliseconds, because of thousands of operators
//! or of long texts, the batch is halved until it does not.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use pushdowndb_contract::{Expr, Function, Literal, Result};

use crate::runtime::interrupt::check_interrupt;

/// The maximum number of rows at once, multiplied by the number of operators.
const MAX_ROWS: usize = 1 << 18;

/// The maximum number of bytes of text at once, multiplied by the number of operators.
const MAX_BYTES: usize = 16 << 20;

/// The length from which constants are counted for each row, in bytes.
const MIN_LONG_BYTES: usize = 256;

/// The work of some expressions per row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    operators: usize,
    /// The bytes of long constants.
    constant_bytes: usize,
    /// The columns that operators read.
    columns: Vec<usize>,
}

impl Work {
    /// Returns the work of these expressions. Expects that their depth was checked.
    pub(crate) fn of<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> Self {
        Self::with_operators(exprs, 0)
    }

    /// Returns the work of these expressions, plus one operation on each of their values, such as
    /// comparing or hashing.
    pub(crate) fn of_read<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> Self {
        Self::with_operators(exprs, 1)
    }

    fn with_operators<'a>(exprs: impl IntoIterator<Item = &'a Expr>, more: usize) -> Self {
        let mut work = Self::default();
        for expr in exprs {
            let before = work.operators;
            work.operators += more;
            work.add(expr);
            if work.operators > before {
                work.columns.extend(expr.columns());
            }
        }
        work.columns.sort_unstable();
        work.columns.dedup();
        work
    }

    fn add(&mut self, expr: &Expr) {
        match expr {
            Expr::Column(_) => return,
            Expr::Literal(literal) => {
                if let Literal::Utf8(text) = literal
                    && text.len() > MIN_LONG_BYTES
                {
                    self.constant_bytes += text.len();
                }
                return;
            }
            _ => self.operators += 1,
        }
        // Constants that are prepared once instead of for each row.
        let prepared = |child: &&Expr| {
            let is_prepared = match expr {
                Expr::InList { .. } => true,
                Expr::Like { pattern, .. } => std::ptr::eq(*child, &**pattern),
                Expr::Call(function, args) => {
                    *function == Function::Substring && args.first().is_some_and(|first| std::ptr::eq(*child, first))
                }
                _ => false,
            };
            is_prepared && matches!(child, Expr::Literal(_))
        };
        expr.children().into_iter().filter(|child| !prepared(child)).for_each(|child| self.add(child));
    }

    /// Returns whether the whole batch may be processed at once.
    pub(crate) fn fits(&self, batch: &RecordBatch) -> bool {
        if self.operators == 0 {
            return true;
        }
        let rows = batch.num_rows();
        let texts = self.columns.iter().filter_map(|column| batch.columns().get(*column)).map(text_bytes);
        let bytes = texts.fold(rows.saturating_mul(self.constant_bytes), usize::saturating_add);
        rows.saturating_mul(self.operators) <= MAX_ROWS && bytes.saturating_mul(self.operators) <= MAX_BYTES
    }

    /// Returns the number of rows at the start of the batch that may be processed at once, at least
    /// one.
    pub(crate) fn rows_at_once(&self, batch: &RecordBatch) -> usize {
        let mut rows = batch.num_rows();
        while rows > 1 && !self.fits(&batch.slice(0, rows)) {
            rows /= 2;
        }
        rows
    }

    /// Splits the batch into slices that may be processed at once.
    pub(crate) fn pieces(&self, batch: &RecordBatch) -> Vec<RecordBatch> {
        let rows = batch.num_rows();
        if rows < 2 || self.fits(batch) {
            return vec![batch.clone()];
        }
        let mut pieces = self.pieces(&batch.slice(0, rows / 2));
        pieces.append(&mut self.pieces(&batch.slice(rows / 2, rows - rows / 2)));
        pieces
    }

    /// Calls `f` with the batch, or with slices of it if the whole is too much work. Checks the
    /// interrupt before each call.
    pub(crate) fn in_pieces(&self, batch: &RecordBatch, f: &mut dyn FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
        check_interrupt()?;
        let rows = batch.num_rows();
        if rows < 2 || self.fits(batch) {
            return f(batch);
        }
        self.in_pieces(&batch.slice(0, rows / 2), f)?;
        self.in_pieces(&batch.slice(rows / 2, rows - rows / 2), f)
    }
}

/// Returns the bytes of the texts of a column. Text that several rows share is counted for each
/// row.
fn text_bytes(column: &ArrayRef) -> usize {
    fn between<O: arrow::array::OffsetSizeTrait>(offsets: &[O]) -> usize {
        let span = offsets.first().zip(offsets.last());
        span.map_or(0, |(first, last)| last.as_usize().saturating_sub(first.as_usize()))
    }
    let of_views = |views: &[u128], buffers: usize| match buffers {
        // Texts of at most twelve bytes.
        0 => 0,
        _ => views.iter().map(|view| *view as u32 as usize).sum(),
    };
    match column.data_type() {
        DataType::Utf8 => between(column.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => between(column.as_string::<i64>().value_offsets()),
        DataType::Binary => between(column.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => between(column.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => of_views(column.as_string_view().views(), column.as_string_view().data_buffers().len()),
        DataType::BinaryView => of_views(column.as_binary_view().views(), column.as_binary_view().data_buffers().len()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringViewArray};
    use pushdowndb_contract::CompareOp;

    use super::*;

    fn equal(value: Expr) -> Expr {
        Expr::compare(CompareOp::Eq, Expr::Column(0), value)
    }

    fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
        RecordBatch::try_from_iter(columns.into_iter().map(|column| ("c", column))).unwrap()
    }

    fn pieces(exprs: &[Expr], batch: &RecordBatch) -> Vec<usize> {
        let mut pieces = vec![];
        let work = Work::of(exprs);
        let mut note = |piece: &RecordBatch| {
            pieces.push(piece.num_rows());
            Ok(())
        };
        work.in_pieces(batch, &mut note).unwrap();
        assert_eq!(pieces.iter().sum::<usize>(), batch.num_rows());
        assert!(pieces.first().is_some_and(|first| work.rows_at_once(batch) >= *first));
        pieces
    }

    #[test]
    fn usual_expressions_take_whole_batches() {
        let numbers = batch(vec![Arc::new(Int64Array::from_iter_values(0..8192))]);
        assert_eq!(pieces(&[equal(Expr::int(1)), Expr::Column(0)], &numbers), [8192]);
        let list =
            Expr::InList { expr: Expr::Column(0).into(), list: (0..100_000).map(Expr::int).collect(), negated: false };
        assert_eq!(pieces(&[list], &numbers), [8192]);
        let texts = StringViewArray::from_iter_values((0..8192).map(|i| format!("a text of some length, number {i}")));
        assert_eq!(pieces(&[equal(Expr::Literal(Literal::Utf8("x".into())))], &batch(vec![Arc::new(texts)])), [8192]);
    }

    #[test]
    fn many_operators_and_long_texts_take_pieces() {
        let numbers = batch(vec![Arc::new(Int64Array::from_iter_values(0..8192))]);
        let many = Expr::Or((0..5_000).map(|i| equal(Expr::int(i))).collect());
        assert!(pieces(&[many], &numbers).iter().all(|rows| *rows <= 128));
        let long = equal(Expr::Literal(Literal::Utf8("x".repeat(200_000))));
        assert!(pieces(std::slice::from_ref(&long), &numbers).iter().all(|rows| *rows <= 128));
        // One text of a megabyte, shared by eight thousand rows.
        let text = StringViewArray::from_iter_values(["x".repeat(1 << 20)]);
        let many = arrow::compute::take(&text, &arrow::array::UInt32Array::from(vec![0; 8192]), None).unwrap();
        let many = batch(vec![many]);
        assert!(pieces(&[equal(Expr::Column(0))], &many).iter().all(|rows| *rows <= 16));
        assert_eq!(pieces(&[Expr::Column(0)], &many), [8192], "a column as it is");
    }
}
