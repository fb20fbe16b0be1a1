//! What earlier scans of a table found out that neither a sample nor footers tell, by what they looked for.
//!
//! - **Bytes**: zones let storage pass over most of a text (`docs/operators.md`), page indexes and dictionaries over most of
//!   Parquet. How much that is depends on how rows lie, and on what storage was asked before.
//! - **Rows**: how many passed a predicate.
//! - **Keys**: how many the build side of a join had.
//! - **Time**: what a byte took a core of storage and of the engine. A rare number is found ten times as fast as a LIKE is
//!   decided, which no rate of an endpoint tells.
//!
//! The next scan that looks for the same is planned by what the last one found, as in LEO, DB2's learning optimizer (Stillger
//! et al., VLDB 2001).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pushdown::{Expr, Format, Fragment, Output};
use serde::{Deserialize, Serialize};

use super::catalogue::StampedFile;

/// So many figures, and times, are remembered of a table; beyond that all of their kind are forgotten.
const MOST: usize = 1024;

/// Figures that differ by less than this factor are the same.
const SAME: f64 = 1.2;

/// Whose core.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Core {
    /// Of storage, for a fragment.
    Storage,
    /// Of the engine, for plain reads.
    Engine,
}

/// Figures of scans of one table.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    kept: Mutex<Kept>,
    /// Where they outlive the session.
    file: Option<StampedFile>,
}

/// By the hashes of what they are of.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Kept {
    figures: BTreeMap<u64, f64>,
    /// Seconds for a byte.
    times: BTreeMap<u64, f64>,
}

impl Seen {
    /// What the file says, if it is about the table as it is.
    pub(super) fn open(file: Option<StampedFile>) -> Self {
        let kept = file.as_ref().and_then(StampedFile::read).unwrap_or_default();
        Self { kept: Mutex::new(kept), file }
    }

    /// The share that the last scan like this one, of objects of so many bytes, read; `None` if all such scans have read
    /// everything.
    pub(crate) fn share(&self, fragment: &Fragment, bytes: u64) -> Option<f64> {
        self.figure(bytes_of(fragment, bytes)?).map(|share| share.clamp(0.0, 1.0))
    }

    /// Remembers the share that a scan read.
    pub(crate) fn note(&self, fragment: &Fragment, bytes: u64, share: f64) {
        if let Some(of) = bytes_of(fragment, bytes) {
            self.put(of, share, Some(1.0));
        }
    }

    /// How many rows of objects of so many bytes passed the predicate the last time; `None` if nobody saw that.
    pub(crate) fn rows(&self, fragment: &Fragment, bytes: u64) -> Option<f64> {
        self.figure(rows_of(fragment, bytes)?)
    }

    /// Remembers how many rows passed, where so many were not to be expected.
    pub(crate) fn note_rows(&self, fragment: &Fragment, bytes: u64, rows: u64, expected: f64) {
        if let Some(of) = rows_of(fragment, bytes) {
            self.put(of, rows as f64, Some(expected));
        }
    }

    /// How many keys this side of a join had the last time.
    pub(crate) fn keys(&self, side: u64) -> Option<usize> {
        self.figure(side).map(|keys| keys as usize)
    }

    /// Remembers how many keys a side of a join had.
    pub(crate) fn note_keys(&self, side: u64, keys: usize) {
        self.put(side, keys as f64, None);
    }

    /// Seconds that a byte took the last times that these columns were scanned for this predicate; `None` if nobody saw that.
    pub(crate) fn byte_s(&self, fragment: &Fragment, predicate: Option<&Expr>, core: Core) -> Option<f64> {
        let byte_s = self.lock().times.get(&time_of(fragment, predicate, core)).copied();
        byte_s.filter(|byte_s| byte_s.is_finite() && *byte_s > 0.0)
    }

    /// Remembers what a byte took. Caches and clocks are shared: what is faster counts at once, what is slower by half.
    pub(crate) fn note_byte_s(&self, fragment: &Fragment, core: Core, byte_s: f64) {
        let of = time_of(fragment, fragment.predicate.as_ref(), core);
        let mut kept = self.lock();
        let known = kept.times.get(&of).copied();
        let believed = known.filter(|known| *known < byte_s).map_or(byte_s, |known| f64::midpoint(known, byte_s));
        remember(&mut kept.times, of, believed);
        if !known.is_some_and(|known| is_same(known, byte_s)) {
            self.write(&kept);
        }
    }

    fn figure(&self, of: u64) -> Option<f64> {
        self.lock().figures.get(&of).copied()
    }

    /// Remembers a figure, unless it is about what is `expected` where nothing is remembered.
    fn put(&self, of: u64, figure: f64, expected: Option<f64>) {
        let mut kept = self.lock();
        if !kept.figures.get(&of).copied().or(expected).is_some_and(|known| is_same(known, figure)) {
            remember(&mut kept.figures, of, figure);
            self.write(&kept);
        }
    }

    fn write(&self, kept: &Kept) {
        if let Some(file) = &self.file {
            file.write(kept);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_same(known: f64, figure: f64) -> bool {
    figure <= known * SAME && known <= figure * SAME
}

fn remember(all: &mut BTreeMap<u64, f64>, of: u64, figure: f64) {
    if all.len() >= MOST && !all.contains_key(&of) {
        all.clear();
    }
    all.insert(of, figure);
}

/// The hash of what a scan reads bytes for: its predicate, of Parquet its columns too.
fn bytes_of(fragment: &Fragment, bytes: u64) -> Option<u64> {
    let columns = if fragment.format == Format::Parquet { fragment.columns() } else { vec![] };
    Some(hash_of(&format!("{} {columns:?}", looked_for(fragment, bytes)?)))
}

/// The hash of what passes a predicate.
fn rows_of(fragment: &Fragment, bytes: u64) -> Option<u64> {
    Some(hash_of(&format!("rows of {}", looked_for(fragment, bytes)?)))
}

/// The hash of what a scan looks at, for what, and whether it adds values up.
fn time_of(fragment: &Fragment, predicate: Option<&Expr>, core: Core) -> u64 {
    let adds = matches!(fragment.output, Output::Aggregate { .. });
    hash_of(&format!("{core:?} {adds} for {predicate:?} {:?} {:?}", fragment.columns(), names(fragment)))
}

/// A scan's predicate, and how much it is of; `None` if it takes all rows, or has keys of a join, which are others each time.
fn looked_for(fragment: &Fragment, bytes: u64) -> Option<String> {
    let predicate = fragment.predicate.as_ref()?;
    if predicate.conjuncts().into_iter().any(|conjunct| matches!(conjunct, Expr::Bloom { .. })) {
        return None;
    }
    Some(format!("{predicate:?} {:?} {bytes}", names(fragment)))
}

/// Of all columns: an index has columns of its own.
fn names(fragment: &Fragment) -> Vec<&String> {
    fragment.schema.fields().iter().map(|field| field.name()).collect()
}

/// The same in every process.
pub(crate) fn hash_of(what: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
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
        assert!(seen.lock().figures.len() <= MOST);
    }

    #[test]
    fn rows_and_keys_are_remembered_beside_bytes() {
        let seen = Seen::default();
        let (text, other) = (below(1, Format::Csv(pushdown::CsvOptions::default()), 0), below(2, Format::Parquet, 0));
        seen.note(&text, 9, 0.5);
        seen.note_rows(&text, 9, 10, 11.0);
        assert_eq!(seen.rows(&text, 9), None, "as expected");
        seen.note_rows(&text, 9, 0, 11.0);
        seen.note_keys(hash_of("a side"), 7);
        assert_eq!((seen.share(&text, 9), seen.rows(&text, 9)), (Some(0.5), Some(0.0)));
        assert_eq!((seen.rows(&text, 8), seen.rows(&other, 9)), (None, None), "other objects, another predicate");
        seen.note_rows(&text, 9, 3, 0.0);
        assert_eq!(seen.rows(&text, 9), Some(3.0), "none were no rule");
        assert_eq!((seen.keys(hash_of("a side")), seen.keys(hash_of("another"))), (Some(7), None));
    }

    #[test]
    fn time_is_of_a_predicate_and_its_columns() {
        let (seen, csv) = (Seen::default(), Format::Csv(pushdown::CsvOptions::default()));
        let scan = below(1, csv.clone(), 0);
        seen.note_byte_s(&scan, Core::Storage, 4e-9);
        let of = |scan: &Fragment, core| seen.byte_s(scan, scan.predicate.as_ref(), core);
        let byte_s = |scan: &Fragment| (of(scan, Core::Storage), of(scan, Core::Engine));
        assert_eq!(byte_s(&scan), (Some(4e-9), None));
        assert_eq!(byte_s(&below(1, csv.clone(), 2)), (None, None), "other columns");
        assert_eq!(byte_s(&below(2, csv, 0)), (None, None), "another predicate");
        let adds = Output::Aggregate { groups: vec![], calls: vec![] };
        assert_eq!(byte_s(&Fragment { output: adds, ..scan.clone() }).0, None, "adding takes time");
        seen.note_byte_s(&scan, Core::Storage, 6e-9);
        assert_eq!(byte_s(&scan).0, Some(5e-9), "somebody may have wanted the core");
        seen.note_byte_s(&scan, Core::Storage, 2e-9);
        assert_eq!(byte_s(&scan).0, Some(2e-9), "nobody is faster than he can be");
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
