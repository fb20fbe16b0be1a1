"""Values of every type, with their extremes and NULL: read as objects, and given as parameters."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from typing import Any

import numpy
import pandas
import polars
import pyarrow
import pytest

import pushdowndb

UTC = dt.timezone.utc
D = decimal.Decimal

# What SQL says, and what Python reads.
VALUES: list[tuple[str, Any]] = [
    ("NULL", None),
    ("true", True),
    ("CAST(-128 AS TINYINT)", -128),
    ("CAST(9223372036854775807 AS BIGINT)", 2**63 - 1),
    ("-9223372036854775808", -(2**63)),
    ("18446744073709551615", 2**64 - 1),
    ("CAST(1.5 AS REAL)", 1.5),
    ("CAST('1.7976931348623157e308' AS DOUBLE)", 1.7976931348623157e308),
    ("CAST('-inf' AS DOUBLE)", -math.inf),
    ("12.50", D("12.50")),
    ("CAST('99999999999999999999999999999999999999' AS DECIMAL(38,0))", D("9" * 38)),
    ("CAST('0.00000000000000000001' AS DECIMAL(38,20))", D("0.00000000000000000001")),
    ("''", ""),
    ("'zażółć 🦀'", "zażółć 🦀"),
    ("X'00FF'", b"\x00\xff"),
    ("DATE '0001-01-01'", dt.date(1, 1, 1)),
    ("DATE '9999-12-31'", dt.date(9999, 12, 31)),
    ("CAST('23:59:59.999999' AS TIME)", dt.time(23, 59, 59, 999999)),
    ("TIMESTAMP '1969-12-31 23:59:59.999999'", dt.datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("arrow_cast('9999-12-31T23:59:59', 'Timestamp(Second, None)')", dt.datetime(9999, 12, 31, 23, 59, 59)),
    ("CAST('2026-07-01T12:00:00+02:00' AS TIMESTAMPTZ)", dt.datetime(2026, 7, 1, 10, tzinfo=UTC)),
    ("INTERVAL '1 day 2 hours'", dt.timedelta(days=1, hours=2)),
    ("[1, NULL, 3]", [1, None, 3]),
    ("named_struct('a', 1, 'b', [named_struct('c', 'x')])", {"a": 1, "b": [{"c": "x"}]}),
    ("MAP {'k': 1, 'l': NULL}", {"k": 1, "l": None}),
    ("arrow_cast('x', 'Dictionary(Int32, Utf8)')", "x"),
]


@pytest.mark.parametrize(("sql", "expected"), VALUES, ids=[sql[:40] for sql, _ in VALUES])
def test_values_are_read(con: pushdowndb.Connection, sql: str, expected: Any) -> None:
    # Beside NULL, and alone.
    rows = con.sql(f"SELECT {sql} AS v UNION ALL SELECT NULL").fetchall()
    assert sorted(rows, key=lambda row: row[0] is None) == [(expected,), (None,)]
    (row,) = con.execute(f"SELECT {sql} AS v").fetchall()
    assert row == (expected,) and type(row[0]) is type(expected)


def test_zones_are_kept(con: pushdowndb.Connection) -> None:
    for zone, hours in [("Europe/Berlin", 2), ("+05:30", 5.5), ("-03:00", -3)]:
        kind = f'Timestamp(Microsecond, Some("{zone}"))'
        sql = f"SELECT arrow_cast(CAST('2026-07-01T12:00:00Z' AS TIMESTAMPTZ), '{kind}')"
        ((read,),) = con.sql(sql).fetchall()
        assert read == dt.datetime(2026, 7, 1, 12, tzinfo=UTC) and read.utcoffset() == dt.timedelta(hours=hours)


def test_what_python_lacks_is_an_error_and_arrow_has_it(con: pushdowndb.Connection) -> None:
    beyond = "SELECT arrow_cast(253402300800, 'Timestamp(Second, None)') AS t"
    with pytest.raises(pushdowndb.InvalidError, match="9999"):
        con.sql(beyond).fetchall()
    assert con.sql(beyond).arrow()["t"].cast(pyarrow.int64()).to_pylist() == [253402300800]


PARAMETERS: list[Any] = [
    None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**64 - 1, 10**37, -(10**38 - 1), 10**75,
    0.1, -0.0, 1e308, 5e-324, math.inf,
    D("12.50"), D("-0.001"), D("1E+5"), D("0"), D("9" * 76), "", "it's", "a\\b\n'?", b"", b"\x00\xff",
    dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.time(0), dt.time(23, 59, 59, 999999),
    dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
    dt.datetime(2026, 7, 1, 12, tzinfo=UTC), dt.datetime(2026, 7, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=-8))),
    dt.timedelta(days=3, microseconds=1), dt.timedelta(0), [1, 2], ["a", None], [],
]  # fmt: skip


@pytest.mark.parametrize("value", PARAMETERS, ids=[repr(value)[:40] for value in PARAMETERS])
def test_parameters_come_back(con: pushdowndb.Connection, value: Any) -> None:
    assert con.sql("SELECT ?", [value]).fetchall() == [(value,)]
    assert con.sql("SELECT :v", {"v": value}).fetchall() == [(value,)]


def test_parameters_of_other_libraries(con: pushdowndb.Connection) -> None:
    identity = uuid.uuid4()
    given = [numpy.int32(5), numpy.float64(0.5), numpy.bool_(True), pandas.NaT, pandas.NA, identity, (1, 2.5)]
    given.append(pandas.Timestamp("2026-01-01 00:00:00.123456789"))
    row = con.sql("SELECT " + ", ".join(f"? AS c{n}" for n in range(8)), given).arrow().to_pylist()[0]
    expected = [5, 0.5, True, None, None, str(identity), [1.0, 2.5], pandas.Timestamp("2026-01-01 00:00:00.123456789")]
    assert list(row.values()) == expected


def test_nan_is_a_value(con: pushdowndb.Connection) -> None:
    ((nan,),) = con.sql("SELECT ?", [math.nan]).fetchall()
    assert math.isnan(nan)


def test_large_integers_beside_null_are_exact_in_pandas(con: pushdowndb.Connection) -> None:
    frame = con.sql("SELECT * FROM (VALUES (9007199254740993, 1), (NULL, 2)) AS t(a, b) ORDER BY b").df()
    assert str(frame.dtypes["a"]) == "Int64" and frame["a"][0] == 9007199254740993 and frame["a"].isna()[1]
    assert str(frame.dtypes["b"]) == "int64"


def test_types_of_data_frames(con: pushdowndb.Connection) -> None:
    source = polars.DataFrame({
        "i": [1, None], "f": [0.5, None], "s": ["x", None], "b": [True, None], "d": [dt.date(2026, 1, 1), None],
        "t": [dt.datetime(2026, 1, 1, 12), None], "z": [dt.datetime(2026, 1, 1, tzinfo=UTC), None],
        "n": [D("1.25"), None], "l": [[1, 2], None], "c": polars.Series(["k", None], dtype=polars.Categorical),
        "y": [b"z", None], "r": [{"p": 1}, None],
    })  # fmt: skip
    assert con.sql("SELECT * FROM source").fetchall() == source.rows()
    again = con.sql("SELECT * FROM source").pl()
    assert again.drop("c", "n").equals(source.drop("c", "n"))
    twice = pandas.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises((pushdowndb.InvalidError, ValueError)):
        con.sql("SELECT * FROM twice")
    del twice
