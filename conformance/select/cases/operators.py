"""Operators: comparison, logic with NULL and MISSING, LIKE, arithmetic, precedence, `||`."""

from conformance.select.case import PARSE_ERROR, Err, csv, group, lines, values

NULL = None
FRUIT = csv("k,name,n\na,apple,9\nb,banana,10\nc,cherry,\nd,date_1,41\ne,50%,5\n", "USE")

COMPARISON = group("operators/comparison", FRUIT, [
    ("equal", "SELECT k FROM S3Object WHERE name = 'apple'", ["a"]),
    ("not equal <>", "SELECT k FROM S3Object WHERE name <> 'apple'", ["b", "c", "d", "e"]),
    ("not equal !=", "SELECT k FROM S3Object WHERE name != 'apple'", ["b", "c", "d", "e"]),
    ("less", "SELECT k FROM S3Object WHERE name < 'banana'", ["a", "e"]),
    ("less or equal", "SELECT k FROM S3Object WHERE name <= 'banana'", ["a", "b", "e"]),
    ("greater", "SELECT k FROM S3Object WHERE name > 'banana'", ["c", "d"]),
    ("greater or equal", "SELECT k FROM S3Object WHERE name >= 'banana'", ["b", "c", "d"]),
    ("constant on the left", "SELECT k FROM S3Object WHERE 'banana' > name", ["a", "e"]),
    ("two columns", "SELECT k FROM S3Object WHERE k < name", ["a", "b", "c", "d"]),
    ("input is text until it is cast: '9' > '41'", "SELECT k FROM S3Object WHERE n > '41'", ["a", "e"]),
    ("numbers by CAST", "SELECT k FROM S3Object WHERE CAST(NULLIF(n, '') AS INT) > 9", ["b", "d"]),
    ("numbers by CAST to FLOAT", "SELECT k FROM S3Object WHERE n <> '' AND CAST(n AS FLOAT) >= 9.5", ["b", "d"]),
    ("numbers by CAST to DECIMAL", "SELECT k FROM S3Object WHERE n <> '' AND CAST(n AS DECIMAL) < 10", ["a", "e"]),
    ("text is compared by case", "SELECT k FROM S3Object WHERE name = 'Apple'", []),
    ("empty text", "SELECT k FROM S3Object WHERE n = ''", ["c"]),
    ("text with numbers as written", "SELECT k FROM S3Object WHERE n = '5'", ["e"]),
])

COMPARED = values("operators/comparison/values", [
    ("1 = 1", True), ("1 = 2", False), ("1 <> 2", True), ("1 != 1", False), ("1 < 2", True), ("2 <= 2", True),
    ("2 > 3", False), ("3 >= 3", True), ("1 = 1.0", True), ("1.5 > 1", True), ("0.1 + 0.2 = 0.3", True),
    ("10 > 9", True), ("'10' > '9'", False), ("'a' < 'b'", True), ("'a' < 'B'", False), ("'' < 'a'", True),
    ("'ä' > 'z'", True), ("TRUE = TRUE", True), ("TRUE <> FALSE", True), ("-1 < 0", True),
    ("9007199254740993 = 9007199254740992", False), ("9007199254740993 > 9007199254740992", True),
    ("9223372036854775807 > 9223372036854775806", True),
    ("CAST('0.1' AS DECIMAL) = 0.1", True), ("CAST('1e2' AS FLOAT) = 100", True), ("CAST(1 AS FLOAT) < 1.5", True),
    ("CAST('2020-01-02T' AS TIMESTAMP) > CAST('2020-01-01T' AS TIMESTAMP)", True),
    ("CAST('2020-01-01T10:00+02:00' AS TIMESTAMP) = CAST('2020-01-01T08:00Z' AS TIMESTAMP)", True),
    ("`2020-01-01T` < `2020-06T`", True),
])

BETWEEN = values("operators/between", [
    ("5 BETWEEN 1 AND 10", True), ("1 BETWEEN 1 AND 10", True), ("10 BETWEEN 1 AND 10", True), ("11 BETWEEN 1 AND 10", False),
    ("5 BETWEEN 10 AND 1", False), ("5 NOT BETWEEN 1 AND 10", False), ("0 NOT BETWEEN 1 AND 10", True),
    ("'b' BETWEEN 'a' AND 'c'", True), ("'d' BETWEEN 'a' AND 'c'", False), ("NULL BETWEEN 1 AND 2", NULL),
    ("5 BETWEEN NULL AND 2", False), ("1 BETWEEN NULL AND 2", NULL), ("1.5 BETWEEN 1 AND 2", True),
    ("5 BETWEEN 1 + 1 AND 2 * 3", True), ("NOT 5 BETWEEN 1 AND 2", True), ("TRUE AND 5 BETWEEN 1 AND 10 AND TRUE", True),
]) + group("operators/between", FRUIT, [
    ("columns", "SELECT k FROM S3Object WHERE name BETWEEN 'b' AND 'd'", ["b", "c"]),
    ("NOT with columns", "SELECT k FROM S3Object WHERE name NOT BETWEEN 'b' AND 'd'", ["a", "d", "e"]),
    ("cast columns", "SELECT k FROM S3Object WHERE n != '' AND CAST(n AS INT) BETWEEN 5 AND 10", ["a", "b", "e"]),
    ("without AND", "SELECT k FROM S3Object WHERE name BETWEEN 'b'", Err(*PARSE_ERROR)),
])

IN = values("operators/in", [
    ("1 IN (1, 2, 3)", True), ("5 IN (1, 2, 3)", False), ("5 NOT IN (1, 2)", True), ("1 NOT IN (1, 2)", False),
    ("'b' IN ('a', 'b', 'c')", True), ("'x' IN ('a', 'b', 'c')", False), ("1 IN (1)", True), ("1 IN (1, NULL)", True),
    ("2 IN (1, NULL)", NULL), ("2 NOT IN (1, NULL)", NULL), ("NULL IN (1, 2)", NULL), ("1 IN (1.0, 2)", True),
    ("1 + 1 IN (2, 3)", True), ("2 IN (1 + 1, 5)", True), ("NOT 1 IN (2)", True),
]) + group("operators/in", FRUIT, [
    ("columns", "SELECT k FROM S3Object WHERE name IN ('apple', 'cherry', 'fig')", ["a", "c"]),
    ("NOT IN with columns", "SELECT k FROM S3Object WHERE name NOT IN ('apple', 'cherry')", ["b", "d", "e"]),
    ("cast columns", "SELECT k FROM S3Object WHERE n <> '' AND CAST(n AS INT) IN (9, 41)", ["a", "d"]),
    ("columns in the list", "SELECT k FROM S3Object WHERE 'a' IN (k, name)", ["a"]),
    ("a long list", f"SELECT k FROM S3Object WHERE k IN ({', '.join(repr(str(n)) for n in range(3000))}, 'e')", ["e"]),
    ("an open list", "SELECT k FROM S3Object WHERE k IN ('a', 'b'", Err(*PARSE_ERROR)),
])

LOGIC = values("operators/logic", [
    ("TRUE AND TRUE", True), ("TRUE AND FALSE", False), ("FALSE AND FALSE", False), ("TRUE OR FALSE", True),
    ("FALSE OR FALSE", False), ("NOT TRUE", False), ("NOT FALSE", True), ("NOT NOT TRUE", True),
    ("TRUE AND NULL", NULL), ("NULL AND TRUE", NULL), ("FALSE AND NULL", False), ("NULL AND FALSE", False),
    ("TRUE OR NULL", True), ("NULL OR TRUE", True), ("FALSE OR NULL", NULL), ("NULL OR NULL", NULL), ("NULL AND NULL", NULL),
    ("NOT NULL", NULL), ("NULL = NULL", NULL), ("NULL <> NULL", NULL), ("1 = NULL", NULL), ("NULL < 1", NULL),
    ("NULL + 1", NULL), ("-CAST(NULL AS INT)", NULL), ("NULL || 'x'", NULL), ("NULL LIKE 'x'", NULL), ("'x' LIKE NULL", NULL),
]) + group("operators/logic", FRUIT, [
    ("AND", "SELECT k FROM S3Object WHERE name > 'a' AND n = '10'", ["b"]),
    ("OR", "SELECT k FROM S3Object WHERE k = 'a' OR n = '5'", ["a", "e"]),
    ("NOT", "SELECT k FROM S3Object WHERE NOT k = 'a'", ["b", "c", "d", "e"]),
    ("AND binds tighter than OR", "SELECT k FROM S3Object WHERE k = 'a' OR k = 'b' AND n = '9'", ["a"]),
    ("parentheses first", "SELECT k FROM S3Object WHERE (k = 'a' OR k = 'b') AND n = '9'", ["a"]),
    ("NOT binds tighter than AND", "SELECT k FROM S3Object WHERE NOT k = 'a' AND n = '9'", []),
    ("De Morgan", "SELECT k FROM S3Object WHERE NOT (k = 'a' OR n = '10')", ["c", "d", "e"]),
    ("a condition as a value", "SELECT k, n = '9' FROM S3Object LIMIT 2", ["a,true", "b,false"]),
])

PRESENCE = values("operators/null and missing", [
    ("NULL IS NULL", True), ("NULL IS NOT NULL", False), ("1 IS NULL", False), ("1 IS NOT NULL", True), ("'' IS NULL", False),
    ("MISSING IS MISSING", True), ("NULL IS MISSING", False), ("MISSING IS NULL", True), ("MISSING IS NOT MISSING", False),
    ("1 IS NOT MISSING", True), ("NOT (1 IS NULL)", True), ("(1 = NULL) IS NULL", True), ("NULL IS NULL AND TRUE", True),
    ("MISSING", ...),
]) + group("operators/null and missing", FRUIT, [
    ("an empty field is not NULL", "SELECT k FROM S3Object WHERE n IS NULL", [], {
        "silent": "input is text, and the empty text is a text"}),
    ("an empty field is not NULL, negated", "SELECT k FROM S3Object WHERE n IS NOT NULL", ["a", "b", "c", "d", "e"], {
        "silent": "as above"}),
    ("a field is not MISSING", "SELECT k FROM S3Object WHERE k IS NOT MISSING", ["a", "b", "c", "d", "e"]),
    ("NULL of JSON", "SELECT s.a FROM S3Object s WHERE s.a IS NULL", [{"a": None}, {}],
     {"input": lines('{"a":1}\n{"a":null}\n{"b":2}\n')}),
    ("MISSING of JSON", "SELECT s.b FROM S3Object s WHERE s.a IS MISSING", [{"b": 2}],
     {"input": lines('{"a":1}\n{"a":null}\n{"b":2}\n')}),
    ("NOT MISSING of JSON", "SELECT s.a FROM S3Object s WHERE s.a IS NOT MISSING", [{"a": 1}, {"a": None}],
     {"input": lines('{"a":1}\n{"a":null}\n{"b":2}\n')}),
    ("NOT NULL of JSON", "SELECT s.a FROM S3Object s WHERE s.a IS NOT NULL", [{"a": 1}],
     {"input": lines('{"a":1}\n{"a":null}\n{"b":2}\n')}),
    ("IS with something else", "SELECT k FROM S3Object WHERE k IS 5", Err("*")),
])

LIKE = values("operators/like", [
    ("'abc' LIKE 'abc'", True), ("'abc' LIKE 'ab'", False), ("'abc' LIKE 'a%'", True), ("'abc' LIKE '%c'", True),
    ("'abc' LIKE '%b%'", True), ("'abc' LIKE '%x%'", False), ("'abc' LIKE '%'", True), ("'' LIKE '%'", True),
    ("'' LIKE ''", True), ("'a' LIKE ''", False), ("'abc' LIKE 'a_c'", True), ("'abc' LIKE '___'", True),
    ("'abc' LIKE '__'", False), ("'abc' LIKE '____'", False), ("'ABC' LIKE 'abc'", False), ("'abcbc' LIKE '%bc'", True),
    ("'aXbXc' LIKE '%X%X%'", True), ("'mississippi' LIKE '%issip%'", True), ("'mississippi' LIKE 'm%iss%pi'", True),
    ("'mississippi' LIKE 'm%s_s%pi'", True), ("'abab' LIKE '%ab_'", False), ("'aab' LIKE '%a_'", True),
    ("'a.c' LIKE 'a.c'", True), ("'abc' LIKE 'a.c'", False), ("'a*c' LIKE 'a*c'", True), ("'a[b' LIKE 'a[b'", True),
    ("'äöü' LIKE '_ö_'", True), ("'日本語' LIKE '%本%'", True), ("'日本語' LIKE '___'", True),
    ("'abc' NOT LIKE 'a%'", False), ("'abc' NOT LIKE 'b%'", True),
    ("'50%' LIKE '50!%' ESCAPE '!'", True), ("'500' LIKE '50!%' ESCAPE '!'", False), ("'a_b' LIKE 'a!_b' ESCAPE '!'", True),
    ("'axb' LIKE 'a!_b' ESCAPE '!'", False), ("'a!b' LIKE 'a!!b' ESCAPE '!'", True), (r"'a%b' LIKE 'a\%b' ESCAPE '\'", True),
    ("'axb' NOT LIKE 'a!_b' ESCAPE '!'", True), ("'a%' LIKE '_%%' ESCAPE '%'", True),
    ("'line' || 'x' LIKE 'line%'", True),
    ("'a' LIKE 'a!b' ESCAPE '!'", Err("EvaluatorLikePatternInvalidEscapeSequence", "LikeInvalidInputs")),
    ("'a' LIKE 'a!' ESCAPE '!'", Err("EvaluatorLikePatternInvalidEscapeSequence", "LikeInvalidInputs")),
    ("'a' LIKE 'a' ESCAPE 'xy'", Err("EvaluatorLikePatternInvalidEscapeSequence", "LikeInvalidInputs", "*")),
    ("5 LIKE 'a'", Err("LikeInvalidInputs", "*")),
]) + group("operators/like", FRUIT, [
    ("a prefix", "SELECT k FROM S3Object WHERE name LIKE 'b%'", ["b"]),
    ("a suffix", "SELECT k FROM S3Object WHERE name LIKE '%e'", ["a"]),
    ("two wildcards", "SELECT k FROM S3Object WHERE name LIKE '%a%'", ["a", "b", "d"]),
    ("backtracking", "SELECT k FROM S3Object WHERE name LIKE '%an%na'", ["b"]),
    ("NOT LIKE", "SELECT k FROM S3Object WHERE name NOT LIKE '%a%'", ["c", "e"]),
    ("an escaped underscore", "SELECT k FROM S3Object WHERE name LIKE '%$_1' ESCAPE '$'", ["d"]),
    ("an escaped percent", "SELECT k FROM S3Object WHERE name LIKE '50$%' ESCAPE '$'", ["e"]),
    ("the pattern is an expression", "SELECT k FROM S3Object WHERE name LIKE k || '%'", ["a", "b", "c", "d"]),
    ("the pattern is a column", "SELECT _1 FROM S3Object WHERE _1 LIKE _2", ["abc", "x"],
     {"input": csv("abc,a%\nabd,%c\nx,_\n")}),
    ("a line break inside", "SELECT _2 FROM S3Object WHERE _1 LIKE 'a%c'", ["1"],
     {"input": csv('"a\nb c",1\n"x\nc",2\n', AllowQuotedRecordDelimiter=True)}),
])

MATH = values("operators/arithmetic", [
    ("1 + 2", 3), ("5 - 7", -2), ("3 * 4", 12), ("8 / 2", 4), ("7 % 3", 1), ("-5", -5), ("- 5 + 2", -3), ("-(2 + 3)", -5),
    ("- -5", 5), ("+5", 5), ("2 + 3 * 4", 14), ("(2 + 3) * 4", 20), ("10 - 4 - 3", 3), ("100 / 10 / 2", 5), ("2 * 3 % 4", 2),
    ("7 / 2", 3, {"silent": "integers divide as integers, as in SQL"}),
    ("-7 / 2", -3, {"silent": "integers divide towards zero, as in SQL"}),
    ("-7 % 3", -1, {"silent": "the remainder has the sign of the dividend, as in SQL"}),
    ("1.5 + 1.5", 3), ("0.1 + 0.2", 0.3), ("1.1 * 1.1", 1.21), ("7.0 / 2", 3.5), ("1 / 3.0 > 0.3333333333 AND 1 / 3.0 < 0.3333333334", True), ("10 / 4.0", 2.5), ("5.5 % 2", 1.5), ("1 + 0.5", 1.5),
    ("CAST(0.5 AS FLOAT) + 0.25", 0.75), ("CAST(1 AS FLOAT) / 4", 0.25), ("CAST('3' AS INT) * CAST('4' AS INT)", 12),
    ("9223372036854775806 + 1", 9223372036854775807), ("-9223372036854775807 - 1", -9223372036854775808),
    ("9007199254740993 + 0", 9007199254740993), ("3037000499 * 3037000499", 9223372030926249001),
    ("9223372036854775807 + 1", Err("IntegerOverflow")), ("-9223372036854775807 - 2", Err("IntegerOverflow")),
    ("9223372036854775807 * 2", Err("IntegerOverflow")),
    ("1 / 0", Err("*")), ("1 % 0", Err("*")), ("1.5 / 0", Err("*")),
    ("1e3", 1000.0), ("1.5e-3", 0.0015), (".5 + .5", 1), ("TRUE + 1", Err("*")),
    ("'1' + 1", Err("*"), {"silent": "text must be cast before it is a number"}),
]) + group("operators/arithmetic", csv("a,b\n7,2\n10,5\n", "USE"), [
    ("of cast columns", "SELECT CAST(a AS INT) + CAST(b AS INT), CAST(a AS INT) * CAST(b AS INT) FROM S3Object", ["9,14", "15,50"]),
    ("in WHERE", "SELECT a FROM S3Object WHERE CAST(a AS INT) % CAST(b AS INT) = 0", ["10"]),
    ("unary minus of a column", "SELECT -CAST(a AS INT) FROM S3Object", ["-7", "-10"]),
    ("division by a column that is zero", "SELECT 1 / (CAST(b AS INT) - 2) FROM S3Object", Err("*")),
    ("guarded division", "SELECT CASE WHEN b = '2' THEN 0 ELSE 10 / (CAST(b AS INT) - 2) END FROM S3Object", ["0", "3"]),
    ("overflow in a row", "SELECT CAST(a AS INT) + 9223372036854775800 FROM S3Object", Err("IntegerOverflow")),
])

PRECEDENCE = values("operators/precedence", [
    ("1 + 2 = 3", True), ("2 * 3 + 1 = 7 AND TRUE", True), ("NOT 1 = 2", True), ("NOT FALSE AND FALSE", False),
    ("TRUE OR FALSE AND FALSE", True), ("1 + 1 IN (2)", True), ("5 + 5 BETWEEN 9 AND 11", True), ("'a' || 'b' = 'ab'", True),
    ("'a' || 'b' LIKE 'ab'", True), ("-2 * -3", 6), ("1 < 2 = TRUE", True), ("2 - -2", 4),
])

CONCAT = values("operators/concatenation", [
    ("'a' || 'b'", "ab"), ("'a' || 'b' || 'c'", "abc"), ("'' || 'x'", "x"), ("'a' || ''", "a"), ("'it''s' || '!'", "it's!"),
    ("'ä' || '日'", "ä日"), ("LOWER('A') || UPPER('b')", "aB"), ("'a' || NULL", NULL),
])

CASES = (COMPARISON + COMPARED + BETWEEN + IN + LOGIC + PRESENCE + LIKE + MATH + PRECEDENCE + CONCAT)
