#!/usr/bin/env python3
"""Random statements on DuckDB, PostgreSQL and four ways of ours; see README.md beside this file."""

import argparse
import os
import random
import re
import sys
import tempfile
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from conformance.answers import data, engines  # noqa: E402
from conformance.answers.generate import Generator, Statement  # noqa: E402
from conformance.answers.judge import judge, unusual  # noqa: E402
from conformance.attacks.node import ROOT, Node  # noqa: E402
from conformance.harness.report import known_gaps  # noqa: E402

HERE = Path(__file__).resolve().parent
LEVELS = ["none", "select", "fragment"]
BATCH = 100
# Tables as small as these would be read plainly: every other batch says what storage has to do at levels that push.
FORCED = {
    "filter": ["storage", "storage", "compute"],
    "aggregate": ["storage", "storage", "compute"],
    "group_by": ["storage", "hybrid", "filtered", "compute"],
    "join": ["bloom", "bloom", "filtered", "baseline"],
    "top_k": ["storage", "sampling", "compute"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, help="the program pushdowndb")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("PUSHDOWNDB_SEED") or random.randrange(1 << 32)))
    parser.add_argument("--statements", type=int, default=500, metavar="N", help="how many are drawn, beside those of fixed.sql")
    parser.add_argument("--only", metavar="WORD", help="only statements that contain this, whatever the case")
    parser.add_argument("--sql", metavar="SQL", action="append", help="this statement instead of any other; may be repeated")
    parser.add_argument("--set", metavar="KEY=VALUE", action="append", help="these settings at select and fragment instead of drawn ones")
    parser.add_argument("--no-gaps", action="store_true", help="ignore the list of known gaps")
    parser.add_argument("--table", metavar="FILE", help="write one fault of each group there, as Markdown")
    parser.add_argument("-v", "--verbose", action="store_true", help="all faults, known ones too, and what differs between the others")
    args = parser.parse_args()
    print(f"answers: seed {args.seed} (PUSHDOWNDB_SEED={args.seed})", flush=True)
    missing = lacks()
    if missing:
        print(f"SKIPPED answers: {missing}", flush=True)
        return 0
    with tempfile.TemporaryDirectory(prefix="answers-") as folder, World(args, Path(folder)) as world:
        return world.run()


def lacks() -> str:
    try:
        import duckdb  # noqa: F401
    except ImportError:
        return "the Python package duckdb is missing"
    return ""


class World:
    """The engines with the tables in them, and the faults found so far."""

    def __init__(self, args, folder: Path):
        self.args, self.folder = args, folder
        self.faults, self.known, self.count, self.differ = [], [], 0, []
        self.gaps = {} if args.no_gaps else known_gaps(HERE / "known_gaps.txt")
        self.unseen = set(self.gaps)
        self.node = self.postgres = None

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def start(self):
        self.duck = engines.Duck(self.args.seed)
        self.others = [self.duck]
        if not engines.tools_of_postgres():
            print("SKIPPED answers of PostgreSQL: initdb is not installed; ours are held against each other alone", flush=True)
        else:
            try:
                self.postgres = engines.Postgres(self.args.seed)
                self.others.append(self.postgres)
            except ImportError:
                print("SKIPPED answers of PostgreSQL: the Python package psycopg is missing; ours are held against each other alone", flush=True)
        data.write(self.duck.connection, self.folder)
        self.node = Node(self.args.binary, self.folder)
        self.node.start()
        self.upload()
        environment = {
            "AWS_ACCESS_KEY_ID": ROOT.id, "AWS_SECRET_ACCESS_KEY": ROOT.secret, "AWS_ENDPOINT_URL": self.node.endpoint, "AWS_REGION": "us-east-1",
        }
        self.ways = [engines.Ours(self.args.binary, "local", str(self.folder))]
        self.ways += [
            engines.Ours(self.args.binary, level, "s3://answers", [f"pushdown.level={level}"], environment) for level in LEVELS
        ]
        return self

    def __exit__(self, *_):
        if self.node and self.node.process:
            self.node.process.kill()
            self.node.process.wait()
        if self.postgres:
            self.postgres.close()

    def upload(self) -> None:
        """The objects onto the node."""
        from conformance.answers.upload import put

        put(self.node.endpoint, ROOT, "answers", None)
        for schema in ("csv", "parquet"):
            for path in sorted((self.folder / schema).rglob("*.*")):
                put(self.node.endpoint, ROOT, f"answers/{path.relative_to(self.folder)}", path.read_bytes())

    def statements(self):
        """Batches of them, each with the schema it is about."""
        if self.args.sql:
            chosen = [Statement(sql) for sql in self.args.sql]
        else:
            fixed = [line.strip() for line in (HERE / "fixed.sql").read_text(encoding="utf-8").splitlines()]
            chosen = [Statement(line.rstrip(";"), shape="fixed") for line in fixed if line and not line.startswith("--")]
            generator = Generator(self.args.seed)
            chosen += [generator.next() for _ in range(self.args.statements)]
        if self.args.only:
            chosen = [one for one in chosen if self.args.only.lower() in one.sql.lower()]
        for number, start in enumerate(range(0, len(chosen), BATCH)):
            for schema in ("csv", "parquet") if self.args.sql else [("parquet", "csv")[number % 2]]:
                yield schema, chosen[start : start + BATCH]

    def force(self, number: int) -> list[str]:
        """What select and fragment do in this batch: at every other two, what they choose themselves."""
        rng = random.Random(self.args.seed + number)
        drawn = [f"pushdown.{name}={rng.choice(values)}" for name, values in FORCED.items()] if number % 4 > 1 else []
        chosen = self.args.set or drawn
        for way in self.ways[2:]:
            way.forced = chosen
        return chosen

    def run(self) -> int:
        start = time.monotonic()
        for number, (schema, batch) in enumerate(self.statements()):
            forced = [f"--set {setting}" for setting in self.force(number)]
            self.batch(schema, batch)
            passed = f"{time.monotonic() - start:.0f} s"
            print(f"answers: {self.count} statements, {len(self.faults)} faults, {passed}", *forced, flush=True)
        return self.finish()

    def batch(self, schema: str, batch: list[Statement]) -> None:
        others = []
        for engine in self.others:
            engine.use(schema)
            others.append([engine.answer(one.sql) if one.everywhere or engine is self.duck else None for one in batch])
        texts = [one.sql for one in batch]
        ours = [way.answers(schema, texts) for way in self.ways]
        odd = []
        for number, statement in enumerate(batch):
            self.count += 1
            theirs = {engine.name: answers[number] for engine, answers in zip(self.others, others) if answers[number]}
            mine = {way.name: answers[number] for way, answers in zip(self.ways, ours)}
            found = judge(statement, schema, theirs, mine)
            self.note(found)
            if len(theirs) == 2:
                self.compare_others(statement, schema, theirs, mine)
            if not found and not mine["local"].error and unusual(list(theirs.values())):
                odd.append((statement, theirs))
        if odd:
            self.again_as_csv(schema, odd)

    def again_as_csv(self, schema: str, odd: list) -> None:
        """CSV tells NaN from NULL, which JSON does not."""
        ways = [self.ways[0], self.ways[-1]]
        ours = [way.answers(schema, [statement.sql for statement, _ in odd], "csv") for way in ways]
        for number, (statement, theirs) in enumerate(odd):
            self.note(judge(statement, schema, theirs, {way.name: answers[number] for way, answers in zip(ways, ours)}, "csv"))

    def compare_others(self, statement, schema, theirs, mine) -> None:
        from conformance.answers.judge import same

        one, other = theirs.values()
        if not same(one, other, statement):
            whom = [name for name, answer in theirs.items() if same(mine["local"], answer, statement, "json", mine=True)]
            self.differ.append((statement, schema, theirs, mine, whom))

    def note(self, found) -> None:
        for fault in found:
            name = next((name for name in self.gaps if matches(name, fault.kind, fault.searched())), None)
            reason = self.gaps.get(name)
            self.unseen.discard(name)
            (self.known if reason else self.faults).append(fault)
            if not reason or self.args.verbose:
                print(("KNOWN " if reason else "FAULT ") + fault.text(), flush=True)

    def finish(self) -> int:
        print(f"answers: {self.count} statements, {len(self.faults)} faults, {len(self.known)} known ones, seed {self.args.seed}")
        groups: dict = {}
        for fault in self.faults:
            groups.setdefault((fault.kind, fault.group), []).append(fault)
        for (kind, group), members in sorted(groups.items(), key=lambda one: -len(one[1])):
            print(f"{len(members):5} {kind}: {group}")
        if self.unseen and not self.args.sql and not self.args.only:
            print("answers: known gaps that no statement ran into:", *sorted(self.unseen), sep="\n    ")
        if self.args.table:
            from conformance.answers.table import write

            write(Path(self.args.table), groups, self.differ)
        if self.faults:
            print(f"again: conformance/answers/run.py --binary … --seed {self.args.seed} --sql 'STATEMENT'")
        return 1 if self.faults else 0


def matches(name: str, kind: str, text: str) -> bool:
    """Whether an entry of the list of gaps, `kind/pattern`, is about this: one of errors also where the others differ."""
    listed, _, pattern = name.partition("/")
    kinds = listed.split("|")
    is_error = "error" in kinds and kind in ("neither", "rule") and "local says" in text
    return (listed == "*" or kind in kinds or is_error) and bool(re.search(pattern, text, re.IGNORECASE | re.DOTALL))


if __name__ == "__main__":
    sys.exit(main())
