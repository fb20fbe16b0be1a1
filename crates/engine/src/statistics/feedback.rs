//! Feedback of earlier scans of a table: figures that neither a sample nor footers show.
//!
//! - **Bytes**: zones let storage skip most of a text (`docs/operators.md`), and page indexes and
//!   dictionaries most of a Parquet object. How much is skipped depends on the order of the rows,
//!   and on earlier requests.
//! - **Rows**: the rows that passed a predicate.
//! - **Keys**: the keys of a join's build side.
//! - **Time**: the seconds per byte on a core of storage and of the engine. A rare number is found
//!   ten times as fast as a LIKE is evaluated, which no rate of an endpoint shows.
//!
//! A scan with the same predicate and columns is planned with the figures of the last one, as in
//! LEO, DB2's learning optimizer (Stillger et al., VLDB 2001).

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};
use pushdowndb_contract::{Expr, Fingerprint, FingerprintBuilder, Format, Fragment, Output};
use serde::{Deserialize, Serialize};

use crate::files::stamped::StampedFile;

/// Maximum figures, and maximum times, of a table. If there are more, all entries of that kind are
/// dropped.
const MAX_ENTRIES: usize = 1024;

/// Figures that differ by less than this factor are treated as the same.
const SAME_FACTOR: f64 = 1.2;

/// The version of the fingerprints.
const VERSION: u8 = 1;

/// The side whose core is timed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Core {
    /// Storage, for a fragment.
    Storage,
    /// The engine, for plain reads.
    Engine,
}

/// Feedback of the scans of one table.
#[derive(Debug, Default)]
pub(crate) struct QueryFeedback {
    entries: Mutex<Entries>,
    /// File that keeps the feedback across sessions, if any.
    file: Option<StampedFile>,
}

/// Figures by the fingerprints of the scans and build sides that they describe.
#[derive(Debug, Default, Deserialize, Serialize)]
struct Entries {
    figures: BTreeMap<String, f64>,
    /// Seconds per byte.
    times: BTreeMap<String, f64>,
}

impl QueryFeedback {
    /// Reads the feedback in `file`, if it describes the present version of the table.
    pub(crate) fn open(file: Option<StampedFile>) -> Self {
        let entries = file.as_ref().and_then(StampedFile::read).unwrap_or_default();
        Self { entries: Mutex::new(entries), file }
    }

    /// Returns the share of `bytes` that the last scan like this one read; `None` if there was
    /// none, or if all such scans read everything.
    pub(crate) fn share(&self, fragment: &Fragment, bytes: u64) -> Option<f64> {
        self.figure(bytes_of(fragment, bytes)?).map(|share| share.clamp(0.0, 1.0))
    }

    /// Records the share of `bytes` that a scan read.
    pub(crate) fn note(&self, fragment: &Fragment, bytes: u64, share: f64) {
        if let Some(of) = bytes_of(fragment, bytes) {
            self.put(of, share, Some(1.0));
        }
    }

    /// Returns the number of rows in `bytes` bytes that passed the predicate the last time, if
    /// recorded.
    pub(crate) fn rows(&self, fragment: &Fragment, bytes: u64) -> Option<f64> {
        self.figure(rows_of(fragment, bytes)?)
    }

    /// Records the number of rows that passed, unless `expected` was about right.
    pub(crate) fn note_rows(&self, fragment: &Fragment, bytes: u64, rows: u64, expected: f64) {
        if let Some(of) = rows_of(fragment, bytes) {
            self.put(of, rows as f64, Some(expected));
        }
    }

    /// Returns the number of keys that this build side of a join had the last time.
    pub(crate) fn keys(&self, side: Fingerprint) -> Option<usize> {
        self.figure(keys_of(side)).map(|keys| keys as usize)
    }

    /// Records the number of keys of a build side.
    pub(crate) fn note_keys(&self, side: Fingerprint, keys: usize) {
        self.put(keys_of(side), keys as f64, None);
    }

    /// Returns the seconds per byte that scans of these columns for this predicate took.
    pub(crate) fn s_per_byte(&self, fragment: &Fragment, predicate: Option<&Expr>, core: Core) -> Option<f64> {
        let byte_s = self.lock().times.get(&time_of(fragment, predicate, core)?).copied();
        byte_s.filter(|byte_s| byte_s.is_finite() && *byte_s > 0.0)
    }

    /// Records the seconds per byte of a scan. Since cores and caches are shared with other work, a
    /// faster scan replaces the recorded time, while a slower one is averaged with it.
    pub(crate) fn note_s_per_byte(&self, fragment: &Fragment, core: Core, byte_s: f64) {
        let Some(of) = time_of(fragment, fragment.predicate.as_ref(), core) else { return };
        let mut entries = self.lock();
        let known = entries.times.get(&of).copied();
        let believed = known.filter(|known| *known < byte_s).map_or(byte_s, |known| f64::midpoint(known, byte_s));
        remember(&mut entries.times, of, believed);
        if !known.is_some_and(|known| is_same(known, byte_s)) {
            self.write(&entries);
        }
    }

    fn figure(&self, of: String) -> Option<f64> {
        self.lock().figures.get(&of).copied()
    }

    /// Records a figure, unless it is about the recorded one, or about `expected` if none is
    /// recorded.
    fn put(&self, of: String, figure: f64, expected: Option<f64>) {
        let mut entries = self.lock();
        if !entries.figures.get(&of).copied().or(expected).is_some_and(|known| is_same(known, figure)) {
            remember(&mut entries.figures, of, figure);
            self.write(&entries);
        }
    }

    fn write(&self, entries: &Entries) {
        if let Some(file) = &self.file {
            file.write(entries);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock()
    }
}

fn is_same(known: f64, figure: f64) -> bool {
    figure <= known * SAME_FACTOR && known <= figure * SAME_FACTOR
}

fn remember(all: &mut BTreeMap<String, f64>, of: String, figure: f64) {
    if all.len() >= MAX_ENTRIES && !all.contains_key(&of) {
        all.clear();
    }
    all.insert(of, figure);
}

/// Returns the fingerprint of whatever determines the bytes that a scan reads: its predicate, and
/// for Parquet its columns.
fn bytes_of(fragment: &Fragment, bytes: u64) -> Option<String> {
    let columns = if fragment.format == Format::Parquet { fragment.columns() } else { vec![] };
    let of = looked_for("bytes", fragment, bytes)?;
    Some(numbers(of, &columns).finish().to_string())
}

/// Returns the fingerprint of whatever determines the rows that pass.
fn rows_of(fragment: &Fragment, bytes: u64) -> Option<String> {
    Some(looked_for("rows", fragment, bytes)?.finish().to_string())
}

/// Returns the fingerprint of whatever determines a scan's time: its columns, its predicate, and
/// whether it aggregates.
fn time_of(fragment: &Fragment, predicate: Option<&Expr>, core: Core) -> Option<String> {
    let adds = matches!(fragment.output, Output::Aggregate { .. });
    let of = Fingerprint::builder("time", VERSION).flag(matches!(core, Core::Storage)).flag(adds);
    let of = match predicate {
        Some(predicate) => of.flag(true).expr(predicate).ok()?,
        None => of.flag(false),
    };
    Some(names(numbers(of, &fragment.columns()), fragment).finish().to_string())
}

/// Returns the fingerprint of the keys of a build side.
fn keys_of(side: Fingerprint) -> String {
    Fingerprint::builder("keys", VERSION).text(&side.to_string()).finish().to_string()
}

/// Begins a fingerprint with a scan's predicate and bytes. Returns `None` if the scan has no
/// predicate, or has Bloom filters of join keys, which vary.
fn looked_for(kind: &str, fragment: &Fragment, bytes: u64) -> Option<FingerprintBuilder> {
    let predicate = fragment.predicate.as_ref()?;
    if predicate.conjuncts().into_iter().any(|conjunct| matches!(conjunct, Expr::Bloom { .. })) {
        return None;
    }
    let of = Fingerprint::builder(kind, VERSION).number(bytes).expr(predicate).ok()?;
    Some(names(of, fragment))
}

fn numbers(of: FingerprintBuilder, columns: &[usize]) -> FingerprintBuilder {
    columns.iter().fold(of.number(columns.len() as u64), |of, column| of.number(*column as u64))
}

/// Adds the names of all columns, since an index has columns of its own.
fn names(of: FingerprintBuilder, fragment: &Fragment) -> FingerprintBuilder {
    fragment.schema.fields().iter().fold(of, |of, field| of.text(field.name()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};
    use pushdowndb_contract::{CompareOp, Expr, Literal, NamedExpr, Output};

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

    fn side(name: &str) -> Fingerprint {
        Fingerprint::builder("test", 1).text(name).finish()
    }

    #[test]
    fn the_last_scan_is_remembered_unless_it_read_everything() {
        let below = |value| below(value, Format::Parquet, 0);
        let folder = tempfile::tempdir().unwrap();
        let file = |stamp: &str| Some(StampedFile::new(folder.path().join("seen.json"), stamp.to_owned()));
        let seen = QueryFeedback::open(file("a"));
        seen.note(&below(1), 9, 1.0);
        assert_eq!(seen.share(&below(1), 9), None, "as expected");
        seen.note(&below(1), 9, 0.01);
        seen.note(&below(1), 9, 0.011);
        assert_eq!((seen.share(&below(1), 9), seen.share(&below(2), 9)), (Some(0.01), None));
        assert_eq!(QueryFeedback::open(file("a")).share(&below(1), 9), Some(0.01));
        assert_eq!(QueryFeedback::open(file("b")).share(&below(1), 9), None, "another version of the table");
        seen.note(&below(1), 9, 1.0);
        assert_eq!(seen.share(&below(1), 9), Some(1.0), "storage has forgotten");
        (0..=MAX_ENTRIES as i64).for_each(|value| seen.note(&below(value), 9, 0.5));
        assert!(seen.lock().figures.len() <= MAX_ENTRIES);
    }

    #[test]
    fn rows_and_keys_are_remembered_beside_bytes() {
        let seen = QueryFeedback::default();
        let (text, other) =
            (below(1, Format::Csv(pushdowndb_contract::CsvOptions::default()), 0), below(2, Format::Parquet, 0));
        seen.note(&text, 9, 0.5);
        seen.note_rows(&text, 9, 10, 11.0);
        assert_eq!(seen.rows(&text, 9), None, "as expected");
        seen.note_rows(&text, 9, 0, 11.0);
        seen.note_keys(side("a side"), 7);
        assert_eq!((seen.share(&text, 9), seen.rows(&text, 9)), (Some(0.5), Some(0.0)));
        assert_eq!((seen.rows(&text, 8), seen.rows(&other, 9)), (None, None), "other objects, another predicate");
        seen.note_rows(&text, 9, 3, 0.0);
        assert_eq!(seen.rows(&text, 9), Some(3.0), "none were no rule");
        assert_eq!((seen.keys(side("a side")), seen.keys(side("another"))), (Some(7), None));
    }

    #[test]
    fn time_is_of_a_predicate_and_its_columns() {
        let (seen, csv) = (QueryFeedback::default(), Format::Csv(pushdowndb_contract::CsvOptions::default()));
        let scan = below(1, csv.clone(), 0);
        seen.note_s_per_byte(&scan, Core::Storage, 4e-9);
        let of = |scan: &Fragment, core| seen.s_per_byte(scan, scan.predicate.as_ref(), core);
        let byte_s = |scan: &Fragment| (of(scan, Core::Storage), of(scan, Core::Engine));
        assert_eq!(byte_s(&scan), (Some(4e-9), None));
        assert_eq!(byte_s(&below(1, csv.clone(), 2)), (None, None), "other columns");
        assert_eq!(byte_s(&below(2, csv, 0)), (None, None), "another predicate");
        let adds = Output::Aggregate { groups: vec![], calls: vec![] };
        assert_eq!(byte_s(&Fragment { output: adds, ..scan.clone() }).0, None, "adding takes time");
        seen.note_s_per_byte(&scan, Core::Storage, 6e-9);
        assert_eq!(byte_s(&scan).0, Some(5e-9), "somebody may have wanted the core");
        seen.note_s_per_byte(&scan, Core::Storage, 2e-9);
        assert_eq!(byte_s(&scan).0, Some(2e-9), "nobody is faster than he can be");
    }

    #[test]
    fn columns_count_where_they_are_read_on_their_own() {
        let seen = QueryFeedback::default();
        for (format, other) in
            [(Format::Parquet, None), (Format::Csv(pushdowndb_contract::CsvOptions::default()), Some(0.5))]
        {
            seen.note(&below(1, format.clone(), 0), 9, 0.5);
            assert_eq!(seen.share(&below(1, format.clone(), 0), 9), Some(0.5));
            assert_eq!(seen.share(&below(1, format.clone(), 2), 9), other, "{format:?}");
        }
        let all = Fragment { predicate: None, ..below(1, Format::Parquet, 0) };
        seen.note(&all, 9, 0.5);
        assert_eq!(seen.share(&all, 9), None);
    }
}
