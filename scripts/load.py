#!/usr/bin/env python3
"""Measures many clients at once against one node: throughput, latencies, errors, memory.

    scripts/load.py                                   8 and 64 clients on CSV at scale 1
    scripts/load.py --clients 1,16 --statements 96    others, fewer statements

Each client is a process of its own that runs queries of six kinds, one after the other. All numbers
of clients run the same number of statements in all, so that their times can be compared. Every row
is compared with those of a client that was alone. Prints a table, and exits with 1 if a row is
wrong or a query fails. A round of warm-up comes first: what is measured is the steady state.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from servers import free_port, wait_for

KEY, SECRET = "load-key", "load-secret-key"

QUERIES = {
    "filter": "SELECT l_orderkey, l_extendedprice FROM lineitem WHERE l_extendedprice > 104500",
    "aggregate": "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_quantity < 24 AND l_tax = 0.02",
    "group": "SELECT l_returnflag, l_linestatus, count(*), sum(l_quantity) FROM lineitem GROUP BY 1, 2",
    "join": "SELECT count(*), sum(o_totalprice) FROM customer JOIN orders ON c_custkey = o_custkey "
    "WHERE c_acctbal < -990",
    "top": "SELECT l_orderkey, l_linenumber, l_extendedprice FROM lineitem "
    "ORDER BY l_extendedprice DESC, l_orderkey, l_linenumber LIMIT 10",
    "text": "SELECT count(*) FROM orders WHERE o_comment LIKE '%special%requests%'",
}


def peak_mb(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def client(args, env, first, rounds):
    """The rows, the seconds of each statement and the error of a client that begins with kind `first`."""
    kinds = [(first + n) % len(QUERIES) for n in range(len(QUERIES))]
    script = ";\n".join(list(QUERIES.values())[kind] for kind in kinds * rounds) + ";\n"
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        command = [args.binary, "-f", "s3://load/schema.sql", "-f", file.name, "--format", "csv", "--stats", "json"]
        done = subprocess.run(command, env=env, capture_output=True, text=True)
    stats = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    seconds = [stat["wall_s"] for stat in stats][-len(kinds) * rounds :]
    error = None if done.returncode == 0 and len(seconds) == len(kinds) * rounds else done.stderr[-500:]
    return sorted(done.stdout.splitlines()), seconds, error


def measure(args, env, node, clients, expected):
    rounds = max(1, args.statements // (clients * len(QUERIES)))
    began = time.time()
    with ThreadPoolExecutor(clients) as pool:
        ran = list(pool.map(lambda n: client(args, env, n, rounds), range(clients)))
    took = time.time() - began
    seconds = sorted(second for _, each, _ in ran for second in each)
    errors = [error for _, _, error in ran if error]
    wrong = sum(rows != sorted(expected * rounds) for rows, _, error in ran if not error)
    each = [sum(own) for _, own, _ in ran]
    p99 = seconds[min(len(seconds) - 1, len(seconds) * 99 // 100)] if seconds else 0
    rate = len(seconds) / took
    share = clients / rate if rate else 0
    print(
        f"| {clients} | {len(seconds)} | {rate:.2f} | {statistics.median(seconds or [0]):.2f} | {p99:.2f} "
        f"| {p99 / share if share else 0:.1f} | {max(each) / max(min(each), 1e-9):.2f} | {len(errors)} | {wrong} "
        f"| {peak_mb(node.pid)} |",
        flush=True,
    )
    for error in errors[:3]:
        print(error, file=sys.stderr)
    return rate, not errors and not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--binary", default=f"{target}/release/pushdowndb", help="the program pushdowndb")
    parser.add_argument("--clients", default="8,64", help="numbers of clients [default: 8,64]")
    parser.add_argument("--statements", type=int, default=768, help="statements in all [default: 768]")
    parser.add_argument("--scale", default="1", help="the scale of TPC-H [default: 1]")
    parser.add_argument("--store", help="a folder for the node's objects, to be used again")
    args = parser.parse_args()
    args.binary = str(pathlib.Path(args.binary).resolve())
    with tempfile.TemporaryDirectory() as folder:
        url = f"http://127.0.0.1:{free_port()}"
        keys = {"PUSHDOWNDB_ACCESS_KEY_ID": KEY, "PUSHDOWNDB_SECRET_ACCESS_KEY": SECRET}
        serve = [args.binary, "serve", "--store", args.store or f"{folder}/store", "--listen", url.removeprefix("http://")]
        env = os.environ | {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
        env |= {"AWS_ENDPOINT_URL": url, "XDG_CACHE_HOME": folder, "XDG_CONFIG_HOME": folder, "HOME": folder}
        log = open(pathlib.Path(folder) / "node.log", "w")
        node = subprocess.Popen(serve, env=os.environ | keys, stdout=log, stderr=log)
        try:
            wait_for(url)
            if not (args.store and (pathlib.Path(args.store) / "load").exists()):
                generate = ["generate", "tpch", "--scale", args.scale, "--format", "csv", "--to", "s3://load/"]
                subprocess.run([args.binary, *generate, "--create-bucket"], env=env, check=True, capture_output=True)
            expected, _, error = client(args, env, 0, 1)
            if error:
                sys.exit(error)
            client(args, env, 0, 1)
            print("| clients | statements | a second | median s | p99 s | p99 / even share | slowest / fastest client "
                  "| errors | wrong | node's peak MB |")
            print("| --- " * 10 + "|")
            ran = [measure(args, env, node, int(clients), expected) for clients in args.clients.split(",")]
        finally:
            node.terminate()
            node.wait()
    print(f"\nthroughput of the last beside the first: {ran[-1][0] / ran[0][0]:.2f}")
    sys.exit(0 if all(right for _, right in ran) else 1)


if __name__ == "__main__":
    main()
