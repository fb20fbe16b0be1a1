#!/usr/bin/env python3
"""Runs one query in DuckDB or Polars, over one local file or over tables in a bucket, and says what it took.
`pushdowndb-bench` starts it.

    peers.py < work.json          work as crates/cli/src/experiment/task.rs has it
    peers.py versions

Prints one JSON object: `cpu_s` and `wall_s` of the query without the start of the process, `peak_bytes` of the whole
process, and the answer, short ones as `rows`, long ones as a `digest`.
"""

import json
import os
import sys
import time

SHORT_ROWS = 1000
INTEGERS = ["l_orderkey", "l_partkey", "l_suppkey", "l_linenumber"]
DECIMALS = ["l_quantity", "l_extendedprice", "l_discount", "l_tax"]
DATES = ["l_shipdate", "l_commitdate", "l_receiptdate"]
COLUMNS = INTEGERS + DECIMALS + ["l_returnflag", "l_linestatus"] + DATES + ["l_shipinstruct", "l_shipmode", "l_comment"]


def duckdb(task):
    """A function that runs the query in DuckDB and gives an Arrow table."""
    import duckdb as library

    types = {c: "BIGINT" for c in INTEGERS} | {c: "DECIMAL(15, 2)" for c in DECIMALS} | {c: "DATE" for c in DATES}
    columns = "{" + ", ".join(f"'{c}': '{types.get(c, 'VARCHAR')}'" for c in COLUMNS) + "}"
    file = task["file"]
    csv = f"read_csv('{file}', header = true, columns = {columns}, auto_detect = false, delim = ',', quote = '\"')"
    source = {
        "csv": csv,
        "gzip": csv,
        "ndjson": f"read_json('{file}', format = 'newline_delimited', columns = {columns})",
        "parquet": f"read_parquet('{file}')",
    }[task["format"]]
    connection = library.connect(":memory:", config={"threads": task["threads"]})
    connection.execute("CREATE TABLE keys AS SELECT unnest(?) AS k", [task["keys"]])
    connection.execute(f"CREATE VIEW lineitem AS SELECT * FROM {source}")
    return lambda: connection.execute(task["statement"]).to_arrow_table()


def polars(task):
    """The same in Polars, numbers with a point as doubles, which it reads faster than decimals."""
    os.environ["POLARS_MAX_THREADS"] = str(task["threads"])
    import polars as library

    date = library.Date if task["format"] != "ndjson" else library.String
    types = {c: library.Int64 for c in INTEGERS} | {c: library.Float64 for c in DECIMALS} | {c: date for c in DATES}
    schema = {c: types.get(c, library.String) for c in COLUMNS}
    match task["format"]:
        case "parquet":
            frame = library.scan_parquet(task["file"])
        case "ndjson":
            frame = library.scan_ndjson(task["file"], schema=schema)
            frame = frame.with_columns(library.col(c).str.to_date("%Y-%m-%d") for c in DATES)
        case _:
            frame = library.scan_csv(task["file"], schema=schema)
    context = library.SQLContext(lineitem=frame, keys=library.LazyFrame({"k": task["keys"]}))
    return lambda: context.execute(task["statement"]).collect(engine="streaming").to_arrow()


def duckdb_remote(task):
    """DuckDB over tables in a bucket. The package `duckdb-extension-httpfs` has what it reads S3 with, if it has not."""
    import duckdb as library

    connection = library.connect(":memory:", config={"threads": task["threads"]})
    connection.execute(f"LOAD '{httpfs()}'")
    endpoint = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    key, secret, region = (os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"))
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{key}', SECRET '{secret}', REGION '{region}', ENDPOINT '{endpoint}', "
        "URL_STYLE 'path', USE_SSL false)"
    )
    for table in task["tables"]:
        columns = "{" + ", ".join(f"'{name}': '{kind}'" for name, kind in table["columns"]) + "}"
        source = f"read_csv('{table['url']}', header = true, columns = {columns}, auto_detect = false, delim = ',', quote = '\"')"
        if task["format"] == "parquet":
            source = f"read_parquet('{table['url']}')"
        connection.execute(f"CREATE VIEW {table['name']} AS SELECT * FROM {source}")
    return lambda: connection.execute(task["statement"]).to_arrow_table()


def httpfs():
    """The extension's file from the Python package, or its name, if DuckDB itself has it."""
    from importlib import util

    found = util.find_spec("duckdb_extension_httpfs")
    folder = found.submodule_search_locations[0] if found else ""
    files = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
    return next((file for file in files if file.endswith("httpfs.duckdb_extension")), "httpfs")


def polars_remote(task):
    """Polars over tables in a bucket, decimals of text as doubles."""
    os.environ["POLARS_MAX_THREADS"] = str(task["threads"])
    import polars as library

    storage = {
        "aws_access_key_id": os.environ["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "aws_region": os.environ["AWS_REGION"],
        "aws_endpoint_url": os.environ["AWS_ENDPOINT_URL"],
        "aws_allow_http": "true",
    }
    types = {"BIGINT": library.Int64, "INT": library.Int32, "DATE": library.Date, "DOUBLE": library.Float64}
    frames = {}
    for table in task["tables"]:
        if task["format"] == "parquet":
            frames[table["name"]] = library.scan_parquet(table["url"], storage_options=storage)
        else:
            kind = lambda text: library.Float64 if text.startswith("DECIMAL") else types.get(text, library.String)
            schema = {name: kind(text) for name, text in table["columns"]}
            frames[table["name"]] = library.scan_csv(table["url"], schema=schema, storage_options=storage)
    context = library.SQLContext(frames)
    statement = task["statement"].strip().rstrip(";")
    return lambda: context.execute(statement).collect(engine="streaming").to_arrow()


def answer(table):
    """Rows as text if there are few, else how many and the sums of the columns of numbers."""
    from pyarrow import compute, types

    if table.num_rows <= SHORT_ROWS:
        columns = [column.to_pylist() for column in table.columns]
        return {"rows": [["" if cell is None else str(cell) for cell in row] for row in zip(*columns)]}

    def is_number(column):
        return types.is_integer(column.type) or types.is_floating(column.type) or types.is_decimal(column.type)

    sums = [float(compute.sum(column).as_py()) if is_number(column) else None for column in table.columns]
    return {"digest": {"rows": table.num_rows, "sums": sums}}


def peak_bytes():
    with open("/proc/self/status") as status:
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:")), None)


def main():
    if sys.argv[1:] == ["versions"]:
        for name in ("duckdb", "polars"):
            try:
                print(name, __import__(name).__version__)
            except ImportError:
                pass
        return
    [(where, task)] = json.load(sys.stdin).items()
    contestants = {"local": {"duckdb": duckdb, "polars": polars}, "remote": {"duckdb": duckdb_remote, "polars": polars_remote}}
    query = contestants[where][task["kind"]](task)
    # What results are handed over with is not loaded on the clock.
    __import__("pyarrow")
    cpu, wall = time.process_time(), time.perf_counter()
    table = query()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(json.dumps({"cpu_s": cpu, "wall_s": wall, "peak_bytes": peak_bytes(), "answer": answer(table)}))


if __name__ == "__main__":
    main()
