use std::sync::Arc;
use std::time::Duration;

use arrow_schema::{DataType, Field, IntervalUnit, Schema, TimeUnit};

use super::expr::{read_expr, write_expr};
use super::types::{read_schema, read_type, write_schema, write_type};
use super::*;
use crate::{
    AggregateCall, AggregateFunction, ArithmeticOp, BloomFilter, CompareOp, Compression, CsvOptions, ErrorKind, Expr,
    Format, Fragment, Function, JsonOptions, JsonShape, JsonStep, Key, Literal, NamedExpr, NullRule, Output, Ragged,
    SortKey, Split, WideMarks, limits,
};

const FUNCTIONS: [Function; 34] = [
    Function::NullIf,
    Function::Coalesce,
    Function::Lower,
    Function::Upper,
    Function::CharLength,
    Function::Substring,
    Function::Trim,
    Function::TrimLeading,
    Function::TrimTrailing,
    Function::Concat,
    Function::JsonText,
    Function::JsonString,
    Function::JsonBoolean,
    Function::JsonValue,
    Function::ToToken,
    Function::ToNumber,
    Function::TokenEq,
    Function::TokenLt,
    Function::TokenLtEq,
    Function::TokenOrder,
    Function::TokenAdd,
    Function::TokenSubtract,
    Function::TokenMultiply,
    Function::TokenDivide,
    Function::TokenModulo,
    Function::LikePattern,
    Function::ToTimestamp,
    Function::ReadTimestamp,
    Function::FormatTimestamp,
    Function::DateAdd,
    Function::DateDiff,
    Function::Extract,
    Function::JsonWhole,
    Function::JsonTruth,
];

fn column() -> Box<Expr> {
    Box::new(Expr::Column(0))
}

/// Returns a probe of a set of integers with `keys` keys.
fn numbers(keys: usize) -> Expr {
    let filter = BloomFilter::of_numbers([7, -20, 4000].into_iter(), 1000).expect("they are near");
    Expr::Bloom { keys: vec![*column(); keys], filter: Arc::new(filter) }
}

/// Every kind of expression at least once.
fn exprs() -> Vec<Expr> {
    let literal = |value| Expr::Literal(value);
    let mut bloom = BloomFilter::with_capacity(10, 0.01);
    bloom.insert(Key::Int(7));
    let two = || vec![Expr::Column(0), Expr::int(-3)];
    let mut all = vec![
        Expr::Column(2),
        literal(Literal::Null),
        literal(Literal::Boolean(true)),
        literal(Literal::Boolean(false)),
        Expr::int(i64::MIN),
        Expr::int(i64::MAX),
        literal(Literal::Decimal(i128::MIN, 38, 38)),
        literal(Literal::Decimal(-12_345, 9, -2)),
        literal(Literal::Float64(-0.0)),
        literal(Literal::Float64(f64::INFINITY)),
        Expr::text(""),
        Expr::text("it's \u{1f980}\n"),
        literal(Literal::Date(i32::MIN)),
        literal(Literal::Timestamp(i64::MAX, true)),
        literal(Literal::Timestamp(-1, false)),
        Expr::And(vec![]),
        Expr::And(two()),
        Expr::Or(vec![]),
        Expr::Or(vec![Expr::And(two()), Expr::Column(1), Expr::Or(two())]),
        Expr::Not(column()),
        Expr::IsNull(column()),
        Expr::Negate(column()),
        Expr::InList { expr: column(), list: two(), negated: true },
        Expr::InList { expr: column(), list: vec![], negated: false },
        Expr::Cast(column(), DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))),
        Expr::Case { branches: vec![], otherwise: None },
        Expr::Case {
            branches: vec![(Expr::Column(0), Expr::int(1)), (Expr::Column(1), Expr::int(2))],
            otherwise: Some(column()),
        },
        Expr::Bloom { keys: vec![*column()], filter: Arc::new(bloom.clone()) },
        Expr::Bloom { keys: vec![*column(), Expr::int(1)], filter: Arc::new(bloom) },
        numbers(1),
    ];
    for (negated, case_insensitive) in [(false, false), (false, true), (true, false)] {
        let pattern = Box::new(Expr::text("a%"));
        all.push(Expr::Like { expr: column(), pattern, negated, case_insensitive });
    }
    for op in [CompareOp::Eq, CompareOp::NotEq, CompareOp::Lt, CompareOp::LtEq, CompareOp::Gt, CompareOp::GtEq] {
        all.push(Expr::compare(op, Expr::Column(0), Expr::int(1)));
    }
    for op in
        [ArithmeticOp::Add, ArithmeticOp::Subtract, ArithmeticOp::Multiply, ArithmeticOp::Divide, ArithmeticOp::Modulo]
    {
        all.push(Expr::Arithmetic(op, Box::new(Expr::int(1)), column()));
    }
    all.extend(FUNCTIONS.map(|function| Expr::Call(function, two())));
    all
}

fn types() -> Vec<DataType> {
    let item = || Arc::new(Field::new("item", DataType::Int8, true));
    let entries = Field::new_struct(
        "entries",
        vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Int64, true)],
        false,
    );
    let mut all = vec![
        DataType::Null,
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        DataType::FixedSizeBinary(7),
        DataType::Date32,
        DataType::Date64,
        DataType::Time32(TimeUnit::Second),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Interval(IntervalUnit::YearMonth),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Decimal32(9, 2),
        DataType::Decimal64(18, -3),
        DataType::Decimal128(38, 38),
        DataType::Decimal256(76, 0),
        DataType::List(item()),
        DataType::LargeList(Arc::new(Field::new("item", DataType::List(item()), false))),
        DataType::FixedSizeList(item(), 3),
        DataType::Struct(
            vec![Field::new("a", DataType::List(item()), true), Field::new("b", DataType::Utf8, false)].into(),
        ),
        DataType::Map(Arc::new(entries), true),
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    ];
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        all.extend([DataType::Timestamp(unit, None), DataType::Duration(unit)]);
    }
    all
}

fn fragments() -> Vec<Fragment> {
    let note = [("path".to_owned(), "a.\"B\"[0]".to_owned())].into();
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int64, false),
        Field::new("b", DataType::Utf8, true).with_metadata(note),
        Field::new("c", DataType::Decimal128(15, 2), true),
    ]));
    let csv = CsvOptions {
        header: false,
        delimiter: 1,
        quote: None,
        escape: Some(b'\\'),
        comment: Some(b'#'),
        terminator: Some(0),
        null: NullRule::Text("\\N".into()),
        ragged: Ragged::Lenient,
        newlines_in_values: true,
        compression: Compression::Gzip,
        inferred: true,
        wide: None,
        translation: None,
    };
    let marks = WideMarks { delimiter: "||".into(), terminator: Some("\r\n\r\n".into()), ..WideMarks::default() };
    let json = JsonOptions {
        shape: JsonShape::Document,
        compression: Compression::Bzip2,
        raw_tokens: true,
        from: vec![
            JsonStep::Key { name: "x".into(), exact: true },
            JsonStep::Index(3),
            JsonStep::AnyElement,
            JsonStep::AnyMember,
        ],
        inferred: true,
    };
    let rows = Fragment::all(Format::Csv(CsvOptions::default()), Arc::clone(&schema));
    let functions = [
        AggregateFunction::Count,
        AggregateFunction::Sum,
        AggregateFunction::Min,
        AggregateFunction::Max,
        AggregateFunction::Avg,
        AggregateFunction::Mean,
        AggregateFunction::SquaredDeviations,
    ];
    let call = |function| AggregateCall { function, argument: Some(Expr::Column(2)), name: "x".into() };
    let rows_only = AggregateCall { function: AggregateFunction::Count, argument: None, name: "n".into() };
    let calls: Vec<_> = functions.map(call).into_iter().chain([rows_only]).collect();
    let group = NamedExpr { expr: Expr::Column(1), name: "g".into() };
    vec![
        rows.clone(),
        Fragment { format: Format::Csv(csv), limit: Some(0), ..rows.clone() },
        Fragment { format: Format::Csv(CsvOptions { wide: Some(marks), ..CsvOptions::default() }), ..rows.clone() },
        Fragment { format: Format::Json(json), predicate: Some(Expr::IsNull(column())), ..rows.clone() },
        Fragment { format: Format::Parquet, output: Output::Rows(vec![]), ..rows.clone() },
        Fragment {
            output: Output::Aggregate { groups: vec![group], calls },
            order: vec![SortKey { expr: Expr::Column(8), descending: true, nulls_first: true }],
            limit: Some(10),
            project: Some(vec![NamedExpr { expr: Expr::Column(1), name: "p".into() }]),
            ..rows
        },
    ]
}

fn request(fragment: Fragment) -> Request {
    let split = |range| Split { key: "a b/ö.csv".into(), etag: Some("\"e-1\"".into()), size: 10, range };
    Request::Fragment(Box::new(FragmentRequest {
        fragment,
        splits: vec![split(None), split(Some(0..10)), Split { etag: None, ..split(Some(3..4)) }],
        deadline: Duration::from_millis(1500),
        encoding: Encoding::Zstd,
        partial_group_bytes: Some(5),
        lookups: Lookups::default(),
        positions: false,
        dictionaries: false,
    }))
}

#[test]
fn expressions_come_back_as_they_were() {
    for expr in exprs() {
        assert_eq!(read_expr(&write_expr(&expr).unwrap(), 3).unwrap(), expr);
    }
    // All expressions at once; then NaN, which does not equal itself.
    let all = Expr::Or(exprs());
    assert_eq!(read_expr(&write_expr(&all).unwrap(), 3).unwrap(), all);
    let zero = Expr::Literal(Literal::Float64(-0.0));
    let Expr::Literal(Literal::Float64(back)) = read_expr(&write_expr(&zero).unwrap(), 0).unwrap() else { panic!() };
    assert!(back == 0.0 && back.is_sign_negative());
    let nan = Expr::Literal(Literal::Float64(f64::from_bits(0x7ff8_0000_0000_1234)));
    let Expr::Literal(Literal::Float64(back)) = read_expr(&write_expr(&nan).unwrap(), 0).unwrap() else { panic!() };
    assert_eq!(back.to_bits(), 0x7ff8_0000_0000_1234);
}

#[test]
fn types_come_back_as_they_were() {
    for data_type in types() {
        assert_eq!(read_type(&write_type(&data_type).unwrap()).unwrap(), data_type);
    }
    let fields: Vec<_> =
        types().into_iter().enumerate().map(|(i, t)| Field::new(i.to_string(), t, i % 2 == 0)).collect();
    let schema = Schema::new(fields);
    assert_eq!(*read_schema(&write_schema(&schema).unwrap()).unwrap(), schema);
}

#[test]
fn requests_come_back_as_they_were() {
    for fragment in fragments() {
        let request = request(fragment);
        assert_eq!(Request::from_bytes(&request.to_bytes().unwrap()).unwrap(), request);
    }
    let object = Split { key: "k".into(), etag: None, size: 100, range: None };
    let request = Request::Ranges(RangesRequest { object, ranges: vec![0..1, 99..100, 5..50] });
    assert_eq!(Request::from_bytes(&request.to_bytes().unwrap()).unwrap(), request);
}

#[test]
fn answers_come_back_as_they_were() {
    let stats = RouteStats { bytes_scanned: 1, rows_scanned: u64::MAX, cpu_ns: 3, ..RouteStats::default() };
    assert_eq!(RouteStats::from_bytes(&stats.encode_to_vec()).unwrap(), stats);
    for kind in ErrorKind::ALL {
        let failure = Failure { kind, message: "k: ö".into() };
        assert_eq!(Failure::from_bytes(&failure.to_bytes()).unwrap(), failure);
    }
}

/// The encoding of this version must not change.
#[test]
fn the_bytes_of_a_request_stay() {
    let predicate = Expr::compare(CompareOp::Lt, Expr::Column(0), Expr::int(5));
    let bytes = write_expr(&predicate).unwrap();
    assert_eq!(bytes, [2, 8, 1, 4, 8, 4, 56, 10, 4, 8, 10, 16, 3]);
}

#[test]
fn whatever_is_cut_off_or_changed_is_an_error_or_a_request() {
    for fragment in fragments() {
        let bytes = request(fragment).to_bytes().unwrap();
        for end in 0..bytes.len() {
            drop(Request::from_bytes(&bytes[..end]));
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                drop(Request::from_bytes(&changed));
            }
        }
    }
}

fn with_lookups() -> FragmentRequest {
    let Request::Fragment(mut request) = request(fragments().remove(0)) else { panic!() };
    let object = |key: &str| Split { key: key.into(), etag: Some("e".into()), size: 900, range: None };
    request.lookups = Lookups {
        probes: vec![
            Probe { column: 0, predicate: Expr::compare(CompareOp::Eq, Expr::Column(0), Expr::int(7)) },
            Probe { column: 1, predicate: Expr::IsNull(column()) },
        ],
        objects: vec![
            IndexObject { split: 0, probe: 0, object: object("i/0.csv"), ranges: vec![0..10, 400..900] },
            IndexObject { split: 0, probe: 1, object: object("j/0.csv"), ranges: vec![] },
        ],
    };
    *request
}

#[test]
fn lookups_come_back_as_they_were() {
    let request = Request::Fragment(Box::new(with_lookups()));
    let bytes = request.to_bytes().unwrap();
    assert_eq!(bytes[..2], [8, 2], "a node of version 1 refuses it");
    assert_eq!(Request::from_bytes(&bytes).unwrap(), request);
    let mut older = bytes.clone();
    older[1] = 1;
    assert_eq!(Request::from_bytes(&older).unwrap_err().kind(), ErrorKind::Invalid);
    let positions =
        FragmentRequest { positions: true, dictionaries: true, lookups: Lookups::default(), ..with_lookups() };
    let positions = FragmentRequest { splits: positions.splits[..1].to_vec(), ..positions };
    let bytes = Request::Fragment(Box::new(positions.clone())).to_bytes().unwrap();
    assert_eq!(Request::from_bytes(&bytes).unwrap(), Request::Fragment(Box::new(positions)));
}

#[test]
fn sets_of_numbers_are_asked_of_who_knows_them() {
    let asking = |predicate: Expr| {
        let fragment = Fragment { predicate: Some(predicate), ..fragments().remove(0) };
        request(fragment)
    };
    let bytes = asking(numbers(1)).to_bytes().unwrap();
    assert_eq!(bytes[..2], [8, 3], "a node of version 2 refuses it");
    assert_eq!(Request::from_bytes(&bytes).unwrap(), asking(numbers(1)));
    let mut older = bytes.clone();
    older[1] = 2;
    assert_eq!(Request::from_bytes(&older).unwrap_err().kind(), ErrorKind::Invalid);
    let several = asking(numbers(2)).to_bytes().unwrap();
    assert_eq!(Request::from_bytes(&several).unwrap_err().kind(), ErrorKind::Invalid, "no key is two numbers");
}

#[test]
fn lookups_that_fit_nothing_are_refused() {
    let refused = |change: &dyn Fn(&mut FragmentRequest)| {
        let mut request = with_lookups();
        change(&mut request);
        Request::Fragment(Box::new(request)).to_bytes().unwrap_err().message().to_owned()
    };
    assert!(refused(&|r| r.lookups.objects[0].split = 1).contains("no split"), "a split that is a range");
    assert!(refused(&|r| r.lookups.objects[0].split = 9).contains("no split"));
    assert!(refused(&|r| r.lookups.objects[0].probe = 2).contains("no split and probe"));
    assert!(refused(&|r| r.lookups.probes[0].column = 99).contains("a column that there is not"));
    assert!(refused(&|r| r.lookups.objects[0].ranges = vec![0..901]).contains("does not lie in the object"));
    assert!(refused(&|r| r.lookups.probes = vec![r.lookups.probes[0].clone(); 65]).contains("at most 64 probes"));
    let many = limits::FRAGMENT_RANGES + 1;
    assert!(refused(&|r| r.lookups.objects[0].ranges = vec![0..1; many]).contains("ranges"));
    assert!(refused(&|r| r.positions = true).contains("whole objects"));
    let whole = |r: &mut FragmentRequest| r.splits.iter_mut().for_each(|split| split.range = None);
    assert!(
        refused(&|r| {
            whole(r);
            r.positions = true
        })
        .contains("looked up")
    );
}

#[test]
fn other_versions_are_unsupported_and_nonsense_is_invalid() {
    let kind = |bytes: &[u8]| Request::from_bytes(bytes).unwrap_err().kind();
    let mut newer = request(fragments().remove(0)).to_bytes().unwrap();
    assert_eq!(newer[..2], [8, 1], "the version comes first");
    newer[1] = u8::try_from(VERSION + 1).unwrap();
    assert_eq!(kind(&newer), ErrorKind::Unsupported);
    assert_eq!(kind(&[]), ErrorKind::Unsupported, "version 0");
    assert_eq!(kind(b"GET / HTTP/1.1"), ErrorKind::Invalid);
    assert_eq!(kind(&[8, 1]), ErrorKind::Invalid, "nothing is asked for");
    // A node, a comparison and a function with a code of a later version.
    for node in [[2u8, 8, 99].as_slice(), &[2, 8, 1, 2, 8, 1, 4, 8, 10, 16, 99], &[4, 8, 21, 16, 99]] {
        assert_eq!(read_expr(node, 1).unwrap_err().kind(), ErrorKind::Unsupported, "{node:?}");
    }
    // Missing and surplus operands, and a column that the schema does not have.
    for node in [[2u8, 8, 13].as_slice(), &[2, 8, 2, 2, 8, 2], &[4, 8, 11, 24, 9], &[4, 8, 1, 56, 2]] {
        assert_eq!(read_expr(node, 1).unwrap_err().kind(), ErrorKind::Invalid, "{node:?}");
    }
}

#[test]
fn depth_and_counts_are_bounded() {
    let nested = |levels| (1..levels).fold(Expr::Column(0), |expr, _| Expr::Not(Box::new(expr)));
    let deepest = nested(limits::EXPRESSION_DEPTH);
    assert_eq!(read_expr(&write_expr(&deepest).unwrap(), 1).unwrap(), deepest);
    assert_eq!(write_expr(&nested(limits::EXPRESSION_DEPTH + 1)).unwrap_err().kind(), ErrorKind::Unsupported);
    let mut bytes = write_expr(&deepest).unwrap();
    bytes.extend([2, 8, 13]);
    assert_eq!(read_expr(&bytes, 1).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(read_expr(&[2, 8, 2].repeat(limits::EXPRESSION_NODES + 1), 0).unwrap_err().message().contains("nodes"));

    let list =
        |levels| (1..levels).fold(DataType::Int8, |item, _| DataType::List(Arc::new(Field::new("item", item, true))));
    assert!(read_type(&write_type(&list(limits::TYPE_DEPTH)).unwrap()).is_ok());
    assert_eq!(write_type(&list(limits::TYPE_DEPTH + 1)).unwrap_err().kind(), ErrorKind::Unsupported);

    let Request::Fragment(mut many) = request(fragments().remove(0)) else { panic!() };
    many.splits = vec![many.splits.remove(0); limits::FRAGMENT_SPLITS + 1];
    assert!(Request::Fragment(many.clone()).to_bytes().is_err());
    many.splits = vec![Split { key: "k".into(), etag: None, size: 10, range: Some(5..11) }];
    assert!(Request::Fragment(many).to_bytes().is_err(), "a range beyond the object");
    let object = Split { key: "k".into(), etag: None, size: u64::MAX, range: None };
    let large = RangesRequest { object, ranges: vec![0..limits::FRAGMENT_RANGE_BYTES + 1] };
    assert!(Request::Ranges(large).to_bytes().is_err());
}

#[test]
fn versions_are_agreed_on() {
    assert_eq!(common_version("1"), Some(1));
    assert_eq!(common_version("4, 2 ,1"), Some(2));
    assert_eq!(common_version(VERSIONS), Some(VERSION));
    assert_eq!(common_version("4"), None);
    assert_eq!(common_version("one"), None);
}

#[test]
fn types_of_absurd_width_are_refused() {
    use super::types::{read_type, write_type};
    let list = |item, width| DataType::FixedSizeList(Arc::new(Field::new("item", item, true)), width);
    let sent = |data_type: DataType| read_type(&write_type(&data_type).unwrap());
    for wide in [
        DataType::FixedSizeBinary(i32::MAX),
        list(DataType::Int64, 1 << 20),
        list(list(DataType::Int8, 1_000), 1_000),
        list(DataType::Struct(vec![Field::new("a", DataType::FixedSizeBinary(20_000), true)].into()), 2),
    ] {
        let error = sent(wide).unwrap_err().to_string();
        assert!(error.contains("bytes a row"), "{error}");
    }
    for usual in [DataType::FixedSizeBinary(16), list(DataType::Float32, 1_536)] {
        assert_eq!(sent(usual.clone()).unwrap(), usual);
    }
}
