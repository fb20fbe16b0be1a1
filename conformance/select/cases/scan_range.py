"""ScanRange: a record belongs to the range that its first byte lies in; no record twice, none lost."""

import random

from conformance.select.case import CSV_OUT, Case, Err, csv, document, group, lines, parquet

DOCUMENTED = csv("A,B\nC,D\nD,E\nE,F\nG,H\nI,J\n")
ALL = "SELECT * FROM S3Object"
PEOPLE = csv("id,name\n1,Ann\n2,Bob\n3,Cid\n", "USE")

RANGES = group("scan range", DOCUMENTED, [
    ("documented: 1 to 4 is C,D", ALL, ["C,D"], {"range": (1, 4)}),
    ("the whole object", ALL, ["A,B", "C,D", "D,E", "E,F", "G,H", "I,J"], {"range": (0, 23)}),
    ("both ends are in the range", ALL, ["A,B", "C,D"], {"range": (0, 4)}),
    ("an end before the next record", ALL, ["A,B"], {"range": (0, 3)}),
    ("one byte at a start", ALL, ["C,D"], {"range": (4, 4)}),
    ("one byte in the middle", ALL, [], {"range": (5, 5)}),
    ("the start of the object", ALL, ["A,B"], {"range": (0, 0)}),
    ("start only", ALL, ["G,H", "I,J"], {"range": (16, None)}),
    ("start only, in a record", ALL, ["I,J"], {"range": (17, None)}),
    ("end only: the last bytes", ALL, ["I,J"], {"range": (None, 4)}),
    ("end only, in a record", ALL, ["I,J"], {"range": (None, 7)}),
    ("end only, more than there is", ALL, ["A,B", "C,D", "D,E", "E,F", "G,H", "I,J"], {"range": (None, 1000)}),
    ("an end beyond the object", ALL, ["I,J"], {"range": (20, 5000)}),
    ("a start in the last record", ALL, [], {"range": (21, None)}),
    ("a start beyond the object", ALL, lambda rows: rows and "expected no rows", {"range": (24, 30)}),
    ("an end before the start", ALL, Err("InvalidScanRange", "InvalidRequestParameter"), {"range": (10, 5)}),
    ("a negative start", ALL, Err("InvalidScanRange", "InvalidRequestParameter", "*"), {"range": (-1, 5)}),
    ("with WHERE", "SELECT _2 FROM S3Object WHERE _1 >= 'D'", ["E", "F"], {"range": (4, 15)}),
    ("with LIMIT", "SELECT _1 FROM S3Object LIMIT 1", ["D"], {"range": (5, 20)}),
    ("with an aggregate", "SELECT COUNT(*) FROM S3Object", ["2"], {"range": (8, 15)}),
    ("an aggregate of nothing", "SELECT COUNT(*) FROM S3Object", ["0"], {"range": (5, 6)}),
    ("names come from the header outside the range", "SELECT name FROM S3Object", ["Bob", "Cid"], {"input": PEOPLE, "range": (9, None)}),
    ("the header is no record in its range", "SELECT name FROM S3Object", [], {"input": PEOPLE, "range": (0, 3)}),
    ("JSON lines", "SELECT s.a FROM S3Object s", ['{"a":2}'], {"input": lines('{"a":1}\n{"a":2}\n{"a":3}\n'), "range": (1, 8)}),
    ("GZIP", "SELECT COUNT(*) FROM S3Object", Err("UnsupportedScanRangeInput"), {"input": csv("1\n2\n", compression="GZIP"), "range": (0, 5)}),
    ("BZIP2", "SELECT COUNT(*) FROM S3Object", Err("UnsupportedScanRangeInput"), {"input": csv("1\n2\n", compression="BZIP2"), "range": (0, 5)}),
    ("GZIP of JSON", "SELECT COUNT(*) FROM S3Object", Err("UnsupportedScanRangeInput"), {"input": lines('{"a":1}\n', compression="GZIP"), "range": (0, 5)}),
    ("a JSON document", "SELECT COUNT(*) FROM S3Object", Err("UnsupportedScanRangeInput"), {"input": document('{"a":1}'), "range": (0, 5)}),
    ("quoted record delimiters", "SELECT COUNT(*) FROM S3Object", Err("UnsupportedScanRangeInput"),
     {"input": csv("1\n2\n", AllowQuotedRecordDelimiter=True), "range": (0, 1)}),
])


def partitions(title, source, count, statement="SELECT * FROM S3Object", seed=7):
    """Any partition of an object into ranges gives its rows once and in order."""

    def test(session):
        whole = session.select(Case("whole", statement, None, source, CSV_OUT))
        assert whole.count(b"\n") == count, f"{whole.count(chr(10).encode())} rows in the whole, {count} expected"
        random_cuts, size = random.Random(seed), len(source.data)
        for _ in range(6):
            cuts = sorted({0, size, *random_cuts.sample(range(1, size), min(8, size - 1))})
            parts = [
                session.select(Case("part", statement, None, source, CSV_OUT, range=(start, end - 1)))
                for start, end in zip(cuts, cuts[1:])
            ]
            assert b"".join(parts) == whole, f"seed {seed}, cut at {cuts}: {[part.count(chr(10).encode()) for part in parts]} rows"

    return (f"scan range/partitions/{title}", test)


def every_cut(title, source, statement="SELECT * FROM S3Object"):
    """The object cut in two at every byte."""

    def test(session):
        whole = session.select(Case("whole", statement, None, source, CSV_OUT))
        for cut in range(1, len(source.data)):
            parts = b"".join(
                session.select(Case("part", statement, None, source, CSV_OUT, range=bounds)) for bounds in ((0, cut - 1), (cut, None))
            )
            assert parts == whole, f"cut at {cut}: {parts!r} instead of {whole!r}"

    return (f"scan range/every cut/{title}", test)


PROPERTIES = [
    partitions("CSV", csv("".join(f"{n},{'x' * (n % 23)}\n" for n in range(4000))), 4000),
    partitions("CSV with a header", csv("id,x\n" + "".join(f"{n},{'x' * (n % 23)}\n" for n in range(4000)), "USE"), 4000),
    partitions("CSV with an ignored header", csv("id,x\n" + "".join(f"{n},{'x' * (n % 23)}\n" for n in range(4000)), "IGNORE"), 4000),
    partitions("CSV with CRLF", csv("".join(f"{n},{'x' * (n % 23)}\r\n" for n in range(4000))), 4000),
    partitions("CSV with quotes", csv("".join(f'{n},"a,""{n}"""\n' for n in range(4000))), 4000),
    partitions("CSV with another record delimiter", csv("".join(f"{n},x;" for n in range(4000)), RecordDelimiter=";"), 4000),
    partitions("CSV without the last newline", csv("\n".join(str(n) for n in range(4000))), 4000),
    partitions("CSV over a megabyte", csv("".join(f"{n},{'x' * 100}\n" for n in range(20000))), 20000),
    partitions("JSON lines", lines("".join(f'{{"a":{n}}}\n' for n in range(4000))), 4000, "SELECT s.a FROM S3Object s"),
    partitions("Parquet by row groups", parquet("row_groups.parquet"), 1000, "SELECT id FROM S3Object"),
    every_cut("CSV", csv("1,a\n22,bb\n\n333,\"c,c\"\n")),
    every_cut("CSV with a header and CRLF", csv("id,v\r\n1,a\r\n2,bb\r\n", "USE")),
    every_cut("JSON lines", lines('{"a":1}\n{"a":22}\n'), "SELECT s.a FROM S3Object s"),
]

CASES = RANGES + PROPERTIES
