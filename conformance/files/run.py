#!/usr/bin/env python3
"""Generated files read by us and by pyarrow, pandas and DuckDB; see README.md beside this file."""

import argparse
import os
import random
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from conformance.harness.report import known_gaps  # noqa: E402

HERE = Path(__file__).resolve().parent
# Tables as small as these would be read plainly.
LEVELS = {
    "none": ["pushdown.level=none"],
    "select": ["pushdown.level=select", "pushdown.filter=storage"],
    "fragment": ["pushdown.level=fragment", "pushdown.filter=storage"],
}
THREADS = 4
SHOWN = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, help="the program pushdowndb")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("PUSHDOWNDB_SEED") or random.randrange(1 << 32)))
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="this many seeds, from that one on")
    parser.add_argument("--cases", type=int, default=12, metavar="N", help="how many files of each format are drawn for a seed, beside those made for a purpose")
    parser.add_argument("--only", metavar="TEXT", help="only cases whose name contains this")
    parser.add_argument("--keep", metavar="FOLDER", help="write the files there and leave them")
    parser.add_argument("--no-gaps", action="store_true", help="ignore the list of known gaps")
    parser.add_argument("-v", "--verbose", action="store_true", help="known faults, and where the references differ, as well")
    args = parser.parse_args()
    print(f"files: seed {args.seed}, {args.seeds} of them (PUSHDOWNDB_SEED={args.seed})", flush=True)
    if missing := [name for name in ("pyarrow", "pandas", "duckdb") if not there(name)]:
        print(f"SKIPPED files: the Python package {missing[0]} is missing", flush=True)
        return 0
    warnings.simplefilter("ignore")  # What pandas says of odd files is known.
    verdict = Verdict(args)
    for seed in range(args.seed, args.seed + args.seeds):
        with tempfile.TemporaryDirectory(prefix="files-") as folder:
            one_seed(args, seed, Path(args.keep or folder), verdict)
    return verdict.finish()


def there(package: str) -> bool:
    try:
        __import__(package)
    except ImportError:
        return False
    return True


def one_seed(args, seed: int, folder: Path, verdict) -> None:
    from conformance.attacks.node import ROOT, Node
    from conformance.files import delimited, objects, parquet, readers
    from conformance.files.ours import Ours

    made = folder / "made"
    made.mkdir(parents=True, exist_ok=True)
    cases = [*delimited.cases(seed, args.cases), *objects.cases(seed, args.cases), *parquet.cases(seed, args.cases, made, args.binary)]
    cases = [case for case in cases if not args.only or args.only in case.name]
    for case in cases:
        (folder / case.name).mkdir(exist_ok=True)
        for name, content in case.files.items():
            (folder / case.name / name).write_bytes(content)
    (folder / "node").mkdir(exist_ok=True)
    with Node(args.binary, folder / "node") as node, ThreadPoolExecutor(THREADS) as pool:
        upload(node, ROOT, cases)
        environment = {
            "AWS_ACCESS_KEY_ID": ROOT.id, "AWS_SECRET_ACCESS_KEY": ROOT.secret, "AWS_ENDPOINT_URL": node.endpoint, "AWS_REGION": "us-east-1",
        }
        local = Ours(args.binary, "local", str(folder))
        ways = [local, *(Ours(args.binary, level, "s3://files", settings, environment) for level, settings in LEVELS.items())]
        reads = list(pool.map(local.read, cases))
        asked = []
        for case, mine in zip(cases, reads):
            theirs = {name: readers.ask(reader, folder / case.name) for name, reader in case.readers.items()}
            verdict.rows(case, theirs, mine, local)
            asked.append((case, questions(seed, case, theirs, mine)))
        statements = [(case, [sql for sql, _ in each]) for case, each in asked]
        answers = list(pool.map(lambda way: way.answers(statements), ways))
    for number, (case, each) in enumerate(asked):
        for place, (sql, expected) in enumerate(each):
            verdict.answers(case, sql, expected, {way.name: answer[number][place] for way, answer in zip(ways, answers)})


def upload(node, key, cases) -> None:
    from conformance.answers.upload import put

    put(node.endpoint, key, "files", None)
    for case in cases:
        for name, content in case.files.items():
            put(node.endpoint, key, f"files/{case.name}/{name}", content)


def questions(seed: int, case, theirs: dict, mine) -> list[tuple[str, list | None]]:
    """Statements about the table `t` of a case, each with the numbers of the rows that must come, where that is known."""
    from conformance.files import filters

    # Which of the ways reads other rows is seen by their JSON.
    found = [("SELECT * FROM t", None), ("SELECT count(*) AS n FROM t", None)]
    if not case.filters:
        return found
    draw = random.Random(f"filters {seed} {case.name}")
    for name in [name for name in mine.names or next(iter(theirs.values())).names if name != "id"]:
        values = agreed(case, name, theirs)
        told = next((one for one in theirs.values() if name in one.columns), None)
        if values is None or told is None:
            continue
        ids = agreed(case, "id", theirs)
        for condition, passing in filters.draw(draw, quoted(name), told.types[name], values):
            found.append((f"SELECT id FROM t WHERE {condition}", sorted(number for number, passes in zip(ids, passing) if passes)))
    return found


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def agreed(case, name: str, theirs: dict) -> list | None:
    """The values of a column on which at least two references agree, and more than differ."""
    from conformance.files.values import same

    votes = []
    for reader, told in theirs.items():
        if told.error or name not in told.columns:
            continue
        values = told.columns[name]
        loose = reader in case.loose
        for vote in votes:
            one = vote[0]
            if len(one) == len(values) and all(same(a, b, loose or vote[2]) for a, b in zip(one, values)):
                vote[1] += 1
                # Who has more to tell speaks for them.
                if vote[2] and not loose:
                    vote[0], vote[2] = values, False
                break
        else:
            votes.append([values, 1, loose])
    votes.sort(key=lambda vote: -vote[1])
    if not votes or votes[0][1] < 2 or len(votes) > 1 and votes[1][1] == votes[0][1]:
        return None
    return votes[0][0]


class Verdict:
    """The faults found so far, and how much was compared."""

    def __init__(self, args):
        self.args, self.start = args, time.monotonic()
        self.gaps = {} if args.no_gaps else known_gaps(HERE / "known_gaps.txt")
        self.unseen = set(self.gaps)
        self.files, self.columns, self.compared, self.filters, self.undecided = Counter(), 0, 0, 0, 0
        self.faults, self.known = [], []

    def rows(self, case, theirs: dict, mine, local) -> None:
        """Holds the rows of a case against those of the references, column by column."""
        from conformance.files.values import same, shown

        self.files[case.kind] += len(case.files)
        names = next((told.names for told in theirs.values() if not told.error), [])
        for place, name in enumerate(names):
            self.columns += 1
            told = {reader: told for reader, told in theirs.items() if not told.error}
            if case.positional:
                told = {reader: renamed(one, names) for reader, one in told.items()}
            values = agreed(case, name, told)
            if values is None:
                self.undecided += 1
                if self.args.verbose:
                    print(f"references differ: {case.name} {name}: {self.said(theirs, name)}", flush=True)
                continue
            self.compared += 1
            column = mine.names[place] if case.positional and place < len(mine.names) else name
            own = mine if not mine.error else local.read(case, ", ".join(dict.fromkeys([*(["id"] if case.filters else []), quoted(name)])))
            if own.error:
                self.note("error", case, name, own.error, theirs)
                continue
            got = own.columns.get(column)
            if got is None:
                self.note("missing", case, name, f"columns are {own.names}", theirs)
                continue
            # Whether a text is empty or NULL takes two to say it who know the difference.
            strict = [one for reader, one in told.items() if reader not in case.loose and name in one.columns]
            exact = [one for one in strict if len(one.columns[name]) == len(values) and all(map(same, one.columns[name], values))]
            loose = bool(case.loose) and len(exact) < 2
            if len(got) != len(values):
                self.note("count", case, name, f"{len(got)} rows instead of {len(values)}", theirs)
            elif odd := [(a, b) for a, b in zip(values, got) if not same(a, b, loose)]:
                examples = ", ".join(f"{shown(a)} is {shown(b)}" for a, b in odd[:SHOWN])
                self.note("differs", case, name, f"{own.types[column]}, {len(odd)} of {len(got)} rows: {examples}", theirs)
        if mine.error.startswith("CRASH"):
            self.note("crash", case, "", mine.error, theirs)
        if not names and self.args.verbose:
            print(f"no reference reads {case.name}: {self.said(theirs, '')}; ours: {mine.error or mine.rows}", flush=True)

    def answers(self, case, sql: str, expected, answers: dict) -> None:
        """Holds the answers of all ways to one statement against what must come, and against each other."""
        self.filters += len(answers)
        for way, answer in answers.items():
            if isinstance(answer, str):
                if expected is not None or not isinstance(answers["local"], str):
                    self.note("crash" if answer.startswith("CRASH") else "filter" if expected is not None else "ways", case, sql, f"{way} says {answer}", {})
                continue
            rows = sorted(map(repr, answer))
            if expected is not None:
                got = sorted(int(row[0][1]) for row in answer)
                if got != expected:
                    lost, more = [n for n in expected if n not in got], [n for n in got if n not in expected]
                    self.note("filter", case, sql, f"{way}: rows lost {lost[:9]}, too many {more[:9]}", {})
            elif isinstance(answers["local"], str) or rows != sorted(map(repr, answers["local"])):
                local = answers["local"] if isinstance(answers["local"], str) else sorted(map(repr, answers["local"]))
                differ = next(((a, b) for a, b in zip(local, rows) if a != b), ("", "")) if not isinstance(local, str) else (local, "rows")
                self.note("ways", case, sql, f"local is {str(differ[0])[:300]} and {way} {str(differ[1])[:300]}", {})

    def said(self, theirs: dict, name: str) -> str:
        from conformance.files.values import shown

        return "; ".join(f"{reader}: {told.error or (str(told.types.get(name)) + ' ' + shown(told.columns.get(name, told.names)[:6]))}" for reader, told in theirs.items())

    def note(self, kind: str, case, where: str, what: str, theirs: dict) -> None:
        text = f"{kind} {case.name} [{where}] {what}"
        found = next((name for name in self.gaps if matches(name, kind, f"{text} || {case.about}")), None)
        self.unseen.discard(found)
        (self.known if found else self.faults).append(kind)
        if not found or self.args.verbose:
            print(f"{'KNOWN' if found else 'FAULT'} {text}\n    written by {case.about}; {case.columns} {case.options}", flush=True)
            if theirs and kind != "missing":
                print(f"    {self.said(theirs, where)}", flush=True)

    def finish(self) -> int:
        files = ", ".join(f"{count} {kind}" for kind, count in sorted(self.files.items()))
        print(f"files: {files}; {self.columns} columns, of which {self.compared} compared and {self.undecided} left because references differ; {self.filters} answers")
        print(f"files: {len(self.faults)} faults {dict(Counter(self.faults))}, {len(self.known)} known ones, {time.monotonic() - self.start:.0f} s")
        if self.unseen and not self.args.only and self.args.verbose:
            print("files: known gaps that no file ran into:", *sorted(self.unseen), sep="\n    ")
        return 1 if self.faults else 0


def renamed(told, names: list):
    """A reader's columns under the names of another one, by their places."""
    if told.names == names or len(told.names) != len(names):
        return told
    other = type(told)()
    other.names, other.rows = names, told.rows
    other.columns = dict(zip(names, told.columns.values()))
    other.types = dict(zip(names, told.types.values()))
    return other


def matches(name: str, kind: str, text: str) -> bool:
    """Whether an entry of the list of gaps, `kind/pattern`, is about this."""
    listed, _, pattern = name.partition("/")
    return kind in listed.split("|") and bool(re.search(pattern, text, re.DOTALL))


if __name__ == "__main__":
    sys.exit(main())
