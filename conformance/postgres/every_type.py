"""A table of all types, which the clients of both protocols read."""

import datetime as dt
import decimal
import math

import pyarrow as pa

D = decimal.Decimal
UTC = dt.timezone.utc


def table():
    """A table of all types, with extremes and NULL."""
    one_day = dt.timedelta(days=1)
    columns = {
        "b": pa.array([True, False, None], pa.bool_()),
        "i8": pa.array([-128, 127, None], pa.int8()),
        "i16": pa.array([-32768, 32767, None], pa.int16()),
        "i32": pa.array([-(2**31), 2**31 - 1, None], pa.int32()),
        "i64": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
        "u8": pa.array([0, 255, None], pa.uint8()),
        "u16": pa.array([0, 65535, None], pa.uint16()),
        "u32": pa.array([0, 2**32 - 1, None], pa.uint32()),
        "u64": pa.array([0, 2**64 - 1, None], pa.uint64()),
        "f32": pa.array([-3.4028234663852886e38, math.inf, None], pa.float32()),
        "f64": pa.array([5e-324, 1.7976931348623157e308, None], pa.float64()),
        "small": pa.array([D("-0.01"), D("9999999.99"), None], pa.decimal128(9, 2)),
        "large": pa.array([D("-" + "9" * 38), D("9" * 38), None], pa.decimal128(38, 0)),
        "deep": pa.array([D("-0." + "9" * 38), D("0." + "0" * 37 + "1"), None], pa.decimal128(38, 38)),
        "t": pa.array(["", "ümläut 'quote' \"double\" \\ \t\n", None], pa.string()),
        "bin": pa.array([b"", b"\x00\xff\\'", None], pa.binary()),
        "d": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None], pa.date32()),
        "time": pa.array([dt.time(0, 0), dt.time(23, 59, 59, 999999), None], pa.time64("us")),
        "ts": pa.array([dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None], pa.timestamp("us")),
        "ns": pa.array([dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1, 0, 0, 0, 1), None], pa.timestamp("ns")),
        "tz": pa.array([dt.datetime(1970, 1, 1, tzinfo=UTC), dt.datetime(2200, 1, 1, tzinfo=UTC), None],
                       pa.timestamp("us", "UTC")),
        "dur": pa.array([-one_day, dt.timedelta(microseconds=1), None], pa.duration("us")),
        "ints": pa.array([[1, None, -3], [], None], pa.list_(pa.int64())),
        "texts": pa.array([["a", None, "{,\"\\ }", "NULL", ""], [], None], pa.list_(pa.string())),
        "obj": pa.array([{"a": 1, "b": ["x", None]}, {"a": None, "b": None}, None],
                        pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])),
    }
    return pa.table(columns)
