"""Parquet files of every type and encoding, by the writers of pyarrow, of DuckDB and of our own."""

import datetime
import io
import math
import random
import struct
import subprocess
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from conformance.files.case import Case
from conformance.files.values import single

CODECS = ["NONE", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4"]
LONG = "x" * 3000


def integers(bits: int, signed: bool) -> list:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return sorted({low, low + 1, 0, 1, 7, high // 2, high // 2 + 1, high - 1, high})


def decimals(precision: int, scale: int) -> list:
    most = 10**precision - 1
    return [Decimal(n).scaleb(-scale) for n in sorted({-most, -most + 1, -1, 0, 1, 9, most // 2, most - 1, most})]


def instants(unit: str) -> list:
    """Numbers of `unit` since 1970; the extremes of nanoseconds for all, and of a year 9999 for the others."""
    each = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    found = [0, 1, -1, 951_782_400 * each, -each, each // 2, 1_700_000_000 * each + 7]
    if unit == "ns":
        return [*found, 2**63 - 1, -(2**63) + 1]
    return [*found, 253_402_300_799 * each, -62_135_596_800 * each, -9_223_372_037 * each, 9_223_372_037 * each]


FLOATS = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 1e-310, 5e-324, 1.7976931348623157e308, 0.1, 1e15, 123456789.125]
SINGLES = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, single(1e-40), single(3.4e38), single(0.1), 16777216.0]
HALVES = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 65504.0, 6e-8, 0.25]
TEXTS = ["", "a", "ab", "abc", "b", "%", "_", "a%b", "'", "\\", "é", "日本", "😀", "\x00", "a\x00b", "\x7f", "\u0080", "\uffff", "zz", "A", " a", "a ", "\n", LONG, LONG + "y", "NULL", "nan"]
BYTES = [b"", b"\x00", b"a", b"ab", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"\x00\xff", b"z" * 700]
DAYS = [0, 1, -1, 18262, 2932896, -719162, -25567, 11016]
TICKS = [0, 1, 86_399]

STRUCT = pa.struct([("x", pa.int64()), ("y", pa.string())])
MAP = pa.map_(pa.string(), pa.int64())
DEEP = pa.list_(pa.struct([("k", pa.list_(pa.int32())), ("s", pa.struct([("t", pa.string())]))]))


def pool() -> dict:
    """Types and the values to draw from, by names of columns."""
    found = {
        "truth": (pa.bool_(), [True, False]),
        "day": (pa.date32(), DAYS),
        "f16": (pa.float16(), HALVES),
        "f32": (pa.float32(), SINGLES),
        "f64": (pa.float64(), FLOATS),
        "text": (pa.string(), TEXTS),
        "large": (pa.large_string(), TEXTS),
        "view": (pa.string_view(), TEXTS),
        "dictionary": (pa.dictionary(pa.int32(), pa.string()), TEXTS),
        "blob": (pa.binary(), BYTES),
        "fixed": (pa.binary(5), [b"\x00" * 5, b"aaaaa", b"\x7f" * 5, b"\x80" * 5, b"\xff" * 5]),
        "uuid": (pa.uuid(), [bytes(16), bytes(range(16)), b"\x7f" * 16, b"\x80" * 16, b"\xff" * 16]),
        "time_s": (pa.time32("s"), TICKS),
        "time_ms": (pa.time32("ms"), [0, 1, 86_399_999, 43_200_000]),
        "time_us": (pa.time64("us"), [0, 1, 86_399_999_999]),
        "time_ns": (pa.time64("ns"), [0, 1000, 86_399_999_999_000]),
        "list": (pa.list_(pa.int64()), [[], [1], [None], [1, None, 3], [2**63 - 1]]),
        "texts": (pa.list_(pa.string()), [[], [""], [None], ["a", "é", LONG], ["b"] * 30]),
        "lists": (pa.list_(pa.list_(pa.float64())), [[], [[]], [None], [[1.5, None], []], [[math.nan]]]),
        "struct": (STRUCT, [{"x": 1, "y": "a"}, {"x": None, "y": None}, {"x": -1, "y": ""}]),
        "map": (MAP, [[], [("a", 1)], [("a", None), ("", 2)]]),
        "deep": (DEEP, [[], [None], [{"k": [], "s": {"t": "q"}}, {"k": None, "s": None}], [{"k": [1, None], "s": {"t": None}}]]),
        "nothing": (pa.null(), [None]),
    }
    for bits in (8, 16, 32, 64):
        found[f"i{bits}"] = (getattr(pa, f"int{bits}")(), integers(bits, True))
        found[f"u{bits}"] = (getattr(pa, f"uint{bits}")(), integers(bits, False))
    for precision, scale in ((1, 0), (1, 1), (4, 2), (9, 0), (9, 9), (10, 2), (18, 3), (19, 0), (19, 4), (28, 10), (37, 1), (38, 0), (38, 10), (38, 38)):
        found[f"d{precision}_{scale}"] = (pa.decimal128(precision, scale), decimals(precision, scale))
    for unit in ("s", "ms", "us", "ns"):
        found[f"at_{unit}"] = (pa.timestamp(unit), instants(unit))
        found[f"utc_{unit}"] = (pa.timestamp(unit, "UTC"), instants(unit))
    return found


POOL = pool()


def array(kind, values: list):
    """An array of `kind`; numbers stand for dates and times."""
    if isinstance(kind, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    if pa.types.is_float16(kind):
        import numpy

        return pa.array([None if value is None else numpy.float16(value) for value in values], kind)
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)


def table(draw: random.Random, names: list[str], rows: int, few=False) -> pa.Table:
    """A column `id` and the named ones; some have no NULL, some nothing else. `few` draws few distinct values."""
    columns = {"id": pa.array(range(rows), pa.int64())}
    for name in names:
        kind, values = POOL[name]
        if few:
            values = draw.sample(values, min(len(values), 3))
        nulls = draw.choice([0, 0, 0.2, 0.2, 0.9, 1])
        drawn = [None if draw.random() < nulls else draw.choice(values) for _ in range(rows)]
        if draw.random() < 0.3 and not pa.types.is_nested(kind) and not pa.types.is_null(kind):
            drawn.sort(key=lambda value: (value is None, str(type(value)), value if value == value and value is not None else 0))
        columns[name] = array(kind, drawn)
    return pa.table(columns)


def encodings(draw: random.Random, made: pa.Table) -> dict:
    """An encoding for each column that has a choice."""
    chosen = {}
    for field in made.schema:
        kind = field.type
        if pa.types.is_int32(kind) or pa.types.is_int64(kind):
            ways = ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"]
        elif pa.types.is_float32(kind) or pa.types.is_float64(kind):
            ways = ["PLAIN", "BYTE_STREAM_SPLIT"]
        elif pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
            ways = ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
        elif pa.types.is_fixed_size_binary(kind):
            ways = ["PLAIN", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT"]
        elif pa.types.is_boolean(kind):
            ways = ["PLAIN", "RLE"]
        else:
            continue
        chosen[field.name] = draw.choice(ways)
    return chosen


def options(draw: random.Random, made: pa.Table) -> dict:
    """How pyarrow is to write the table."""
    chosen = {
        "compression": draw.choice(CODECS),
        "version": draw.choice(["1.0", "2.4", "2.6", "2.6"]),
        "data_page_version": draw.choice(["1.0", "2.0"]),
        "write_statistics": draw.random() < 0.8,
        "write_page_index": draw.random() < 0.5,
        "write_page_checksum": draw.random() < 0.3,
        "store_schema": draw.random() < 0.5,
        "row_group_size": draw.choice([1, 3, 7, 1000, 1000]),
    }
    way = draw.choice(["dictionary", "overflow", "plain", "encoded"])
    chosen["use_dictionary"] = way in ("dictionary", "overflow")
    if way == "overflow":
        chosen["dictionary_pagesize_limit"] = draw.choice([1, 64])
        chosen["data_page_size"] = 32
        chosen["write_batch_size"] = 4
    if way == "encoded":
        chosen["column_encoding"] = encodings(draw, made)
    if draw.random() < 0.4:
        chosen["data_page_size"], chosen["write_batch_size"] = 1, 1
    if draw.random() < 0.3:
        chosen["store_decimal_as_integer"] = True
    if draw.random() < 0.3 and chosen["version"] != "1.0":
        chosen["use_compliant_nested_type"] = False
    if draw.random() < 0.3:
        plain = [name for name in made.schema.names if pa.types.is_integer(made.schema.field(name).type) or pa.types.is_string(made.schema.field(name).type)]
        chosen["bloom_filter_options"] = {name: {"ndv": 100, "fpp": 0.01} for name in plain}
    return chosen


def written(made: pa.Table, chosen: dict) -> bytes:
    sink = io.BytesIO()
    pq.write_table(made, sink, **chosen)
    return sink.getvalue()


def by_arrow(folder: Path):
    tables = [pq.ParquetFile(path).read() for path in sorted(folder.glob("*.parquet"))]
    return pa.concat_tables([one.select(tables[0].schema.names) for one in tables])


def by_duck(folder: Path):
    from conformance.files.readers import duck

    return duck(f"SELECT * FROM read_parquet('{folder}/*.parquet')")


READERS = {"pyarrow": by_arrow, "DuckDB": by_duck}


def case(name: str, files: dict, about: str, made: pa.Table | None = None) -> Case:
    """A case; `made` is what was written, which is a reader as well."""
    readers = READERS if made is None else {"written": lambda _: made, **READERS}
    return Case(name, "PARQUET", files, readers, about=about, filters=True)


def drawn(seed: int, number: int, names: list[str] | None = None) -> Case:
    """A file of random columns, written by pyarrow in a random way."""
    draw = random.Random(f"parquet {seed} {number}")
    names = names or draw.sample(sorted(POOL), draw.randint(3, 9))
    made = table(draw, names, draw.choice([0, 1, 5, 40, 40, 200]), few=draw.random() < 0.4)
    chosen = options(draw, made)
    try:
        content = written(made, chosen)
    except (pa.ArrowException, OSError, TypeError):
        # Not each type has each encoding and each version of the format.
        for name in ("column_encoding", "bloom_filter_options", "store_decimal_as_integer"):
            chosen.pop(name, None)
        chosen["version"] = "2.6"
        content = written(made, chosen)
    return case(f"parquet-{seed}-{number}", {"a.parquet": content}, f"pyarrow {chosen}", made)


def every_type(seed: int) -> list[Case]:
    """Each column of the pool once, in files of a few."""
    names = sorted(POOL)
    return [drawn(seed, 1000 + at, names[at : at + 6]) for at in range(0, len(names), 6)]


def orders(seed: int) -> Case:
    """Files whose columns come in different orders."""
    draw = random.Random(f"orders {seed}")
    names = draw.sample([name for name in sorted(POOL) if name not in ("nothing", "dictionary")], 5)
    files = {}
    for number in range(3):
        made = table(draw, names, 8)
        made = made.set_column(0, "id", pa.array(range(number * 8, number * 8 + 8), pa.int64()))
        order = ["id", *names]
        if number:
            draw.shuffle(order)
        files[f"{number}.parquet"] = written(made.select(order), {"compression": draw.choice(CODECS)})
    return case(f"parquet-orders-{seed}", files, "pyarrow, columns in different orders")


def empty_groups(seed: int) -> Case:
    """Row groups without rows between others."""
    draw = random.Random(f"groups {seed}")
    made = table(draw, ["i32", "text", "d10_2", "list"], 9)
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, made.schema) as writer:
        for start, rows in ((0, 0), (0, 4), (4, 0), (4, 5), (9, 0)):
            writer.write_table(made.slice(start, rows), row_group_size=1000)
    return case(f"parquet-groups-{seed}", {"a.parquet": sink.getvalue()}, "pyarrow, row groups of no rows", made)


def by_duckdb(seed: int, number: int, folder: Path) -> Case:
    """A file of DuckDB's writer."""
    from conformance.files import readers

    draw = random.Random(f"duckdb {seed} {number}")
    barred = ("nothing", "fixed", "f16", "view", "time_ns", "dictionary")
    names = draw.sample([name for name in sorted(POOL) if name not in barred], 6)
    made = table(draw, names, draw.choice([5, 40, 3000]), few=draw.random() < 0.5)
    path = folder / f"duckdb-{number}.parquet"
    chosen = f"COMPRESSION {draw.choice(['uncompressed', 'snappy', 'gzip', 'zstd', 'brotli', 'lz4_raw'])}, PARQUET_VERSION {draw.choice(['V1', 'V2'])}"
    if draw.random() < 0.5:
        chosen += f", DICTIONARY_SIZE_LIMIT {draw.choice([1, 10])}"
    readers.connection().register("made", made)
    readers.connection().execute(f"COPY (SELECT * FROM made ORDER BY id) TO '{path}' (FORMAT parquet, {chosen})")
    return case(f"parquet-duckdb-{seed}-{number}", {"a.parquet": path.read_bytes()}, f"DuckDB {chosen}", made)


def by_us(seed: int, folder: Path, binary: str) -> Case:
    """A file of our own writer, which cuts statistics of long texts short."""
    draw = random.Random(f"ours {seed}")
    made = table(draw, ["text", "large", "blob", "f64", "d38_10", "at_us", "day"], 40)
    source, target = folder / "source.parquet", folder / "target.parquet"
    pq.write_table(made, source)
    sql = f"COPY (SELECT * FROM '{source}') TO '{target}' STORED AS PARQUET"
    subprocess.run([binary, "--cache", str(folder / "cache"), "-c", sql], check=True, capture_output=True)
    return case(f"parquet-ours-{seed}", {"a.parquet": target.read_bytes()}, "our own writer: statistics cut short", made)


def patched(content: bytes, changes: list[tuple[bytes, bytes]]) -> bytes:
    """The file with bytes of its footer changed, all that are found; each has to be there."""
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    for old, new in changes:
        if old not in footer or len(old) != len(new):
            raise ValueError(f"{old!r} is not in the footer")
        footer = footer.replace(old, new)
    return content[: -8 - length] + footer + content[-8:]


def odd_bounds(seed: int) -> list[Case]:
    """Statistics of floats that are NaN, as some writers have them, or zeros of the other sign."""
    found = []
    for kind, code in (("f64", "<d"), ("f32", "<f")):
        low, high = 1111.25, 2222.5
        values = [low, high, 1500.0, math.nan, None, 1200.5]
        made = pa.table({"id": pa.array(range(6), pa.int64()), kind: pa.array(values, POOL[kind][0])})
        content = written(made, {"use_dictionary": False, "compression": "NONE"})
        nan = struct.pack(code, math.nan)
        for name, marks in (("min", [low]), ("max", [high]), ("both", [low, high])):
            changed = patched(content, [(struct.pack(code, mark), nan) for mark in marks])
            found.append(case(f"parquet-nan-{kind}-{name}-{seed}", {"a.parquet": changed}, f"{name} of the statistics is NaN"))
        for name, zeros in (("positive", [0.0, -0.0]), ("negative", [-0.0, 0.0])):
            values = [*zeros, 0.0, -0.0, 1.0, -1.0, None, math.nan]
            made = pa.table({"id": pa.array(range(8), pa.int64()), kind: pa.array(values, POOL[kind][0])})
            files = {"a.parquet": written(made, {"row_group_size": 2, "write_page_index": name == "negative"})}
            found.append(case(f"parquet-zero-{kind}-{name}-{seed}", files, "zeros of both signs in groups of two"))
    return found


def lies(seed: int) -> Case:
    """Statistics that are wrong: rows are lost wherever they are believed, which shows that they are."""
    made = pa.table({"id": pa.array(range(9), pa.int64()), "n": pa.array([1111] + [2222] * 8, pa.int64())})
    content = written(made, {"use_dictionary": False, "compression": "NONE"})
    changed = patched(content, [((2222).to_bytes(8, "little"), (1500).to_bytes(8, "little"))])
    return case(f"parquet-lie-{seed}", {"a.parquet": changed}, "the greatest value of the statistics is too small")


def int96(seed: int) -> Case:
    draw = random.Random(f"int96 {seed}")
    made = pa.table({"id": pa.array(range(7), pa.int64()), "at": array(pa.timestamp("ns"), [draw.choice(instants("ns")[:7]) for _ in range(7)])})
    return case(f"parquet-int96-{seed}", {"a.parquet": written(made, {"use_deprecated_int96_timestamps": True})}, "timestamps of 96 bits")


def cases(seed: int, count: int, folder: Path, binary: str) -> list[Case]:
    """All of a seed: `count` drawn ones, and those that are made for a purpose."""
    found = [*every_type(seed), orders(seed), empty_groups(seed), *odd_bounds(seed), lies(seed), int96(seed), by_us(seed, folder, binary)]
    found += [by_duckdb(seed, number, folder) for number in range(max(1, count // 4))]
    return found + [drawn(seed, number) for number in range(count)]


def literal(value, kind) -> str | None:
    """A value of a column of `kind` in SQL; nothing if it cannot be written."""
    if pa.types.is_boolean(kind):
        return str(value).upper()
    if pa.types.is_integer(kind):
        return f"CAST('{value}' AS BIGINT UNSIGNED)" if value >= 2**63 else f"CAST('{value}' AS BIGINT)"
    if pa.types.is_decimal(kind):
        return f"CAST('{value:f}' AS DECIMAL({kind.precision}, {kind.scale}))"
    if pa.types.is_floating(kind):
        return f"CAST('{value!r}' AS DOUBLE)"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "'" + value.replace("'", "''") + "'"
    if pa.types.is_binary(kind):
        return f"X'{value.hex()}'"
    if pa.types.is_date32(kind) and isinstance(value, tuple):
        return f"DATE '{datetime.date.fromordinal(719163 + value[1])}'"
    if pa.types.is_timestamp(kind) and isinstance(value, tuple) and abs(value[1]) < 9 * 10**18:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=value[1] // 10**9)
        text = f"{moment.isoformat(sep=' ')}.{value[1] % 10**9:09d}"
        return f"TIMESTAMP '{text}'" if kind.tz is None else f"TIMESTAMP '{text}Z'"
    return None
