#!/usr/bin/env python3
"""Kills, hangs, slows and restarts gateways of a fleet while queries run, and compares every row.

    scripts/fleet.py                          500 queries over three gateways, CSV at scale 0.1
    scripts/fleet.py --queries 100 --seed 7   fewer, with the faults of that seed

A node serves a bucket, three gateways stand before it, and one session (`pushdowndb sql-server`)
runs queries over the fleet, first quietly, then while gateways fail: SIGKILL and a restart, SIGSTOP
for some seconds, or SIGSTOP half of the time. Prints a table, and exits with 1 if a row is wrong or
a query fails, or if a second run of the queries met other nodes than the first one. Needs psycopg.
"""

import argparse
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import psycopg

from servers import free_port, wait_for

KEY, SECRET = "fleet-key", "fleet-secret-key"
GATEWAYS = 3
# The number of queries from one fault to the next.
EVERY = 5

QUERIES = {
    "filter": "SELECT l_orderkey, l_extendedprice FROM lineitem WHERE l_extendedprice > 103000",
    "aggregate": "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_quantity < 24 AND l_tax = 0.02",
    "group": "SELECT l_returnflag, l_linestatus, count(*), sum(l_quantity) FROM lineitem GROUP BY 1, 2",
    "join": "SELECT count(*), sum(o_totalprice) FROM customer JOIN orders ON c_custkey = o_custkey "
    "WHERE c_acctbal < -900",
    "top": "SELECT l_orderkey, l_linenumber, l_extendedprice FROM lineitem "
    "ORDER BY l_extendedprice DESC, l_orderkey, l_linenumber LIMIT 10",
    "text": "SELECT count(*) FROM orders WHERE o_comment LIKE '%special%requests%'",
}


class Gateway:
    """A gateway process, which can be made to fail."""

    def __init__(self, command, env, folder, number):
        self.port = free_port()
        self.command = [*command, "--listen", f"127.0.0.1:{self.port}", "--spool", f"{folder}/spool{number}"]
        self.env, self.log = env, open(f"{folder}/gateway{number}.log", "w")
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, env=self.env, stdout=self.log, stderr=self.log)

    def send(self, sent):
        self.process.send_signal(sent)

    def kill(self, rng, until):
        self.send(signal.SIGKILL)
        self.process.wait()
        until.wait(rng.uniform(0, 3))
        self.start()

    def hang(self, rng, until):
        self.send(signal.SIGSTOP)
        until.wait(rng.uniform(1, 5))
        self.send(signal.SIGCONT)

    def slow(self, rng, until):
        for _ in range(rng.randrange(20, 100)):
            self.send(signal.SIGSTOP)
            until.wait(0.02)
            self.send(signal.SIGCONT)
            until.wait(0.02)

    def zone_hits(self):
        """How often this gateway met what it keeps of an object."""
        text = urllib.request.urlopen(f"{self.url}/metrics", timeout=10).read().decode()
        return sum(float(value) for value in re.findall(r"^pushdowndb_zone_hits_total ([0-9.e+]+)$", text, re.M))

    def stop(self):
        self.send(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


def rows_of(connection, sql):
    """The rows of a query, in an order of their own, and its seconds."""
    began = time.monotonic()
    rows = sorted(map(str, connection.execute(sql).fetchall()))
    return rows, time.monotonic() - began


def run(args, folder):
    node_url = f"http://127.0.0.1:{free_port()}"
    keys = {"PUSHDOWNDB_ACCESS_KEY_ID": KEY, "PUSHDOWNDB_SECRET_ACCESS_KEY": SECRET}
    env = os.environ | {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
    env |= {"AWS_ENDPOINT_URL": node_url, "XDG_CACHE_HOME": folder, "XDG_CONFIG_HOME": folder, "HOME": folder} | keys
    serve = [args.binary, "serve", "--log", "warn"]
    started = []
    try:
        store = [*serve, "--store", f"{folder}/store", "--listen", node_url.removeprefix("http://")]
        quiet = {"env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started.append(subprocess.Popen(store, **quiet))
        wait_for(node_url)
        generate = ["generate", "tpch", "--scale", args.scale, "--format", "csv", "--parts", "8", "--to", "s3://fleet/"]
        subprocess.run([args.binary, *generate, "--create-bucket"], env=env, check=True, capture_output=True)
        gateway = [*serve, "--gateway", "s3://fleet", "--read-only", "--upstream-endpoint", node_url]
        gateways = [Gateway(gateway, env, folder, number) for number in range(GATEWAYS)]
        started.extend(gateways)
        for one in gateways:
            wait_for(one.url)
        catalog = f"{folder}/catalog.sql"
        declare = [args.binary, "--catalog", catalog, "-f", "s3://fleet/schema.sql"]
        subprocess.run(declare, env=env, check=True, capture_output=True)
        port = free_port()
        session = [args.binary, "sql-server", "--postgres", f"127.0.0.1:{port}", "--endpoint", node_url, "--catalog", catalog]
        session += ["--log", "warn", "--set", "pushdown.level=fragment"]
        for allowed in ["s3://fleet/", *(one.url for one in gateways)]:
            session += ["--allow", allowed]
        session += ["--set", "pushdown.nodes=" + ",".join(one.url for one in gateways)]
        started.append(subprocess.Popen(session, **quiet))
        with connected(port) as connection:
            return measure(args, connection, gateways)
    finally:
        for one in reversed(started):
            if isinstance(one, Gateway):
                one.stop()
            else:
                one.terminate()
                one.wait()


def connected(port):
    """A session, once the server listens."""
    for _ in range(100):
        try:
            return psycopg.connect(f"host=127.0.0.1 port={port} user=fleet dbname=fleet", autocommit=True)
        except psycopg.OperationalError:
            time.sleep(0.1)
    sys.exit("the SQL server does not listen")


def measure(args, connection, gateways):
    rng = random.Random(args.seed)
    names = [list(QUERIES)[n % len(QUERIES)] for n in range(args.queries)]
    expected = {name: rows_of(connection, sql)[0] for name, sql in QUERIES.items()}
    before = [one.zone_hits() for one in gateways]
    for sql in QUERIES.values():
        rows_of(connection, sql)
    met = [now - then for now, then in zip([one.zone_hits() for one in gateways], before)]
    quiet = [rows_of(connection, QUERIES[name])[1] for name in names]
    wrong, failed, seconds, faults = [], [], [], {"kill": 0, "hang": 0, "slow": 0}
    over, failing = threading.Event(), None
    for number, name in enumerate(names):
        if number % EVERY == 0 and (failing is None or not failing.is_alive()):
            # One fails at a time.
            kind, one, delay = rng.choice(list(faults)), rng.choice(gateways), rng.uniform(0, 0.3)
            faults[kind] += 1
            own = random.Random(rng.random())

            def fail(kind=kind, one=one, delay=delay, own=own):
                over.wait(delay)
                getattr(one, kind)(own, over)

            failing = threading.Thread(target=fail)
            failing.start()
        try:
            rows, took = rows_of(connection, QUERIES[name])
            seconds.append(took)
            if rows != expected[name]:
                wrong.append(f"query {number}, {name}")
        except psycopg.Error as error:
            failed.append(f"query {number}, {name}: {error}")
    over.set()
    failing.join()
    ratio = sum(seconds) / sum(quiet)
    print("| queries | killed | hung | slowed | wrong | failed | quiet s | failing s | ratio | longest s | zone hits of a second run |")
    print("| --- " * 11 + "|")
    counts = " | ".join(str(count) for count in faults.values())
    print(f"| {args.queries} | {counts} | {len(wrong)} | {len(failed)} | {sum(quiet):.1f} | {sum(seconds):.1f} | {ratio:.2f} "
          f"| {max(seconds):.1f} | {', '.join(f'{hits:.0f}' for hits in met)} |")
    print(f"\nmedian query: {statistics.median(quiet):.3f} s quietly, {statistics.median(seconds):.3f} s beside faults; seed {args.seed}")
    for line in (wrong + failed)[:10]:
        print(line, file=sys.stderr)
    return not wrong and not failed and all(hits > 0 for hits in met)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--binary", default=f"{target}/release/pushdowndb", help="the program pushdowndb")
    parser.add_argument("--queries", type=int, default=500, help="queries [default: 500]")
    parser.add_argument("--scale", default="0.1", help="the scale of TPC-H [default: 0.1]")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the faults")
    args = parser.parse_args()
    args.binary = str(pathlib.Path(args.binary).resolve())
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(0 if run(args, folder) else 1)


if __name__ == "__main__":
    main()
