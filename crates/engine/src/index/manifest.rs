//! The manifest of an index: the data objects that it covers, their versions, and the parts of the
//! index of each data object.
//!
//! It is written after all index objects, so an interrupted build leaves no index. Bounds of parts
//! only save reading: a part whose bounds are missing or unreadable is read.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use object_store::path::Path;
use parking_lot::Mutex;
use pushdowndb_contract::{CompareOp, Error, ErrorKind, Expr, Result};
use pushdowndb_scan::{Evaluator, bounds_match};
use serde::{Deserialize, Serialize};

use crate::catalog::DataObject;

/// The version of the format of manifests and index objects. Other versions are not used.
pub(crate) const VERSION: u32 = 2;

/// Maximum bytes of a manifest that is read.
pub(crate) const MAX_MANIFEST_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum manifests that are cached across queries.
const MAX_CACHED_MANIFESTS: usize = 256;

/// Assumed selectivity of a condition that bounds do not decide: DataFusion's default of 20 %.
const DEFAULT_SELECTIVITY: f64 = 0.2;

/// A manifest as it is stored.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Manifest {
    /// Version of the format, [`VERSION`].
    pub(crate) version: u32,
    /// The column's name.
    pub(crate) column: String,
    /// The encoding of the values ([`super::meaning`]).
    pub(crate) meaning: String,
    pub(crate) objects: Vec<IndexedObject>,
}

/// One data object and its index.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct IndexedObject {
    /// Path of the data object.
    pub(crate) path: String,
    /// ETag of the data object when it was indexed.
    pub(crate) etag: Option<String>,
    /// Size of the data object when it was indexed, in bytes.
    pub(crate) size: u64,
    /// Name of the index object in the index's folder.
    pub(crate) file: String,
    /// Size of the index object, in bytes.
    pub(crate) bytes: u64,
    /// The number of indexed values.
    pub(crate) entries: u64,
    pub(crate) parts: Vec<Part>,
}

/// A range of an index object's records.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Part {
    /// Offset of the first byte. The part ends where the next one begins; the first part begins
    /// with the header.
    pub(crate) at: u64,
    pub(crate) entries: u64,
    /// The number of distinct values.
    pub(crate) distinct: u64,
    /// A lower bound of the values as text; `None` if it is long.
    pub(crate) min: Option<String>,
    /// An upper bound of the values as text; `None` if it is long.
    pub(crate) max: Option<String>,
}

impl IndexedObject {
    /// Returns whether `object` is still the version that was indexed.
    pub(crate) fn is_of(&self, object: &DataObject) -> bool {
        self.size == object.size && self.etag.is_some() && self.etag == object.etag
    }

    /// Returns the byte range of a part in the index object.
    fn part(&self, index: usize) -> Option<Range<u64>> {
        let start = self.parts.get(index)?.at;
        Some(start..self.parts.get(index + 1).map_or(self.bytes, |next| next.at))
    }

    fn is_sound(&self) -> bool {
        let ends = self.parts.iter().skip(1).map(|part| part.at).chain([self.bytes]);
        self.parts.iter().zip(ends).all(|(part, end)| part.at < end)
            && self.parts.iter().map(|part| part.entries).sum::<u64>() == self.entries
            && !self.file.contains('/')
    }
}

/// A parsed manifest, with the bounds of its parts as typed values.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) manifest: Manifest,
    /// Position of each data object in the manifest, by its path.
    by_path: HashMap<String, usize>,
    /// Position of each data object's first part among all parts.
    first_part: Vec<usize>,
    /// The least and the greatest value of each part.
    bounds: RecordBatch,
    /// Schema with only the column of values, for evaluating predicates.
    schema: SchemaRef,
}

/// The expected cost of a look-up in the index of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Expected {
    /// Byte ranges of the parts to read, with adjacent ones joined.
    pub(crate) ranges: Vec<Range<u64>>,
    /// Number of parts to read.
    pub(crate) parts: usize,
    /// The estimated number of records found.
    pub(crate) hits: f64,
}

impl Directory {
    /// Parses the manifest of an index on a column of this type.
    pub(crate) fn parse(text: &[u8], value: &DataType) -> Result<Self> {
        let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, format!("the manifest of the index {what}"));
        let manifest: Manifest = serde_json::from_slice(text).map_err(|e| corrupt("cannot be read").with_source(e))?;
        if manifest.version != VERSION {
            return Err(Error::unsupported(format!(
                "the index is of version {}, this build reads version {VERSION}; drop it and create it again",
                manifest.version
            )));
        }
        if !manifest.objects.iter().all(IndexedObject::is_sound) {
            return Err(corrupt("contradicts itself"));
        }
        let by_path = manifest.objects.iter().enumerate().map(|(i, object)| (object.path.clone(), i)).collect();
        let mut first_part = Vec::with_capacity(manifest.objects.len());
        let mut parts = 0;
        for object in &manifest.objects {
            first_part.push(parts);
            parts += object.parts.len();
        }
        let all = || manifest.objects.iter().flat_map(|object| &object.parts);
        let min = values(all().map(|part| part.min.as_deref()).collect(), value);
        let max = values(all().map(|part| part.max.as_deref()).collect(), value);
        let field = |name: &str| Field::new(name, value.clone(), true);
        let bounds = RecordBatch::try_new(Arc::new(Schema::new(vec![field("min"), field("max")])), vec![min, max])
            .map_err(|e| Error::internal("bounds of different lengths").with_source(e))?;
        let schema = Arc::new(Schema::new(vec![field("value")]));
        Ok(Self { manifest, by_path, first_part, bounds, schema })
    }

    /// Returns the index of a data object, up to date or stale, and its position in the manifest.
    pub(crate) fn of(&self, object: &DataObject) -> Option<(&IndexedObject, usize)> {
        let at = *self.by_path.get(object.path.as_ref())?;
        self.manifest.objects.get(at).map(|indexed| (indexed, at))
    }

    /// Estimates the cost of finding values that pass all `conjuncts`, in each object of the
    /// manifest. The conjuncts are over the index's columns.
    pub(crate) fn expect(&self, conjuncts: &[Expr]) -> Result<Vec<Expected>> {
        let parts = self.bounds.num_rows();
        let wanted = bounds_match(&Expr::conjunction(conjuncts.to_vec()), &self.schema, &self.bounds)?;
        let wanted_parts = wanted.iter().filter(|wanted| **wanted).count();
        let shares =
            conjuncts.iter().map(|conjunct| self.shares(conjunct, wanted_parts)).collect::<Result<Vec<_>>>()?;
        let mut all = Vec::with_capacity(self.manifest.objects.len());
        for (object, first) in self.manifest.objects.iter().zip(&self.first_part) {
            let mut expected = Expected::default();
            for (index, part) in object.parts.iter().enumerate() {
                let place = (first + index).min(parts.saturating_sub(1));
                if !wanted.get(place).copied().unwrap_or(true) {
                    continue;
                }
                let share = shares.iter().filter_map(|shares| shares.get(place)).fold(1.0f64, |all, one| all.min(*one));
                expected.hits += (part.entries as f64 * share).max(1.0);
                expected.parts += 1;
                let Some(range) = object.part(index) else { continue };
                match expected.ranges.last_mut() {
                    Some(last) if last.end == range.start => last.end = range.end,
                    _ => expected.ranges.push(range),
                }
            }
            all.push(expected);
        }
        Ok(all)
    }

    /// Estimates the share of each part's values that pass `conjunct`, if the part may match.
    fn shares(&self, conjunct: &Expr, wanted_parts: usize) -> Result<Vec<f64>> {
        let parts = self.manifest.objects.iter().flat_map(|object| &object.parts);
        let distinct = parts.map(|part| part.distinct.max(1) as f64);
        let is_value = |expr: &Expr| matches!(expr, Expr::Column(_));
        Ok(match conjunct {
            Expr::Compare(CompareOp::Eq, a, b) if is_value(a) || is_value(b) => distinct.map(|n| 1.0 / n).collect(),
            Expr::InList { expr, list, negated: false } if is_value(expr) => {
                let in_part = (list.len() as f64 / wanted_parts.max(1) as f64).max(1.0);
                distinct.map(|n| (in_part / n).min(1.0)).collect()
            }
            Expr::Compare(op, a, b) if *op != CompareOp::NotEq && (is_value(a) || is_value(b)) => {
                let fulfils = |column: usize| self.fulfils(conjunct, column);
                let (min, max) = (fulfils(0)?, fulfils(1)?);
                let ends = min.iter().zip(max.iter());
                ends.map(|(min, max)| if min == Some(true) && max == Some(true) { 1.0 } else { 0.5 }).collect()
            }
            _ => vec![DEFAULT_SELECTIVITY; self.bounds.num_rows()],
        })
    }

    fn fulfils(&self, conjunct: &Expr, bound: usize) -> Result<BooleanArray> {
        let column = Arc::clone(self.bounds.column(bound));
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![column]);
        let batch = batch.map_err(|e| Error::internal("a bound of another type").with_source(e))?;
        Evaluator::predicate(conjunct, &self.schema)?.matches(&batch)
    }
}

/// Converts texts to values of type `to`; NULL if a text is not a valid one.
fn values(texts: Vec<Option<&str>>, to: &DataType) -> ArrayRef {
    let texts: ArrayRef = Arc::new(StringArray::from(texts));
    let rows = texts.len();
    let options = CastOptions { safe: true, ..CastOptions::default() };
    cast_with_options(&texts, to, &options).unwrap_or_else(|_| arrow::array::new_null_array(to, rows))
}

/// Parsed manifests, by address and ETag.
#[derive(Debug, Default)]
pub(crate) struct ManifestCache(Mutex<HashMap<Version, Arc<Directory>>>);

/// Key of a cached manifest: store, path, ETag, and the type of the values.
type Version = (String, Path, String, DataType);

impl ManifestCache {
    pub(crate) fn get(&self, version: &Version) -> Option<Arc<Directory>> {
        self.0.lock().get(version).cloned()
    }

    pub(crate) fn put(&self, version: Version, directory: Arc<Directory>) {
        let mut known = self.0.lock();
        if known.len() >= MAX_CACHED_MANIFESTS {
            known.clear();
        }
        known.insert(version, directory);
    }
}

#[cfg(test)]
mod tests {
    use pushdowndb_contract::Literal;

    use super::*;

    fn part(at: u64, entries: u64, distinct: u64, min: &str, max: Option<&str>) -> Part {
        Part { at, entries, distinct, min: Some(min.to_owned()), max: max.map(str::to_owned) }
    }

    fn manifest() -> Manifest {
        let object = |path: &str, parts: Vec<Part>| IndexedObject {
            path: path.to_owned(),
            etag: Some("e".to_owned()),
            size: 1000,
            file: "0.csv".to_owned(),
            bytes: 300,
            entries: parts.iter().map(|part| part.entries).sum(),
            parts,
        };
        let objects = vec![
            object("a", vec![part(0, 100, 100, "-5", Some("10")), part(100, 90, 1, "10", Some("10"))]),
            object("b", vec![part(0, 50, 25, "11", Some("60")), part(200, 10, 10, "60", None)]),
            object("c", vec![]),
        ];
        Manifest { version: VERSION, column: "v".to_owned(), meaning: "m".to_owned(), objects }
    }

    fn directory() -> Directory {
        Directory::parse(&serde_json::to_vec(&manifest()).unwrap(), &DataType::Int64).unwrap()
    }

    fn compare(op: CompareOp, value: i64) -> Expr {
        Expr::compare(op, Expr::Column(0), Expr::int(value))
    }

    fn ranges(conjuncts: &[Expr]) -> Vec<Vec<Range<u64>>> {
        directory().expect(conjuncts).unwrap().into_iter().map(|expected| expected.ranges).collect()
    }

    #[test]
    fn only_parts_that_can_hold_the_value_are_read() {
        assert_eq!(ranges(&[compare(CompareOp::Eq, 10)]), [vec![0..300], vec![], vec![]]);
        assert_eq!(ranges(&[compare(CompareOp::Eq, 7)]), [vec![0..100], vec![], vec![]]);
        assert_eq!(ranges(&[compare(CompareOp::Eq, 70)]), [vec![], vec![200..300], vec![]]);
        assert_eq!(ranges(&[compare(CompareOp::Lt, -5)]), [vec![], vec![], vec![]] as [Vec<Range<u64>>; 3]);
        let between = [compare(CompareOp::GtEq, 11), compare(CompareOp::Lt, 20)];
        assert_eq!(ranges(&between), [vec![], vec![0..200], vec![]]);
        let list =
            Expr::InList { expr: Box::new(Expr::Column(0)), list: vec![Expr::int(0), Expr::int(30)], negated: false };
        assert_eq!(ranges(&[list]), [vec![0..100], vec![0..200], vec![]]);
        let null = Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::Literal(Literal::Null));
        assert_eq!(ranges(&[null]).len(), 3);
    }

    #[test]
    fn hits_are_guessed_from_what_parts_hold() {
        let hits = |conjunct| directory().expect(&[conjunct]).unwrap().iter().map(|e| e.hits).collect::<Vec<_>>();
        assert_eq!(hits(compare(CompareOp::Eq, 10)), [91.0, 0.0, 0.0]);
        assert_eq!(hits(compare(CompareOp::Gt, 10)), [0.0, 50.0 + 5.0, 0.0]);
        assert_eq!(hits(compare(CompareOp::LtEq, 10)), [190.0, 0.0, 0.0]);
    }

    #[test]
    fn manifests_that_lie_are_refused() {
        let refused = |change: &dyn Fn(&mut Manifest)| {
            let mut manifest = manifest();
            change(&mut manifest);
            Directory::parse(&serde_json::to_vec(&manifest).unwrap(), &DataType::Int64).unwrap_err().kind()
        };
        assert_eq!(refused(&|m| m.version = 1), ErrorKind::Unsupported);
        assert_eq!(refused(&|m| m.objects[0].bytes = 50), ErrorKind::Corrupt);
        assert_eq!(refused(&|m| m.objects[0].entries = 1), ErrorKind::Corrupt);
        assert_eq!(refused(&|m| m.objects[0].file = "../x".to_owned()), ErrorKind::Corrupt);
        assert_eq!(Directory::parse(b"{", &DataType::Int64).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
