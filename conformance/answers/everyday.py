#!/usr/bin/env python3
"""Runs the statements of crates/engine/tests/it/everyday.txt in DuckDB.

    conformance/answers/everyday.py [--write]

Prints each statement whose rows differ from those in the file, and exits with 1 if there is one. With
--write the rows in the file become DuckDB's. The engine's test `everyday` holds the engine to them.
"""

import pathlib
import sys

import duckdb

FILE = pathlib.Path(__file__).resolve().parents[2] / "crates/engine/tests/it/everyday.txt"
COLUMNS = "id BIGINT, name VARCHAR, seen TIMESTAMP, amount DOUBLE, note VARCHAR, grp VARCHAR"
ROWS = [
    (1, "ann", "2024-01-31 23:59:00", 10.5, '{"a": {"b": 1}, "l": [1,2,3]}', "x"),
    (2, "bob", "2024-02-29 00:00:00", 20.25, '{"a":{"b":2}}', "y"),
    (3, "cy", "2024-03-01 12:30:15", None, '{"a":null}', "x"),
    (4, None, "2023-12-31 08:00:00", 7.0, None, "y"),
]


def shown(value):
    """The value as the test writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(inner)}" for key, inner in value.items()) + "}"
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)


def main():
    database = duckdb.connect()
    database.execute(f"CREATE TABLE t ({COLUMNS})")
    database.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", ROWS)
    title, *blocks = FILE.read_text().rstrip("\n").split("\n\n")
    written, differ = [title], 0
    for block in blocks:
        statement, *before = block.split("\n")
        rows = database.execute(statement.replace("{t}", "t")).fetchall()
        lines = ["| " + " | ".join(map(shown, row)) + " |" for row in rows]
        ordered = "ORDER BY" in statement
        if (lines if ordered else sorted(lines)) != (before if ordered else sorted(before)):
            differ += 1
            print(f"{statement}\n  DuckDB has {lines}\n  the file  {before}")
        written.append("\n".join([statement, *lines]))
    if "--write" in sys.argv[1:]:
        FILE.write_text("\n\n".join(written) + "\n")
    elif differ:
        sys.exit(1)


if __name__ == "__main__":
    main()
