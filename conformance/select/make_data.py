#!/usr/bin/env python3
"""Writes the Parquet files of `data/`. Run only to change them: it needs pyarrow, the suite does not.

    pip install pyarrow && python3 conformance/select/make_data.py
"""

import datetime as dt
import decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

DATA = Path(__file__).parent / "data"
UTC = dt.timezone.utc
D = decimal.Decimal


def write(name, table, **options):
    pq.write_table(table, DATA / f"{name}.parquet", **{"compression": "snappy", **options})


def basic():
    return pa.table({
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "name": pa.array(["Ann", "Bob", None, "Dora"]),
        "score": pa.array([1.5, None, -2.25, 1e10], pa.float64()),
        "ok": pa.array([True, False, None, True]),
    })


def main():
    DATA.mkdir(exist_ok=True)
    for codec in ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]:
        write(f"codec_{codec}", basic(), compression=codec)
    write("version_1", basic(), version="1.0", data_page_version="1.0", use_dictionary=False)
    write("pages_2", basic(), version="2.6", data_page_version="2.0")
    write("plain", basic(), use_dictionary=False)
    write("empty", basic().slice(0, 0))
    many = pa.table({
        "id": pa.array(range(1000), pa.int64()), "k": pa.array([f"key {n % 7}" for n in range(1000)]),
        "f": pa.array([n / 4 for n in range(1000)], pa.float64()), "i": pa.array([n * 3 for n in range(1000)], pa.int32()),
        "t": pa.array([f"prefix-{n:05}" for n in range(1000)]), "fixed": pa.array([n.to_bytes(4, "big") for n in range(1000)], pa.binary(4)),
    })
    write("row_groups", many.select(["id", "k", "f"]), row_group_size=100)
    write("delta", many.select(["id", "i", "t"]), use_dictionary=False, version="2.6",
          column_encoding={"id": "DELTA_BINARY_PACKED", "i": "DELTA_BINARY_PACKED", "t": "DELTA_BYTE_ARRAY"})
    write("delta_length", many.select(["id", "t"]), use_dictionary=False, version="2.6",
          column_encoding={"id": "PLAIN", "t": "DELTA_LENGTH_BYTE_ARRAY"})
    write("byte_stream_split", many.select(["id", "f"]), use_dictionary=False, version="2.6", column_encoding={"id": "PLAIN", "f": "BYTE_STREAM_SPLIT"})
    write("dictionary", many.select(["id", "k"]), use_dictionary=True, data_page_size=256)
    write("types", pa.table({
        "i8": pa.array([-128, 127, None], pa.int8()), "i16": pa.array([-32768, 32767, None], pa.int16()),
        "i32": pa.array([-2147483648, 2147483647, None], pa.int32()), "i64": pa.array([-2**63, 2**63 - 1, None], pa.int64()),
        "u8": pa.array([0, 255, None], pa.uint8()), "u16": pa.array([0, 65535, None], pa.uint16()),
        "u32": pa.array([0, 4294967295, None], pa.uint32()), "u64": pa.array([0, 2**64 - 1, None], pa.uint64()),
        "f32": pa.array([1.5, -0.25, None], pa.float32()), "f64": pa.array([0.1, 1e300, None], pa.float64()),
        "s": pa.array(["", "日本 \"q\"", None]), "b": pa.array([True, False, None]),
        "large": pa.array(["x", "y", None], pa.large_string()), "e": pa.array(["red", "green", None]).dictionary_encode(),
    }))
    write("decimals", pa.table({
        "d9": pa.array([D("1.50"), D("-99999.99"), None], pa.decimal128(7, 2)), "d18": pa.array([D("123456789.123456"), D("0.000001"), None], pa.decimal128(18, 6)),
        "d38": pa.array([D("12345678901234567890.1234567890"), D("-0.0000000001"), None], pa.decimal128(38, 10)),
    }))
    write("decimals_as_integers", pa.table({
        "d9": pa.array([D("1.50"), D("-99999.99"), None], pa.decimal128(7, 2)), "d18": pa.array([D("123456789.123456"), D("0.000001"), None], pa.decimal128(18, 6)),
    }), store_decimal_as_integer=True)
    moments = [dt.datetime(2020, 1, 2, 3, 4, 5, 678000), dt.datetime(1969, 12, 31, 23, 59, 59), None]
    aware = [moment and moment.replace(tzinfo=UTC) for moment in moments]
    write("times", pa.table({
        "d": pa.array([dt.date(2020, 1, 2), dt.date(1969, 12, 31), None], pa.date32()), "ms": pa.array(aware, pa.timestamp("ms", "UTC")),
        "us": pa.array(aware, pa.timestamp("us", "UTC")), "ns": pa.array(aware, pa.timestamp("ns", "UTC")), "local": pa.array(moments, pa.timestamp("us")),
    }))
    write("int96", pa.table({"t": pa.array(moments, pa.timestamp("ns"))}), use_deprecated_int96_timestamps=True)
    point = pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])
    write("nested", pa.table({
        "id": pa.array([1, 2, 3], pa.int64()),
        "s": pa.array([{"x": 1, "y": {"z": "a"}}, {"x": None, "y": None}, None], point),
        "l": pa.array([[1, 2, 3], [], None], pa.list_(pa.int64())),
        "ls": pa.array([[{"x": 5, "y": {"z": "b"}}], [{"x": 6, "y": None}, {"x": 7, "y": None}], None], pa.list_(point)),
        "ll": pa.array([[[1], [2, 3]], [[]], None], pa.list_(pa.list_(pa.int64()))),
        "m": pa.array([[("k", 1), ("j", 2)], [], None], pa.map_(pa.string(), pa.int64())),
    }))
    write("names", pa.table({"NAME": ["A"], "name": ["b"], "two words": ["c"], "Cast": ["d"], "a.b": ["e"]}))
    whole = (DATA / "codec_snappy.parquet").read_bytes()
    (DATA / "cut_tail.parquet").write_bytes(whole[:-20])
    (DATA / "cut_head.parquet").write_bytes(whole[40:])
    damaged = bytearray(whole)
    damaged[4:60] = bytes(byte ^ 0xA5 for byte in damaged[4:60])
    (DATA / "damaged.parquet").write_bytes(bytes(damaged))


if __name__ == "__main__":
    main()
