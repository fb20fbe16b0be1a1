#!/usr/bin/env python3
"""Counts the instructions of the scan bench with callgrind and compares them with the record.

    scripts/instructions.py                     all cases against benches/record/instructions.csv
    scripts/instructions.py --only csv/         some of them
    scripts/instructions.py --record            write what is counted as the new record

Counts are reproducible to a few parts in ten thousand on one toolchain and kind of machine, under
any load. They exclude effects of caches and disks. A count more than --tolerance above its record
is a regression: exit code 1. With another compiler than the record's, differences are only printed.
Needs valgrind.
"""

import argparse
import csv
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "benches" / "record" / "instructions.csv"


def bench():
    """The binary of the bench, built."""
    cargo = ["cargo", "bench", "--workspace", "--bench", "scan", "--no-run", "--message-format", "json"]
    lines = subprocess.run(cargo, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    built = [json.loads(line) for line in lines if line.startswith("{")]
    return next(m["executable"] for m in built if m.get("executable") and m["target"]["name"] == "scan")


def instructions(binary, folder, case):
    """Instructions of one run of the case, without what leads to it."""
    command = ["valgrind", "--tool=callgrind", "--toggle-collect=*scan::counted*", f"--callgrind-out-file={folder}/out", binary]
    env = dict(os.environ) | {"SCAN_DATA": folder, "SCAN_ONCE": case}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not collected or collected[1] == "0":
        sys.exit(f"{case}: {done.stderr[-500:]}")
    return int(collected[1])


def counts(binary, only):
    """Each case whose name contains `only`, and its instructions."""
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ) | {"SCAN_DATA": folder}
        listed = subprocess.run([binary], env=env, stdout=subprocess.PIPE, text=True, check=True)
        for case in (line for line in listed.stdout.splitlines() if only in line):
            yield case, instructions(binary, folder, case)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name contains it")
    parser.add_argument("--tolerance", type=float, default=3.0, help="percent more than on record that are no regression")
    parser.add_argument("--record", action="store_true", help="write the counts instead of comparing them")
    parser.add_argument("--binary", help="the bench, if it is built already")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        print("SKIPPED: valgrind is missing")
        return
    toolchain = subprocess.run(["rustc", "--version"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    toolchain = f"{toolchain.split(' (')[0].strip()} {platform.machine()}"
    known = {}
    if RECORD.exists():
        known = {row["case"]: row for row in csv.DictReader(RECORD.open(newline=""))}
    binary, regressions = args.binary or bench(), []
    for case, count in counts(binary, args.only):
        before = known.get(case)
        change = (count / int(before["instructions"]) - 1) * 100 if before else None
        comparable = before is not None and before["toolchain"] == toolchain
        note = "" if before is None or comparable else f"  (recorded with {before['toolchain']})"
        print(f"{case:24} {count:>14,}{'' if change is None else f'  {change:+7.2f} %'}{note}", flush=True)
        if comparable and change > args.tolerance:
            regressions.append(case)
        if args.record:
            known[case] = {"case": case, "instructions": count, "toolchain": toolchain}
    if args.record:
        with RECORD.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["case", "instructions", "toolchain"], lineterminator="\n")
            writer.writeheader()
            writer.writerows(known[case] for case in sorted(known))
    elif regressions:
        sys.exit(f"more instructions than on record: {', '.join(regressions)}")


if __name__ == "__main__":
    main()
