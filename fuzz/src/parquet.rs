//! Parquet files, whole and damaged.

use arrow::datatypes::DataType;
use pushdowndb_contract::{CompareOp, Expr, Format, Fragment};

use crate::scans::{Reading, read, schema};

pub fn run(input: &[u8]) {
    let columns = schema([("a", DataType::Int64), ("b", DataType::Utf8)]);
    let all = Fragment::all(Format::Parquet, columns);
    let predicate = Some(Expr::compare(CompareOp::Gt, Expr::Column(0), Expr::int(7)));
    let some = Fragment { predicate, ..all.clone() };
    let whole = read(&all, input, &Reading::default());
    let at_hand = Reading { at_hand: true, ..Reading::default() };
    assert_eq!(read(&all, input, &at_hand), whole, "page by page");
    assert_eq!(read(&some, input, &at_hand), read(&some, input, &Reading::default()), "some rows, page by page");
    // The selected rows must be rows of the whole; pruning may skip damaged parts.
    if let (Ok(whole), Ok(some)) = (whole, read(&some, input, &Reading::default())) {
        assert!(some.len() <= whole.len(), "{} rows of {}", some.len(), whole.len());
        assert!(some.iter().all(|row| whole.contains(row)), "{some:?} of {whole:?}");
    }
}
