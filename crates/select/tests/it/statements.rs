//! The results of each construct of the dialect over bytes, without a server.

use std::sync::Arc;

use futures::TryStreamExt;
use futures::executor::block_on;
use pushdowndb_contract::{CsvOptions, JsonOptions};
use pushdowndb_scan::{InMemory, ScanCounters, ScanOptions, scan};
use pushdowndb_select::{Extensions, InputColumns, parse};
use pushdowndb_testkit::batch::rows;

/// Rows as text, `|` between columns, or the code of the error.
fn answer(sql: &str, input: &InputColumns, object: &str) -> Result<Vec<String>, String> {
    let statement = parse(sql).map_err(|error| error.code.to_owned())?;
    let fragment = statement.bind_with(input, Extensions::On).map_err(|error| error.code.to_owned())?;
    let run = || -> pushdowndb_contract::Result<Vec<String>> {
        let reader = Arc::new(InMemory::new("memory", object.to_owned()));
        let counters = Arc::new(ScanCounters::default());
        let stream = scan(Arc::new(fragment), reader, None, ScanOptions::default(), counters)?;
        Ok(block_on(stream.try_collect::<Vec<_>>())?.iter().flat_map(rows).collect())
    };
    run().map_err(|error| error.code().map_or_else(|| error.to_string(), str::to_owned))
}

fn csv() -> InputColumns {
    InputColumns::Csv { options: CsvOptions { header: false, ..CsvOptions::default() }, names: None, count: 3 }
}

fn json() -> InputColumns {
    InputColumns::Json(JsonOptions::default())
}

/// The value of an expression over one record.
#[track_caller]
fn value(expression: &str, expected: &str) {
    let sql = format!("SELECT {expression} FROM S3Object s");
    let got = answer(&sql, &csv(), "x,5,2007-04-05T14:30Z\n");
    assert_eq!(got.map_or_else(|code| code, |rows| rows.join("\n")), expected, "{expression}");
}

#[test]
fn expressions() {
    for (expression, expected) in [
        ("_1 || 'y'", "xy"),
        ("CAST(_2 AS INT) / 2", "2"),
        ("CAST(_2 AS INT) / 2.0", "2.5"),
        ("1 / 3.0", "0.33333333333333333"),
        ("CAST(_2 AS DECIMAL) + 0.10", "5.10"),
        ("CAST('12345678901234567890.123456789' AS DECIMAL)", "12345678901234567890.123456789"),
        ("CAST(5.7 AS INT)", "5"),
        ("CAST(CAST(_2 AS DECIMAL) AS INT)", "5"),
        ("CAST(0 AS BOOL)", "false"),
        ("CAST('yes' AS BOOL)", "true"),
        ("CAST('1e3' AS DECIMAL(10, 2))", "1000.00"),
        ("CAST(TRUE AS INT) + 1", "2"),
        ("CAST(1.50 AS STRING)", "1.50"),
        ("- CAST(NULL AS INT)", "NULL"),
        ("NULL + 1", "NULL"),
        ("NULLIF(1, '1')", "1"),
        ("NULLIF(1.0, 1)", "NULL"),
        ("COALESCE(NULL, _9, _1)", "x"),
        ("CASE _1 WHEN 'x' THEN 1 ELSE 'other' END", "1"),
        ("CASE NULL WHEN NULL THEN 1 ELSE 2 END", "2"),
        ("1 IN (1.0, 2)", "true"),
        ("2 IN (1, NULL)", "NULL"),
        ("1 < 2 = TRUE", "true"),
        ("_1 LIKE _1 || '%'", "true"),
        (r"'a\b' LIKE 'a\b'", "true"),
        (r"'a\b' LIKE _1 || '\b'", "false"),
        ("'50%' LIKE '50!' || '%' ESCAPE '!'", "true"),
        ("SUBSTRING('123456789' FROM -1 FOR 5)", "123"),
        ("TRIM(BOTH '12' FROM '1112211foobar22211122')", "foobar"),
        ("CAST(_3 AS TIMESTAMP)", "2007-04-05T14:30Z"),
        ("`2007-02-23T12:14:33.079-08:00`", "2007-02-23T12:14:33.079-08:00"),
        ("DATE_ADD(month, 1, `2010T`)", "2010-02T"),
        ("DATE_DIFF(day, CAST(_3 AS TIMESTAMP), `2007-05-05T14:30Z`)", "30"),
        ("EXTRACT(TIMEZONE_HOUR FROM `2017-01-02T03:04:05+07:08`)", "7"),
        ("TO_STRING(CAST(_3 AS TIMESTAMP), 'MMMM d, y h:m a')", "April 5, 2007 2:30 PM"),
        ("TO_TIMESTAMP('20/07/1969', 'dd/MM/yyyy')", "1969-07-20"),
        ("CAST(_3 AS TIMESTAMP) = `2007-04-05T16:30+02:00`", "true"),
        ("CAST(_3 AS TIMESTAMP) BETWEEN `2007-04T` AND `2007-05T`", "true"),
        ("UTCNOW() > `2020T` AND UTCNOW() = UTCNOW()", "true"),
        ("MISSING IS MISSING AND _9 IS MISSING AND _1 IS NOT MISSING", "true"),
    ] {
        value(expression, expected);
    }
}

#[test]
fn errors_of_values_have_their_codes() {
    for (expression, code) in [
        ("CAST(_1 AS INT)", "CastFailed"),
        ("CAST(_1 AS DECIMAL)", "CastFailed"),
        ("CAST(_1 || '' AS INT)", "CastFailed"),
        ("CAST(_1 AS TIMESTAMP)", "CastFailed"),
        ("9223372036854775807 + CAST(_2 AS INT)", "IntegerOverflow"),
        ("1 / (CAST(_2 AS INT) - 5)", "ExternalEvalException"),
        ("1.5 / (CAST(_2 AS INT) - 5)", "ExternalEvalException"),
        ("CAST(_2 AS DECIMAL) / 0", "ExternalEvalException"),
        ("DATE_ADD(year, 10000, `2010T`)", "IllegalSqlFunctionArgument"),
        ("TO_TIMESTAMP(_1, 'y')", "ValueParseFailure"),
        ("TO_STRING(`2010T`, _1 || 'Q')", "EvaluatorInvalidTimestampFormatPatternSymbol"),
        ("_1 LIKE _1 || '!' ESCAPE '!'", "EvaluatorLikePatternInvalidEscapeSequence"),
        ("BLOOM_CONTAINS(_1, 'AAAA')", "IllegalSqlFunctionArgument"),
        ("BLOOM_CONTAINS(_1, '!')", "IllegalSqlFunctionArgument"),
    ] {
        value(expression, code);
    }
}

const MIXED: &str = r#"{"a":1,"b":2.50}
{"a":"1"}
{"a":1.0,"b":3}
{"a":true}
{"a":null}
{"b":0}
{"a":"x","b":1e2}
{"a":25}
{"a":[1]}
"#;

#[test]
fn values_of_json_keep_their_kinds() {
    for (condition, expected) in [
        ("s.a = 1", "1 1.0"),
        ("s.a = '1'", "\"1\""),
        ("s.a <> 1", "\"1\" true \"x\" 25 [1]"),
        ("NOT (s.a < 2)", "25"),
        ("s.a > 0.5", "1 1.0 25"),
        ("s.a >= '1'", "\"1\" \"x\""),
        ("s.a", "true"),
        ("s.a = TRUE", "true"),
        ("s.a IN (25, 'x', NULL)", "\"x\" 25"),
        ("s.a NOT IN (25, 'x')", "1 \"1\" 1.0 true [1]"),
        ("s.a LIKE '_'", "\"1\" \"x\""),
        ("s.a IS NULL", "null NULL"),
        ("s.a IS MISSING", "NULL"),
        ("CAST(s.a AS STRING) = '1'", "1 \"1\""),
        ("s.a + 1 = 2", "1 1.0"),
        ("COALESCE(s.a, 'none') = 'none'", "null NULL"),
    ] {
        let got = answer(&format!("SELECT s.a FROM S3Object s WHERE {condition}"), &json(), MIXED);
        assert_eq!(got.map(|rows| rows.join(" ")), Ok(expected.to_owned()), "{condition}");
    }
    let rows = |sql: &str| answer(sql, &json(), MIXED).map(|rows| rows.join(" "));
    assert_eq!(rows("SELECT s.b + 1, s.b * s.b, -s.b FROM S3Object s LIMIT 1"), Ok("3.50|6.2500|-2.50".into()));
    assert_eq!(
        rows("SELECT SUM(s.b), AVG(s.b), MIN(s.b), MAX(s.b), COUNT(s.b) FROM S3Object s WHERE s.b < 50"),
        Ok("5.50|1.833333333333333333|0|3|3".into())
    );
    assert_eq!(rows("SELECT MAX(s.b) FROM S3Object s"), Ok("1e2".into()));
    assert_eq!(rows("SELECT SUM(s.a) FROM S3Object s"), Err("IncorrectSqlFunctionArgumentType".into()));
    assert_eq!(rows("SELECT SUM(s.zzz), COUNT(s.zzz) FROM S3Object s"), Ok("NULL|0".into()));
    assert_eq!(
        rows("SELECT s.a FROM S3Object s ORDER BY s.a DESC NULLS LAST LIMIT 6"),
        Ok("[1] \"x\" \"1\" 25 1 1.0".into())
    );
}

const SALES: &str = "Oslo,1,1.50\nRome,2,2.25\nOslo,3,0.25\nBonn,4,10\nRome,5,0.75\nOslo,6,1\n";

#[test]
fn aggregates_groups_and_order() {
    for (sql, expected) in [
        ("SELECT SUM(CAST(_2 AS INT)) / COUNT(*), SUM(CAST(_2 AS INT)) + COUNT(*) FROM S3Object", "3|27"),
        (
            "SELECT AVG(CAST(_2 AS INT)), AVG(CAST(_3 AS DECIMAL)), AVG(CAST(_2 AS FLOAT)) FROM S3Object",
            "3.5|2.625|3.5",
        ),
        ("SELECT SUM(CAST(_3 AS DECIMAL)), MAX(CAST(_3 AS DECIMAL)) FROM S3Object", "15.75|10"),
        ("SELECT _1, COUNT(*) AS c FROM S3Object GROUP BY _1 ORDER BY c DESC, _1 LIMIT 2", "Oslo|3 Rome|2"),
        ("SELECT COUNT(*), s._1 FROM S3Object s GROUP BY _1 ORDER BY s._1 LIMIT 9", "1|Bonn 3|Oslo 2|Rome"),
        (
            "SELECT CAST(_2 AS INT) % 2, SUM(CAST(_3 AS DECIMAL)) FROM S3Object GROUP BY CAST(_2 AS INT) % 2 \
             ORDER BY 1 LIMIT 9",
            "0|13.25 1|2.50",
        ),
        ("SELECT LOWER(_1) || '!' FROM S3Object GROUP BY _1 ORDER BY COUNT(*) LIMIT 1", "bonn!"),
        ("SELECT _1 FROM S3Object ORDER BY CAST(_3 AS DECIMAL) DESC LIMIT 2", "Bonn Rome"),
        ("SELECT * FROM S3Object ORDER BY _1, CAST(_2 AS INT) DESC LIMIT 2", "Bonn|4|10 Oslo|6|1"),
        ("SELECT _2 FROM S3Object WHERE _1 = 'Oslo' ORDER BY _2 DESC LIMIT 0", ""),
    ] {
        assert_eq!(answer(sql, &csv(), SALES).map(|rows| rows.join(" ")), Ok(expected.to_owned()), "{sql}");
    }
}

#[test]
fn limit_ends_the_reading() {
    let text = "1,a,\n2,b,\nthree,c,\n";
    assert_eq!(answer("SELECT CAST(_1 AS INT) FROM S3Object LIMIT 2", &csv(), text), Ok(vec!["1".into(), "2".into()]));
    assert_eq!(answer("SELECT CAST(_1 AS INT) FROM S3Object LIMIT 3", &csv(), text), Err("CastFailed".into()));
}

#[test]
fn rows_from_a_path() {
    let rules = "{\"Rules\":[{\"id\":\"1\"},{\"expr\":\"y > x\"},{\"id\":\"2\"}]}\n{\"created\":\"June 27\"}\n";
    for (sql, expected) in [
        ("SELECT id FROM S3Object[*].Rules[*].id", "\"1\" NULL \"2\" NULL"),
        ("SELECT id FROM S3Object[*].Rules[*].id WHERE id IS NOT MISSING", "\"1\" \"2\""),
        ("SELECT r.id FROM S3Object[*].Rules[*] r WHERE r.expr IS MISSING", "\"1\" \"2\" NULL"),
        ("SELECT _1.ID FROM S3Object[*].rules[0]", "\"1\" NULL"),
    ] {
        assert_eq!(answer(sql, &json(), rules).map(|rows| rows.join(" ")), Ok(expected.to_owned()), "{sql}");
    }
}

/// A reproducible source of choices.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

/// Any expression of the dialect; most make no sense.
fn expression(dice: &mut Dice, depth: usize) -> String {
    const ATOMS: [&str; 22] = [
        "s.a",
        "s.b",
        "s.zzz",
        "_1",
        "_2",
        "'x'",
        "'5'",
        "5",
        "-2.50",
        "1e3",
        "0",
        "TRUE",
        "NULL",
        "MISSING",
        "`2007T`",
        "`2007-02-23T12:14:33.079-08:00`",
        "'2007-02-23'",
        "UTCNOW()",
        "''",
        "9223372036854775807",
        "'y-MM-dd'",
        "s.a.c[0]",
    ];
    const SHAPES: [&str; 46] = [
        "(# + #)",
        "(# - #)",
        "(# * #)",
        "(# / #)",
        "(# % #)",
        "-(#)",
        "# || #",
        "(# = #)",
        "(# <> #)",
        "(# < #)",
        "(# >= #)",
        "(# BETWEEN # AND #)",
        "(# IN (#, #))",
        "(# NOT IN (#, #, #))",
        "(# LIKE #)",
        "(# LIKE # ESCAPE '!')",
        "(# IS NULL)",
        "(# IS NOT MISSING)",
        "(NOT #)",
        "(# AND #)",
        "(# OR #)",
        "CAST(# AS INT)",
        "CAST(# AS DECIMAL)",
        "CAST(# AS DECIMAL(10,2))",
        "CAST(# AS FLOAT)",
        "CAST(# AS STRING)",
        "CAST(# AS BOOL)",
        "CAST(# AS TIMESTAMP)",
        "CASE # WHEN # THEN # ELSE # END",
        "CASE WHEN # THEN # END",
        "COALESCE(#, #)",
        "NULLIF(#, #)",
        "LOWER(#)",
        "CHAR_LENGTH(#)",
        "SUBSTRING(#, #)",
        "SUBSTRING(# FROM # FOR #)",
        "TRIM(#)",
        "TRIM(BOTH # FROM #)",
        "DATE_ADD(month, #, #)",
        "DATE_DIFF(day, #, #)",
        "EXTRACT(YEAR FROM #)",
        "TO_STRING(#, #)",
        "TO_TIMESTAMP(#)",
        "TO_TIMESTAMP(#, #)",
        "BLOOM_CONTAINS(#, 'UERCRgEEAAACIMAADBAAAQ==')",
        "COUNT(#)",
    ];
    if depth == 0 || dice.below(4) == 0 {
        return ATOMS[dice.below(ATOMS.len())].to_owned();
    }
    let shape = SHAPES[dice.below(SHAPES.len())];
    let mut made = String::new();
    for part in shape.split_inclusive('#') {
        match part.strip_suffix('#') {
            Some(text) => made = format!("{made}{text}{}", expression(dice, depth - 1)),
            None => made.push_str(part),
        }
    }
    made
}

/// Any statement yields rows or an error with a code that AWS documents: nothing panics, and no
/// error comes from the evaluator alone.
#[test]
fn every_statement_is_answered_or_refused_with_a_code() {
    let table = InputColumns::Csv {
        options: CsvOptions { header: true, ..CsvOptions::default() },
        names: Some(vec!["a".into(), "b".into()]),
        count: 2,
    };
    let text = "a,b\n5,x\n2.50,2007-02-23\n,true\n-7\n";
    let mut dice = Dice(7);
    let (mut answered, mut refused) = (0, 0);
    let mut wordy = std::collections::BTreeMap::new();
    for _ in 0..12_000 {
        let value = expression(&mut dice, 3);
        let sql = match dice.below(6) {
            0 => format!("SELECT COUNT(*) FROM S3Object s WHERE {value}"),
            1 => format!("SELECT SUM({value}), MIN({value}), AVG({value}) FROM S3Object s"),
            2 => format!("SELECT {value}, MAX({value}) FROM S3Object s GROUP BY {value}"),
            3 => format!("SELECT s.a FROM S3Object s ORDER BY {value} LIMIT 3"),
            _ => format!("SELECT {value} AS v FROM S3Object s"),
        };
        for (input, object) in [(&json(), MIXED), (&table, text)] {
            match answer(&sql, input, object) {
                Ok(_) => answered += 1,
                Err(code) => {
                    refused += 1;
                    if !code.chars().all(|c| c.is_ascii_alphanumeric()) {
                        // Digits and names aside, one example of each.
                        let kind: String = code.chars().filter(char::is_ascii_alphabetic).take(40).collect();
                        wordy.entry(kind).or_insert(format!("{sql}: {code}"));
                    }
                }
            }
        }
    }
    assert!(wordy.is_empty(), "{:#?}", wordy.values().collect::<Vec<_>>());
    assert!(answered > 3_000 && refused > 3_000, "{answered} answered, {refused} refused");
}
