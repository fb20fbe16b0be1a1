"""Small tables full of edges: the same rows for every engine, as INSERTs, as CSV and as Parquet.

All tables have the same columns, so that any statement can be about any of them. `a` is the usual one, `b` has other rows
and a skewed key, `e` has none. CSV cannot tell an empty text from NULL (it is NULL), so what lies beside it in the other
engines, schema `csv`, has no empty texts; schema `parquet` has.
"""

import random
from pathlib import Path

# Name, type of ours and of DuckDB, type of PostgreSQL, kind.
COLUMNS = [
    ("id", "INT", "INT", "int"),
    ("ti", "TINYINT", "SMALLINT", "int"),
    ("sm", "SMALLINT", "SMALLINT", "int"),
    ("i", "INT", "INT", "int"),
    ("l", "BIGINT", "BIGINT", "int"),
    ("k", "INT", "INT", "int"),
    ("g", "VARCHAR", "VARCHAR", "text"),
    ("s", "VARCHAR", "VARCHAR", "text"),
    ("u", "VARCHAR", "VARCHAR", "text"),
    ("d2", "DECIMAL(9,2)", "DECIMAL(9,2)", "dec"),
    ("d6", "DECIMAL(18,6)", "DECIMAL(18,6)", "dec"),
    ("dd", "DECIMAL(38,10)", "DECIMAL(38,10)", "dec"),
    ("f", "DOUBLE", "DOUBLE PRECISION", "dbl"),
    ("r", "REAL", "REAL", "real"),
    ("bo", "BOOLEAN", "BOOLEAN", "bool"),
    ("dt", "DATE", "DATE", "date"),
    ("ts", "TIMESTAMP", "TIMESTAMP", "ts"),
    ("tz", "TIMESTAMPTZ", "TIMESTAMPTZ", "tz"),
]
TABLES = {"a": 72, "b": 40, "e": 0}
OBJECTS = 3

EDGES = {
    "ti": [-128, 127, 0, 1, -1, 5, 100],
    "sm": [-32768, 32767, 0, 1, -1, 300],
    "i": [-2147483648, 2147483647, 0, 1, -1, 7, 42, 100000],
    "l": [-9223372036854775808, 9223372036854775807, 0, 1, -1, 9007199254740993, 12, 4294967296],
    "k": [0, 1, 1, 1, 1, 2, 2, 3, 4, 5],
    "g": ["x", "x", "x", "y", "z", ""],
    "s": ["", " ", "a", "A", "ab", "abc", "Abc", "%", "_", "a%b", "a_b", "x\\y", "é", "ÉA", "日本語", " pad ", "it''s", '"q"', "a,b", "0", "12", "-7", "1.5", "NULL", "true"],
    "u": ["", "apple", "banana", "Cherry", "apple pie", "b", "zz", "aaaa", "mississippi", "007", "2024-02-29"],
    "d2": ["0.00", "0.01", "-0.01", "9999999.99", "-9999999.99", "1.50", "2.50", "-2.50", "0.50", "100.00", "12.35"],
    "d6": ["0.000000", "0.000001", "999999999999.999999", "-999999999999.999999", "1.500000", "3.141593", "-2.500000"],
    "dd": ["0", "0.0000000001", "9999999999999999999999999999.9999999999", "-9999999999999999999999999999.9999999999", "0.5", "1.25", "123456789.123456789"],
    "f": ["NaN", "Infinity", "-Infinity", "-0.0", "0.0", "1e-300", "1.7e308", "0.1", "0.5", "2.5", "-2.5", "9007199254740993", "3.0"],
    "r": ["NaN", "Infinity", "-0.0", "0.0", "0.1", "1.5", "-2.5", "16777216", "3.4e38"],
    "bo": ["true", "false"],
    "dt": ["1970-01-01", "1969-12-31", "2000-02-29", "2024-02-29", "2023-12-31", "2024-01-01", "1900-03-01", "3000-12-31", "1500-01-01", "2024-03-31"],
    "ts": ["1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2024-02-29 12:34:56.789", "2024-03-10 02:30:00", "2024-12-31 23:59:59.999999", "1900-01-01 00:00:00", "2200-06-15 06:00:00", "2024-01-31 00:00:00"],
    "tz": ["1970-01-01 00:00:00+00", "1969-12-31 23:59:59.5+00", "2024-02-29 12:34:56.789+00", "2024-03-10 07:00:00+00", "2024-10-27 00:30:00+00", "2023-06-30 22:00:00+00"],
}
PLAIN = {
    "ti": lambda r: r.randint(-9, 9),
    "sm": lambda r: r.randint(-99, 99),
    "i": lambda r: r.randint(-999, 999),
    "l": lambda r: r.randint(-99999, 99999),
    "k": lambda r: r.choice([1, 1, 1, 2, 3, 6]),
    "g": lambda r: r.choice("xyz"),
    "s": lambda r: "".join(r.choice("abAB%_ ") for _ in range(r.randint(1, 5))),
    "u": lambda r: r.choice(["red", "green", "blue", "redder", "12ab", "ab12"]),
    "d2": lambda r: f"{r.randint(-9999, 9999) / 100:.2f}",
    "d6": lambda r: f"{r.randint(-9999999, 9999999) / 1000:.6f}",
    "dd": lambda r: f"{r.randint(-99999, 99999) / 8:.10f}",
    "f": lambda r: repr(r.randint(-800, 800) / 8),
    "r": lambda r: repr(r.randint(-80, 80) / 4),
    "bo": lambda r: r.choice(["true", "false"]),
    "dt": lambda r: f"20{r.randint(10, 30)}-{r.randint(1, 12):02}-{r.randint(1, 28):02}",
    "ts": lambda r: f"2024-{r.randint(1, 12):02}-{r.randint(1, 28):02} {r.randint(0, 23):02}:{r.randint(0, 59):02}:00",
    "tz": lambda r: f"2024-{r.randint(1, 12):02}-{r.randint(1, 28):02} {r.randint(0, 23):02}:00:00+00",
}


def rows_of(seed: int) -> dict[str, list[list]]:
    """The rows of every table, values as text of SQL without quotes; None is NULL."""
    rng = random.Random(seed)
    tables = {}
    for table, count in TABLES.items():
        edges = 0.5 if table == "a" else 0.2
        tables[table] = [[number + 1] + [one(rng, name, edges) for name, *_ in COLUMNS[1:]] for number in range(count)]
    return tables


def one(rng, name, edges):
    if rng.random() < 0.12:
        return None
    return rng.choice(EDGES[name]) if rng.random() < edges else PLAIN[name](rng)


def literal(value, column, postgres: bool) -> str:
    """A value as SQL."""
    if value is None:
        return "NULL"
    _, ours, theirs, kind = column
    if kind == "int":
        return str(value)
    text = value if kind == "text" and "''" in value else str(value).replace("'", "''")
    return f"CAST('{text}' AS {theirs if postgres else ours})"


def script(seed: int, schema: str, postgres: bool) -> list[str]:
    """Statements that make the tables of `csv` or `parquet` in another engine."""
    made = [f"CREATE SCHEMA {schema}"]
    for table, rows in rows_of(seed).items():
        columns = ", ".join(f"{name} {theirs if postgres else ours}" for name, ours, theirs, _ in COLUMNS)
        made.append(f"CREATE TABLE {schema}.{table} ({columns})")
        for row in rows:
            values = [None if schema == "csv" and value == "" else value for value in row]
            made.append(
                f"INSERT INTO {schema}.{table} VALUES ({', '.join(literal(v, c, postgres) for v, c in zip(values, COLUMNS))})"
            )
    return made


def write(duck, folder: Path) -> None:
    """The tables as objects, `folder/csv/a/0.csv` and so on, from a DuckDB that has them."""
    for schema, options in (("csv", "FORMAT csv, HEADER"), ("parquet", "FORMAT parquet, ROW_GROUP_SIZE 16")):
        for table, count in TABLES.items():
            place = folder / schema / table
            place.mkdir(parents=True)
            for part in range(OBJECTS if count else 1):
                rows = f"SELECT * FROM {schema}.{table} WHERE id % {OBJECTS} = {part} ORDER BY id"
                duck.execute(f"COPY ({rows}) TO '{place}/{part}.{schema}' ({options})")


def declarations(schema: str, base: str) -> list[str]:
    """What declares the tables in ours."""
    columns = ", ".join(f"{name} {ours}" for name, ours, *_ in COLUMNS)
    options = " OPTIONS ('has_header' 'true')" if schema == "csv" else ""
    return [
        f"CREATE EXTERNAL TABLE {table} ({columns}) STORED AS {schema.upper()} LOCATION '{base}/{schema}/{table}/'{options}"
        if schema == "csv"
        else f"CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{base}/{schema}/{table}/'"
        for table in TABLES
    ]
