"""Tables that are larger than the memory of queries: skewed keys, duplicates, NULLs, and wide texts.

They have the columns of `conformance/answers/data.py` and three more, and the kinds of values that are there, but fewer of
the extreme ones: a sum that overflows, or loses digits, depends on the order of the rows.
"""

import json
import random
import subprocess
from pathlib import Path

from conformance.answers import data
from conformance.answers.upload import put

COLUMNS = [(name, ours, kind) for name, ours, _theirs, kind in data.COLUMNS] + [
    ("j", "INT", "int"),  # An `id` of any table, or nothing.
    ("v", "VARCHAR", "text"),  # Texts with a long common beginning.
    ("w", "VARCHAR", "text"),  # Wide texts.
]
# Rows as parts of those of `a`.
TABLES = {"a": 1.0, "b": 0.4, "c": 0.05, "e": 0.0}
OBJECTS = 3

EDGES = {name: data.EDGES[name] for name in ("ti", "sm", "i", "s", "d2", "d6", "bo", "dt", "ts", "tz")} | {
    "l": [0, 1, -1, 1 << 40, -(1 << 40), 4294967296],
    "u": [value for value in data.EDGES["u"]],
    "dd": ["0", "0.0000000001", "-0.0000000001", "123456789.123456789"],
    "f": ["NaN", "Infinity", "-Infinity", "-0.0", "0.0", "0.5", "2.5"],
    "r": ["NaN", "Infinity", "-0.0", "0.0", "1.5"],
}
WORDS = "amber basalt cedar delta ember fjord garnet harbor indigo jasper kelp larch maple nickel ochre pearl quartz river slate tundra".split()
NULLS, EXTREME, HOT = 0.05, 0.03, 0.02


def value(rng: random.Random, name: str, rows: int):
    """A value as text of SQL, or None."""
    if rng.random() < NULLS:
        return None
    if name in EDGES and rng.random() < EXTREME:
        return rng.choice(EDGES[name])
    if name == "k":  # A hot key, and others whose frequency falls.
        return 7 if rng.random() < HOT else int(rows * rng.random() ** 3)
    if name == "j":
        return rng.randint(1, rows)
    if name == "g":
        return rng.choice(["x", "x", "x", "y", "y", "z", "zz", "", "Ä", "w"])
    if name == "s":
        return "".join(rng.choice("abAB%_ é") for _ in range(rng.randint(2, 6)))
    if name == "u":
        return f"{rng.choice(WORDS)} {rng.randint(1, rows // 20)}"
    if name == "v":
        return f"https://example.com/articles/{rng.randint(1, rows // 2):08}"
    if name == "w":
        wide = rng.choices([10, 40, 300], [60, 38, 2])[0]
        return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, wide)))
    return data.PLAIN[name](rng)


def write(binary: str, folder: Path, seed: int, rows: int) -> None:
    """The tables as Parquet, `folder/a/0.parquet` and so on."""
    rng = random.Random(seed)
    for table, part in TABLES.items():
        count = int(rows * part)
        source = folder / f"{table}.json"
        with source.open("w", encoding="utf-8") as lines:
            # One row more declares the columns where there is none.
            for number in range(count + 1):
                row = {"id": number} | {name: value(rng, name, rows) for name, *_ in COLUMNS[1:]}
                lines.write(json.dumps({name: None if one is None else str(one).replace("''", "'") for name, one in row.items()}) + "\n")
        (folder / table).mkdir()
        texts = ", ".join(f"{name} VARCHAR" for name, *_ in COLUMNS)
        typed = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind, _ in COLUMNS)
        script = f"CREATE EXTERNAL TABLE source ({texts}) STORED AS JSON LOCATION '{source}';\n"
        for number in range(OBJECTS):
            chosen = f"CAST(id AS INT) > 0 AND CAST(id AS INT) % {OBJECTS} = {number}"
            script += f"COPY (SELECT {typed} FROM source WHERE {chosen}) TO '{folder}/{table}/{number}.parquet';\n"
        made = subprocess.run([binary, "-c", script], capture_output=True, text=True)
        if made.returncode:
            raise SystemExit(f"the tables cannot be written: {made.stderr}")
        source.unlink()


def upload(endpoint: str, key, folder: Path, bucket: str) -> None:
    """The tables to a node."""
    put(endpoint, key, bucket, None)
    for path in sorted(folder.rglob("*.parquet")):
        put(endpoint, key, f"{bucket}/{path.relative_to(folder)}", path.read_bytes())


def declarations(base: str) -> str:
    """What declares the tables."""
    return "".join(f"CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{base}/{table}/';\n" for table in TABLES)
