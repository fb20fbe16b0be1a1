"""SQL functions: conditional, conversion, string, aggregate, as AWS's reference lists them. Dates: dates.py."""

from decimal import Decimal

from conformance.select.case import JSON_OUT, PARSE_ERROR, AnyOf, Err, Instant, Num, csv, group, lines, values

NULL = None
CITIES = csv("venuecity,pricepaid\nLos Angeles,12624.00\nNew York City,10000.00\nSan Francisco,9996.00\n", "USE")

CONDITIONAL = values("functions/conditional", [
    ("CASE 1 WHEN 1 THEN 'one' ELSE 'other' END", "one"), ("CASE 2 WHEN 1 THEN 'one' ELSE 'other' END", "other"),
    ("CASE 2 WHEN 1 THEN 'one' END", NULL), ("CASE WHEN 1 = 1 THEN 'x' END", "x"), ("CASE WHEN 1 = 2 THEN 'x' END", NULL),
    ("CASE WHEN FALSE THEN 1 WHEN TRUE THEN 2 WHEN TRUE THEN 3 ELSE 4 END", 2), ("CASE WHEN NULL THEN 1 ELSE 2 END", 2),
    ("CASE NULL WHEN NULL THEN 1 ELSE 2 END", 2), ("CASE WHEN TRUE THEN CASE WHEN FALSE THEN 1 ELSE 2 END END", 2),
    ("CASE 'a' WHEN 'b' THEN 1 WHEN 'a' THEN 2 END + 1", 3), ("CASE WHEN TRUE THEN 1 ELSE 1 / 0 END", 1),
    ("CASE WHEN TRUE THEN 1 ELSE 2.5 END", 1), ("CASE WHEN FALSE THEN 1 ELSE 2.5 END", 2.5),
    ("CASE WHEN TRUE THEN NULL ELSE 1 END", NULL),
    ("CASE END", Err(*PARSE_ERROR)), ("CASE 1 ELSE 2 END", Err(*PARSE_ERROR)), ("CASE WHEN TRUE THEN 1", Err(*PARSE_ERROR)),
    ("CASE WHEN TRUE 1 END", Err(*PARSE_ERROR)),
    ("COALESCE(1)", 1), ("COALESCE(NULL)", NULL), ("COALESCE(NULL, NULL)", NULL),
    ("COALESCE(MISSING)", NULL), ("COALESCE(MISSING, MISSING)", NULL),
    ("COALESCE(1, NULL)", 1), ("COALESCE(NULL, NULL, 1)", 1), ("COALESCE(NULL, 'string')", "string"), ("COALESCE(MISSING, 1)", 1),
    ("COALESCE('', 'x')", ""), ("COALESCE()", Err("*")),
    ("NULLIF(1, 1)", NULL), ("NULLIF(1, 2)", 1), ("NULLIF(1.0, 1)", NULL), ("NULLIF(1, '1')", 1), ("NULLIF(1, NULL)", 1),
    ("NULLIF(NULL, 1)", NULL), ("NULLIF(NULL, NULL)", NULL), ("NULLIF(MISSING, NULL)", NULL), ("NULLIF(MISSING, MISSING)", NULL),
    ("NULLIF('a', 'a')", NULL), ("NULLIF('a', 'A')", "a"), ("NULLIF(1)", Err("*")), ("NULLIF(1, 2, 3)", Err("*")),
]) + group("functions/conditional", CITIES, [
    ("documented: simple CASE",
     "SELECT venuecity, CASE venuecity WHEN 'New York City' THEN 'Big Apple' ELSE 'other' END FROM S3Object;",
     ["Los Angeles,other", "New York City,Big Apple", "San Francisco,other"]),
    ("documented: searched CASE",
     "SELECT pricepaid, CASE WHEN CAST(pricepaid as FLOAT) < 10000 THEN 'group 1' WHEN CAST(pricepaid as FLOAT) > 10000 "
     "THEN 'group 2' ELSE 'group 3' END FROM S3Object;",
     ["12624.00,group 2", "10000.00,group 3", "9996.00,group 1"]),
    ("CASE in WHERE", "SELECT venuecity FROM S3Object WHERE CASE venuecity WHEN 'Los Angeles' THEN TRUE ELSE FALSE END", ["Los Angeles"]),
    ("CASE in an aggregate", "SELECT SUM(CASE WHEN CAST(pricepaid AS FLOAT) >= 10000 THEN 1 ELSE 0 END) FROM S3Object", ["2"]),
    ("CASE guards a cast", "SELECT CASE WHEN _1 = 'n' THEN CAST(_2 AS INT) ELSE 0 END FROM S3Object", ["5", "0"],
     {"input": csv("n,5\nx,y\n")}),
    ("NULLIF of an empty field", "SELECT _1 FROM S3Object WHERE NULLIF(_2, '') IS NULL", ["b"], {"input": csv("a,1\nb,\n")}),
    ("COALESCE of a missing attribute", "SELECT COALESCE(s.a, s.b, 'none') AS v FROM S3Object s", [{"v": "x"}, {"v": "y"}, {"v": "none"}],
     {"input": lines('{"a":"x"}\n{"b":"y"}\n{"a":null}\n')}),
])

CONVERSION = values("functions/conversion", [
    ("CAST('5' AS INT)", 5), ("CAST('5' AS INTEGER)", 5), ("CAST('-5' AS INT)", -5), ("CAST('+5' AS INT)", 5),
    ("CAST('007' AS INT)", 7), ("CAST('9223372036854775807' AS INT)", 9223372036854775807),
    ("CAST('-9223372036854775808' AS INT)", -9223372036854775808), ("CAST(5 AS INT)", 5), ("CAST(TRUE AS INT)", 1,
     {"silent": "the usual number of TRUE"}),
    ("CAST(5.7 AS INT)", 5, {"silent": "towards zero"}), ("CAST(-5.7 AS INT)", -5, {"silent": "towards zero"}),
    ("CAST('9223372036854775808' AS INT)", Err("CastFailed", "IntegerOverflow", "InvalidCast")),
    ("CAST('x' AS INT)", Err("CastFailed", "InvalidCast")), ("CAST('' AS INT)", Err("CastFailed", "InvalidCast")),
    ("CAST('5x' AS INT)", Err("CastFailed", "InvalidCast")), ("CAST('1 2' AS INT)", Err("CastFailed", "InvalidCast")),
    ("CAST('0.456' AS FLOAT)", 0.456), ("CAST(0.456 AS FLOAT)", 0.456), ("CAST('1e3' AS FLOAT)", 1000.0), ("CAST(5 AS FLOAT)", 5.0),
    ("CAST('-1.5E-2' AS FLOAT)", -0.015), ("CAST('x' AS FLOAT)", Err("CastFailed", "InvalidCast")),
    ("CAST('0.1' AS DECIMAL)", Decimal("0.1")), ("CAST('123.456' AS NUMERIC)", Decimal("123.456")), ("CAST(1 AS DECIMAL)", 1),
    ("CAST('12.50' AS DECIMAL(10,2))", Decimal("12.5")), ("CAST('12.50' AS NUMERIC(10,2))", Decimal("12.5")),
    ("CAST('12345678901234567890.123456789' AS DECIMAL)", Decimal("12345678901234567890.123456789")),
    ("CAST('12' AS DECIMAL(10))", 12), ("CAST('x' AS DECIMAL)", Err("CastFailed", "InvalidCast")),
    ("CAST('0.1' AS DECIMAL) + CAST('0.2' AS DECIMAL)", Decimal("0.3")),
    ("CAST(1.25 AS STRING)", "1.25"), ("CAST(5 AS STRING)", "5"), ("CAST(TRUE AS STRING)", "true"), ("CAST('x' AS STRING)", "x"),
    ("CAST('true' AS BOOL)", True), ("CAST('FALSE' AS BOOL)", False), ("CAST('True' AS BOOL)", True), ("CAST(TRUE AS BOOL)", True),
    ("CAST('maybe' AS BOOL)", Err("CastFailed", "InvalidCast")), ("CAST('' AS BOOL)", Err("CastFailed", "InvalidCast")),
    ("CAST(1 AS BOOL)", True, {"silent": "zero is FALSE, other numbers are TRUE"}), ("CAST(0 AS BOOL)", False, {"silent": "as above"}),
    ("CAST('2007-04-05T14:30Z' AS TIMESTAMP)", "2007-04-05T14:30Z"),
    ("CAST('2007-04-05T14:30:05Z' AS TIMESTAMP)", "2007-04-05T14:30:05Z"),
    ("CAST('2007-04-05T14:30:05.123+02:00' AS TIMESTAMP)", "2007-04-05T14:30:05.123+02:00"),
    ("CAST('2007-04-05' AS TIMESTAMP)", AnyOf("2007-04-05", "2007-04-05T")),
    ("CAST('2007-04-05T' AS TIMESTAMP)", AnyOf("2007-04-05", "2007-04-05T")),
    ("CAST('2007-04T' AS TIMESTAMP)", "2007-04T"), ("CAST('2007T' AS TIMESTAMP)", "2007T"),
    ("CAST('2007-13-01T' AS TIMESTAMP)", Err("CastFailed", "InvalidCast", "ValueParseFailure")),
    ("CAST('2007-02-30T' AS TIMESTAMP)", Err("CastFailed", "InvalidCast", "ValueParseFailure")),
    ("CAST('2007-04-05T14:30' AS TIMESTAMP)", Err("CastFailed", "InvalidCast", "ValueParseFailure")),
    ("CAST('yesterday' AS TIMESTAMP)", Err("CastFailed", "InvalidCast", "ValueParseFailure")),
    ("CAST(CAST('2007-04-05T14:30Z' AS TIMESTAMP) AS STRING)", "2007-04-05T14:30Z"),
    ("CAST(NULL AS INT)", NULL), ("CAST(NULL AS STRING)", NULL), ("CAST(NULL AS TIMESTAMP)", NULL),
    ("cast('5' as int)", 5), ("CAST(CAST('5' AS INT) AS STRING) || 'x'", "5x"),
    ("CAST('5' AS FOO)", Err("ParseExpectedTypeName", *PARSE_ERROR, "InvalidDataType")),
    ("CAST('5' INT)", Err(*PARSE_ERROR)), ("CAST('5', INT)", Err(*PARSE_ERROR)), ("CAST('5' AS)", Err(*PARSE_ERROR)),
    ("CAST '5' AS INT", Err("ParseExpectedLeftParenAfterCast", *PARSE_ERROR)), ("CAST('5' AS INT", Err(*PARSE_ERROR)),
    ("CAST(AS INT)", Err(*PARSE_ERROR)), ("CAST('5' AS DECIMAL(99,2))", Err("*")),
]) + group("functions/conversion", csv("1,x\n2,y\nthree,z\n"), [
    ("the one bad field", "SELECT CAST(_1 AS INT) FROM S3Object", Err("CastFailed", "InvalidCast")),
    ("the bad field is filtered away", "SELECT CAST(_1 AS INT) + 1 FROM S3Object WHERE _2 <> 'z'", ["2", "3"]),
    ("the bad field is beyond LIMIT", "SELECT CAST(_1 AS INT) FROM S3Object LIMIT 2", ["1", "2"], {
        "silent": "LIMIT ends the reading"}),
    ("the bad field in WHERE", "SELECT _2 FROM S3Object WHERE CAST(_1 AS INT) > 1", Err("CastFailed", "InvalidCast")),
])

STRING = values("functions/string", [
    ("CHAR_LENGTH('')", 0), ("CHAR_LENGTH('abcdefg')", 7), ("CHARACTER_LENGTH('abcdefg')", 7), ("CHAR_LENGTH('äöü日')", 4),
    ("CHAR_LENGTH('😀')", 1), ("CHAR_LENGTH(NULL)", NULL), ("char_length('ab')", 2), ("CHAR_LENGTH(' a ')", 3),
    ("CHAR_LENGTH(5)", Err("*")), ("CHAR_LENGTH()", Err("*")), ("CHAR_LENGTH('a', 'b')", Err("*")),
    ("LOWER('AbCdEfG!@#$')", "abcdefg!@#$"), ("UPPER('AbCdEfG!@#$')", "ABCDEFG!@#$"), ("LOWER('ÄÖÜ')", "äöü"), ("UPPER('äöü')", "ÄÖÜ"),
    ("LOWER('')", ""), ("LOWER(NULL)", NULL), ("UPPER(NULL)", NULL), ("UPPER(LOWER('Ab'))", "AB"), ("LOWER(5)", Err("*")),
    ("SUBSTRING('123456789', 0)", "123456789"), ("SUBSTRING('123456789', 1)", "123456789"), ("SUBSTRING('123456789', 2)", "23456789"),
    ("SUBSTRING('123456789', -4)", "123456789"), ("SUBSTRING('123456789', 0, 999)", "123456789"), ("SUBSTRING('123456789', 1, 5)", "12345"),
    ("SUBSTRING('123456789' FROM 2)", "23456789"), ("SUBSTRING('123456789' FROM 2 FOR 3)", "234"), ("SUBSTRING('123456789', 9)", "9"),
    ("SUBSTRING('123456789', 10)", ""), ("SUBSTRING('123456789', 100)", ""), ("SUBSTRING('123456789', 5, 0)", ""),
    ("SUBSTRING('123456789', 5, 999)", "56789"), ("SUBSTRING('123456789', 0, 3)", "12"), ("SUBSTRING('123456789', -1, 3)", "1"),
    ("SUBSTRING('123456789', -2, 3)", ""), ("SUBSTRING('123456789', -4, 3)", ""), ("SUBSTRING('123456789' FROM -1 FOR 5)", "123"),
    ("SUBSTRING('äöü日本', 2, 3)", "öü日"), ("SUBSTRING('😀ab', 2)", "ab"), ("SUBSTRING('', 1)", ""), ("SUBSTRING(NULL, 1)", NULL),
    ("SUBSTRING('abc', NULL)", NULL), ("SUBSTRING('abc', 1, NULL)", NULL), ("SUBSTRING('abc', 1 + 1)", "bc"),
    ("SUBSTRING('abc', 1, -1)", Err("*")), ("SUBSTRING('abc', 'x')", Err("*")), ("SUBSTRING('abc')", Err("*")), ("SUBSTRING(5, 1)", Err("*")),
    ("TRIM('       foobar         ')", "foobar"), ("TRIM('      \tfoobar\t         ')", "\tfoobar\t"),
    ("TRIM(LEADING FROM '       foobar         ')", "foobar         "), ("TRIM(TRAILING FROM '       foobar         ')", "       foobar"),
    ("TRIM(BOTH FROM '       foobar         ')", "foobar"), ("TRIM(BOTH '12' FROM '1112211foobar22211122')", "foobar"),
    ("TRIM(LEADING '12' FROM '1112211foobar22211122')", "foobar22211122"), ("TRIM(TRAILING '12' FROM '1112211foobar22211122')", "1112211foobar"),
    ("TRIM('12' FROM '1112211foobar22211122')", "foobar", {"silent": "SQL: BOTH is the default"}), ("TRIM('')", ""), ("TRIM('   ')", ""),
    ("TRIM(NULL)", NULL), ("TRIM(BOTH 'ä' FROM 'äxä')", "x"), ("TRIM(5)", Err("*")),
    ("'it''s'", "it's"), ("''", ""), ("'日本語'", "日本語"), ("'tab\there'", "tab\there"), ("'back\\slash'", "back\\slash"),
]) + group("functions/string", csv("a,b\n Ann ,xyz\nBÖB,\n", "USE"), [
    ("of columns", "SELECT UPPER(TRIM(a)), CHAR_LENGTH(b) FROM S3Object", ["ANN,3", "BÖB,0"]),
    ("in WHERE", "SELECT b FROM S3Object WHERE LOWER(TRIM(a)) = 'ann'", ["xyz"]),
    ("SUBSTRING of a column", "SELECT SUBSTRING(b, 2, 1) FROM S3Object", ["y", AnyOf("", '""')]),
    ("nested", "SELECT SUBSTRING(UPPER(b), CHAR_LENGTH(b)) FROM S3Object LIMIT 1", ["Z"]),
])

NUMBERS = csv("k,i,d,t\na,1,1.50,x\nb,2,2.25,y\nc,3,3.25,x\n", "USE")
BIG = csv("9223372036854775807\n1\n")
INVENTORY = csv('"DOC-EXAMPLE-BUCKET","example-folder/","0"\n"DOC-EXAMPLE-BUCKET","example-folder/object1","2011267"\n'
                '"DOC-EXAMPLE-BUCKET","example-folder/object2","1570024"\n', compression="GZIP")
SPARSE = lines('{"a":1}\n{"a":null}\n{"b":5}\n{"a":3}\n')

AGGREGATE = group("functions/aggregate", NUMBERS, [
    ("COUNT(*)", "SELECT COUNT(*) FROM S3Object", ["3"]),
    ("COUNT of a column", "SELECT COUNT(i) FROM S3Object", ["3"]),
    ("COUNT with WHERE", "SELECT COUNT(*) FROM S3Object WHERE t = 'x'", ["2"]),
    ("COUNT of nothing", "SELECT COUNT(*) FROM S3Object WHERE t = 'z'", ["0"]),
    ("COUNT of a literal", "SELECT COUNT(1) FROM S3Object", ["3"]),
    ("count in small letters", "select count(*) from s3object", ["3"]),
    ("SUM of INT is INT", "SELECT SUM(CAST(i AS INT)) FROM S3Object", ["6"]),
    ("SUM of DECIMAL is exact", "SELECT SUM(CAST(d AS DECIMAL)) FROM S3Object", Num(["7.00"])),
    ("SUM of FLOAT", "SELECT SUM(CAST(d AS FLOAT)) FROM S3Object", Num(["7"])),
    ("SUM of an expression", "SELECT SUM(CAST(i AS INT) * 2 + 1) FROM S3Object", ["15"]),
    ("SUM of tenths is exact", "SELECT SUM(CAST(_1 AS DECIMAL)) FROM S3Object", Num(["0.6"]), {"input": csv("0.1\n0.2\n0.3\n")}),
    ("SUM does not go through FLOAT", "SELECT SUM(CAST(_1 AS INT)) FROM S3Object", ["9007199254740995"],
     {"input": csv("9007199254740993\n2\n")}),
    ("SUM beyond INT", "SELECT SUM(CAST(_1 AS INT)) FROM S3Object", ["9223372036854775808"], {
        "input": BIG, "silent": "integers stay exact; an error would be as honest, a wrong number would not"}),
    ("AVG of INT is DECIMAL", "SELECT AVG(CAST(i AS INT)) FROM S3Object", Num(["2"])),
    ("AVG of INT keeps the fraction", "SELECT AVG(CAST(i AS INT)) FROM S3Object WHERE k <> 'c'", Num(["1.5"])),
    ("AVG of FLOAT", "SELECT AVG(CAST(i AS FLOAT)) FROM S3Object WHERE k <> 'c'", Num(["1.5"])),
    ("AVG of DECIMAL", "SELECT AVG(CAST(d AS DECIMAL)) FROM S3Object WHERE k <> 'a'", Num(["2.75"])),
    ("MIN and MAX of INT", "SELECT MIN(CAST(i AS INT)), MAX(CAST(i AS INT)) FROM S3Object", ["1,3"]),
    ("MIN and MAX of DECIMAL", "SELECT MIN(CAST(d AS DECIMAL)), MAX(CAST(d AS DECIMAL)) FROM S3Object", Num(["1.5,3.25"])),
    ("MAX compares numbers", "SELECT MAX(CAST(_1 AS INT)) FROM S3Object", ["10"], {"input": csv("9\n10\n8\n")}),
    ("MAX of INT is exact", "SELECT MAX(CAST(_1 AS INT)) FROM S3Object", ["9223372036854775807"], {"input": BIG}),
    ("MIN and MAX of FLOAT", "SELECT MIN(CAST(d AS FLOAT)), MAX(CAST(d AS FLOAT)) FROM S3Object", Num(["1.5,3.25"]), {
        "silent": "the reference lists INT and DECIMAL"}),
    ("MIN and MAX of timestamps", "SELECT MIN(CAST(_1 AS TIMESTAMP)) AS a, MAX(CAST(_1 AS TIMESTAMP)) AS b FROM S3Object",
     [{"a": Instant("2019-05-05T00:00:00Z"), "b": Instant("2021-01-01T00:00:00Z")}], {
        "input": csv("2020-01-01T\n2021-01-01T\n2019-05-05T\n"), "output": JSON_OUT, "silent": "the reference lists INT and DECIMAL"}),
    ("all at once", "SELECT COUNT(*), SUM(CAST(i AS INT)), MIN(CAST(i AS INT)), MAX(CAST(i AS INT)) FROM S3Object", ["3,6,1,3"]),
    ("aliases", "SELECT COUNT(*) AS n, SUM(CAST(i AS INT)) total FROM S3Object", ['{"n":3,"total":6}'], {"output": JSON_OUT}),
    ("names by place", "SELECT COUNT(*), SUM(CAST(i AS INT)) FROM S3Object", ['{"_1":3,"_2":6}'], {"output": JSON_OUT}),
    ("SUM of nothing is NULL", "SELECT SUM(CAST(i AS INT)) AS v FROM S3Object WHERE t = 'z'", ['{"v":null}'], {"output": JSON_OUT}),
    ("AVG of nothing is NULL", "SELECT AVG(CAST(i AS INT)) AS v FROM S3Object WHERE t = 'z'", ['{"v":null}'], {"output": JSON_OUT}),
    ("MIN of nothing is NULL", "SELECT MIN(CAST(i AS INT)) AS v FROM S3Object WHERE t = 'z'", ['{"v":null}'], {"output": JSON_OUT}),
    ("MAX of nothing is NULL", "SELECT MAX(CAST(i AS INT)) AS v FROM S3Object WHERE t = 'z'", ['{"v":null}'], {"output": JSON_OUT}),
    ("of an empty object", "SELECT COUNT(*) AS n, SUM(CAST(_1 AS INT)) AS s FROM S3Object", ['{"n":0,"s":null}'],
     {"input": csv(""), "output": JSON_OUT}),
    ("COUNT skips NULL", "SELECT COUNT(NULLIF(t, 'x')) FROM S3Object", ["1"]),
    ("SUM skips NULL", "SELECT SUM(CAST(NULLIF(i, '2') AS INT)) FROM S3Object", ["4"]),
    ("AVG skips NULL", "SELECT AVG(CAST(NULLIF(i, '2') AS INT)) FROM S3Object", Num(["2"])),
    ("COUNT skips NULL and MISSING", "SELECT COUNT(s.a) AS v FROM S3Object s", ['{"v":2}'], {"input": SPARSE}),
    ("SUM skips NULL and MISSING", "SELECT SUM(s.a) AS v FROM S3Object s", ['{"v":4}'], {"input": SPARSE}),
    ("AVG skips NULL and MISSING", "SELECT AVG(s.a) AS v FROM S3Object s", ['{"v":2}'], {"input": SPARSE}),
    ("MIN skips NULL and MISSING", "SELECT MIN(s.a) AS v, MAX(s.a) AS w FROM S3Object s", ['{"v":1,"w":3}'], {"input": SPARSE}),
    ("COUNT(*) counts every record", "SELECT COUNT(*) AS v FROM S3Object s", ['{"v":4}'], {"input": SPARSE}),
    ("documented: an inventory", "SELECT SUM(CAST(_3 as INT)) FROM s3object s WHERE _2 LIKE 'example-folder/%' AND _2 != 'example-folder/';",
     ["3581291"], {"input": INVENTORY}),
    ("an expression of aggregates", "SELECT SUM(CAST(i AS INT)) + COUNT(*) FROM S3Object", Num(["9"]), {"silent": "scalar expressions take any value"}),
    ("a ratio of aggregates", "SELECT SUM(CAST(i AS INT)) / COUNT(*) FROM S3Object", Num(["2"]), {"silent": "as above"}),
    ("COUNT(DISTINCT)", "SELECT COUNT(DISTINCT t) FROM S3Object", Err("*")),
    ("aggregates beside columns", "SELECT k, COUNT(*) FROM S3Object", Err("*")),
    ("SUM(*)", "SELECT SUM(*) FROM S3Object", Err("ParseUnsupportedCallWithStar", *PARSE_ERROR)),
    ("SUM of two arguments", "SELECT SUM(i, d) FROM S3Object", Err("ParseNonUnaryAgregateFunctionCall", *PARSE_ERROR)),
    ("COUNT of nothing at all", "SELECT COUNT() FROM S3Object", Err("*")),
    ("aggregate of an aggregate", "SELECT SUM(COUNT(*)) FROM S3Object", Err("*")),
    ("SUM of text", "SELECT SUM(t) FROM S3Object", Err("*")),
    ("a bad cast inside", "SELECT SUM(CAST(t AS INT)) FROM S3Object", Err("CastFailed", "InvalidCast")),
])

CASES = CONDITIONAL + CONVERSION + STRING + AGGREGATE
