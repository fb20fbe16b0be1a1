//! Whatever a writer chose, rows that a predicate leaves are those of reading everything and
//! filtering then.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Int64Type};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;
use pushdowndb_contract::{CompareOp, Expr, Format, Fragment, Literal, NamedExpr, Output, SortKey};
use pushdowndb_scan::{Evaluator, Footers, InMemory, ObjectReader, ScanCounters, ScanOptions, ScanRange, scan};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::support::*;

/// Files that are written, each asked several times.
const FILES: u64 = 60;
const QUESTIONS: usize = 12;

/// Of so many rows: sorted, nearly sorted or in no order, some of them NULL.
fn batch(random: &mut StdRng, rows: i64) -> RecordBatch {
    let spread = [0, 5, 1_000][random.random_range(0..3)];
    let distinct = [3, 40, 2_000][random.random_range(0..3)];
    let nulls = [0.0, 0.1, 0.9][random.random_range(0..3)];
    // Whole stretches are NULL, too: pages without bounds.
    let gap = random.random_range(0..rows);
    let values: Vec<i64> =
        (0..rows).map(|row| (row + random.random_range(0..=spread)) * distinct / rows - distinct / 3).collect();
    let null: Vec<bool> =
        (0..rows).map(|row| random.random_bool(nulls) || (gap..gap + rows / 4).contains(&row)).collect();
    let some = |row: usize| (!null[row]).then_some(values[row]);
    let all = 0..values.len();
    let text =
        |value: i64| format!("{}text {value:05}", "x".repeat(usize::try_from(value.rem_euclid(3)).unwrap() * 40));
    let float = |value: i64| if value % 11 == 0 { f64::NAN } else { value as f64 / 2.0 };
    let lists = all.clone().map(|row| some(row).map(|value| (0..value.rem_euclid(4)).map(Some).collect::<Vec<_>>()));
    let decimals = Decimal128Array::from_iter(all.clone().map(|row| some(row).map(|value| i128::from(value) * 7)));
    let short = decimals.clone().with_precision_and_scale(7, 2).expect("a decimal type");
    let columns: [(&str, ArrayRef, bool); 8] = [
        ("i", Arc::new(Int64Array::from_iter(all.clone().map(some))), true),
        ("t", Arc::new(StringArray::from_iter(all.clone().map(|row| some(row).map(text)))), true),
        ("d", Arc::new(Date32Array::from_iter(all.clone().map(|row| some(row).map(|v| v as i32)))), true),
        ("m", Arc::new(decimals.with_precision_and_scale(12, 2).expect("a decimal type")), true),
        ("f", Arc::new(Float64Array::from_iter(all.clone().map(|row| some(row).map(float)))), true),
        ("n", Arc::new(Int32Array::from_iter_values(values.iter().map(|value| *value as i32))), false),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists)), true),
        // Of four bytes in a file.
        ("s", Arc::new(short), true),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
}

fn file(random: &mut StdRng, batch: &RecordBatch) -> Bytes {
    let mut properties = WriterProperties::builder()
        .set_writer_version([WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0][random.random_range(0..2)])
        .set_max_row_group_row_count(Some([200, 900, 100_000][random.random_range(0..3)]))
        .set_data_page_row_count_limit([10, 150, 20_000][random.random_range(0..3)])
        .set_write_batch_size(random.random_range(1..200))
        .set_dictionary_page_size_limit([100, 1_000_000][random.random_range(0..2)])
        .set_bloom_filter_enabled(random.random())
        .set_column_index_truncate_length([None, Some(3)][random.random_range(0..2)])
        .set_statistics_truncate_length([None, Some(3)][random.random_range(0..2)])
        .set_statistics_enabled(
            [EnabledStatistics::None, EnabledStatistics::Chunk, EnabledStatistics::Page][random.random_range(0..3)],
        )
        .set_offset_index_disabled(random.random_bool(0.2))
        .set_compression(
            [
                Compression::UNCOMPRESSED,
                Compression::SNAPPY,
                Compression::LZ4,
                Compression::LZ4_RAW,
                Compression::GZIP(Default::default()),
                Compression::BROTLI(Default::default()),
                Compression::ZSTD(Default::default()),
            ][random.random_range(0..7)],
        );
    use Encoding::{BYTE_STREAM_SPLIT, DELTA_BINARY_PACKED, DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY, PLAIN};
    for (name, encodings) in [
        ("i", [PLAIN, DELTA_BINARY_PACKED, BYTE_STREAM_SPLIT]),
        ("t", [PLAIN, DELTA_BYTE_ARRAY, DELTA_LENGTH_BYTE_ARRAY]),
        ("d", [PLAIN, DELTA_BINARY_PACKED, BYTE_STREAM_SPLIT]),
        ("n", [PLAIN, DELTA_BINARY_PACKED, BYTE_STREAM_SPLIT]),
    ] {
        let path = ColumnPath::from(name);
        properties = properties.set_column_encoding(path.clone(), encodings[random.random_range(0..3)]);
        properties = properties.set_column_dictionary_enabled(path, random.random());
    }
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).expect("a writer");
    writer.write(batch).expect("written");
    writer.into_inner().expect("closed").into()
}

/// A condition on some columns, with values that occur and others.
fn predicate(random: &mut StdRng, depth: usize) -> Expr {
    if depth > 0 && random.random_bool(0.6) {
        let parts = (0..random.random_range(1..4)).map(|_| predicate(random, depth - 1)).collect();
        return match random.random_range(0..5) {
            0 => Expr::Or(parts),
            1 => Expr::Not(Box::new(Expr::And(parts))),
            _ => Expr::And(parts),
        };
    }
    let value = [random.random_range(-20..40), random.random_range(-700..1500)][random.random_range(0..2)];
    let column = [0, 1, 2, 3, 4, 5, 7][random.random_range(0..7)];
    let literal = |value: i64| match column {
        1 => Expr::text(format!("{}text {value:05}", "x".repeat(usize::try_from(value.rem_euclid(3)).unwrap() * 40))),
        2 => Expr::Literal(Literal::Date(value as i32)),
        3 => Expr::Literal(Literal::Decimal(i128::from(value) * 7, 12, 2)),
        4 => Expr::Literal(Literal::Float64(value as f64 / 2.0)),
        7 => Expr::Literal(Literal::Decimal(i128::from(value) * 7, 7, 2)),
        _ => Expr::int(value),
    };
    let ops = [CompareOp::Eq, CompareOp::NotEq, CompareOp::Lt, CompareOp::LtEq, CompareOp::Gt, CompareOp::GtEq];
    match random.random_range(0..8) {
        0 => Expr::IsNull(Box::new(Expr::Column(column))),
        1 => Expr::InList {
            expr: Box::new(Expr::Column(column)),
            list: (0..[random.random_range(1..5), 40][random.random_range(0..2)])
                .map(|step| literal(value + step * 3))
                .collect(),
            negated: random.random_bool(0.3),
        },
        2 if column == 1 => Expr::Like {
            expr: Box::new(Expr::Column(1)),
            pattern: Box::new(Expr::text(match random.random_range(0..3) {
                0 => format!("%{}%{}", value.rem_euclid(10), value.rem_euclid(7)),
                1 => format!("%xt 0{:02}%", value.rem_euclid(100)),
                _ => format!("text %{}_", value.rem_euclid(100)),
            })),
            negated: random.random_bool(0.3),
            case_insensitive: false,
        },
        3 => Expr::compare(ops[random.random_range(0..6)], Expr::Column(0), Expr::Column(5)),
        4 => Expr::compare(CompareOp::Eq, literal(value), Expr::Column(column)),
        _ => Expr::compare(ops[random.random_range(0..6)], Expr::Column(column), literal(value)),
    }
}

#[tokio::test]
async fn pruned_rows_are_those_of_reading_everything() {
    for seed in 0..FILES {
        let mut random = StdRng::seed_from_u64(seed);
        let rows_of_file = random.random_range(1..3_000);
        let batch = batch(&mut random, rows_of_file);
        let file = file(&mut random, &batch);
        let mut columns: Vec<_> = batch.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        // The list comes out by one of its elements.
        let element = [("path".to_owned(), "\"l\"[1]".to_owned())].into();
        columns[6] = arrow::datatypes::Field::new("l", DataType::Int64, true).with_metadata(element);
        let schema = Arc::new(arrow::datatypes::Schema::new(columns));
        let all = Fragment::all(Format::Parquet, Arc::clone(&schema));
        let whole = run(&all, file.clone()).await;
        assert_eq!(whole.num_rows(), batch.num_rows(), "seed {seed}");
        for (index, column) in whole.columns().iter().enumerate().filter(|(index, _)| *index != 6) {
            assert_eq!(column, batch.column(index), "seed {seed}, column {index}");
        }
        for question in 0..QUESTIONS {
            let predicate = predicate(&mut random, 2);
            let output: Vec<usize> = (0..8).filter(|_| random.random_bool(0.5)).collect();
            let named =
                |index: &usize| NamedExpr { expr: Expr::Column(*index), name: schema.field(*index).name().clone() };
            let fragment = Fragment {
                predicate: Some(predicate.clone()),
                output: Output::Rows(output.iter().map(named).collect()),
                ..all.clone()
            };
            let expected = Evaluator::predicate(&predicate, &whole.schema()).and_then(|p| p.filter(&whole));
            let expected = expected.expect("rows").project(&output).expect("columns");
            let options = ScanOptions {
                batch_rows: [3, 100, 8192][random.random_range(0..3)],
                row_group_part_bytes: [1, 1000, u64::MAX][random.random_range(0..3)],
                ..ScanOptions::default()
            };
            let reader = InMemory::new("k", file.clone());
            let (found, fetched) = try_run_as(&fragment, reader.clone(), None, options.clone()).await.expect("rows");
            let place = format!("seed {seed}, question {question}: {}", predicate.display(&schema));
            assert_eq!(found.num_rows(), expected.num_rows(), "{place}");
            assert_eq!(rows(&found), rows(&expected), "{place}");
            // Page by page it is the same, and counts as much.
            let reader = reader.like_a_cached_file();
            let (found, at_hand) = try_run_as(&fragment, reader.clone(), None, options.clone()).await.expect("rows");
            assert_eq!(rows(&found), rows(&expected), "{place}");
            assert_eq!(at_hand.bytes_scanned.into_inner(), fetched.bytes_scanned.into_inner(), "{place}");
            // Whatever was read ahead of the last row counts for nothing.
            let few = Fragment { limit: Some(random.random_range(1..300)), ..fragment.clone() };
            let read = async |reader| {
                let counted = Arc::new(ScanCounters::default());
                let (few, options) = (Arc::new(few.clone()), options.clone());
                let stream = scan(Arc::clone(&few), Arc::new(reader), None, options, Arc::clone(&counted));
                let found = collect(&few, stream.expect("a scan")).await.expect("rows");
                let counts = [&counted.bytes_scanned, &counted.rows_scanned, &counted.row_groups_scanned];
                (rows(&found), counts.map(|count| count.load(Ordering::Relaxed)))
            };
            assert_eq!(read(InMemory::new("k", file.clone())).await, read(reader.clone()).await, "{place}");
            // And so are ranges of rows that touch, wherever they do.
            let all = batch.num_rows() as u64;
            let mut bounds = [0, 0, 0, all].map(|least| random.random_range(least..=all));
            bounds[0] = 0;
            bounds.sort_unstable();
            let mut found = Vec::new();
            for bounds in bounds.windows(2) {
                let (fragment, reader) = (Arc::new(fragment.clone()), Arc::new(reader.clone()));
                let part = scan(
                    fragment.clone(),
                    reader,
                    ScanRange::Rows(bounds[0]..bounds[1]),
                    options.clone(),
                    Arc::default(),
                );
                found.extend(rows(&collect(&fragment, part.expect("a scan")).await.expect("rows")));
            }
            assert_eq!(found, rows(&expected), "{place}, {bounds:?}");
        }
    }
}

#[tokio::test]
async fn what_is_ruled_out_is_not_read() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..60_000));
    let scattered: ArrayRef = Arc::new(Int64Array::from_iter_values((0..60_000).map(|i| i * 7_919 % 60_000 * 2)));
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..60_000).map(|i| format!("{i} {}", "t".repeat(50)))));
    let batch = RecordBatch::try_from_iter([("i", numbers), ("s", scattered), ("t", texts)]).expect("a batch");
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(30_000))
        .set_data_page_row_count_limit(1_000)
        .set_write_batch_size(1_000)
        .set_bloom_filter_enabled(true)
        .set_dictionary_enabled(false)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    let file: Bytes = writer.into_inner().expect("closed").into();
    let columns = schema(&[("i", DataType::Int64), ("s", DataType::Int64), ("t", DataType::Utf8)]);
    let all = Fragment::all(Format::Parquet, columns);
    let scanned = async |column, value, range, footer| {
        let predicate = Some(Expr::compare(CompareOp::Eq, Expr::Column(column), Expr::int(value)));
        let fragment = Fragment { predicate, ..all.clone() };
        let options = ScanOptions { footer, ..ScanOptions::default() };
        let (found, counters) =
            try_run_as(&fragment, InMemory::new("k", file.clone()), range, options).await.expect("rows");
        (found.num_rows(), counters.bytes_scanned.into_inner(), counters.row_groups_pruned.into_inner())
    };
    // One page of each column, found by the index of pages.
    let (rows, bytes, groups) = scanned(0, 12_345, None, None).await;
    assert_eq!((rows, groups), (1, 1));
    assert!(bytes * 20 < file.len() as u64, "{bytes} of {}", file.len());
    // Within all bounds, but odd, and there are only even ones: Bloom filters know.
    let (rows, _, groups) = scanned(1, 12_345, None, None).await;
    assert_eq!((rows, groups), (0, 2));
    // Of a piece that is one row group nothing is ruled out as a whole, and yet no more is read of
    // it.
    let piece = || Some(0..100);
    assert_eq!(scanned(0, 12_345, piece(), None).await, (1, bytes, 0));
    // The index is kept with the footer.
    let footers = Footers::new(1 << 20);
    assert_eq!(scanned(0, 12_345, piece(), Some(footers.of("1"))).await, (1, bytes, 0));
    let (rows, again, _) = scanned(0, 12_345, None, Some(footers.of("1"))).await;
    assert!(rows == 1 && again < bytes, "{again} of {bytes}");
    assert_eq!(scanned(0, 12_345, None, Some(footers.of("2"))).await.1, bytes, "another version");
}

#[tokio::test]
async fn as_much_is_scanned_of_pieces_as_of_the_whole() {
    let scattered: ArrayRef = Arc::new(Int64Array::from_iter_values((0..40_000).map(|i| i * 7_919 % 40_000)));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..40_000).map(|i| format!("{i:050}"))));
    let batch = RecordBatch::try_from_iter([("s", scattered), ("t", texts)]).expect("a batch");
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(10_000))
        .set_data_page_row_count_limit(10)
        .set_write_batch_size(10)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    let file: Bytes = writer.into_inner().expect("closed").into();
    let size = file.len() as u64;
    let columns = schema(&[("s", DataType::Int64), ("t", DataType::Utf8)]);
    // No row group is ruled out, and of the pages of ten rows most could be.
    let predicate = Some(Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::int(12_345)));
    let fragment = Fragment { predicate, ..Fragment::all(Format::Parquet, columns) };
    let scanned = async |range, options| {
        let reader = InMemory::new("k", file.clone());
        let (found, counters) = try_run_as(&fragment, reader, Some(range), options).await.expect("rows");
        (found.num_rows() as u64, counters.bytes_scanned.into_inner(), counters.row_groups_scanned.into_inner())
    };
    let whole = scanned(0..size, ScanOptions::default()).await;
    assert_eq!((whole.0, whole.2), (1, 4));
    for shares in [false, true] {
        let (footers, shared) = (Footers::new(1 << 20), ScanOptions::default());
        let mut all = (0, 0, 0);
        for piece in 0..8 {
            let footer = Some(footers.of("1"));
            let options = ScanOptions { footer, ..if shares { shared.clone() } else { ScanOptions::default() } };
            let own = scanned(size * piece / 8..size * (piece + 1) / 8, options).await;
            all = (all.0 + own.0, all.1 + own.1, all.2 + own.2);
        }
        // The footer is read once.
        assert_eq!(all, whole, "{shares}");
    }
}

/// 20 row groups of 100 rows: `i` ascending, `t` text of it.
fn sorted() -> (Bytes, Fragment) {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..2_000));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..2_000).map(|i| format!("{i:05}"))));
    let batch = RecordBatch::try_from_iter([("i", numbers), ("t", texts)]).expect("a batch");
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(100)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    let columns = schema(&[("i", DataType::Int64), ("t", DataType::Utf8)]);
    (writer.into_inner().expect("closed").into(), Fragment::all(Format::Parquet, columns))
}

#[tokio::test]
async fn row_groups_after_the_first_rows_of_an_order_are_not_read() {
    let (file, all) = sorted();
    for (column, descending, nulls_first, pruned) in
        [(0, false, false, 19), (1, false, false, 19), (0, true, false, 0), (0, false, true, 0)]
    {
        let order = vec![SortKey { expr: Expr::Column(column), descending, nulls_first }];
        let fragment = Fragment { order, limit: Some(5), ..all.clone() };
        let reader = InMemory::new("k", file.clone());
        let (found, counters) = try_run_with(&fragment, reader, None, 8192).await.expect("rows");
        let first = if descending { "1999|01999" } else { "0|00000" };
        assert_eq!((found.num_rows(), rows(&found)[0].as_str()), (5, first));
        assert_eq!(counters.row_groups_pruned.into_inner(), pruned, "{column} {descending} {nulls_first}");
        assert_eq!(counters.row_groups_scanned.into_inner(), 20 - pruned);
    }
}

#[tokio::test]
async fn large_row_groups_are_read_in_parts() {
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..40_000).map(|i| format!("{} {}", i * 7919 % 40_000, "t".repeat(50))),
    ));
    let batch = RecordBatch::try_from_iter([("t", texts)]).expect("a batch");
    let properties = WriterProperties::builder()
        .set_data_page_row_count_limit(1_000)
        .set_write_batch_size(1_000)
        .set_dictionary_enabled(false)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    let file: Bytes = writer.into_inner().expect("closed").into();
    let fragment = Fragment::all(Format::Parquet, schema(&[("t", DataType::Utf8)]));
    for row_group_part_bytes in [100_000, u64::MAX] {
        let options = ScanOptions { row_group_part_bytes, ..ScanOptions::default() };
        let (reader, longest) = Longest::new(InMemory::new("k", file.clone()));
        let (found, counters) = try_run_as(&fragment, reader, None, options).await.expect("rows");
        assert_eq!(found.column(0), batch.column(0));
        assert_eq!(counters.row_groups_scanned.into_inner(), 1);
        assert_eq!(counters.rows_scanned.into_inner(), 40_000);
        let longest = longest.load(Ordering::Relaxed);
        assert_eq!(longest < 200_000, row_group_part_bytes == 100_000, "{longest} bytes at once");
    }
}

/// Notes the longest range that is read.
#[derive(Debug)]
struct Longest(InMemory, Arc<AtomicU64>);

impl Longest {
    fn new(object: InMemory) -> (Self, Arc<AtomicU64>) {
        let longest = Arc::default();
        (Self(object, Arc::clone(&longest)), longest)
    }
}

impl ObjectReader for Longest {
    fn location(&self) -> &str {
        self.0.location()
    }

    fn size(&self) -> u64 {
        self.0.size()
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, pushdowndb_contract::Result<Bytes>> {
        self.0.stream(range)
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, pushdowndb_contract::Result<Vec<Bytes>>> {
        let longest = ranges.iter().map(|range| range.end - range.start).max().unwrap_or_default();
        self.1.fetch_max(longest, Ordering::Relaxed);
        self.0.read_ranges(ranges)
    }
}
