//! How much of a table storage read in earlier scans, by what these looked for.
//!
//! Zones let storage pass over most of a text (`docs/operators.md`), page indexes and dictionaries over most of Parquet.
//! How much that is no sample and no footer tells: it depends on how rows lie, and on what storage was asked before. So the
//! share that a scan read is remembered for the next one that looks for the same.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pushdown::{Expr, Format, Fragment};

use super::catalogue::StampedFile;

/// Of so many predicates of a table; beyond that all are forgotten.
const MOST: usize = 1024;

/// Shares that differ by less than this factor are the same.
const SAME: f64 = 1.2;

/// The shares of one table's bytes that scans read, by the hashes of what they looked for.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    shares: Mutex<BTreeMap<u64, f64>>,
    /// Where they outlive the session.
    file: Option<StampedFile>,
}

impl Seen {
    /// What the file says, if it is about the table as it is.
    pub(super) fn open(file: Option<StampedFile>) -> Self {
        let shares = file.as_ref().and_then(StampedFile::read).unwrap_or_default();
        Self { shares: Mutex::new(shares), file }
    }

    /// The share that the last scan like this one, of objects of so many bytes, read; `None` if all such scans have read
    /// everything.
    pub(crate) fn share(&self, fragment: &Fragment, bytes: u64) -> Option<f64> {
        let looked_for = looked_for(fragment, bytes)?;
        self.lock().get(&looked_for).map(|share| share.clamp(0.0, 1.0))
    }

    /// Remembers the share that a scan read.
    pub(crate) fn note(&self, fragment: &Fragment, bytes: u64, share: f64) {
        let Some(looked_for) = looked_for(fragment, bytes) else { return };
        let mut shares = self.lock();
        let known = shares.get(&looked_for).copied().unwrap_or(1.0);
        if share <= known * SAME && known <= share * SAME {
            return;
        }
        if shares.len() >= MOST {
            shares.clear();
        }
        shares.insert(looked_for, share);
        if let Some(file) = &self.file {
            file.write(&*shares);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, f64>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The hash of a scan's predicate, of Parquet of its columns too, and of how much it is of; `None` if it takes all rows, or has
/// keys of a join, which are others each time.
fn looked_for(fragment: &Fragment, bytes: u64) -> Option<u64> {
    let predicate = fragment.predicate.as_ref()?;
    let conjuncts = if let Expr::And(all) = predicate { all.as_slice() } else { std::slice::from_ref(predicate) };
    if conjuncts.iter().any(|conjunct| matches!(conjunct, Expr::Bloom { .. })) {
        return None;
    }
    let columns = if fragment.format == Format::Parquet { fragment.columns() } else { vec![] };
    // An index has columns of its own.
    let names: Vec<&String> = fragment.schema.fields().iter().map(|field| field.name()).collect();
    let mut hasher = DefaultHasher::new();
    format!("{predicate:?} {columns:?} {names:?} {bytes}").hash(&mut hasher);
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};
    use pushdown::{CompareOp, Expr, Literal, NamedExpr, Output};

    use super::*;

    fn below(value: i64, format: Format, column: usize) -> Fragment {
        let fields = ["a", "b", "c"].map(|name| Field::new(name, DataType::Int64, true));
        let predicate = Expr::compare(CompareOp::Lt, Expr::Column(1), Expr::Literal(Literal::Int64(value)));
        Fragment {
            format,
            schema: Arc::new(Schema::new(fields.to_vec())),
            predicate: Some(predicate),
            output: Output::Rows(vec![NamedExpr { expr: Expr::Column(column), name: "it".into() }]),
            order: vec![],
            limit: None,
            project: None,
        }
    }

    #[test]
    fn the_last_scan_is_remembered_unless_it_read_everything() {
        let below = |value| below(value, Format::Parquet, 0);
        let folder = tempfile::tempdir().unwrap();
        let file = |stamp: &str| Some(StampedFile::new(folder.path().join("seen.json"), stamp.to_owned()));
        let seen = Seen::open(file("a"));
        seen.note(&below(1), 9, 1.0);
        assert_eq!(seen.share(&below(1), 9), None, "as expected");
        seen.note(&below(1), 9, 0.01);
        seen.note(&below(1), 9, 0.011);
        assert_eq!((seen.share(&below(1), 9), seen.share(&below(2), 9)), (Some(0.01), None));
        assert_eq!(Seen::open(file("a")).share(&below(1), 9), Some(0.01));
        assert_eq!(Seen::open(file("b")).share(&below(1), 9), None, "another version of the table");
        seen.note(&below(1), 9, 1.0);
        assert_eq!(seen.share(&below(1), 9), Some(1.0), "storage has forgotten");
        (0..=MOST as i64).for_each(|value| seen.note(&below(value), 9, 0.5));
        assert!(seen.lock().len() <= MOST);
    }

    #[test]
    fn columns_count_where_they_are_read_on_their_own() {
        let seen = Seen::default();
        for (format, other) in [(Format::Parquet, None), (Format::Csv(pushdown::CsvOptions::default()), Some(0.5))] {
            seen.note(&below(1, format.clone(), 0), 9, 0.5);
            assert_eq!(seen.share(&below(1, format.clone(), 0), 9), Some(0.5));
            assert_eq!(seen.share(&below(1, format.clone(), 2), 9), other, "{format:?}");
        }
        let all = Fragment { predicate: None, ..below(1, Format::Parquet, 0) };
        seen.note(&all, 9, 0.5);
        assert_eq!(seen.share(&all, 9), None);
    }
}
