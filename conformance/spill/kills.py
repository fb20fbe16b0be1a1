#!/usr/bin/env python3
"""Kills queries that spill, at any time; see README.md beside this file."""

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from conformance.spill.rounds import Round, Tally  # noqa: E402
from conformance.spill.world import World  # noqa: E402

KINDS = {"disk": ["disk"], "node": ["node", "split"], "both": ["disk", "node", "split"]}
LINE = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, help="the program pushdowndb")
    parser.add_argument("--kills", type=int, default=int(os.environ.get("PUSHDOWNDB_KILLS") or 20))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("PUSHDOWNDB_SEED") or random.randrange(1 << 32)))
    parser.add_argument("--to", choices=list(KINDS), default="both", help="where queries spill to: the disk, a node's bucket, or both")
    parser.add_argument("--round", type=int, metavar="N", help="this round of the seed again and again instead of all")
    args = parser.parse_args()
    print(f"kills: seed {args.seed} (PUSHDOWNDB_SEED={args.seed})", flush=True)
    start, tally = time.monotonic(), Tally()
    with tempfile.TemporaryDirectory(prefix="kills-") as folder, World(args.binary, Path(folder), KINDS[args.to]) as world:
        number = told = 0
        while tally.counts["kills"] < args.kills:
            number += 1
            Round(world, args.seed, args.round or number, tally).run()
            if tally.counts["kills"] // LINE > told:
                told = tally.counts["kills"] // LINE
                counts = ", ".join(f"{count} {name}" for name, count in tally.counts.items() if name != "kills")
                print(f"kills: {tally.counts['kills']} in {number} rounds, {len(tally.faults)} faults, {time.monotonic() - start:.0f} s ({counts})", flush=True)
    print(f"kills: {tally.counts['kills']}, faults: {len(tally.faults)}, {time.monotonic() - start:.0f} s, seed {args.seed}")
    for number, text in tally.faults:
        print(f"again: conformance/spill/kills.py --binary … --to {args.to} --seed {args.seed} --round {number}    # {text[:120]}")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
