//! Bound expressions of statements, in a short text form, and the error codes of refused
//! statements.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, TimeUnit};
use pushdowndb_contract::Output;

use super::*;
use crate::parse;

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
    InputColumns::Parquet(Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("price", DataType::Decimal128(15, 2), true),
        Field::new("ship", DataType::Date32, true),
        Field::new("seen", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("Comment", DataType::Utf8, true),
        Field::new("ratio", DataType::Float64, true),
    ])))
}

fn bound(sql: &str, input: &InputColumns) -> Fragment {
    parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}")).bind(input).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

/// Returns the bound condition of `SELECT * … WHERE condition` in readable form.
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
    // A statement may use fields that the first record lacks.
    let fragment = bound("SELECT s._5 FROM S3Object s LIMIT 7", &bare());
    assert_eq!((fragment.schema.fields().len(), fragment.limit), (5, Some(7)));
    let Format::Csv(options) = fragment.format else { panic!() };
    assert_eq!((options.null, options.ragged), (NullRule::Never, Ragged::Lenient));
}

#[test]
fn names_that_do_not_resolve() {
    for (sql, expected) in [
        ("SELECT name FROM S3Object", "AmbiguousFieldName"),
        ("SELECT \"price\" FROM S3Object", "MissingHeaderName"),
        ("SELECT nothing FROM S3Object", "MissingHeaderName"),
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
        // The number is compared as it is written, not by its value.
        ("_1 = 100", "_1 = '100'"),
        ("_1 <> 1.50", "_1 <> '1.50'"),
        ("-1 = _1", "'-1' = _1"),
        ("1 < 2 = TRUE", "1 < 2 = TRUE"),
        ("1 = '1'", "FALSE"),
        ("1 IN (1.0, 2)", "1.0 = 1.0 OR 1 = 2"),
        ("CAST(_1 AS DECIMAL) < 24", "TOKEN_LT(TO_NUMBER(_1), '24')"),
        ("CAST(_1 AS TIMESTAMP) < `2007T`", "CAST(_1 AS Timestamp(µs, \"+00:00\")) < TIMESTAMP '2007-01-01T00:00:00Z'"),
        ("EXTRACT(YEAR FROM TO_TIMESTAMP(_1)) = 2007", "EXTRACT('YEAR', TO_TIMESTAMP(_1)) = 2007"),
        ("_1 LIKE _2 ESCAPE '!'", "_1 LIKE LIKE_PATTERN(_2, '!')"),
        (
            "CASE WHEN _1 = 'a' THEN 1 ELSE 'x' END = 1",
            "TOKEN_EQ(JSON_VALUE(CASE WHEN _1 = 'a' THEN '1' ELSE '\"x\"' END), '1')",
        ),
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
        ("MISSING IS MISSING OR NULL IS MISSING", "TRUE OR FALSE"),
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
        ("CAST('1994' AS TIMESTAMP) = CAST(_1 AS TIMESTAMP)", "CastFailed"),
        ("TO_TIMESTAMP('1994') = CAST(_1 AS TIMESTAMP)", "ValueParseFailure"),
        ("CAST(TRUE AS TIMESTAMP) = CAST(_1 AS TIMESTAMP)", "InvalidCast"),
        ("5 LIKE _2", "LikeInvalidInputs"),
        ("EXTRACT(YEAR FROM _1) = 1", "IncorrectSqlFunctionArgumentType"),
        ("DATE_ADD(day, 'x', `2007T`) = `2007T`", "IncorrectSqlFunctionArgumentType"),
        ("TO_STRING(`2007T`, 'yyy') = '2007'", "EvaluatorInvalidTimestampFormatPatternToken"),
        ("TO_TIMESTAMP(_1, 'MMMMM') = `2007T`", "EvaluatorInvalidTimestampFormatPatternSymbolForParsing"),
        ("BLOOM_CONTAINS(_1, 'UERCRg==')", "UnsupportedFunction"),
        ("_1 LIKE 'a' ESCAPE 'xy'", "LikeInvalidInputs"),
        ("_1 LIKE 'a!b' ESCAPE '!'", "EvaluatorLikePatternInvalidEscapeSequence"),
        ("COUNT(*) > 1", "UnsupportedSqlStructure"),
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
        ("SELECT SUM(COUNT(*)) FROM S3Object", "UnsupportedSqlStructure"),
        ("SELECT _1, COUNT(*) FROM S3Object GROUP BY _1", "UnsupportedSqlStructure"),
        ("SELECT _1 FROM S3Object ORDER BY _1 LIMIT 5", "UnsupportedSqlStructure"),
        ("SELECT SUM(*) FROM S3Object", "ParseUnsupportedCallWithStar"),
        ("SELECT SUM(_1, _2) FROM S3Object", "ParseNonUnaryAgregateFunctionCall"),
        ("SELECT COUNT(DISTINCT _1) FROM S3Object", "UnsupportedSqlStructure"),
    ] {
        assert_eq!(code(sql, &bare()), expected, "{sql}");
    }
}

/// Formats the output over groups and aggregates, then the groups and aggregates, then the order.
fn extended(sql: &str, input: &InputColumns) -> String {
    let fragment = parse(sql).and_then(|s| s.bind_with(input, Extensions::On)).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let schema = &fragment.schema;
    let inner: Vec<String> = match &fragment.output {
        Output::Rows(columns) => columns.iter().map(|c| c.expr.display(schema).to_string()).collect(),
        Output::Aggregate { groups, calls } => {
            let groups = groups.iter().map(|g| g.expr.display(schema).to_string());
            let calls = calls.iter().map(|c| match &c.argument {
                None => format!("{}(*)", c.function.sql()),
                Some(argument) => format!("{}({})", c.function.sql(), argument.display(schema)),
            });
            groups.chain(calls).collect()
        }
    };
    // Columns of the output are shown by number.
    let none = Schema::empty();
    let project = fragment.project.iter().flatten().map(|c| format!("{}={}", c.name, c.expr.display(&none)));
    let order = fragment.order.iter().map(|key| {
        let nulls = if key.nulls_first { "nulls first" } else { "nulls last" };
        format!("{} {} {nulls}", key.expr.display(&none), if key.descending { "desc" } else { "asc" })
    });
    let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
    format!("{} | {} | {}", list(&mut inner.into_iter()), list(&mut { project }), list(&mut { order }))
}

#[test]
fn groups_and_order() {
    for (sql, expected) in [
        ("SELECT _1, COUNT(*) FROM S3Object s GROUP BY s._1", "_1, COUNT(*) |  | "),
        ("SELECT COUNT(*), _1 FROM S3Object GROUP BY _1", "_1, COUNT(*) | _1=_2, _1=_1 | "),
        (
            "SELECT SUM(CAST(_1 AS INT)) / COUNT(*) AS mean, COUNT(*) FROM S3Object",
            "SUM(CAST(CAST(_1 AS Int64) AS Decimal128(38, 0))), COUNT(*) | mean=(CAST(_1 AS Int64) / _2), _2=_2 | ",
        ),
        (
            "SELECT _2 || 'x' FROM S3Object GROUP BY _2 ORDER BY COUNT(*) DESC, _2 NULLS FIRST LIMIT 3",
            "_2, COUNT(*) | _1=CONCAT(_1, 'x') | _2 desc nulls first, _1 asc nulls first",
        ),
        ("SELECT _1 FROM S3Object ORDER BY _1 LIMIT 5", "_1 |  | _1 asc nulls last"),
        ("SELECT * FROM S3Object ORDER BY _3 DESC LIMIT 5", "_1, _2, _3 |  | _3 desc nulls first"),
        (
            "SELECT _1 FROM S3Object ORDER BY CAST(_2 AS INT) LIMIT 5",
            "_1, CAST(_2 AS Int64) | _1=_1 | _2 asc nulls last",
        ),
        ("SELECT UPPER(_1) AS u FROM S3Object ORDER BY u LIMIT 5", "UPPER(_1) |  | _1 asc nulls last"),
        ("SELECT _2, _1 FROM S3Object ORDER BY 2 LIMIT 5", "_2, _1 |  | _2 asc nulls last"),
    ] {
        assert_eq!(extended(sql, &bare()), expected, "{sql}");
    }
    assert_eq!(
        extended("SELECT s.a, MAX(s.b) FROM S3Object s GROUP BY s.a ORDER BY s.a LIMIT 2", &json()),
        "JSON_VALUE(a), MAX(JSON_VALUE(b)) |  | TOKEN_ORDER(_1) asc nulls last"
    );
    for sql in [
        "SELECT _1 FROM S3Object ORDER BY _1",
        "SELECT _1 FROM S3Object ORDER BY _1 LIMIT 1000000",
        "SELECT _2 FROM S3Object GROUP BY _1",
        "SELECT * FROM S3Object GROUP BY _1",
        "SELECT _1 FROM S3Object GROUP BY _1 HAVING COUNT(*) > 1",
        "SELECT _1 FROM S3Object ORDER BY COUNT(*) LIMIT 1",
    ] {
        let refused = parse(sql).and_then(|s| s.bind_with(&bare(), Extensions::On)).map(|_| ());
        assert_eq!(refused.map_err(|error| error.code), Err("UnsupportedSqlStructure"), "{sql}");
    }
}

#[test]
fn json_values_keep_the_kind_they_have() {
    for (sql, expected) in [
        ("s.a = 'x'", "TOKEN_EQ(a, '\"x\"')"),
        ("s.a > 5", "TOKEN_LT('5', a)"),
        ("s.a <= 0.07", "TOKEN_LT_EQ(a, '0.07')"),
        ("s.a <> TRUE", "NOT (TOKEN_EQ(a, 'true'))"),
        ("CAST(s.a AS DECIMAL(15,2)) < 24", "CAST(JSON_TEXT(a) AS Decimal128(15, 2)) < 24.00"),
        ("CAST(s.a AS FLOAT) < 1", "CAST(JSON_TEXT(a) AS Float64) < 1.0"),
        ("CAST(s.a AS STRING) = 'x'", "JSON_TEXT(a) = 'x'"),
        ("s.a", "JSON_BOOLEAN(a)"),
        ("s.a IS NULL", "JSON_VALUE(a) IS NULL"),
        ("s.a IS NOT MISSING", "a IS NOT NULL"),
        ("s.a = s.b", "TOKEN_EQ(a, b)"),
        ("s.a.b[0].\"c d\" LIKE 'x%'", "JSON_STRING(a.b[0].\"c d\") LIKE 'x%'"),
        ("s.a + 1 = 2", "TOKEN_EQ(TOKEN_ADD(a, '1'), '2')"),
        ("s.a IN (1, 'x')", "TOKEN_EQ(a, '1') OR TOKEN_EQ(a, '\"x\"')"),
        ("LOWER(s.a) = 'x'", "LOWER(JSON_STRING(a)) = 'x'"),
        ("COALESCE(s.a, 1) = 1", "TOKEN_EQ(COALESCE_OF, '1')"),
    ] {
        let expected = expected.replace("COALESCE_OF", "JSON_VALUE(COALESCE(JSON_VALUE(a), '1'))");
        assert_eq!(condition(sql, &json()), expected, "{sql}");
    }
}

#[test]
fn json_columns_are_the_paths_asked_for() {
    let fragment = bound("SELECT s.a, s.b.\"C\"[1], s.A, \"a\" FROM S3Object[*] s WHERE s.a = 'x'", &json());
    let fields: Vec<_> = fragment
        .schema
        .fields()
        .iter()
        .map(|f| (f.name().as_str(), f.metadata().get("path").map(String::as_str)))
        .collect();
    // Names in double quotes are exact, and a single exact name needs no path.
    assert_eq!(fields, [("a", Some("a")), ("b.\"C\"[1]", Some("b.\"C\"[1]")), ("A", Some("A")), ("a", None)]);
    let fragment = bound("SELECT * FROM S3Object[*]", &json());
    assert_eq!(fragment.schema.field(0).metadata()["path"], "$");
    let Format::Json(options) = fragment.format else { panic!() };
    assert!(options.raw_tokens && options.from.is_empty());
    // Without an alias, `_1` is the record.
    assert_eq!(bound("SELECT _1.a FROM S3Object[*]", &json()).schema.field(0).name(), "a");
    let statement = parse("SELECT s.a, s.\"b c\".d[0] FROM S3Object s WHERE s.a = 1 AND UPPER(x) = 'Y'").unwrap();
    assert_eq!(statement.columns(), ["a", "\"b c\".d[0]", "x"]);
    assert_eq!(parse("SELECT \"b c\" FROM S3Object").unwrap().columns(), ["b c"]);
}

#[test]
fn from_a_path() {
    use pushdowndb_contract::JsonStep::*;
    let key = |name: &str, exact| Key { name: name.to_owned(), exact };
    for (from, expected) in [
        ("S3Object[*].a[*].b", vec![key("a", false), AnyElement, key("b", false)]),
        ("S3Object[*][*]", vec![AnyElement]),
        ("S3Object[*]['x y'][0].\"Z\".*", vec![key("x y", true), Index(0), key("Z", true), AnyMember]),
    ] {
        let Format::Json(options) = bound(&format!("SELECT x FROM {from} v"), &json()).format else { panic!() };
        assert_eq!(options.from, expected, "{from}");
    }
    // The last name of the path refers to the row, whose own path is empty.
    let fragment = bound("SELECT price FROM S3Object[*].books[*].price WHERE price > 5", &json());
    assert_eq!(fragment.schema.field(0).metadata()["path"], "");
    assert_eq!(outputs("SELECT price FROM S3Object[*].books[*].price", &json()), ["price "]);
    for (sql, expected) in [
        ("SELECT * FROM S3Object.a", "UnsupportedSyntax"),
        ("SELECT * FROM S3Object[0]", "ParseInvalidPathComponent"),
        ("SELECT * FROM S3Object[*][-1]", "ParseInvalidPathComponent"),
        ("SELECT s.a[*] FROM S3Object s", "ParseInvalidContextForWildcardInSelectList"),
    ] {
        assert_eq!(code(sql, &json()), expected, "{sql}");
    }
    assert_eq!(code("SELECT * FROM S3Object[*].a", &csv()), "UnsupportedSyntax");
}

#[test]
fn values_inside_parquet_columns() {
    let list = DataType::List(Arc::new(Field::new("element", DataType::Int64, true)));
    let members = vec![Field::new("B", list, true), Field::new("c", DataType::Utf8, true)];
    let input =
        InputColumns::Parquet(Arc::new(Schema::new(vec![Field::new("s", DataType::Struct(members.into()), true)])));
    let fragment = bound("SELECT s.b[1], x.s.c FROM S3Object x WHERE s.b[1] > 5", &input);
    let field = fragment.schema.field(1);
    assert_eq!((field.data_type(), field.metadata()["path"].as_str()), (&DataType::Int64, "\"s\".\"B\"[1]"));
    assert_eq!(fragment.schema.field(2).metadata()["path"], "\"s\".\"c\"");
    assert_eq!(fragment.schema.fields().len(), 3);
    assert_eq!(code("SELECT s.zzz FROM S3Object x", &input), "InvalidKeyPath");
}

#[test]
fn parquet_columns_keep_their_types() {
    for (sql, expected) in [
        ("s.\"key\" = 5", "key = 5"),
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
        ("s.price * s.\"key\" > 1", "(price * key) > 1"),
        ("s.\"key\" IS MISSING", "FALSE"),
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
        ("SELECT FROBNICATE(_1) FROM S3Object", "UnsupportedFunction"),
        ("SELECT DATE_ADD(century, 5, _1) FROM S3Object", "ParseExpectedDatePart"),
        ("SELECT DATE_ADD(year, 5) FROM S3Object", "EvaluatorInvalidArguments"),
        ("SELECT EXTRACT(YEAR _1) FROM S3Object", "ParseExpectedKeyword"),
        ("SELECT UTCNOW(1) FROM S3Object", "EvaluatorInvalidArguments"),
        ("SELECT `20x7T` FROM S3Object", "LexerInvalidIONLiteral"),
        ("SELECT s.year FROM S3Object s", "ParseUnExpectedKeyword"),
        ("SELECT CAST '5' AS INT FROM S3Object s", "ParseExpectedLeftParenAfterCast"),
        ("SELECT NULLIF(_1) FROM S3Object", "EvaluatorInvalidArguments"),
        ("SELECT CASE END FROM S3Object", "ParseUnExpectedKeyword"),
        ("SELECT CASE _1 ELSE 1 END FROM S3Object", "ParseExpectedWhenClause"),
        ("SELECT _1 FROM S3Object WHERE _1 IS 5", "ParseExpectedTypeName"),
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
    // Operands that are repeated at every level grow exponentially with the number of levels.
    for (open, close) in
        [("NULLIF(", ", '1')"), ("(", " BETWEEN FALSE AND TRUE)"), ("CASE ", " WHEN 1 THEN 1 WHEN 2 THEN 2 END")]
    {
        let sql = format!("SELECT {}s.a{} FROM S3Object s", open.repeat(60), close.repeat(60));
        assert_eq!(code(&sql, &json()), "MaxOperatorsExceeded", "{open}");
        let sql = format!("SELECT {}s.a{} FROM S3Object s", open.repeat(4), close.repeat(4));
        assert!(parse(&sql).unwrap().bind(&json()).is_ok(), "{open}");
    }
    let sum = format!("SELECT * FROM S3Object WHERE {} > 0", vec!["CAST(_1 AS INT)"; 1000].join("+"));
    assert_eq!(parse(&sum).unwrap_err().code, "UnsupportedSqlStructure");
    assert_eq!(parse(&" ".repeat(300_000)).unwrap_err().code, "ExpressionTooLong");
}
