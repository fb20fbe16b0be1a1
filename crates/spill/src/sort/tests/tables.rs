//! Generated tables.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int32Array, Int64Array,
    LargeBinaryArray, ListArray, RecordBatch, StringArray, StringViewArray, StructArray,
};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Int32Type, SchemaRef};
use datafusion_physical_expr::expressions::col;
use datafusion_physical_expr::{LexOrdering, PhysicalSortExpr};
use rand::rngs::StdRng;
use rand::{Rng, RngCore};

/// The order in which the values of the column `key` arrive.
#[derive(Debug, Clone, Copy)]
pub(in crate::sort) enum Shape {
    Random,
    Equal,
    Sorted,
    Reverse,
    NearlySorted,
    Skewed,
}

pub(in crate::sort) const SHAPES: [Shape; 6] =
    [Shape::Random, Shape::Equal, Shape::Sorted, Shape::Reverse, Shape::NearlySorted, Shape::Skewed];

/// Returns `count` values in the order of `shape`.
pub(super) fn shaped(shape: Shape, count: usize, random: &mut StdRng) -> Vec<i64> {
    let count = count as i64;
    let value = |row: i64| match shape {
        Shape::Random => random.random_range(0..count.max(1)),
        Shape::Equal => 7,
        Shape::Sorted => row,
        Shape::Reverse => count - row,
        Shape::NearlySorted => row + random.random_range(-20..20),
        Shape::Skewed if random.random_bool(0.9) => 1000,
        Shape::Skewed => random.random_range(0..2000),
    };
    (0..count).map(value).collect()
}

fn text(random: &mut StdRng, most: usize) -> String {
    let length = random.random_range(0..=most);
    (0..length).map(|_| random.random_range('a'..='d')).collect()
}

fn some<T>(random: &mut StdRng, value: impl FnOnce(&mut StdRng) -> T) -> Option<T> {
    random.random_bool(0.85).then(|| value(random))
}

/// Returns a table of `count` rows. It has a unique column `id`, a column `key` of `shape`, columns
/// of many types with NULLs, and a column in which some values have `wide` bytes.
pub(in crate::sort) fn batch(shape: Shape, count: usize, wide: usize, random: &mut StdRng) -> RecordBatch {
    let keys = shaped(shape, count, random);
    let strings: Vec<_> = (0..count).map(|_| some(random, |random| text(random, 30))).collect();
    let floats = |random: &mut StdRng| match random.random_range(0..8) {
        0 => f64::NAN,
        1 => -f64::NAN,
        2 => -0.0,
        3 => 0.0,
        4 => f64::NEG_INFINITY,
        _ => f64::from(random.random_range(-100..100)),
    };
    let floats: Float64Array = (0..count).map(|_| some(random, floats)).collect();
    let decimals: Decimal128Array =
        (0..count).map(|_| some(random, |random| i128::from(random.next_u64() as i64))).collect();
    let dates: Date32Array = (0..count).map(|_| some(random, |random| random.random_range(-9..9))).collect();
    let dictionary: DictionaryArray<Int32Type> =
        (0..count).map(|_| ["x", "yy", "zzz"].get(random.random_range(0..4))).map(|value| value.copied()).collect();
    let lists = (0..count).map(|_| {
        some(random, |random| {
            (0..random.random_range(0..4)).map(|_| Some(random.random_range(0..5))).collect::<Vec<_>>()
        })
    });
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>(lists.collect::<Vec<_>>());
    let inner: ArrayRef = Arc::new(StringViewArray::from_iter(strings.iter().rev()));
    let structs = StructArray::from(vec![(Arc::new(Field::new("inner", DataType::Utf8View, true)), inner)]);
    let wide: LargeBinaryArray = (0..count)
        .map(|_| match random.random_range(0..50) {
            0 => Some(vec![random.random(); wide]),
            _ => some(random, |random| vec![random.random(); 3]),
        })
        .collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new((0..count as i64).collect::<Int64Array>())),
        ("key", Arc::new(Int64Array::from(keys.clone()))),
        (
            "int",
            Arc::new((0..count).map(|_| some(random, |random| random.random_range(0..50))).collect::<Int32Array>()),
        ),
        ("string", Arc::new(StringArray::from_iter(strings.iter()))),
        ("view", Arc::new(StringViewArray::from_iter(keys.iter().map(|key| Some(format!("{key:020}")))))),
        ("float", Arc::new(floats)),
        ("decimal", Arc::new(decimals.with_precision_and_scale(30, 3).unwrap())),
        ("date", Arc::new(dates)),
        (
            "bool",
            Arc::new((0..count).map(|_| some(random, |random| random.random_bool(0.5))).collect::<BooleanArray>()),
        ),
        ("dictionary", Arc::new(dictionary)),
        ("list", Arc::new(list)),
        ("struct", Arc::new(structs)),
        ("wide", Arc::new(wide)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

/// Splits `batch` into parts of up to `most` rows, which are slices of it, or copies if `copied`.
pub(super) fn cut(batch: &RecordBatch, most: usize, copied: bool, random: &mut StdRng) -> Vec<RecordBatch> {
    let mut parts = Vec::new();
    let mut first = 0;
    while first < batch.num_rows() {
        let rows = random.random_range(1..=most).min(batch.num_rows() - first);
        let part = batch.slice(first, rows);
        parts.push(if copied { super::super::memory::compact(part).unwrap() } else { part });
        first += rows;
    }
    parts
}

/// Returns the ordering by `columns`, each with whether it is descending and has NULLs first.
pub(super) fn ordering(schema: &SchemaRef, columns: &[(&str, bool, bool)]) -> LexOrdering {
    let keys = columns.iter().map(|(name, descending, nulls_first)| PhysicalSortExpr {
        expr: col(name, schema).unwrap(),
        options: SortOptions { descending: *descending, nulls_first: *nulls_first },
    });
    LexOrdering::new(keys.collect::<Vec<_>>()).expect("a key")
}
