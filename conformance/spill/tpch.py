#!/usr/bin/env python3
"""The TPC-H queries with little memory: right rows, and a resident size within the promise.

    conformance/spill/tpch.py --binary target/release/pushdowndb --scale 10 --memory 512MB
    conformance/spill/tpch.py --binary target/release/pushdowndb --scale 1 --memory 64MB --queries q09,q18

Makes the tables as Parquet in a node, runs each query without a limit of memory, and then with `--memory` at levels none
and fragment, spilling to a disk (`disk`) and to a bucket of the node (`node`). Rows must be the same, and the
process may hold the memory and 300 MB. With `--duckdb` the rows without a limit are those of DuckDB over the same
objects. Prints a line for each run; the exit status is 1 after a fault.
"""

import argparse
import csv
import io
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from conformance.attacks.node import ROOT, Node  # noqa: E402
from conformance.harness.server import Server  # noqa: E402

PROJECT = Path(__file__).resolve().parents[2]
PROMISE_MB = 300  # What a process may hold beside pushdown.memory.
UNITS = {"": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9}
QUERIES = [f"q{number:02}" for number in range(1, 23)]


def environment(url):
    ours = {"AWS_ACCESS_KEY_ID": ROOT.id, "AWS_SECRET_ACCESS_KEY": ROOT.secret, "AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1"}
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | ours


def run(options, env, query, settings):
    """Rows, statistics, the largest resident size in MB, and the error of a query that runs in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        out, err, stats = Path(folder, "out"), Path(folder, "err"), Path(folder, "stats")
        command = [options.binary, "-f", "s3://tpch/schema.sql", "-f", PROJECT / "sql/tpch" / f"{query}.sql", "--format", "csv"]
        command += ["--stats", "json", "--stats-file", stats]
        for setting in settings:
            command += ["--set", setting]
        with open(out, "w") as rows, open(err, "w") as errors:
            process = subprocess.Popen(command, env=env, stdout=rows, stderr=errors, stdin=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        failed = err.read_text()[-400:] if process.returncode else ""
        lines = [json.loads(line) for line in stats.read_text().splitlines() if line.startswith("{")] if stats.exists() else []
        return list(csv.reader(io.StringIO(out.read_text()))), lines[-1] if lines else {}, usage.ru_maxrss / 1e3, failed


def same(rows, expected):
    """Equality of rows, in order, but for the last digits of fractions: sums depend on the order of their parts, and
    means of decimals have six digits here and those of a double in DuckDB."""
    if len(rows) != len(expected):
        return False
    return all(len(a) == len(b) and all(map(same_cell, a, b)) for a, b in zip(rows, expected))


def same_cell(a, b):
    try:
        return a == b or abs(float(a) - float(b)) <= 1e-6 + 1e-9 * abs(float(a))
    except ValueError:
        return False


def of_duckdb(env, query):
    """The rows of DuckDB over the same objects. In a process of its own: what this one holds counts for its children,
    too, whose resident size is measured."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(ask_duckdb, (env["AWS_ENDPOINT_URL"], query))


def ask_duckdb(endpoint, query):
    import duckdb
    import duckdb_extension_httpfs
    extension = next(Path(duckdb_extension_httpfs.__file__).parent.rglob("httpfs.duckdb_extension"))
    connection = duckdb.connect(config={"allow_unsigned_extensions": True})
    connection.execute(f"LOAD '{extension}'")
    endpoint = endpoint.removeprefix("http://")
    connection.execute(f"CREATE SECRET (TYPE s3, KEY_ID '{ROOT.id}', SECRET '{ROOT.secret}', ENDPOINT '{endpoint}', URL_STYLE path, USE_SSL false)")
    for table in "customer lineitem nation orders part partsupp region supplier".split():
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('s3://tpch/{table}/*.parquet')")
    cursor = connection.execute((PROJECT / "sql/tpch" / f"{query}.sql").read_text())
    return [["" if cell is None else str(cell) for cell in row] for row in cursor.fetchall()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(PROJECT / "target/release/pushdowndb"))
    parser.add_argument("--scale", default="1")
    parser.add_argument("--memory", default="64MB")
    parser.add_argument("--queries", default=",".join(QUERIES))
    parser.add_argument("--levels", default="none,fragment")
    parser.add_argument("--to", default="disk,node")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--duckdb", action="store_true", help="compare the rows without a limit with DuckDB's")
    parser.add_argument("--folder", help="where the tables are kept for the next run")
    options = parser.parse_args()
    number, unit = re.fullmatch(r"(\d+)(\w*)", options.memory).groups()
    promise = int(number) * UNITS[unit.upper()] / 1e6 + PROMISE_MB
    faults, spilled, largest = 0, 0, 0.0
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        kept = Path(options.folder or scratch, f"tpch-{options.scale}")
        kept.mkdir(parents=True, exist_ok=True)
        with Node(options.binary, kept) as node:
            env = environment(node.endpoint)
            if not (kept / "done").exists():
                made = ["generate", "tpch", "--scale", options.scale, "--format", "parquet", "--to", "s3://tpch/", "--create-bucket"]
                subprocess.run([options.binary, *made, "--overwrite"], env=env, check=True)
                Server(node.endpoint, ROOT.id, ROOT.secret).s3.create_bucket(Bucket="scratch")
                (kept / "done").touch()
            places = {
                "disk": [f"pushdown.spill_disk={scratch}"],
                "node": ["pushdown.spill_disk_bytes=0", "pushdown.spill_location=s3://scratch/spill"],
            }
            for query in options.queries.split(","):
                expected, usage, _, failed = run(options, env, query, ["pushdown.memory=none", f"pushdown.threads={options.threads}"])
                if failed:
                    sys.exit(f"{query} without a limit: {failed}")
                if options.duckdb and not same(expected[1:], of_duckdb(env, query)):
                    faults += 1
                    print(f"{query}: the rows without a limit are not DuckDB's")
                for level in options.levels.split(","):
                    for to in options.to.split(","):
                        settings = [f"pushdown.memory={options.memory}", f"pushdown.level={level}", f"pushdown.threads={options.threads}"]
                        began = time.time()
                        rows, usage, resident, failed = run(options, env, query, settings + places[to])
                        spill = usage.get("spill", {})
                        size = (spill.get("disk_bytes", 0) + spill.get("remote_bytes", 0)) / 1e6
                        wrong = failed or ("" if same(rows, expected) else "WRONG ROWS")
                        if not wrong and resident > promise:
                            wrong = f"MORE THAN {promise:.0f} MB"
                        faults, spilled, largest = faults + bool(wrong), spilled + (size > 0), max(largest, resident)
                        print(f"{query} {level:<8} {to:<4} {time.time() - began:6.1f} s  resident {resident:5.0f} MB  spilled {size:8.1f} MB  "
                              f"{spill.get('parts', 0):5} parts  {wrong or 'right'}", flush=True)
    print(f"{faults} faults, {spilled} runs spilled, the largest resident size was {largest:.0f} MB of {promise:.0f}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
