"""NDJSON files: escapes, numbers of all lengths, nested values, fields that are missing, and lines that are odd."""

import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pj

from conformance.files import readers
from conformance.files.case import Case

TEXTS = ["", "a", 'q"q', "\\", "/", "\b\f\n\r\t", "\u0000", "\u001f", "é", "日本", "😀", "\u2028", "{", "}", "[1,2]", '{"a":1}', "null", "x" * 3000, "\ud83d\ude00", "a,b", ":", "\x7f"]
INTEGERS = ["0", "-0", "1", "-1", "42", "9223372036854775807", "-9223372036854775808", "9007199254740993", "1000000"]
DOUBLES = ["0.0", "-0.0", "1.5", "-1.5", "1e5", "1E-5", "1e+10", "1.7976931348623157e308", "5e-324", "1e-310", "0.1", "123456789.125", "0.30000000000000004", "1e22", "1e23", "4.35", "3", "-7"]
TYPED = {
    "i": ("BIGINT", pa.int64(), INTEGERS),
    "x": ("DOUBLE", pa.float64(), DOUBLES),
    "t": ("VARCHAR", pa.string(), None),
    "ok": ("BOOLEAN", pa.bool_(), ["true", "false"]),
    "list": (None, pa.list_(pa.int64()), ["[]", "[1]", "[1, null, -3]", "[9223372036854775807]", "[ ]"]),
    "o": (None, pa.struct([("a", pa.int64()), ("b", pa.string())]), ['{"a":1,"b":"x"}', '{"a":null,"b":"é"}', '{"b":"y"}', '{"a":-5}', '{ "a" : 7 , "b" : "\\u0041" }']),
    "deep": (None, None, ['[{"k":[1,2],"s":{"t":"q"}}]', '[{"k":[],"s":{"t":""}}]', "[]", '[{"k":[3],"s":null}]', '[{"s":{"t":"w"}}]']),
}


def text(draw: random.Random, value: str) -> str:
    """A text in quotes, with escapes of one kind or another."""
    way = draw.choice(["plain", "ascii", "all"])
    if way == "all":
        units = value.encode("utf-16-be", "surrogatepass")
        return '"' + "".join(f"\\u{units[n]:02x}{units[n + 1]:02X}" for n in range(0, len(units), 2)) + '"'
    written = json.dumps(value, ensure_ascii=way == "ascii")
    return written.replace("/", "\\/") if draw.random() < 0.3 else written


def token(draw: random.Random, name: str) -> str:
    pool = TYPED[name][2]
    return draw.choice(pool) if pool else text(draw, draw.choice(TEXTS).encode("utf-16", "surrogatepass").decode("utf-16"))


def record(draw: random.Random, number: int, names: list[str], loose: bool) -> str:
    members = []
    for name in names:
        chance = draw.random()
        if chance < 0.1:
            continue
        members.append((name, "null" if chance < 0.2 else token(draw, name)))
    if loose and draw.random() < 0.3:
        draw.shuffle(members)
    members.insert(0, ("id", str(number)))
    colon, comma = draw.choice([(":", ","), (": ", ", "), (" : ", " , ")]) if loose else (":", ",")
    return "{" + comma.join(f'"{name}"{colon}{value}' for name, value in members) + "}"


def by_arrow(schema: pa.Schema | None = None):
    def read(folder: Path):
        parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore")
        with pa.input_stream(str(next(folder.glob("a.*"))), compression="detect") as stream:
            content = stream.read()
        return pj.read_json(pa.BufferReader(content), pj.ReadOptions(block_size=1 << 24), parse)

    return read


def by_pandas(folder: Path):
    import pandas

    frame = pandas.read_json(next(folder.glob("a.*")), lines=True, dtype=False, convert_dates=False, precise_float=True)
    return pa.Table.from_pandas(frame, preserve_index=False)


def by_duck(columns: dict | None = None):
    def read(folder: Path):
        listed = ", columns={" + ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items()) + "}" if columns else ", sample_size=-1"
        path = next(folder.glob("a.*"))
        return readers.duck(f"SELECT * FROM read_json('{path}', format='newline_delimited', maximum_object_size=10000000{listed})")

    return read


def python(folder: Path) -> pa.Table:
    """Python's own parser, of records that are objects; numbers as they are written."""
    path = next(folder.glob("a.*"))
    with pa.input_stream(str(path), compression="detect") as stream:
        lines = stream.read().decode("utf-8-sig").split("\n")
    rows = [json.loads(line, parse_float=float) for line in lines if line.strip()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def drawn(seed: int, number: int, declared: bool) -> Case:
    """Records of types, declared or inferred."""
    draw = random.Random(f"ndjson {seed} {number} {declared}")
    allowed = [name for name in sorted(TYPED) if TYPED[name][0] or not declared]
    names = draw.sample(allowed, min(len(allowed), draw.randint(1, 4)))
    loose = draw.random() < 0.5
    lines = [record(draw, n, names, loose) for n in range(draw.choice([1, 4, 40, 300]))]
    if draw.random() < 0.3:
        lines = [line + "\n" if draw.random() < 0.2 else line for line in lines]
    end = draw.choice(["\n", "\n", "\r\n"])
    content = (end.join(lines) + (end if draw.random() < 0.7 else "")).encode()
    if draw.random() < 0.15:
        files = {"a.json.gz": gzip.compress(content, mtime=0)}
    else:
        files = {"a.json": content}
    about = f"end {end!r}, {next(iter(files))}, {content[:200]!r}"
    label = "declared" if declared else "inferred"
    if declared:
        kinds = {"id": ("BIGINT", pa.int64()), **{name: TYPED[name][:2] for name in names}}
        asked = {"pyarrow": by_arrow(pa.schema([(name, kind[1]) for name, kind in kinds.items()])), "DuckDB": by_duck({name: kind[0] for name, kind in kinds.items()}), "Python": python}
        columns = ", ".join(f"{name} {kind[0]}" for name, kind in kinds.items())
        return Case(f"ndjson-{label}-{seed}-{number}", "NDJSON", files, asked, columns, "", about, filters=True)
    asked = {"pyarrow": by_arrow(), "pandas": by_pandas, "DuckDB": by_duck(), "Python": python}
    return Case(f"ndjson-{label}-{seed}-{number}", "NDJSON", files, asked, "", "", about)


# Records that are more than the first megabyte, from which columns are inferred.
PAD = '"pad":"' + "x" * 3000 + '"'
LATE = 400


def late(early: str, last: str) -> str:
    """Records that are alike, and another one behind the sample."""
    return f"{{{early},{PAD}}}\n" * LATE + f"{{{last},{PAD}}}\n"


ODD = {
    "escapes": '{"a":"\\u0041\\n\\t\\"\\\\\\/\\b\\f\\r"}\n{"a":"\\ud83d\\ude00"}\n{"a":"\\u00e9"}\n',
    "lone-surrogate": '{"a":"\\ud83d"}\n',
    "duplicate-keys": '{"a":1,"a":2}\n{"a":3}\n',
    "missing": '{"a":1}\n{"b":"x"}\n{}\n{"a":2,"b":"y"}\n',
    "nulls": '{"a":null,"b":1}\n{"a":null,"b":null}\n',
    "big": '{"a":9223372036854775808}\n{"a":1}\n',
    "big-unsigned": '{"a":18446744073709551615}\n',
    "huge": '{"a":123456789012345678901234567890}\n',
    "long-in-double": '{"a":1.5}\n{"a":9007199254740993}\n',
    "exponents": '{"a":1e5}\n{"a":-1.5E-3}\n{"a":2e+2}\n',
    "huge-exponent": '{"a":1e400}\n',
    "mixed-number-text": '{"a":1}\n{"a":"x"}\n',
    "mixed-bool-text": '{"a":true}\n{"a":"x"}\n',
    "mixed-int-double": '{"a":1}\n{"a":2.5}\n',
    "mixed-object": '{"a":1}\n{"a":{"b":2}}\n',
    "mixed-lists": '{"a":[1]}\n{"a":[2.5]}\n{"a":["x"]}\n',
    "blank-lines": '{"a":1}\n\n  \n{"a":2}\n\n',
    "crlf": '{"a":1}\r\n\r\n{"a":2}\r\n',
    "mark": '\ufeff{"a":1}\n{"a":2}\n',
    "no-end": '{"a":1}\n{"a":2}',
    "blanks": ' { "a" : 1 , "b" : [ 1 , 2 ] } \n\t{"a":2}\t\n',
    "two-on-a-line": '{"a":1} {"a":2}\n{"a":3}\n',
    "deep": "".join('{"a":' + '{"b":' * depth + "1" + "}" * depth + "}\n" for depth in (40, 40)),
    "deep-lists": '{"a":' + "[" * 40 + "1" + "]" * 40 + "}\n",
    "unicode-keys": '{"größe":1,"名前":"x","😀":2}\n',
    "escaped-keys": '{"\\u0061":1,"b\\"c":2,"d\\\\e":3}\n{"a":4,"b\\"c":5}\n',
    "empty-key": '{"":1,"a":2}\n',
    "keys-by-case": '{"a":1,"A":2}\n',
    "keys-with-dots": '{"a.b":1,"a":{"b":2}}\n',
    "empty-list": '{"a":[],"b":1}\n{"a":[1],"b":2}\n',
    "empty-object": '{"a":{},"b":1}\n{"a":{"x":1},"b":2}\n',
    "list-of-null": '{"a":[null,1]}\n{"a":[null]}\n',
    "dates": '{"a":"2024-01-01","b":"2024-01-01 12:00:00"}\n',
    "numbers-as-text": '{"a":"1"}\n{"a":"2"}\n',
    "leading-zero": '{"a":01}\n',
    "nan": '{"a":NaN}\n{"a":1.5}\n',
    "trailing-comma": '{"a":1,}\n',
    "cut-off": '{"a":1}\n{"a":\n',
    "control-character": '{"a":"x\ty"}\n',
    "negative-zero": '{"a":-0,"b":-0.0}\n{"a":1,"b":2.5}\n',
    "array": '[{"a":1},{"a":2}]\n',
    "digits": '{"a":0.1234567890123456789}\n{"a":12345678901234567890.5}\n',
    "long-text": '{"a":"' + "x" * 300_000 + '"}\n',
    "late-field": late('"a":1', '"a":2,"late":3'),
    "late-nested-field": late('"a":1,"o":{"x":1}', '"a":2,"o":{"x":1,"late":3}'),
    "late-long": late('"a":1.5', '"a":9007199254740993'),
    "late-nested-long": late('"o":{"a":1.5}', '"o":{"a":9007199254740993}'),
    "late-double": late('"a":1', '"a":2.5'),
    "late-text": late('"a":1', '"a":"x"'),
}


def odd() -> list[Case]:
    asked = {"pyarrow": by_arrow(), "pandas": by_pandas, "DuckDB": by_duck(), "Python": python}
    return [Case(f"ndjson-odd-{name}", "NDJSON", {"a.json": text.encode()}, asked, about=repr(text[:200])) for name, text in ODD.items()]


def unsampled() -> Case:
    """More files than are sampled, of which one has a field of its own."""
    files = {f"{n:02}.json": f'{{"id":{n}}}\n'.encode() for n in range(20)}
    files["10.json"] = b'{"id":10,"late":"x"}\n'

    def by_hand(folder: Path):
        rows = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
        return pa.table({"id": [row["id"] for row in rows], "late": [row.get("late") for row in rows]})

    def by_duckdb(folder: Path):
        return readers.duck(f"SELECT * FROM read_json('{folder}/*.json', union_by_name=true, sample_size=-1)")

    return Case("ndjson-unsampled-field", "NDJSON", files, {"Python": by_hand, "DuckDB": by_duckdb}, about="a field that only an object has which is not sampled", ordered=True)


def cases(seed: int, count: int) -> list[Case]:
    found = [*odd(), unsampled()]
    return found + [drawn(seed, number, declared=bool(number % 2)) for number in range(2 * count)]
