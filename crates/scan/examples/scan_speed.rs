//! How fast one core scans TPC-H lineitem as CSV, beside arrow-csv.
//!
//! `cargo run --release -p pushdowndb-scan --example scan_speed -- FILE.csv [scale]` generates the file if it does not
//! exist; a third argument picks the lines whose name contains it. Each line is the best of five runs over the file
//! in memory, in CPU seconds where the system tells them. With `disk` as the third argument, before the name, the file is read from disk instead, and the peak memory
//! shown.

use std::error::Error;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::csv::ReaderBuilder;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use futures::TryStreamExt;
use pushdown::{
    AggregateCall, AggregateFunction, ArithmeticOp, CompareOp, Compression, CsvOptions, Expr, Format, Fragment,
    JsonOptions, Literal, Output,
};
use pushdowndb_scan::{InMemory, LocalFile, ObjectReader, ScanCounters, ScanOptions, scan};
use tpchgen::csv::LineItemCsv;
use tpchgen::generators::LineItemGenerator;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("give the path of a lineitem CSV")?;
    let scale: f64 = args.next().map_or(Ok(0.1), |s| s.parse())?;
    if !std::path::Path::new(&path).exists() {
        generate(&path, scale)?;
    }
    let only = args.next().unwrap_or_default();
    if only == "disk" {
        return from_disk(&path, &args.next().unwrap_or_default()).await;
    }
    let bytes = Bytes::from(std::fs::read(&path)?);
    println!("{path}: {:.1} MB", bytes.len() as f64 / 1e6);
    for (name, fragment) in fragments(&path).into_iter().filter(|(name, _)| name.contains(&only)) {
        let (mut best, mut rows) = (f64::MAX, 0);
        for _ in 0..5 {
            let start = Clock::now();
            let reader = InMemory::new("lineitem.csv", bytes.clone()).with_piece_bytes(1024 * 1024);
            rows = run(fragment.clone(), reader).await?;
            best = best.min(start.seconds());
        }
        report(name, bytes.len(), best, rows);
    }
    if !path.ends_with(".csv") {
        return Ok(());
    }
    let (mut best, mut rows) = (f64::MAX, 0);
    for _ in 0..5 {
        let start = Clock::now();
        let reader = ReaderBuilder::new(lineitem()).with_header(true).with_batch_size(8192);
        rows = 0;
        for batch in reader.build(bytes.as_ref())? {
            rows += batch?.num_rows();
        }
        best = best.min(start.seconds());
    }
    report("arrow-csv, all columns", bytes.len(), best, rows);
    Ok(())
}

/// CPU time of this process, which other processes do not disturb; wall time where that is not known.
struct Clock(Option<Duration>, Instant);

impl Clock {
    fn now() -> Self {
        Self(Self::cpu(), Instant::now())
    }

    fn cpu() -> Option<Duration> {
        let times = std::fs::read_to_string("/proc/self/schedstat").ok()?;
        times.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    }

    fn seconds(&self) -> f64 {
        let cpu = self.0.zip(Self::cpu()).map(|(before, now)| now - before);
        cpu.unwrap_or_else(|| self.1.elapsed()).as_secs_f64()
    }
}

fn report(name: &str, bytes: usize, seconds: f64, rows: usize) {
    println!("{name:32} {:8.0} MB/s  {seconds:7.3} s  {rows} rows", bytes as f64 / 1e6 / seconds);
}

/// Each fragment once over the file on disk.
async fn from_disk(path: &str, only: &str) -> Result<()> {
    for (name, fragment) in fragments(path).into_iter().filter(|(name, _)| name.contains(only)) {
        let file = LocalFile::open(path, path)?;
        let size = usize::try_from(file.size())?;
        let start = Clock::now();
        let rows = run(fragment, file).await?;
        report(name, size, start.seconds(), rows);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("peak memory {}", status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("unknown").trim());
    Ok(())
}

async fn run(fragment: Fragment, reader: impl ObjectReader) -> Result<usize> {
    let reader = Arc::new(reader);
    let batches = scan(Arc::new(fragment), reader, None, ScanOptions::default(), Arc::new(ScanCounters::default()))?;
    Ok(batches.try_fold(0, |rows, batch| async move { Ok(rows + batch.num_rows()) }).await?)
}

fn generate(path: &str, scale: f64) -> Result<()> {
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    writeln!(file, "{}", LineItemCsv::header())?;
    for row in LineItemGenerator::new(scale, 1, 1).iter() {
        writeln!(file, "{}", LineItemCsv::new(row))?;
    }
    Ok(file.flush()?)
}

fn lineitem() -> SchemaRef {
    let decimal = DataType::Decimal128(15, 2);
    let types = [
        DataType::Int64,
        DataType::Int64,
        DataType::Int64,
        DataType::Int64,
        decimal.clone(),
        decimal.clone(),
        decimal.clone(),
        decimal,
        DataType::Utf8,
        DataType::Utf8,
        DataType::Date32,
        DataType::Date32,
        DataType::Date32,
        DataType::Utf8,
        DataType::Utf8,
        DataType::Utf8,
    ];
    let names = LineItemCsv::header().split(',');
    Arc::new(Schema::new(names.zip(types).map(|(n, t)| Field::new(n, t, false)).collect::<Vec<_>>()))
}

fn decimal(value: i128) -> Expr {
    Expr::Literal(Literal::Decimal(value, 15, 2))
}

/// What is run over a file that is written as its name ends: `.csv` or `.json`, and perhaps `.gz` or `.zst`.
fn fragments(path: &str) -> Vec<(&'static str, Fragment)> {
    let (name, compression) = match (path.strip_suffix(".gz"), path.strip_suffix(".zst")) {
        (Some(name), _) => (name, Compression::Gzip),
        (_, Some(name)) => (name, Compression::Zstd),
        _ => (path, Compression::None),
    };
    let format = if name.ends_with("json") {
        Format::Json(JsonOptions { compression, ..JsonOptions::default() })
    } else {
        Format::Csv(CsvOptions { compression, ..CsvOptions::default() })
    };
    let all = Fragment::all(format.clone(), lineitem());
    let column = |name: &str| Expr::Column(lineitem().index_of(name).unwrap_or_default());
    let compare = |op, name: &str, value| Expr::compare(op, column(name), value);
    let count = AggregateCall { function: AggregateFunction::Count, argument: None, name: "count".into() };
    let views = Schema::new(
        lineitem()
            .fields()
            .iter()
            .map(|f| match f.data_type() {
                DataType::Utf8 => f.as_ref().clone().with_data_type(DataType::Utf8View),
                _ => f.as_ref().clone(),
            })
            .collect::<Vec<_>>(),
    );
    let q1 = compare(CompareOp::LtEq, "l_shipdate", Expr::Literal(Literal::Date(10_471)));
    let q6 = compare(CompareOp::GtEq, "l_shipdate", Expr::Literal(Literal::Date(8_766)))
        .and(compare(CompareOp::Lt, "l_shipdate", Expr::Literal(Literal::Date(9_131))))
        .and(compare(CompareOp::GtEq, "l_discount", decimal(5)))
        .and(compare(CompareOp::LtEq, "l_discount", decimal(7)))
        .and(compare(CompareOp::Lt, "l_quantity", Expr::int(24)));
    let revenue =
        Expr::Arithmetic(ArithmeticOp::Multiply, Box::new(column("l_extendedprice")), Box::new(column("l_discount")));
    let sum = AggregateCall { function: AggregateFunction::Sum, argument: Some(revenue), name: "revenue".into() };
    let first = |n: usize| match &all.output {
        Output::Rows(columns) => Output::Rows(columns.iter().skip(4).take(n).cloned().collect()),
        other => other.clone(),
    };
    let text: Vec<Field> = lineitem().fields().iter().map(|f| Field::new(f.name(), DataType::Utf8, true)).collect();
    let text = Arc::new(Schema::new(text));
    let cast = |name: &str, to| {
        let guarded = Expr::Call(pushdown::Function::NullIf, vec![column(name), Expr::text("")]);
        Expr::Cast(Box::new(guarded), to)
    };
    let price = Expr::compare(CompareOp::LtEq, cast("l_extendedprice", DataType::Decimal128(15, 2)), decimal(94_300));
    let as_text = Fragment::all(format, text);
    let like = Expr::Like {
        expr: Box::new(column("l_comment")),
        pattern: Box::new(Expr::text("%special requests%")),
        escape: None,
        negated: false,
        case_insensitive: false,
    };
    // September 1995.
    let between = |from, to| {
        compare(CompareOp::GtEq, "l_shipdate", Expr::Literal(from)).and(compare(
            CompareOp::Lt,
            "l_shipdate",
            Expr::Literal(to),
        ))
    };
    let month = between(Literal::Date(9_374), Literal::Date(9_404));
    let text_month = between(Literal::Utf8("1995-09-01".into()), Literal::Utf8("1995-10-01".into()));
    vec![
        ("count(*)", Fragment { output: Output::scalar(vec![count.clone()]), ..all.clone() }),
        (
            "price <= 943.00, all columns",
            Fragment { predicate: Some(compare(CompareOp::LtEq, "l_extendedprice", decimal(94_300))), ..all.clone() },
        ),
        ("same as S3 Select sends it", Fragment { predicate: Some(price), ..as_text.clone() }),
        ("LIKE", Fragment { predicate: Some(like), output: Output::scalar(vec![count.clone()]), ..all.clone() }),
        ("month", Fragment { predicate: Some(month), output: Output::scalar(vec![count.clone()]), ..all.clone() }),
        (
            "month as text",
            Fragment { predicate: Some(text_month), output: Output::scalar(vec![count.clone()]), ..as_text.clone() },
        ),
        ("Q6", Fragment { predicate: Some(q6), output: Output::scalar(vec![sum]), ..all.clone() }),
        ("Q1 rows (7 columns, 98 %)", Fragment { predicate: Some(q1), output: first(6), ..all.clone() }),
        ("all columns", all.clone()),
        ("all columns, Utf8View", Fragment { schema: Arc::new(views), ..all }),
        ("all columns as text", as_text),
    ]
}
