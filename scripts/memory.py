#!/usr/bin/env python3
"""Measures the peak memory of engine and node during scans of a large CSV object, at every level.

    scripts/memory.py --scale 7.2 --binary target/release/pushdowndb        lineitem as one object of about 5 GB

Prints the peak resident set of both processes per query and level (VmHWM, reset before each run).
Needs Linux.
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

KEY, SECRET = "memory-key", "memory-secret-key"
QUERIES = {
    "filter 1e-4": "SELECT * FROM lineitem WHERE l_extendedprice <= 943.00",
    "keeps half": "SELECT l_orderkey, l_comment FROM lineitem WHERE l_quantity <= 25",
    "count": "SELECT count(*) FROM lineitem WHERE l_comment LIKE '%special%'",
    "sum": "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_discount > 0.05",
}


def peak_mb(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1000
    return 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="7.2")
    parser.add_argument("--binary", default=shutil.which("pushdowndb"))
    args = parser.parse_args()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="pushdowndb-memory-") as folder:
        folder = pathlib.Path(folder)
        env = dict(os.environ) | {
            "PUSHDOWNDB_ACCESS_KEY_ID": KEY, "PUSHDOWNDB_SECRET_ACCESS_KEY": SECRET, "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        }
        node = subprocess.Popen([args.binary, "serve", "--store", folder / "store", "--listen", f"127.0.0.1:{port}"],
                                env=env, stderr=open(folder / "node.log", "w"))
        try:
            time.sleep(1)
            subprocess.run([args.binary, "generate", "tpch", "--scale", args.scale, "--to", "s3://memory/", "--create-bucket"],
                           env=env, check=True)
            worst = 0.0
            for name, sql in QUERIES.items():
                for level in ("none", "select", "fragment"):
                    pathlib.Path(f"/proc/{node.pid}/clear_refs").write_text("5")
                    stats = folder / "stats.json"
                    command = [args.binary, "--set", f"pushdown.level={level}",
                               "-f", "s3://memory/schema.sql", "-c", sql, "--format", "csv", "--output", "/dev/null",
                               "--stats", "json", "--stats-file", stats]
                    engine = subprocess.Popen(command, env=env)
                    peak = 0.0
                    while engine.poll() is None:
                        try:
                            peak = max(peak, peak_mb(engine.pid))
                        except OSError:
                            pass
                        time.sleep(0.05)
                    if engine.returncode:
                        sys.exit(f"{name} at {level} failed")
                    usage = json.loads([l for l in stats.read_text().splitlines() if l.startswith("{")][-1])
                    worst = max(worst, peak, peak_mb(node.pid))
                    print(f"{name:<12} {level:<8} engine {peak:6.0f} MB  node {peak_mb(node.pid):6.0f} MB  {usage['rows']:>9} rows  "
                          f"{usage['bytes_network'] / 1e6:9.1f} MB over the network  {usage['wall_s']:6.1f} s", flush=True)
        finally:
            node.terminate()
            node.wait()
    print(f"worst peak {worst:.0f} MB")
    sys.exit(0 if worst < 500 else 1)


if __name__ == "__main__":
    main()
