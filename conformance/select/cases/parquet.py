"""Parquet objects: codecs, encodings, types, nested columns, row groups, damaged files. The files: ../make_data.py."""

from decimal import Decimal

from conformance.select.case import CSV_OUT, AnyOf, Err, Instant, Input, Num, group, parquet

BASIC = [
    {"id": 1, "name": "Ann", "score": 1.5, "ok": True}, {"id": 2, "name": "Bob", "score": None, "ok": False},
    {"id": 3, "name": None, "score": -2.25, "ok": None}, {"id": 4, "name": "Dora", "score": 1e10, "ok": True},
]

CODECS = [
    case
    for name in ["codec_none", "codec_snappy", "codec_gzip", "codec_brotli", "codec_zstd", "codec_lz4", "version_1", "pages_2", "plain"]
    for case in group(f"parquet/files/{name}", parquet(f"{name}.parquet"), [
        ("star", "SELECT * FROM S3Object", BASIC, {"silent": "AWS reads SNAPPY and GZIP"} if name[6:] in ("brotli", "zstd", "lz4") else {}),
    ])
]

ENCODINGS = group("parquet/encodings", parquet("row_groups.parquet"), [
    (name, "SELECT SUM(s.id) AS t, COUNT(*) AS n FROM S3Object s", [{"t": 499500, "n": 1000}], {"input": parquet(f"{name}.parquet")})
    for name in ["row_groups", "delta", "delta_length", "byte_stream_split", "dictionary"]
] + [
    ("DELTA_BYTE_ARRAY text", "SELECT s.t FROM S3Object s WHERE s.id = 777", [{"t": "prefix-00777"}], {"input": parquet("delta.parquet")}),
    ("DELTA_BINARY_PACKED int32", "SELECT SUM(s.i) AS v FROM S3Object s", [{"v": 1498500}], {"input": parquet("delta.parquet")}),
    ("DELTA_LENGTH_BYTE_ARRAY text", "SELECT s.t FROM S3Object s WHERE s.id = 999", [{"t": "prefix-00999"}], {"input": parquet("delta_length.parquet")}),
    ("BYTE_STREAM_SPLIT double", "SELECT SUM(s.f) AS v FROM S3Object s", [{"v": 124875.0}], {"input": parquet("byte_stream_split.parquet")}),
    ("dictionary text", "SELECT COUNT(*) AS v FROM S3Object s WHERE s.k = 'key 3'", [{"v": 143}], {"input": parquet("dictionary.parquet")}),
])

QUERIES = group("parquet/queries", parquet("codec_snappy.parquet"), [
    ("one column", "SELECT s.name FROM S3Object s", [{"name": "Ann"}, {"name": "Bob"}, {"name": None}, {"name": "Dora"}]),
    ("names in any case", "SELECT s.NAME FROM S3Object s LIMIT 1", [AnyOf({"NAME": "Ann"}, {"name": "Ann"})]),
    ("exact names", 'SELECT s."name" FROM S3Object s LIMIT 1', [{"name": "Ann"}]),
    ("exact names that are not there", 'SELECT s."Name" FROM S3Object s', Err("MissingHeaderName", "EvaluatorBindingDoesNotExist")),
    ("no such column", "SELECT s.nothing FROM S3Object s", Err("MissingHeaderName", "EvaluatorBindingDoesNotExist")),
    ("a name with a space", 'SELECT s."two words" AS v FROM S3Object s', [{"v": "c"}], {"input": parquet("names.parquet")}),
    ("a name that is a keyword", 'SELECT s."Cast" AS v FROM S3Object s', [{"v": "d"}], {"input": parquet("names.parquet")}),
    ("a name with a dot", 'SELECT s."a.b" AS v FROM S3Object s', [{"v": "e"}], {"input": parquet("names.parquet")}),
    ("numbers compare as numbers", "SELECT s.id FROM S3Object s WHERE s.id >= 3", [{"id": 3}, {"id": 4}]),
    ("fractions", "SELECT s.id FROM S3Object s WHERE s.score < 1.6", [{"id": 1}, {"id": 3}]),
    ("texts", "SELECT s.id FROM S3Object s WHERE s.name > 'B'", [{"id": 2}, {"id": 4}]),
    ("booleans", "SELECT s.id FROM S3Object s WHERE s.ok", [{"id": 1}, {"id": 4}]),
    ("booleans compared", "SELECT s.id FROM S3Object s WHERE s.ok = FALSE", [{"id": 2}]),
    ("NULL", "SELECT s.id FROM S3Object s WHERE s.name IS NULL", [{"id": 3}]),
    ("NOT NULL", "SELECT s.id FROM S3Object s WHERE s.score IS NOT NULL", [{"id": 1}, {"id": 3}, {"id": 4}]),
    ("NULL is not unequal", "SELECT s.id FROM S3Object s WHERE s.name <> 'Ann'", [{"id": 2}, {"id": 4}]),
    ("LIKE", "SELECT s.id FROM S3Object s WHERE s.name LIKE '%o%'", [{"id": 2}, {"id": 4}]),
    ("IN", "SELECT s.id FROM S3Object s WHERE s.id IN (2, 4, 9)", [{"id": 2}, {"id": 4}]),
    ("BETWEEN", "SELECT s.id FROM S3Object s WHERE s.id BETWEEN 2 AND 3", [{"id": 2}, {"id": 3}]),
    ("arithmetic", "SELECT s.id * 2 + 1 AS v FROM S3Object s LIMIT 2", [{"v": 3}, {"v": 5}]),
    ("CAST to STRING", "SELECT CAST(s.id AS STRING) || '!' AS v FROM S3Object s LIMIT 1", [{"v": "1!"}]),
    ("functions", "SELECT UPPER(s.name) AS v FROM S3Object s LIMIT 1", [{"v": "ANN"}]),
    ("aggregates", "SELECT COUNT(*) AS n, COUNT(s.name) AS m, SUM(s.id) AS t, MIN(s.score) AS a, MAX(s.score) AS b FROM S3Object s",
     [{"n": 4, "m": 3, "t": 10, "a": -2.25, "b": 1e10}]),
    ("LIMIT", "SELECT s.id FROM S3Object s LIMIT 2", [{"id": 1}, {"id": 2}]),
    ("as CSV", "SELECT s.id, s.name, s.ok FROM S3Object s", ["1,Ann,true", "2,Bob,false", "3,,", "4,Dora,true"], {"output": CSV_OUT}),
    ("fractions as CSV", "SELECT s.score FROM S3Object s WHERE s.score IS NOT NULL", Num(["1.5", "-2.25", "10000000000"]), {"output": CSV_OUT}),
    ("no rows", "SELECT * FROM S3Object", [], {"input": parquet("empty.parquet")}),
    ("no rows, counted", "SELECT COUNT(*) AS n FROM S3Object", [{"n": 0}], {"input": parquet("empty.parquet")}),
    ("many row groups", "SELECT s.id FROM S3Object s WHERE s.id = 555", [{"id": 555}], {"input": parquet("row_groups.parquet")}),
    ("a filter on one column, another returned", "SELECT s.k FROM S3Object s WHERE s.f > 249.7", [{"k": "key 5"}], {"input": parquet("row_groups.parquet")}),
    ("COUNT over row groups", "SELECT COUNT(*) AS v FROM S3Object s WHERE s.k = 'key 0'", [{"v": 143}], {"input": parquet("row_groups.parquet")}),
])

TYPES = parquet("types.parquet")
TIMES = parquet("times.parquet")


def column(name, values, source=TYPES, **options):
    return (name, f'SELECT s."{name}" AS v FROM S3Object s', [{"v": value} for value in values], {"input": source, **options})


COLUMNS = group("parquet/types", TYPES, [
    column("i8", [-128, 127, None]), column("i16", [-32768, 32767, None]), column("i32", [-(2**31), 2**31 - 1, None]),
    column("i64", [-(2**63), 2**63 - 1, None]), column("f32", [1.5, -0.25, None]), column("f64", [0.1, 1e300, None]),
    column("s", ["", '日本 "q"', None]), column("b", [True, False, None]), column("large", ["x", "y", None]), column("e", ["red", "green", None]),
    column("u8", [0, 255, None], silent="AWS lists no unsigned types"), column("u16", [0, 65535, None], silent="as above"),
    column("u32", [0, 2**32 - 1, None], silent="as above"), column("u64", [0, 2**64 - 1, None], silent="as above"),
    *[
        (f"{name} {kind}", f"SELECT s.{name} AS v FROM S3Object s", [{"v": value} for value in wanted], {"input": parquet(f"{kind}.parquet")})
        for kind in ("decimals", "decimals_as_integers")
        for name, wanted in [("d9", [Decimal("1.5"), Decimal("-99999.99"), None]), ("d18", [Decimal("123456789.123456"), Decimal("0.000001"), None])]
    ],
    column("d38", [Decimal("12345678901234567890.123456789"), Decimal("-0.0000000001"), None], parquet("decimals.parquet")),
    ("decimals compare as numbers", "SELECT s.d9 AS v FROM S3Object s WHERE s.d9 < 1.51 AND s.d9 > 0", [{"v": Decimal("1.5")}], {"input": parquet("decimals.parquet")}),
    ("decimals add exactly", "SELECT SUM(s.d18) AS v FROM S3Object s", [{"v": Decimal("123456789.123457")}], {"input": parquet("decimals.parquet")}),
    ("decimals as CSV", "SELECT s.d38 FROM S3Object s WHERE s.d38 > 1", Num(["12345678901234567890.123456789"]), {"input": parquet("decimals.parquet"), "output": CSV_OUT}),
    column("d", [Instant("2020-01-02"), Instant("1969-12-31"), None], TIMES),
    *[column(name, [Instant("2020-01-02T03:04:05.678Z"), Instant("1969-12-31T23:59:59Z"), None], TIMES) for name in ("ms", "us", "ns", "local")],
    column("t", [Instant("2020-01-02T03:04:05.678Z"), Instant("1969-12-31T23:59:59Z"), None], parquet("int96.parquet"),
           silent="AWS does not read INT96; old files are full of it"),
    ("a date compared", "SELECT s.d AS v FROM S3Object s WHERE s.d >= `2020-01-01T`", [{"v": Instant("2020-01-02")}], {"input": TIMES}),
    ("a timestamp compared", "SELECT s.us AS v FROM S3Object s WHERE s.us > CAST('2000-01-01T' AS TIMESTAMP)", [{"v": Instant("2020-01-02T03:04:05.678Z")}], {"input": TIMES}),
    ("EXTRACT of a timestamp", "SELECT EXTRACT(HOUR FROM s.us) AS v FROM S3Object s WHERE s.us IS NOT NULL", [{"v": 3}, {"v": 23}], {"input": TIMES}),
    ("EXTRACT of a date", "SELECT EXTRACT(DAY FROM s.d) AS v FROM S3Object s WHERE s.d IS NOT NULL", [{"v": 2}, {"v": 31}], {"input": TIMES}),
    ("TO_STRING of a timestamp", "SELECT TO_STRING(s.ms, 'd MMM y') AS v FROM S3Object s LIMIT 1", [{"v": "2 Jan 2020"}], {"input": TIMES}),
    ("DATE_ADD to a date", "SELECT DATE_ADD(day, 1, s.d) AS v FROM S3Object s LIMIT 1", [{"v": Instant("2020-01-03")}], {"input": TIMES}),
    ("the largest INT64 in WHERE", "SELECT COUNT(*) AS v FROM S3Object s WHERE s.i64 = 9223372036854775807", [{"v": 1}]),
    ("SUM of INT64 beyond INT64 is exact", "SELECT SUM(s.u32) AS v FROM S3Object s", [{"v": 4294967295}]),
])


def absent(**value):
    """NULL and MISSING are both right where the parent is NULL."""
    return AnyOf(value, {})


NESTED = group("parquet/nested", parquet("nested.parquet"), [
    ("a struct", "SELECT s.s AS v FROM S3Object s WHERE s.id = 1", [{"v": {"x": 1, "y": {"z": "a"}}}]),
    ("a field", "SELECT s.s.x FROM S3Object s", [{"x": 1}, {"x": None}, absent(x=None)]),
    ("a deep field", "SELECT s.s.y.z FROM S3Object s", [{"z": "a"}, absent(z=None), absent(z=None)]),
    ("a field in WHERE", "SELECT s.id FROM S3Object s WHERE s.s.y.z = 'a'", [{"id": 1}]),
    ("a field in an expression", "SELECT s.s.x + 1 AS v FROM S3Object s WHERE s.id = 1", [{"v": 2}]),
    ("a list", "SELECT s.l FROM S3Object s WHERE s.id < 3", [{"l": [1, 2, 3]}, {"l": []}]),
    ("a list that is NULL", "SELECT s.l FROM S3Object s WHERE s.id = 3", [{"l": None}]),
    ("an element", "SELECT s.l[1] AS v FROM S3Object s WHERE s.id = 1", [{"v": 2}]),
    ("an element beyond", "SELECT s.l[5] AS v FROM S3Object s WHERE s.id = 1", [absent(v=None)]),
    ("an element in WHERE", "SELECT s.id FROM S3Object s WHERE s.l[0] = 1", [{"id": 1}]),
    ("a list of structs", "SELECT s.ls AS v FROM S3Object s WHERE s.id = 1", [{"v": [{"x": 5, "y": {"z": "b"}}]}]),
    ("a field of an element", "SELECT s.ls[1].x FROM S3Object s WHERE s.id = 2", [{"x": 7}]),
    ("a list of lists", "SELECT s.ll AS v FROM S3Object s WHERE s.id < 3", [{"v": [[1], [2, 3]]}, {"v": [[]]}]),
    ("an element of an element", "SELECT s.ll[1][0] AS v FROM S3Object s WHERE s.id = 1", [{"v": 2}]),
    ("a map", "SELECT s.m AS v FROM S3Object s WHERE s.id = 1",
     [{"v": AnyOf({"k": 1, "j": 2}, [{"key": "k", "value": 1}, {"key": "j", "value": 2}])}], {"silent": "AWS lists no maps"}),
    ("star", "SELECT * FROM S3Object s WHERE s.id = 1", lambda rows: None if rows.startswith(b'{"id":1,"s":{"x":1,"y":{"z":"a"}},"l":[1,2,3],') else "expected all columns"),
    ("star beside a field in WHERE", "SELECT * FROM S3Object s WHERE s.s.x = 1",
     lambda rows: None if rows.startswith(b'{"id":1,"s":') and b"s.x" not in rows else "expected the columns and no other"),
    ("scalars as CSV", "SELECT s.id, s.s.y.z, s.l[0] FROM S3Object s WHERE s.id = 1", ["1,a,1"], {"output": CSV_OUT}),
    ("COUNT of a list", "SELECT COUNT(s.l) AS v FROM S3Object s", [{"v": 2}]),
])

BROKEN = group("parquet/broken", parquet(b""), [
    (title, "SELECT * FROM S3Object", Err("ParquetParsingError"), {"input": made})
    for title, made in [
        ("nothing", parquet(b"")), ("CSV", parquet(b"a,b\n1,2\n")), ("cut at the end", parquet("cut_tail.parquet")), ("cut at the start", parquet("cut_head.parquet")),
        ("damaged pages", parquet("damaged.parquet")), ("only magic", parquet(b"PAR1PAR1")), ("a footer too long", parquet(b"PAR1" + b"\xff\xff\xff\x7fPAR1")),
        ("zeros", parquet(b"PAR1" + b"\0" * 100 + b"\x50\0\0\0PAR1")),
    ]
] + [
    ("whole-object GZIP", "SELECT * FROM S3Object", Err("InvalidCompressionFormat", "InvalidRequestParameter", "*"),
     {"input": Input(b"PAR1", {"Parquet": {}, "CompressionType": "GZIP"}, CSV_OUT)}),
])

RANGES = group("parquet/scan range", parquet("row_groups.parquet"), [
    ("the first row group", "SELECT COUNT(*) AS v FROM S3Object", [{"v": 100}], {"range": (0, 100)}),
    ("all row groups", "SELECT COUNT(*) AS v FROM S3Object", [{"v": 1000}], {"range": (0, None)}),
    ("between row groups", "SELECT COUNT(*) AS v FROM S3Object", [{"v": 0}], {"range": (5, 6)}),
])

CASES = CODECS + ENCODINGS + QUERIES + COLUMNS + NESTED + BROKEN + RANGES
