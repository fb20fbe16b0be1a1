#!/usr/bin/env python3
"""A query through a slow link, at several levels, in one run. Needs root, Linux, iproute2.

    scripts/link.py --mb 40 --scale 1 --query op_filter_1em4        40 MB/s
    scripts/link.py --mb 0 --query q06,q01 --baseline               unshaped, with plain DataFusion beside it

The node runs in a network namespace of its own on core 0, the engine in another on core 1, joined by a veth
pair that tc caps in both directions. Levels take turns, so that a drift of the machine hits all of them.
Prints medians of wall seconds, bytes over the network and requests, and the ratio to the first level.
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=40, help="MB/s of the link, 0 for no cap")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--format", default="csv")
    parser.add_argument("--query", default="op_filter_1em4")
    parser.add_argument("--levels", default="none,select")
    parser.add_argument("--baseline", action="store_true", help="plain DataFusion, from the example plain_datafusion")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--store", help="keep the data in this folder and use it again")
    parser.add_argument("--binary", default=shutil.which("pushdowndb"))
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("network namespaces need root")
    binary = pathlib.Path(args.binary).resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="pushdowndb-link-"))
    store = pathlib.Path(args.store) if args.store else folder / "store"
    env = dict(os.environ) | {
        "PUSHDOWNDB_ACCESS_KEY_ID": KEY, "PUSHDOWNDB_SECRET_ACCESS_KEY": SECRET,
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{SERVER_IP}:9000", "AWS_ALLOW_HTTP": "true",
    }
    bucket = f"link-{args.format}-{args.scale.replace('.', '-')}"
    up()
    node = subprocess.Popen(["ip", "netns", "exec", SERVER, "taskset", "-c", "0", binary, "serve", "--store", store,
                             "--listen", f"{SERVER_IP}:9000"], env=env, stderr=open(folder / "node.log", "w"))
    client = ["ip", "netns", "exec", CLIENT, "taskset", "-c", "1"]
    try:
        time.sleep(1)
        if not (store / f"{bucket}.done").exists():
            subprocess.run(["ip", "netns", "exec", CLIENT, binary, "generate", "tpch", "--scale", args.scale, "--format",
                            args.format, "--to", f"s3://{bucket}/", "--create-bucket"], env=env, check=True)
            (store / f"{bucket}.done").touch()
        shape(args.mb)
        for query in args.query.split(","):
            sql = ROOT / "sql" / "tpch" / f"{query}.sql"
            results = {}
            names = args.levels.split(",") + (["datafusion"] if args.baseline else [])
            for turn in range(args.runs + 1):
                for name in names:
                    stats = folder / "stats.json"
                    if name == "datafusion":
                        command = client + [binary.parent / "examples" / "plain_datafusion", f"s3://{bucket}/", args.format, sql]
                    else:
                        command = client + [binary, "--set", f"pushdown.level={name}", "--set", "pushdown.threads=1", "-f",
                                            f"s3://{bucket}/schema.sql", "-f", sql, "--format", "csv", "--output",
                                            folder / "rows.csv", "--stats", "json", "--stats-file", stats]
                    started = time.time()
                    done = subprocess.run(command, env=env, capture_output=True, text=True)
                    wall = time.time() - started
                    if done.returncode != 0:
                        sys.exit(f"{query} at {name}: {done.stderr}")
                    usage = {"wall": wall}
                    if name != "datafusion":
                        line = [l for l in stats.read_text().splitlines() if l.startswith("{")][-1]
                        said = json.loads(line)
                        usage |= {"bytes": said["bytes_network"], "requests": sum(said["requests"].values())}
                    if turn:  # the first turn warms the page cache
                        results.setdefault(name, []).append(usage)
            print(f"{query}, {args.format}, scale {args.scale}, {args.mb or 'no'} MB/s cap, median of {args.runs}:")
            first = statistics.median(u["wall"] for u in results[names[0]])
            for name in names:
                walls = [u["wall"] for u in results[name]]
                median = statistics.median(walls)
                more = results[name][-1]
                print(f"  {name:<11} {median:8.2f} s ({min(walls):.2f} to {max(walls):.2f})  x{first / median:5.2f} of {names[0]}"
                      + (f"  {more['bytes']:>12} bytes, {more['requests']} requests" if "bytes" in more else ""), flush=True)
    finally:
        node.terminate()
        node.wait()
        down()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
