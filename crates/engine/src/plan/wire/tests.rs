//! Round trips of random plans, and fingerprints.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use chrono::{TimeZone, Utc};
use datafusion::common::ScalarValue;
use object_store::path::Path;
use pushdowndb_contract::{
    AggregateCall, AggregateFunction, CompareOp, CsvOptions, Expr, Fingerprint, Format, JsonOptions, Literal,
    NamedExpr, Profile,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::catalog::{DataObject, ObjectColumns};
use crate::plan::join_keys::{JoinId, KeyFilter, Shift};
use crate::plan::partial_aggregate::{PartialAggregate, State};
use crate::plan::scan_plan::{ScanPlan, ScanTable, WithoutKeys};
use crate::plan::split_sample::SplitSample;
use crate::plan::top_k::TopK;

const COLUMNS: usize = 5;

fn table(rng: &mut StdRng) -> ScanTable {
    let types = [
        DataType::Int64,
        DataType::Utf8,
        DataType::Float64,
        DataType::Decimal128(15, 2),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Date32,
    ];
    let format = match rng.random_range(0..3) {
        0 => Format::Csv(CsvOptions { header: rng.random(), ..CsvOptions::default() }),
        1 => Format::Json(JsonOptions::default()),
        _ => Format::Parquet,
    };
    let field = |n: usize, rng: &mut StdRng| {
        Field::new(format!("c{n}"), types[rng.random_range(0..types.len())].clone(), rng.random())
    };
    let fields: Vec<Field> = (0..COLUMNS).map(|n| field(n, rng)).collect();
    let in_paths = [DataType::Utf8, DataType::Int64, DataType::Date32];
    let partition = |n: usize| Arc::new(Field::new(format!("p{n}"), in_paths[n].clone(), true));
    ScanTable {
        location: "s3://bucket/t/".to_owned(),
        store: ["s3://bucket/", "stores://s3%3A%2F%2Fa,s3%3A%2F%2Fb"][rng.random_range(0..2)].to_owned(),
        format,
        compression_by_name: rng.random(),
        file_schema: Arc::new(Schema::new(fields)),
        partition_columns: (0..rng.random_range(0..=in_paths.len())).map(partition).collect(),
        profile: [None, Some(Profile::PushdownDb), Some(Profile::Minio)][rng.random_range(0..3)],
    }
}

fn object(table: &ScanTable, n: usize, rng: &mut StdRng) -> DataObject {
    let names: Vec<String> = (0..COLUMNS).rev().map(|n| format!("c{n}")).collect();
    let value = |field: &Arc<Field>, rng: &mut StdRng| match (rng.random_bool(0.2), field.data_type()) {
        (true, data_type) => ScalarValue::try_new_null(data_type).unwrap(),
        (_, DataType::Utf8) => ScalarValue::Utf8(Some(format!("v'{n}"))),
        (_, DataType::Int64) => ScalarValue::Int64(Some(rng.random())),
        _ => ScalarValue::Date32(Some(rng.random_range(-1000..20_000))),
    };
    DataObject {
        path: Path::parse(format!("1/t/50% {n}.csv.gz")).unwrap(),
        size: rng.random(),
        etag: rng.random_bool(0.8).then(|| format!("\"{n}\"")),
        last_modified: Utc
            .timestamp_opt(rng.random_range(0..4_000_000_000), rng.random_range(0..1_000_000_000))
            .unwrap(),
        partition_values: table.partition_columns.iter().map(|field| value(field, rng)).collect(),
        columns: rng.random_bool(0.3).then(|| ObjectColumns::new(&names, &table.file_schema).map(Arc::new)).flatten(),
        replicas: (0..rng.random_range(0..3)).map(|_| rng.random_range(0..9)).collect(),
    }
}

fn expr(rng: &mut StdRng) -> Expr {
    let literal = match rng.random_range(0..4) {
        0 => Literal::Int64(rng.random()),
        1 => Literal::Utf8("it's".to_owned()),
        2 => Literal::Null,
        _ => Literal::Float64(rng.random()),
    };
    let compared = Expr::compare(CompareOp::GtEq, Expr::Column(rng.random_range(0..COLUMNS)), Expr::Literal(literal));
    match rng.random_range(0..3) {
        0 => compared,
        1 => compared.and(Expr::IsNull(Box::new(Expr::Column(0)))),
        _ => Expr::Or(vec![compared, expr(rng)]),
    }
}

fn aggregate(rng: &mut StdRng) -> PartialAggregate {
    let fields: Vec<Field> = (0..3).map(|n| Field::new(format!("s{n}"), DataType::Int64, true)).collect();
    PartialAggregate {
        groups: vec![NamedExpr { expr: Expr::Column(1), name: "key".to_owned() }],
        calls: vec![
            AggregateCall { function: AggregateFunction::Count, argument: None, name: "COUNT(*)".to_owned() },
            AggregateCall { function: AggregateFunction::Sum, argument: Some(Expr::Column(2)), name: "s".to_owned() },
        ],
        schema: Arc::new(Schema::new(fields)),
        states: (0..2).map(|call| State { call, zero_is_null: rng.random() }).collect(),
    }
}

fn key_filter(rng: &mut StdRng) -> KeyFilter {
    let side = Fingerprint::builder("test", 1).number(rng.random()).finish();
    KeyFilter {
        join: JoinId(rng.random()),
        join_keys: 2,
        nulls_match: rng.random(),
        index: rng.random_range(0..2),
        key_type: DataType::Int64,
        key: Expr::Column(rng.random_range(0..COLUMNS)),
        shift: Shift { negated: rng.random(), offset: rng.random() },
        of: "o_custkey".to_owned(),
        side: rng.random_bool(0.5).then_some(side),
    }
}

fn plan(rng: &mut StdRng) -> ScanPlan {
    let table = table(rng);
    let order = |rng: &mut StdRng| SortOptions { descending: rng.random(), nulls_first: rng.random() };
    let all = COLUMNS + table.partition_columns.len();
    ScanPlan {
        name: format!("table {}", rng.random::<u16>()),
        objects: Arc::new((0..rng.random_range(0..4)).map(|n| object(&table, n, rng)).collect()),
        table: Arc::new(table),
        partitions: rng.random_range(1..100),
        projection: (0..rng.random_range(0..all)).map(|_| rng.random_range(0..all)).collect(),
        predicate: rng.random_bool(0.7).then(|| expr(rng)),
        limit: rng.random_bool(0.3).then(|| rng.random_range(0..1000)),
        aggregate: rng.random_bool(0.3).then(|| aggregate(rng)),
        group_bytes: rng.random_range(0..1 << 30),
        top_k: rng.random_bool(0.3).then(|| TopK {
            key: Expr::Column(0),
            order: order(rng),
            rest: rng.random_bool(0.5).then(|| (0..rng.random_range(0..3)).map(|_| (expr(rng), order(rng))).collect()),
            k: rng.random_range(1..100),
        }),
        key_filters: (0..rng.random_range(0..3)).map(|_| key_filter(rng)).collect(),
        without_keys: rng
            .random_bool(0.2)
            .then(|| WithoutKeys { predicate: rng.random_bool(0.5).then(|| expr(rng)), rows: rng.random() }),
        sample: rng.random_bool(0.2).then(|| SplitSample { share: rng.random(), seed: rng.random() }),
    }
}

#[test]
fn a_plan_is_decoded_as_it_was_encoded() {
    for seed in 0..2000 {
        let plan = plan(&mut StdRng::seed_from_u64(seed));
        let decoded = ScanPlan::from_bytes(&plan.to_bytes().unwrap()).unwrap();
        assert_eq!(decoded, plan, "seed {seed}");
        assert_eq!(decoded.rows_fingerprint().unwrap(), plan.rows_fingerprint().unwrap(), "seed {seed}");
    }
}

#[test]
fn broken_bytes_are_an_error_or_another_plan() {
    let mut rng = StdRng::seed_from_u64(7);
    for _ in 0..200 {
        let mut bytes = plan(&mut rng).to_bytes().unwrap();
        let at = rng.random_range(0..bytes.len());
        bytes[at] ^= 1 << rng.random_range(0..8);
        let (whole, cut) = (ScanPlan::from_bytes(&bytes), ScanPlan::from_bytes(&bytes[..at]));
        // Decoded plans can be encoded again.
        for plan in whole.into_iter().chain(cut) {
            plan.to_bytes().unwrap();
        }
    }
}

#[test]
fn the_fingerprint_is_that_of_the_rows() {
    let base = plan(&mut StdRng::seed_from_u64(3));
    let print = |edit: &dyn Fn(&mut ScanPlan)| {
        let mut plan = base.clone();
        edit(&mut plan);
        plan.rows_fingerprint().unwrap()
    };
    let own = print(&|_| {});
    assert_eq!(own, print(&|plan| plan.name.push('x')));
    assert_eq!(own, print(&|plan| plan.partitions += 1));
    assert_eq!(own, print(&|plan| plan.group_bytes += 1));
    assert_eq!(own, print(&|plan| Arc::make_mut(&mut plan.objects).iter_mut().for_each(|o| o.replicas.push(7))));
    let edits: [&dyn Fn(&mut ScanPlan); 8] = [
        &|plan| Arc::make_mut(&mut plan.table).store.push('x'),
        &|plan| plan.projection.push(0),
        &|plan| plan.predicate = Some(Expr::IsNull(Box::new(Expr::Column(4)))),
        &|plan| plan.limit = Some(123_456),
        &|plan| plan.top_k = None,
        &|plan| plan.sample = Some(SplitSample { share: 1, seed: 2 }),
        &|plan| Arc::make_mut(&mut plan.table).location.push('x'),
        &|plan| {
            let mut rng = StdRng::seed_from_u64(9);
            let added = object(&plan.table, 99, &mut rng);
            Arc::make_mut(&mut plan.objects).push(added);
        },
    ];
    for (n, edit) in edits.iter().enumerate() {
        let mut edited = base.clone();
        edit(&mut edited);
        assert!(edited == base || own != print(*edit), "edit {n}");
    }
}

/// Compares with a fixed fingerprint, to detect changes of its input. Such a change requires a new
/// fingerprint version.
#[test]
fn the_fingerprint_is_the_same_in_every_process() {
    let plan = ScanPlan {
        name: String::new(),
        table: Arc::new(ScanTable {
            location: "s3://bucket/t/".to_owned(),
            store: "s3://bucket/".to_owned(),
            format: Format::Parquet,
            compression_by_name: true,
            file_schema: Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)])),
            partition_columns: vec![],
            profile: None,
        }),
        objects: Arc::default(),
        partitions: 1,
        projection: vec![0],
        predicate: Some(Expr::IsNull(Box::new(Expr::Column(0)))),
        limit: None,
        aggregate: None,
        group_bytes: 0,
        top_k: None,
        key_filters: vec![],
        without_keys: None,
        sample: None,
    };
    assert_eq!(plan.rows_fingerprint().unwrap().to_string(), "2-63049b1b5a5395ea0773db9fd3a1f5ed");
}
