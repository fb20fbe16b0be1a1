#!/usr/bin/env python3
"""Random statements with little memory, compared with the same ones without a limit; see README.md beside this file."""

import argparse
import json
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from conformance.answers import engines  # noqa: E402
from conformance.answers.generate import Statement  # noqa: E402
from conformance.answers.judge import message_class  # noqa: E402
from conformance.answers.run import FORCED  # noqa: E402
from conformance.attacks.node import ROOT, Node  # noqa: E402
from conformance.harness.server import Server  # noqa: E402
from conformance.spill import rows, tables  # noqa: E402
from conformance.spill.places import BUCKET, Place  # noqa: E402
from conformance.spill.statements import Generator  # noqa: E402

BATCH = 50
LEAST_SHARE = 0.4  # Of the runs, that must spill.
SECONDS = 60  # What a statement may take.
MEMORY = "1MB,1MB,2MB,4MB"
DRAWN = {"threads": ["1", "2", "4"], "spill_compression": ["lz4", "zstd", "none"], "spill_encryption": ["false", "false", "true"]}
# Errors about memory, by the operator that needs it.
MEMORY_ERROR = re.compile(r"Resources exhausted: (?:Additional allocation failed for )?([\w() ]+?)(?:\[\d+\]|#\d+| ?\(\d+\))? (?:holds|needs|with)")


class Ours(engines.Ours):
    """PushdownDB in one way. Answers are texts as they were printed; `spilled` says of each whether it spilled."""

    def answers(self, schema, statements, form="json"):
        self.spilled: list[bool] = []
        return super().answers(schema, statements, form)

    def command(self, folder, form):
        return [*super().command(folder, form), "--stats-file", f"{folder}/stats.json"]

    def answer(self, part, form):
        return engines.Answer([part])

    def said(self, lines):
        """All of the error: that memory is exhausted may be its cause."""
        first = next((number for number, line in enumerate(lines) if line.startswith("error:")), 0)
        return " ".join(lines[first:])

    def some(self, folder, tables, statements, form):
        answers = super().some(folder, tables, statements, form)
        lines = Path(folder, "stats.json").read_text(encoding="utf-8").splitlines()
        spills = [json.loads(line)["spill"] for line in lines[::2]]  # The marker of each answer has a line, too.
        self.spilled += [spill["disk_bytes"] + spill["remote_bytes"] > 0 for spill in spills[: len(answers)]]
        self.spilled += [False] * (len(answers) - len(spills))
        return answers

    def declared(self, _schema):
        return f"{self.base}/tables.sql"


class Run:
    """The ways, and what came of the statements so far."""

    def __init__(self, args, folder: Path, node: Node):
        self.args, self.folder = args, folder
        environment = {"AWS_ACCESS_KEY_ID": ROOT.id, "AWS_SECRET_ACCESS_KEY": ROOT.secret, "AWS_ENDPOINT_URL": node.endpoint, "AWS_REGION": "us-east-1"}
        server = Server(node.endpoint, ROOT.id, ROOT.secret)
        server.s3.create_bucket(Bucket=BUCKET)
        local = folder / "tables"
        local.mkdir()
        tables.write(args.binary, local, args.seed, args.rows)
        tables.upload(node.endpoint, ROOT, local, "tables")
        (local / "tables.sql").write_text(tables.declarations(str(local)), encoding="utf-8")
        server.s3.put_object(Bucket="tables", Key="tables.sql", Body=tables.declarations("s3://tables").encode())
        self.places = {kind: Place(kind, folder / "spill", server) for kind in ("disk", "node", "split")}
        self.expected = Ours(args.binary, "no limit", str(local), ["pushdown.memory=none"], environment, SECONDS)
        self.ways = [
            Ours(args.binary, "none", str(local), ["pushdown.level=none"], environment, SECONDS),
            Ours(args.binary, "fragment", "s3://tables", ["pushdown.level=fragment"], environment, SECONDS),
        ]
        self.count = self.runs = self.spilled = 0
        self.errors: Counter = Counter()
        self.faults: Counter = Counter()
        self.memory: dict[str, list] = {}
        self.by_shape: dict[str, list] = {}

    def draw(self, rng: random.Random) -> None:
        """The settings of a batch."""
        for way in self.ways:
            place = self.places[rng.choice(["disk", "disk", "node", "split"])]
            way.forced = [f"pushdown.memory={rng.choice(self.args.memory.split(','))}", *place.settings()]
            way.forced += [f"pushdown.{name}={rng.choice(values)}" for name, values in DRAWN.items()]
            if way.name == "fragment" and rng.random() < 0.5:
                way.forced += [f"pushdown.{name}={rng.choice(values)}" for name, values in FORCED.items()]
            way.forced += self.args.set or []

    def batch(self, number: int, statements: list[Statement]) -> None:
        rng = random.Random(f"{self.args.seed}/{number}")
        form = rng.choice(["csv", "ndjson"])  # One tells NaN from NULL, the other an empty text.
        self.draw(rng)
        texts = [one.sql for one in statements]
        expected = self.expected.answers("", texts, form)
        for way in self.ways:
            answers = way.answers("", texts, form)
            for one, right, answer, spilled in zip(statements, expected, answers, way.spilled):
                self.judge(way, one, right, answer, spilled, form)
            if left := self.places["split"].left():
                self.fault(way, Statement(f"-- batch {number}"), f"left {left.text()}")
                self.places["split"].remove(left)
        self.count += len(statements)

    def judge(self, way: Ours, one: Statement, right, answer, spilled: bool, form: str) -> None:
        self.runs += 1
        self.spilled += spilled
        shape = self.by_shape.setdefault(one.shape, [0, 0, 0])
        shape[0] += 1
        shape[1] += spilled
        if answer.error and "Resources exhausted" in answer.error and not answer.error.startswith("CRASH"):
            shape[2] += 1
            found = MEMORY_ERROR.search(answer.error)
            cause = found[1] if found else re.sub(r"\d[\d.]*", "N", answer.error)[:120]
            self.memory.setdefault(cause, []).append((one, way, answer.error))
        elif right.error or answer.error:
            if right.error and answer.error:
                self.errors[message_class(right.error)] += 1
            if answer.error.startswith("CRASH") or not right.error or not answer.error:
                self.fault(way, one, answer.error or f"rows, but without a limit: {right.error}")
        elif wrong := rows.differ(answer.rows[0], right.rows[0], form, one.order, one.limited):
            self.fault(way, one, wrong)

    def fault(self, way: Ours, one: Statement, text: str) -> None:
        self.faults[f"{one.shape}: {re.sub(r'[0-9]+', 'N', text)[:60]}"] += 1
        settings = " ".join(f"--set {setting}" for setting in way.forced if "spill_disk=" not in setting)
        print(f"FAULT {way.name} {settings}\n    {one.sql}\n    {text[:700]}", flush=True)

    def finish(self, seconds: float) -> int:
        faults, short = sum(self.faults.values()), sum(map(len, self.memory.values()))
        for cause, cases in sorted(self.memory.items(), key=lambda one: -len(one[1])):
            one, way, error = min(cases, key=lambda case: len(case[0].sql))
            ways = ", ".join(f"{count} at {name}" for name, count in Counter(way.name for _, way, _ in cases).items())
            print(f"{len(cases):5} without enough memory: {cause} ({ways}), such as {way.name} {way.forced[0]} {one.sql}\n          {error[:300]}")
        for shape, (runs, spilled, lacking) in sorted(self.by_shape.items()):
            print(f"{runs:5} runs of {shape}: {spilled} spilled, {lacking} without enough memory")
        for said, count in self.errors.most_common():
            print(f"{count:5} errors with any memory: {said}")
        share = self.spilled / max(1, self.runs)
        print(
            f"queries: {self.count} statements, {self.runs} runs with a limit, {self.spilled} ({share:.0%}) spilled, {short} without enough memory, "
            f"{sum(self.errors.values())} errors with any memory, faults: {faults}, {seconds:.0f} s, seed {self.args.seed}"
        )
        for group, count in self.faults.most_common():
            print(f"{count:5} {group}")
        if self.faults:
            print(f"again: conformance/spill/queries.py --binary … --seed {self.args.seed} --rows {self.args.rows} --memory … --set … --sql 'STATEMENT'")
        if idle := self.count >= 100 and share < LEAST_SHARE:
            print(f"queries: less than {LEAST_SHARE:.0%} spilled, so that little was tried: give it less --memory or more --rows")
        return 1 if self.faults or idle else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, help="the program pushdowndb")
    parser.add_argument("--statements", type=int, default=300, metavar="N")
    parser.add_argument("--rows", type=int, default=20000, help="of the largest table")
    parser.add_argument("--memory", default=MEMORY, metavar="SIZE,SIZE", help=f"one is drawn for each batch [default: {MEMORY}]")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("PUSHDOWNDB_SEED") or random.randrange(1 << 32)))
    parser.add_argument("--only", metavar="WORD", help="only statements that contain this, or are of this shape")
    parser.add_argument("--sql", metavar="SQL", action="append", help="this statement instead of any other; may be repeated")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", help="this setting, too, whatever was drawn; may be repeated")
    args = parser.parse_args()
    print(f"queries: seed {args.seed} (PUSHDOWNDB_SEED={args.seed})", flush=True)
    if args.sql:
        chosen = [Statement(sql) for sql in args.sql]
    else:
        generator = Generator(args.seed)
        chosen = [generator.next() for _ in range(args.statements)]
    if args.only:
        chosen = [one for one in chosen if args.only.lower() in f"{one.shape} {one.sql.lower()}"]
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="queries-") as folder, Node(args.binary, Path(folder)) as node:
        run = Run(args, Path(folder), node)
        for number, first in enumerate(range(0, len(chosen), BATCH)):
            run.batch(number, chosen[first : first + BATCH])
            short = sum(map(len, run.memory.values()))
            print(f"queries: {run.count} statements, {run.spilled} of {run.runs} runs spilled, {short} without enough memory, {sum(run.faults.values())} faults, {time.monotonic() - start:.0f} s", flush=True)
        return run.finish(time.monotonic() - start)


if __name__ == "__main__":
    sys.exit(main())
