//! Statements, as bound expressions in short form, and the codes of what is refused.

use super::*;
use crate::parse;
use arrow_schema::TimeUnit;

fn csv() -> InputColumns {
    let names = ["id", "Price", "name", "NAME", "order date"].map(str::to_owned).to_vec();
    InputColumns::Csv { options: CsvOptions::default(), names: Some(names), count: 5 }
}

fn bare() -> InputColumns {
    InputColumns::Csv { options: CsvOptions { header: false, ..CsvOptions::default() }, names: None, count: 3 }
}

fn json() -> InputColumns {
    InputColumns::Json(JsonOptions::default())
}

fn parquet() -> InputColumns {
    InputColumns::Parquet(schema_of(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("price", DataType::Decimal128(15, 2), true),
        Field::new("ship", DataType::Date32, true),
        Field::new("seen", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("Comment", DataType::Utf8, true),
        Field::new("ratio", DataType::Float64, true),
    ]))
}

fn bound(sql: &str, input: &InputColumns) -> Fragment {
    parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).bind(input).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// The condition of `SELECT * … WHERE condition`, as people read it.
fn condition(text: &str, input: &InputColumns) -> String {
    let fragment = bound(&format!("SELECT * FROM S3Object s WHERE {text}"), input);
    fragment.predicate.unwrap().display(&fragment.schema).to_string()
}

fn outputs(sql: &str, input: &InputColumns) -> Vec<String> {
    let fragment = bound(sql, input);
    let schema = &fragment.schema;
    match &fragment.output {
        Output::Rows(columns) => columns.iter().map(|c| format!("{} {}", c.name, c.expr.display(schema))).collect(),
        Output::Aggregate { calls, .. } => calls
            .iter()
            .map(|call| match &call.argument {
                None => format!("{} {}(*)", call.name, call.function.sql()),
                Some(argument) => format!("{} {}({})", call.name, call.function.sql(), argument.display(schema)),
            })
            .collect(),
    }
}

fn code(sql: &str, input: &InputColumns) -> &'static str {
    match parse(sql).and_then(|statement| statement.bind(input)) {
        Ok(fragment) => panic!("{sql} is accepted: {fragment:?}"),
        Err(error) => {
            assert_eq!(error.status, 400);
            error.code
        }
    }
}

#[test]
fn names_of_csv_columns() {
    assert_eq!(
        outputs("SELECT s._2, _1, s.id, PRICE, \"name\", s.\"NAME\" FROM S3Object s", &csv()),
        ["_2 Price", "_1 id", "id id", "PRICE Price", "name name", "NAME NAME"]
    );
    assert_eq!(outputs("select \"order date\" as d, id i FROM s3object[*] AS x", &csv()), ["d order date", "i id"]);
    assert_eq!(outputs("SELECT s3object.id FROM S3Object", &csv()), ["id id"]);
    assert_eq!(outputs("SELECT * FROM S3Object;", &bare()), ["_1 _1", "_2 _2", "_3 _3"]);
    assert_eq!(outputs("SELECT t.* FROM S3Object t", &bare()).len(), 3);
    // Longer records than the first have more columns.
    let fragment = bound("SELECT s._5 FROM S3Object s LIMIT 7", &bare());
    assert_eq!((fragment.schema.fields().len(), fragment.limit), (5, Some(7)));
    let Format::Csv(options) = fragment.format else { panic!() };
    assert_eq!((options.null, options.ragged), (NullRule::Never, Ragged::Lenient));
}

#[test]
fn names_that_do_not_resolve() {
    for (sql, expected) in [
        ("SELECT name FROM S3Object", "AmbiguousFieldName"),
        ("SELECT \"price\" FROM S3Object", "EvaluatorBindingDoesNotExist"),
        ("SELECT nothing FROM S3Object", "EvaluatorBindingDoesNotExist"),
        ("SELECT _0 FROM S3Object", "InvalidColumnIndex"),
        ("SELECT _5000 FROM S3Object", "InvalidColumnIndex"),
        ("SELECT x.id FROM S3Object s", "InvalidTableAlias"),
        ("SELECT x.* FROM S3Object s", "InvalidTableAlias"),
        ("SELECT s.id.x FROM S3Object s", "InvalidTableAlias"),
        ("SELECT s.id[0] FROM S3Object s", "InvalidKeyPath"),
        ("SELECT id FROM other", "InvalidTableAlias"),
    ] {
        assert_eq!(code(sql, &csv()), expected, "{sql}");
    }
    assert_eq!(code("SELECT id FROM S3Object", &bare()), "EvaluatorBindingDoesNotExist");
}

#[test]
fn text_stays_text_until_it_is_cast() {
    for (sql, expected) in [
        ("s._1 = 'x'", "_1 = 'x'"),
        ("_1 >= '1994-01-01' AND _1 < _2", "_1 >= '1994-01-01' AND _1 < _2"),
        // As it is written, not as a number.
        ("_1 = 100", "_1 = '100'"),
        ("_1 <> 1.50", "_1 <> '1.50'"),
        ("-1 = _1", "'-1' = _1"),
        ("_1 IN ('a', 'b', NULL)", "_1 IN ('a', 'b', NULL)"),
        ("_1 NOT IN (1, 2)", "_1 NOT IN ('1', '2')"),
        ("CAST(_1 AS DECIMAL(15,2)) <= 0.07", "CAST(_1 AS Decimal128(15, 2)) <= 0.07"),
        ("CAST(_1 AS DECIMAL(15,2)) < 24", "CAST(_1 AS Decimal128(15, 2)) < 24.00"),
        ("CAST(_1 AS DECIMAL(15,2)) < 0.001", "CAST(_1 AS Decimal128(15, 2)) < 0.001"),
        ("CAST(_1 AS FLOAT) < 24", "CAST(_1 AS Float64) < 24.0"),
        ("CAST(_1 AS INT) BETWEEN 1 AND 5", "CAST(_1 AS Int64) >= 1 AND CAST(_1 AS Int64) <= 5"),
        ("CAST(NULLIF(_1, '') AS INT) = 1", "CAST(NULLIF(_1, '') AS Int64) = 1"),
        ("CAST('5' AS INT) = CAST(_1 AS INTEGER)", "5 = CAST(_1 AS Int64)"),
        ("_1 LIKE 'a%'", "_1 LIKE 'a%'"),
        (r"_1 LIKE '1!%!!\' ESCAPE '!'", r"_1 LIKE '1\%!\\'"),
        ("NOT _1 NOT LIKE 'a'", "NOT (_1 NOT LIKE 'a')"),
        ("_1 IS NOT NULL OR _1 IS MISSING", "_1 IS NOT NULL OR _1 IS NULL"),
        ("LOWER(_1) || 'x' = TRIM(BOTH '12' FROM _2)", "CONCAT(LOWER(_1), 'x') = TRIM(_2, '12')"),
        ("SUBSTRING(_1 FROM 2 FOR 3) = SUBSTRING(_1, 2)", "SUBSTRING(_1, 2, 3) = SUBSTRING(_1, 2)"),
        ("CHARACTER_LENGTH(_1) > 3", "CHAR_LENGTH(_1) > 3"),
        ("COALESCE(_1, _2) = 'x'", "COALESCE(_1, _2) = 'x'"),
        ("CASE _1 WHEN 'a' THEN 1 ELSE 2.5 END > 1", "CASE WHEN _1 = 'a' THEN 1 ELSE 2.5 END > 1"),
        ("CASE WHEN _1 = 'a' THEN TRUE END", "CASE WHEN _1 = 'a' THEN TRUE END"),
        ("- CAST(_1 AS INT) * 2 + 1 > 0", "((-(CAST(_1 AS Int64)) * 2) + 1) > 0"),
        ("_1 = NULL", "_1 = NULL"),
    ] {
        assert_eq!(condition(sql, &bare()), expected, "{sql}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (condition, expected) in [
        ("_1 > 5", "InvalidDataType"),
        ("_1 BETWEEN 1 AND 2", "InvalidDataType"),
        ("_1 = TRUE", "InvalidDataType"),
        ("_1", "InvalidDataType"),
        ("_1 + 1 = 2", "InvalidDataType"),
        ("CAST(_1 AS INT) = 'x'", "InvalidDataType"),
        ("CAST(_1 AS INT) AND TRUE", "InvalidDataType"),
        ("LOWER(CAST(_1 AS INT)) = 'x'", "IncorrectSqlFunctionArgumentType"),
        ("SUBSTRING(_1, 'x') = 'x'", "IncorrectSqlFunctionArgumentType"),
        ("CAST('x' AS INT) = 1", "CastFailed"),
        ("CAST('1.005' AS DECIMAL(5,2)) = 1", "CastFailed"),
        ("CAST('1994' AS TIMESTAMP) = CAST(_1 AS TIMESTAMP)", "ValueParseFailure"),
        ("_1 LIKE _2", "LikeInvalidInputs"),
        ("_1 LIKE 'a' ESCAPE 'xy'", "LikeInvalidInputs"),
        ("_1 LIKE 'a!b' ESCAPE '!'", "EvaluatorLikePatternInvalidEscapeSequence"),
        ("COUNT(*) > 1", "UnsupportedSqlStructure"),
        ("CASE WHEN _1 = 'a' THEN 1 ELSE CAST(_1 AS BOOL) END = 1", "InvalidDataType"),
        ("CAST(_1 AS INT) = 1e999", "NumberFormatError"),
    ] {
        assert_eq!(code(&format!("SELECT * FROM S3Object WHERE {condition}"), &bare()), expected, "{condition}");
    }
}

#[test]
fn aggregates() {
    let sql = "SELECT COUNT(*), COUNT(_1) n, SUM(CAST(_1 AS INT)), MIN(_1), AVG(CAST(_1 AS FLOAT)) FROM S3Object";
    assert_eq!(
        outputs(sql, &bare()),
        [
            "_1 COUNT(*)",
            "n COUNT(_1)",
            "_3 SUM(CAST(CAST(_1 AS Int64) AS Decimal128(38, 0)))",
            "_4 MIN(_1)",
            "_5 AVG(CAST(_1 AS Float64))",
        ]
    );
    for (sql, expected) in [
        ("SELECT SUM(_1) FROM S3Object", "IncorrectSqlFunctionArgumentType"),
        ("SELECT COUNT(*), _1 FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT COUNT(*) + 1 FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT SUM(*) FROM S3Object", "ParseUnsupportedCallWithStar"),
        ("SELECT SUM(_1, _2) FROM S3Object", "ParseNonUnaryAgregateFunctionCall"),
        ("SELECT COUNT(DISTINCT _1) FROM S3Object", "UnsupportedSqlStructure"),
    ] {
        assert_eq!(code(sql, &bare()), expected, "{sql}");
    }
}

#[test]
fn json_paths_open_by_what_they_meet() {
    for (sql, expected) in [
        ("s.a = 'x'", "JSON_TEXT(a) = 'x'"),
        ("s.a > 5", "JSON_NUMBER(a) > 5.0000000000"),
        ("s.a <= 0.07", "JSON_NUMBER(a) <= 0.0700000000"),
        ("CAST(s.a AS DECIMAL(15,2)) < 24", "CAST(JSON_TEXT(a) AS Decimal128(15, 2)) < 24.00"),
        ("CAST(s.a AS FLOAT) < 1", "CAST(JSON_TEXT(a) AS Float64) < 1.0"),
        ("s.a = TRUE", "JSON_TEXT(a) = 'true'"),
        ("s.a", "JSON_TEXT(a) = 'true'"),
        ("s.a IS NULL", "JSON_TEXT(a) IS NULL"),
        ("s.a IS NOT MISSING", "a IS NOT NULL"),
        ("s.a = s.b", "JSON_TEXT(a) = JSON_TEXT(b)"),
        ("s.a.b[0].\"c d\" LIKE 'x%'", "JSON_TEXT(a.b[0].\"c d\") LIKE 'x%'"),
        ("s.a + 1 = 2", "(JSON_NUMBER(a) + 1) = 2"),
        ("s.a IN (1, 2)", "JSON_NUMBER(a) IN (1.0000000000, 2.0000000000)"),
        ("s.a IN ('x', NULL)", "JSON_TEXT(a) IN ('x', NULL)"),
        ("LOWER(s.a) = 'x'", "LOWER(JSON_TEXT(a)) = 'x'"),
    ] {
        assert_eq!(condition(sql, &json()), expected, "{sql}");
    }
    assert_eq!(code("SELECT * FROM S3Object s WHERE s.a IN (1, 'x')", &json()), "InvalidDataType");
}

#[test]
fn json_columns_are_the_paths_asked_for() {
    let fragment = bound("SELECT s.a, s.b.c[1], s.A, \"a\" FROM S3Object[*] s WHERE s.a = 'x'", &json());
    let fields: Vec<_> =
        fragment.schema.fields().iter().map(|f| (f.name().as_str(), f.metadata().get("path"))).collect();
    assert_eq!(fields, [("a", None), ("b.c[1]", Some(&"b.c[1]".to_owned())), ("A", None), ("a", None)]);
    let fragment = bound("SELECT * FROM S3Object[*]", &json());
    assert_eq!(fragment.schema.field(0).metadata()["path"], "$");
    let Format::Json(options) = fragment.format else { panic!() };
    assert!(options.raw_tokens);
    // Without an alias _1 is the record.
    assert_eq!(bound("SELECT _1.a FROM S3Object[*]", &json()).schema.field(0).name(), "a");
    assert_eq!(
        outputs("SELECT SUM(s.a), COUNT(s.b), MAX(s.c) FROM S3Object s", &json()),
        ["_1 SUM(JSON_NUMBER(a))", "_2 COUNT(JSON_TEXT(b))", "_3 MAX(JSON_NUMBER(c))"]
    );
    let statement = parse("SELECT s.a, s.\"b c\".d[0] FROM S3Object s WHERE s.a = 1 AND UPPER(x) = 'Y'").unwrap();
    assert_eq!(statement.columns(), ["a", "\"b c\".d[0]", "x"]);
}

#[test]
fn parquet_columns_keep_their_types() {
    for (sql, expected) in [
        ("s.key = 5", "key = 5"),
        ("s.price < 24", "price < 24.00"),
        ("s.ship >= CAST('1994-01-01T' AS TIMESTAMP)", "ship >= DATE '1994-01-01'"),
        ("s.ship >= TO_TIMESTAMP('1994-01-01T')", "ship >= DATE '1994-01-01'"),
        ("'1994-01-01' > s.ship", "DATE '1994-01-01' > ship"),
        (
            "s.ship < CAST('1994-01-01T12:00Z' AS TIMESTAMP)",
            "CAST(ship AS Timestamp(µs)) < TIMESTAMP '1994-01-01T12:00:00'",
        ),
        ("s.seen < CAST('1994-01-01T12:00Z' AS TIMESTAMP)", "seen < TIMESTAMP '1994-01-01T12:00:00'"),
        ("comment LIKE 'a%'", "Comment LIKE 'a%'"),
        ("s.ratio > 0.5", "ratio > 0.5"),
        ("s.ratio > CAST('NaN' AS FLOAT)", "ratio > NaN"),
        ("s.price * s.key > 1", "(price * key) > 1"),
    ] {
        assert_eq!(condition(sql, &parquet()), expected, "{sql}");
    }
    assert_eq!(code("SELECT s._1 FROM S3Object s", &parquet()), "EvaluatorBindingDoesNotExist");
    assert_eq!(code("SELECT * FROM S3Object s WHERE s.ship = 5", &parquet()), "InvalidDataType");
    assert_eq!(outputs("SELECT * FROM S3Object", &parquet()).len(), 6);
}

#[test]
fn statements_that_do_not_parse() {
    for (sql, expected) in [
        ("", "ParseExpectedKeyword"),
        ("UPDATE S3Object SET a = 1", "UnsupportedSqlOperation"),
        ("SELECT FROM S3Object", "ParseEmptySelect"),
        ("SELECT _1", "ParseSelectMissingFrom"),
        ("SELECT DISTINCT _1 FROM S3Object", "ParseUnsupportedSelect"),
        ("SELECT *, _1 FROM S3Object", "ParseAsteriskIsNotAloneInSelectList"),
        ("SELECT _1, * FROM S3Object", "ParseAsteriskIsNotAloneInSelectList"),
        ("SELECT _1 FROM S3Object WHERE", "ParseExpectedExpression"),
        ("SELECT _1 FROM S3Object WHERE _1 =", "ParseExpectedExpression"),
        ("SELECT _1 FROM S3Object WHERE (_1 = 'a'", "ParseUnexpectedToken"),
        ("SELECT _1 FROM S3Object WHERE _1 = 'a", "LexerInvalidLiteral"),
        ("SELECT _1 FROM S3Object GROUP BY _1", "UnsupportedSqlStructure"),
        ("SELECT _1 FROM S3Object ORDER BY _1", "UnsupportedSqlStructure"),
        ("SELECT _1 FROM S3Object s, S3Object t", "MultipleDataSourcesUnsupported"),
        ("SELECT _1 FROM S3Object s JOIN S3Object t", "MultipleDataSourcesUnsupported"),
        ("SELECT _1 FROM (SELECT * FROM S3Object)", "ParseUnsupportedSelect"),
        ("SELECT _1 FROM S3Object WHERE _1 IN (SELECT 1)", "ParseUnsupportedSelect"),
        ("SELECT _1 FROM S3Object LIMIT -1", "EvaluatorNegativeLimit"),
        ("SELECT _1 FROM S3Object LIMIT x", "ParseExpectedNumber"),
        ("SELECT _1 FROM S3Object LIMIT 1 2", "ParseUnexpectedToken"),
        ("SELECT s.CAST FROM S3Object s", "ParseUnExpectedKeyword"),
        ("SELECT CAST(_1 INT) FROM S3Object", "ParseExpectedKeyword"),
        ("SELECT CAST(_1 AS VARBINARY) FROM S3Object", "ParseExpectedTypeName"),
        ("SELECT CAST(_1 AS DECIMAL(50)) FROM S3Object", "ParseInvalidTypeParam"),
        ("SELECT DATE_ADD(year, 5, _1) FROM S3Object", "UnsupportedFunction"),
        ("SELECT NULLIF(_1) FROM S3Object", "EvaluatorInvalidArguments"),
        ("SELECT CASE END FROM S3Object", "ParseUnExpectedKeyword"),
        ("SELECT CASE _1 ELSE 1 END FROM S3Object", "ParseExpectedWhenClause"),
        ("SELECT _1 FROM S3Object WHERE _1 IS 5", "ParseExpectedKeyword"),
        ("SELECT _1 FROM S3Object.path", "UnsupportedSyntax"),
        ("SELECT _1 ? FROM S3Object", "LexerInvalidChar"),
    ] {
        assert_eq!(code(sql, &bare()), expected, "{sql}");
    }
}

#[test]
fn long_is_fine_and_deep_is_not() {
    let many: Vec<String> = (0..10_000).map(|n| format!("_1 = '{n}'")).collect();
    let fragment = bound(&format!("SELECT * FROM S3Object WHERE {}", many.join(" OR ")), &bare());
    assert_eq!(fragment.predicate.unwrap().depth(), 3);
    for (open, close) in [("(", ")"), ("NOT ", ""), ("- ", "")] {
        let deep = |n| format!("SELECT * FROM S3Object WHERE {}CAST(_1 AS BOOL){}", open.repeat(n), close.repeat(n));
        assert_eq!(parse(&deep(100_000 / open.len())).unwrap_err().code, "UnsupportedSqlStructure");
        assert!(parse(&deep(100)).is_ok());
    }
    let sum = format!("SELECT * FROM S3Object WHERE {} > 0", vec!["CAST(_1 AS INT)"; 1000].join("+"));
    assert_eq!(parse(&sum).unwrap_err().code, "UnsupportedSqlStructure");
    assert_eq!(parse(&" ".repeat(300_000)).unwrap_err().code, "ExpressionTooLong");
}
