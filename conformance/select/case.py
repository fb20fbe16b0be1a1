"""What a case is: an input, a statement, the rows or the error that must come back.

    group("operators/comparison", csv("a,b\\n1,2\\n"), [
        ("equal", "SELECT a FROM S3Object WHERE a = '1'", ["1"]),
        ("a bad cast", "SELECT CAST(a AS FOO) FROM S3Object", Err("ParseExpectedTypeName")),
    ])

A case is `(name, statement, expected)` and, if need be, a dictionary of options as a fourth: `input`, `output`,
`range` (`(start, end)`), `extensions`, and `silent`, the reason for the expected value where AWS's documentation
says nothing. `values(...)` is short for `SELECT expression FROM S3Object` over one record.
"""

import bz2
import gzip
from dataclasses import dataclass, field
from pathlib import Path

DATA = Path(__file__).parent / "data"

CSV_OUT = {"CSV": {}}
JSON_OUT = {"JSON": {}}


@dataclass(frozen=True)
class Input:
    """An object and how it is to be read."""

    data: bytes
    serialization: dict
    output: dict

    def read_as(self, **more):
        """The same bytes, read in another way: changes the options of the format."""
        serialization = {k: ({**v, **more} if isinstance(v, dict) else v) for k, v in self.serialization.items()}
        return Input(self.data, serialization, self.output)


def as_bytes(text) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def _packed(data: bytes, compression) -> bytes:
    return {None: bytes, "NONE": bytes, "GZIP": gzip.compress, "BZIP2": bz2.compress}[compression](data)


def csv(text, header="NONE", compression=None, pack=True, **options) -> Input:
    """A CSV object; `options` are those of InputSerialization's CSV."""
    data = as_bytes(text)
    serialization = {"CSV": {"FileHeaderInfo": header, **options}}
    if compression:
        serialization["CompressionType"] = compression
        data = _packed(data, compression) if pack else data
    return Input(data, serialization, CSV_OUT)


def json(text, kind="LINES", compression=None, pack=True) -> Input:
    """A JSON object: LINES or DOCUMENT."""
    data = as_bytes(text)
    serialization = {"JSON": {"Type": kind}}
    if compression:
        serialization["CompressionType"] = compression
        data = _packed(data, compression) if pack else data
    return Input(data, serialization, JSON_OUT)


def lines(text, **options) -> Input:
    return json(text, "LINES", **options)


def document(text, **options) -> Input:
    return json(text, "DOCUMENT", **options)


def parquet(name_or_bytes) -> Input:
    """A Parquet object: a file of `data/`, or bytes."""
    data = name_or_bytes if isinstance(name_or_bytes, bytes) else (DATA / name_or_bytes).read_bytes()
    return Input(data, {"Parquet": {}}, JSON_OUT)


class Err:
    """An error with one of these codes; `*` stands for any text. Status 400, or an error frame."""

    def __init__(self, *codes, status=400):
        self.codes, self.status = codes, status

    def __repr__(self):
        return " or ".join(self.codes)


# The documentation calls what does not parse "a 400 parse error" and does not say which.
PARSE_ERROR = ("Parse*", "Lexer*", "UnsupportedSyntax", "UnsupportedSql*", "InvalidKeyPath")


class AnyOf:
    """One of several spellings that mean the same and between which the documentation does not choose."""

    def __init__(self, *values):
        self.values = values

    def __repr__(self):
        return " or ".join(repr(value) for value in self.values)


class Like:
    """A text that a regular expression matches in full."""

    def __init__(self, pattern):
        self.pattern = pattern

    def __repr__(self):
        return f"/{self.pattern}/"


class Instant:
    """A timestamp, whatever the number of its zeros."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


class Num(list):
    """Rows of CSV whose fields are compared as numbers."""


@dataclass(frozen=True)
class Case:
    """One row of a table."""

    name: str
    sql: str
    expected: object
    input: Input
    output: dict
    range: tuple | None = None
    extensions: bool = False
    silent: str | None = None
    request: dict = field(default_factory=dict)


def group(name, source, rows):
    """A table of cases that share an input."""
    made = []
    for row in rows:
        title, sql, expected, *rest = row
        options = dict(rest[0]) if rest else {}
        read = options.pop("input", source)
        made.append(Case(f"{name}/{title}", sql, expected, read, options.pop("output", read.output), **options))
    return made


ONE = Input(b"x\n", {"CSV": {"FileHeaderInfo": "NONE"}}, JSON_OUT)


def values(name, rows, source=ONE):
    """A table of `(expression, its value)`: each is selected as `v` over one record.

    The value is a Python value as JSON would give it, `Ellipsis` for MISSING (the record has no such field), or an
    `Err`.
    """
    made = []
    for expression, value, *rest in rows:
        if value is ...:
            expected = ["{}"]
        elif isinstance(value, Err):
            expected = value
        else:
            expected = [{"v": value}]
        options = dict(rest[0]) if rest else {}
        read = options.pop("input", source)
        sql = f"SELECT {expression} AS v FROM S3Object s"
        made.append(Case(f"{name}/{expression}", sql, expected, read, JSON_OUT, **options))
    return made
