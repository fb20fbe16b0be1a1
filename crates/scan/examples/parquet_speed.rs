//! How fast one core scans TPC-H lineitem as Parquet: CPU seconds, peak memory, and what was read.
//!
//! `cargo run --release -p pushdowndb-scan --example parquet_speed -- FILE.parquet [NAME]`; a name picks the lines that
//! contain it.

use std::error::Error;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use futures::TryStreamExt;
use pushdown::{
    AggregateCall, AggregateFunction, ArithmeticOp, CompareOp, Expr, Format, Fragment, Literal, NamedExpr, Output,
};
use pushdowndb_scan::{LocalFile, ScanCounters, ScanOptions, parquet_metadata, scan};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Each line is the least of so many runs.
const RUNS: usize = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("give the path of lineitem as Parquet")?;
    let only = args.next().unwrap_or_default();
    let metadata = parquet_metadata(&LocalFile::open(&path, path.as_str())?, u64::MAX).await?;
    let schema = parquet::arrow::parquet_to_arrow_schema(metadata.file_metadata().schema_descr(), None)?;
    for (name, fragment) in fragments(schema)?.into_iter().filter(|(name, _)| name.contains(&only)) {
        let mut least = f64::MAX;
        let (mut rows, mut read) = (0, 0);
        for _ in 0..RUNS {
            let before = cpu_seconds();
            let counters = Arc::new(ScanCounters::default());
            let file = Arc::new(LocalFile::open(&path, path.as_str())?);
            let fragment = Arc::new(fragment.clone());
            let batches = scan(fragment, file, None, ScanOptions::default(), Arc::clone(&counters))?;
            rows = batches.try_fold(0, |rows, batch| async move { Ok(rows + batch.num_rows()) }).await?;
            read = counters.bytes_scanned.load(std::sync::atomic::Ordering::Relaxed);
            least = least.min(cpu_seconds() - before);
        }
        println!("{name:32} {least:7.3} CPU s  {:6.1} MB read  {rows} rows", read as f64 / 1e6);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("peak memory {}", status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("unknown").trim());
    Ok(())
}

/// What the process has used, in user mode.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(11)?.parse::<f64>().ok());
    ticks.unwrap_or_default() / 100.0
}

fn decimal(value: i128) -> Expr {
    Expr::Literal(Literal::Decimal(value, 15, 2))
}

fn fragments(schema: Schema) -> Result<Vec<(&'static str, Fragment)>> {
    let schema = Arc::new(schema);
    let all = Fragment::all(Format::Parquet, Arc::clone(&schema));
    let column = |name: &str| Expr::Column(schema.index_of(name).unwrap_or_default());
    let compare = |op, name: &str, value| Expr::compare(op, column(name), value);
    let call = |function, argument, name: &str| AggregateCall { function, argument, name: name.into() };
    let sum = |argument, name| call(AggregateFunction::Sum, Some(argument), name);
    let count = call(AggregateFunction::Count, None, "count");
    let arithmetic = |op, a, b| Expr::Arithmetic(op, Box::new(a), Box::new(b));
    let times = |a, b| arithmetic(ArithmeticOp::Multiply, a, b);
    let day = |days| Expr::Literal(Literal::Date(days));
    let q6 = compare(CompareOp::GtEq, "l_shipdate", day(8_766))
        .and(compare(CompareOp::Lt, "l_shipdate", day(9_131)))
        .and(compare(CompareOp::GtEq, "l_discount", decimal(5)))
        .and(compare(CompareOp::LtEq, "l_discount", decimal(7)))
        .and(compare(CompareOp::Lt, "l_quantity", decimal(2400)));
    let net = times(column("l_extendedprice"), arithmetic(ArithmeticOp::Subtract, decimal(100), column("l_discount")));
    let gross = times(net.clone(), arithmetic(ArithmeticOp::Add, decimal(100), column("l_tax")));
    let named = |name: &str| NamedExpr { expr: column(name), name: name.into() };
    let q1 = Output::Aggregate {
        groups: vec![named("l_returnflag"), named("l_linestatus")],
        calls: vec![
            sum(column("l_quantity"), "quantity"),
            sum(column("l_extendedprice"), "price"),
            sum(net, "net"),
            sum(gross, "gross"),
            sum(column("l_discount"), "discount"),
            count.clone(),
        ],
    };
    let like = Expr::Like {
        expr: Box::new(column("l_comment")),
        pattern: Box::new(Expr::text("%special%requests%")),
        escape: None,
        negated: false,
        case_insensitive: false,
    };
    let revenue = Output::scalar(vec![sum(times(column("l_extendedprice"), column("l_discount")), "revenue")]);
    let cheap = compare(CompareOp::Lt, "l_extendedprice", decimal(100_000));
    let views = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Utf8 => field.as_ref().clone().with_data_type(DataType::Utf8View),
        _ => field.as_ref().clone(),
    });
    let views = Arc::new(Schema::new(views.collect::<Vec<_>>()));
    Ok(vec![
        ("Q6", Fragment { predicate: Some(q6), output: revenue, ..all.clone() }),
        (
            "Q1",
            Fragment {
                predicate: Some(compare(CompareOp::LtEq, "l_shipdate", day(10_471))),
                output: q1,
                ..all.clone()
            },
        ),
        ("price < 1000, all columns", Fragment { predicate: Some(cheap.clone()), ..all.clone() }),
        ("the same as views", Fragment { predicate: Some(cheap), schema: views, ..all.clone() }),
        ("LIKE", Fragment { predicate: Some(like), output: Output::scalar(vec![count.clone()]), ..all.clone() }),
        ("count(*)", Fragment { output: Output::scalar(vec![count]), ..all.clone() }),
        ("all columns", all),
    ])
}
