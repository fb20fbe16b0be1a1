#!/usr/bin/env python3
"""Checks TPC-H and the operator queries against known answers, on all servers and at all levels.

    scripts/tpch.py --scale 1                         CSV and Parquet, node and MinIO, every level
    scripts/tpch.py --servers node --formats csv      part of it
    scripts/tpch.py --queries q06,op_filter_1em4      some queries

Answers are known for scale 1 only; at other scales every combination must agree with level none on
the node. Prints a line per query and combination, and a table of bytes over the network at the end.
Exits with 1 if a row is wrong.
"""

import argparse
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from servers import free_port, wait_for

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUERIES = ROOT / "sql" / "tpch"
ANSWERS = QUERIES / "answers"
KEY, SECRET = "tpch-key", "tpch-secret-key"


def start(server, folder, binary):
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = dict(os.environ)
    if server == "node":
        env |= {"PUSHDOWNDB_ACCESS_KEY_ID": KEY, "PUSHDOWNDB_SECRET_ACCESS_KEY": SECRET}
        command = [binary, "serve", "--store", str(folder), "--listen", f"127.0.0.1:{port}"]
    else:
        minio = subprocess.run([ROOT / ".ci" / "minio"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        env |= {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_API_SELECT_PARQUET": "on"}
        command = [minio, "server", str(folder), "--address", f"127.0.0.1:{port}", "--console-address", f"127.0.0.1:{free_port()}"]
    log = open(folder.parent / f"{server}.log", "w")
    process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    wait_for(url)
    return process, url


def client_env(url):
    env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    return env | {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1"}


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def same_cell(a, b):
    if a == b:
        return True
    x, y = number(a), number(b)
    # AVG of decimals has a fixed scale in DataFusion and is a double in the answers.
    return x is not None and y is not None and abs(x - y) <= 1e-6 * max(1.0, abs(x), abs(y))


def sort_key(row):
    return [f"{number(c):.4f}" if number(c) is not None else c for c in row]


def compare(got, want, ordered):
    """None if the rows agree, else what differs."""
    if got[0] != want[0]:
        return f"columns {got[0]} instead of {want[0]}"
    got, want = got[1:], want[1:]
    if len(got) != len(want):
        return f"{len(got)} rows instead of {len(want)}"
    if not ordered:
        got, want = sorted(got, key=sort_key), sorted(want, key=sort_key)
    for line, (a, b) in enumerate(zip(got, want), 1):
        if len(a) != len(b) or not all(same_cell(x, y) for x, y in zip(a, b)):
            return f"row {line} is {a} instead of {b}"
    return None


def digest(rows):
    """The row count and the sum of each column that holds numbers."""
    sums = [0.0] * len(rows[0])
    for row in rows[1:]:
        for i, cell in enumerate(row):
            value = number(cell)
            sums[i] += value if value is not None else 0.0
    return [["rows"] + rows[0], [str(float(len(rows) - 1))] + [str(s) for s in sums]]


def check(name, sql, rows, reference):
    ordered = "order by" in sql.lower()
    if (ANSWERS / f"{name}.csv").exists() and reference is None:
        return compare(rows, list(csv.reader(open(ANSWERS / f"{name}.csv"))), ordered)
    if (ANSWERS / f"{name}.digest.csv").exists() and reference is None:
        return compare(digest(rows), list(csv.reader(open(ANSWERS / f"{name}.digest.csv"))), True)
    return compare(rows, reference, ordered)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--servers", default="node,minio")
    parser.add_argument("--formats", default="csv,parquet")
    parser.add_argument("--levels", default="none,select,fragment", help="MinIO is not asked for level fragment")
    parser.add_argument("--queries", default="")
    parser.add_argument("--parts", default="1")
    parser.add_argument("--binary", default=os.environ.get("PUSHDOWNDB", "pushdowndb"))
    args = parser.parse_args()

    names = args.queries.split(",") if args.queries else sorted(p.stem for p in QUERIES.glob("*.sql"))
    failures, sizes, seconds, references = [], {}, {}, {}
    with tempfile.TemporaryDirectory(prefix="pushdowndb-tpch-") as folder:
        for server in args.servers.split(","):
            store = pathlib.Path(folder) / server
            store.mkdir()
            process, url = start(server, store, args.binary)
            env = client_env(url)
            try:
                for fmt in args.formats.split(","):
                    target = f"s3://tpch-{fmt}/"
                    subprocess.run([args.binary, "generate", "tpch", "--scale", args.scale, "--format", fmt, "--parts",
                                    args.parts, "--to", target, "--create-bucket"], env=env, check=True)
                    for level in args.levels.split(","):
                        if level == "fragment" and server != "node":
                            continue
                        for name in names:
                            sql = (QUERIES / f"{name}.sql").read_text()
                            stats = pathlib.Path(folder) / "stats.json"
                            run = subprocess.run(
                                [args.binary, "--set", f"pushdown.level={level}", "-f", target + "schema.sql",
                                 "-f", str(QUERIES / f"{name}.sql"), "--format", "csv", "--stats", "json",
                                 "--stats-file", str(stats)],
                                env=env, capture_output=True, text=True)
                            where = f"{name} {fmt} {server} {level}"
                            if run.returncode != 0:
                                failures.append(where)
                                print(f"FAILED  {where}: {run.stderr.strip()[-400:]}", flush=True)
                                continue
                            rows = list(csv.reader(io.StringIO(run.stdout)))
                            reference = None if args.scale == "1" else references.setdefault(name, rows)
                            wrong = check(name, sql, rows, reference)
                            usage = [json.loads(line) for line in stats.read_text().splitlines() if line.startswith("{")][-1]
                            sizes[name, fmt, server, level] = usage["bytes_network"]
                            seconds[name, fmt, server, level] = usage["wall_s"]
                            if wrong:
                                failures.append(where)
                            print(f"{'WRONG ' if wrong else 'ok    '}  {where}: {len(rows) - 1} rows, "
                                  f"{usage['bytes_network']} bytes, {usage['wall_s']:.2f} s{': ' + wrong if wrong else ''}", flush=True)
            finally:
                process.terminate()
                process.wait()

    print("\nbytes over the network, in % of level none")
    pushed = [level for level in args.levels.split(",") if level != "none"]
    columns = [(f, s, l) for s in args.servers.split(",") for l in pushed for f in args.formats.split(",")
               if (s, l) != ("minio", "fragment")]
    print("query".ljust(22) + "".join(f"{s} {f} {l}".rjust(23) for f, s, l in columns))
    for name in names:
        cells = []
        for f, s, level in columns:
            none, some = sizes.get((name, f, s, "none")), sizes.get((name, f, s, level))
            cells.append(f"{100 * some / none:.3f} %" if none and some is not None else "-")
        print(name.ljust(22) + "".join(c.rjust(23) for c in cells))
    print(f"\n{len(sizes) - len(failures)} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
