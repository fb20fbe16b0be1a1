#!/usr/bin/env python3
"""Runs one query in DuckDB with a limit of memory, and says what it took. `pushdowndb-bench spill` starts it.

    spill.py < work.json          fields as crates/bench/src/spill/duckdb.rs has them
    spill.py version

Prints one JSON object: `cpu_s` and `wall_s` of the query without the start of the process, and of the answer the number
of `rows` and the `sum` of a column, each value times its position from 1 if the rows have an order, modulo 2^64.
"""

import json
import sys
import time

import duckdb
import numpy
import pyarrow

BATCH_ROWS = 1 << 16


def run(work):
    limits = {"threads": work["threads"], "memory_limit": f"{work['memory']}B", "temp_directory": work["folder"]}
    connection = duckdb.connect(":memory:", config=limits | {"preserve_insertion_order": False})
    # It prints its progress where this prints the result.
    connection.execute("SET enable_progress_bar = false")
    for table in work["tables"]:
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{work['data']}/{table}/*.parquet')")
    rows, total = 0, numpy.uint64(0)
    cpu, wall = time.process_time(), time.perf_counter()
    reader = connection.execute(work["sql"]).to_arrow_reader(BATCH_ROWS)
    at = reader.schema.get_field_index(work["column"])
    for batch in reader:
        values = batch.column(at).cast(pyarrow.int64()).to_numpy(zero_copy_only=False).view(numpy.uint64)
        if work["in_order"]:
            values = values * numpy.arange(rows + 1, rows + 1 + len(values), dtype=numpy.uint64)
        total = numpy.add(total, values.sum(dtype=numpy.uint64), dtype=numpy.uint64)
        rows += len(values)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"cpu_s": cpu, "wall_s": wall, "answer": {"rows": rows, "sum": int(total)}}


if __name__ == "__main__":
    if sys.argv[1:] == ["version"]:
        print(duckdb.__version__)
    else:
        numpy.seterr(over="ignore")
        print(json.dumps(run(json.load(sys.stdin))))
