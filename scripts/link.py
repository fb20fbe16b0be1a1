#!/usr/bin/env python3
"""Measures a query through a slow link with several settings. Needs root, Linux, iproute2.

    scripts/link.py --mb 40 --scale 1 --query op_filter_1em4        40 MB/s
    scripts/link.py --mb 0 --query q06,q01 --baseline               unshaped, with plain DataFusion beside it
    scripts/link.py --query q03 --settings 'level=none;level=fragment,join=filtered;level=fragment,join=bloom'

The node runs in its own network namespace on core 0, the engine in another on core 1, joined by a
veth pair that tc caps in both directions. Settings take turns, so that drift of the machine affects
all of them. Prints medians of wall seconds, bytes over the network and requests, and the ratio to
the first setting.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEY, SECRET = "link-key", "link-secret-key"
CLIENT, SERVER = "pushdowndb-cli", "pushdowndb-srv"
SERVER_IP = "10.77.9.2"


class Link:
    """A node with TPC-H data behind a link of so many MB/s (0: no cap); a context, which takes everything down again."""

    def __init__(self, binary, mb, scale, format, store=None):
        if os.geteuid() != 0:
            sys.exit("network namespaces need root")
        self.binary = pathlib.Path(binary).resolve()
        self.mb, self.scale, self.format = mb, scale, format
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pushdowndb-link-"))
        self.store = pathlib.Path(store) if store else self.folder / "store"
        self.bucket = f"link-{format}-{scale.replace('.', '-')}"
        self.env = dict(os.environ) | {
            "PUSHDOWNDB_ACCESS_KEY_ID": KEY, "PUSHDOWNDB_SECRET_ACCESS_KEY": SECRET,
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{SERVER_IP}:9000", "AWS_ALLOW_HTTP": "true",
        }

    def __enter__(self):
        up()
        self.node = subprocess.Popen(
            ["ip", "netns", "exec", SERVER, "taskset", "-c", "0", self.binary, "serve", "--store", self.store,
             "--listen", f"{SERVER_IP}:9000"], env=self.env, stderr=open(self.folder / "node.log", "w"))
        time.sleep(1)
        done = self.store / f"{self.bucket}.done"
        if not done.exists():
            subprocess.run(["ip", "netns", "exec", CLIENT, self.binary, "generate", "tpch", "--scale", self.scale, "--format",
                            self.format, "--to", f"s3://{self.bucket}/", "--create-bucket"], env=self.env, check=True)
            done.touch()
        shape(self.mb)
        return self

    def __exit__(self, *_):
        self.node.terminate()
        self.node.wait()
        down()
        shutil.rmtree(self.folder, ignore_errors=True)

    def query(self, sql, settings, price_book="paper"):
        """Runs the file `sql` with these settings of pushdown; wall seconds and the numbers of `--stats json`."""
        stats = self.folder / "stats.json"
        settings = {"threads": "1", "price_book": price_book} | settings
        flags = [flag for name, value in settings.items() for flag in ("--set", f"pushdown.{name}={value}")]
        wall = self.timed([self.binary, *flags, "-f", f"s3://{self.bucket}/schema.sql", "-f", sql, "--format", "csv",
                           "--output", self.folder / "rows.csv", "--stats", "json", "--stats-file", stats])
        line = [line for line in stats.read_text().splitlines() if line.startswith("{")][-1]
        return json.loads(line) | {"wall": wall}

    def rows(self):
        """The rows of the last query, in order of their text."""
        return sorted((self.folder / "rows.csv").read_text().splitlines())

    def statement(self, sql):
        """Runs a statement about the tables, untimed."""
        self.timed([self.binary, "-f", f"s3://{self.bucket}/schema.sql", "-c", sql])

    def plain_datafusion(self, sql):
        """Runs the file `sql` with DataFusion alone."""
        program = self.binary.parent / "pushdowndb-bench"
        return {"wall": self.timed([program, "datafusion", f"s3://{self.bucket}/", self.format, sql])}

    def timed(self, command):
        started = time.time()
        done = subprocess.run(["ip", "netns", "exec", CLIENT, "taskset", "-c", "1", *(str(c) for c in command)],
                              env=self.env, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(str(c) for c in command)}:\n{done.stderr}")
        return time.time() - started


def run(*command, check=True):
    return subprocess.run([str(c) for c in command], check=check, capture_output=True, text=True)


def down():
    for ns in (CLIENT, SERVER):
        run("ip", "netns", "del", ns, check=False)


def up():
    down()
    for ns in (CLIENT, SERVER):
        run("ip", "netns", "add", ns)
    run("ip", "link", "add", "pdbc", "netns", CLIENT, "type", "veth", "peer", "name", "pdbs", "netns", SERVER)
    for ns, dev, ip in ((CLIENT, "pdbc", "10.77.9.1"), (SERVER, "pdbs", SERVER_IP)):
        run("ip", "-n", ns, "addr", "add", f"{ip}/24", "dev", dev)
        run("ip", "-n", ns, "link", "set", "lo", "up")
        run("ip", "-n", ns, "link", "set", dev, "mtu", "9000", "up")


def shape(mb):
    """Caps both directions; a burst of 5 ms and a queue of 100 ms, as a switch would have."""
    for ns, dev in ((CLIENT, "pdbc"), (SERVER, "pdbs")) if mb else ():
        run("ip", "netns", "exec", ns, "tc", "qdisc", "add", "dev", dev, "root", "tbf", "rate", f"{mb * 8}mbit",
            "burst", max(mb * 5000, 131072), "limit", max(mb * 100000, 1000000))


def settings_of(text):
    """`level=select,join=bloom` as a dictionary."""
    return dict(pair.split("=", 1) for pair in text.split(",") if pair)


def common_arguments(parser):
    """What every script that measures through a link is told."""
    parser.add_argument("--mb", type=int, default=40, help="MB/s of the link, 0 for no cap")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--store", help="keep the data in this folder and use it again")
    parser.add_argument("--binary", default=shutil.which("pushdowndb"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common_arguments(parser)
    parser.add_argument("--format", default="csv")
    parser.add_argument("--query", default="op_filter_1em4")
    parser.add_argument("--levels", default="none,select,fragment", help="short for --settings with only a level each")
    parser.add_argument("--settings", help="of pushdown, without that prefix, one after the other, semicolons between")
    parser.add_argument("--baseline", action="store_true", help="plain DataFusion too, by pushdowndb-bench beside the binary")
    args = parser.parse_args()
    if args.settings:
        variants = {text: settings_of(text) for text in args.settings.split(";")}
    else:
        variants = {level: {"level": level} for level in args.levels.split(",")}
    names = list(variants) + (["datafusion"] if args.baseline else [])
    with Link(args.binary, args.mb, args.scale, args.format, args.store) as link:
        for query in args.query.split(","):
            sql = ROOT / "sql" / "tpch" / f"{query}.sql"
            results = {name: [] for name in names}
            for turn in range(args.runs + 1):
                for name in names:
                    plain = name == "datafusion"
                    usage = link.plain_datafusion(sql) if plain else link.query(sql, variants[name])
                    if turn:  # the first turn warms the page cache
                        results[name].append(usage)
            print(f"{query}, {args.format}, scale {args.scale}, {args.mb or 'no'} MB/s cap, median of {args.runs}:")
            first = statistics.median(u["wall"] for u in results[names[0]])
            for name in names:
                walls = [u["wall"] for u in results[name]]
                median, more = statistics.median(walls), results[name][-1]
                traffic = f"  {more['bytes_network']:>12} bytes, {sum(more['requests'].values())} requests" if "requests" in more else ""
                print(f"  {name:<11} {median:8.2f} s ({min(walls):.2f} to {max(walls):.2f})  x{first / median:5.2f} of {names[0]}{traffic}",
                      flush=True)


if __name__ == "__main__":
    main()
