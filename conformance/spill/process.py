"""Queries that spill, each in a process of its own."""

import os
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

CANCELLED = 130  # The exit code after SIGINT or SIGTERM.


@dataclass(frozen=True)
class Query:
    """SQL over the tables of TPC-H; `ordered` if it asks for one order of its rows."""

    name: str
    sql: str
    ordered: bool = False


# Each spills with 8 MB at scale 0.05. Their rows are exact: decimals, integers, texts and dates.
QUERIES = [
    Query("sort", "SELECT l_orderkey, l_linenumber, l_comment FROM lineitem ORDER BY l_comment, l_orderkey, l_linenumber", True),
    Query("wide sort", "SELECT * FROM orders ORDER BY o_comment DESC, o_orderkey", True),
    Query("groups", "SELECT l_comment, count(*) AS n, sum(l_quantity) AS q, min(l_shipdate) AS d FROM lineitem GROUP BY l_comment HAVING count(*) > 2"),
    Query("distinct", "SELECT count(*) AS n, max(l_comment) AS m FROM (SELECT DISTINCT l_comment, l_shipdate FROM lineitem) AS t"),
    Query(
        "join",
        "SELECT a.l_suppkey, count(*) AS n, sum(a.l_quantity) AS q, max(b.l_comment) AS m FROM lineitem AS a JOIN lineitem AS b "
        "ON a.l_orderkey = b.l_orderkey AND a.l_comment < b.l_comment GROUP BY a.l_suppkey",
    ),
    Query(
        "outer join",
        "SELECT count(*) AS n, count(b.l_comment) AS c, max(b.l_comment) AS m, sum(a.l_quantity) AS q FROM lineitem AS a "
        "FULL JOIN lineitem AS b ON a.l_orderkey = b.l_partkey",
    ),
    Query(
        "join and sort",
        "SELECT o_orderkey, l_linenumber, o_comment FROM orders JOIN lineitem ON o_orderkey = l_orderkey WHERE l_quantity < 20 "
        "ORDER BY l_comment, o_orderkey, l_linenumber",
        True,
    ),
    Query(
        "window",
        "SELECT l_suppkey, l_comment, n FROM (SELECT l_suppkey, l_comment, row_number() OVER (PARTITION BY l_suppkey "
        "ORDER BY l_comment, l_orderkey, l_linenumber) AS n FROM lineitem) AS t WHERE n % 10 = 3",
    ),
]


@dataclass
class Outcome:
    """How a process ended; `code` is negative for a signal, as of `subprocess`."""

    code: int
    lines: list
    error: str
    seconds: float

    def said(self) -> str:
        return f"exit code {self.code}: {' '.join(self.error.split())[:300] or 'no message'}"


class Process:
    """A running `pushdowndb` with one statement."""

    def __init__(self, command: list, output: Path, environment: dict, name: str):
        self.name, self.output = name, output
        self.start = time.monotonic()
        with output.open("wb") as out, output.with_suffix(".err").open("wb") as err:
            self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment)

    @property
    def pid(self) -> int:
        return self.popen.pid

    def runs(self) -> bool:
        return self.popen.poll() is None

    def send(self, number: int) -> bool:
        """Sends a signal; false if the process has ended before."""
        if not self.runs():
            return False
        self.popen.send_signal(number)
        return True

    def nodes(self, root: Path) -> set[str]:
        """The names of its folders below `root`: those whose locks it holds open."""
        found = set()
        try:
            for entry in os.scandir(f"/proc/{self.pid}/fd"):
                path = Path(os.readlink(entry.path))
                if path.name == "lock" and path.parent.parent == root:
                    found.add(path.parent.name.lstrip("."))
        except OSError:
            pass  # It ends just now; what it leaves is looked at once it has ended.
        return found

    def wait(self, seconds=120) -> Outcome:
        """What came of it; one that does not end in time is killed, which `code` tells."""
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return Outcome(-signal.SIGALRM, [], f"it does not end within {seconds} s", seconds)
        taken = time.monotonic() - self.start
        text = self.output.read_text(encoding="utf-8", errors="replace")
        error = self.output.with_suffix(".err").read_text(encoding="utf-8", errors="replace")
        return Outcome(self.popen.returncode, text.splitlines(), error, taken)

    def kill(self) -> None:
        if self.runs():
            self.popen.kill()
        self.popen.wait()


def differs(query: Query, got: list, expected: list) -> str:
    """What is wrong with the lines of a query's rows; empty if nothing is."""
    if got == expected:
        return ""
    more, less = Counter(got), Counter(expected)
    only, missing = list((more - less).elements()), list((less - more).elements())
    if not only and not missing:
        return "the rows come in another order" if query.ordered else ""
    return f"{len(got)} lines, {len(expected)} expected; only here {only[:2]}, missing {missing[:2]}"


def is_beginning(query: Query, text_lines: list, expected: list) -> bool:
    """Whether lines may have been printed before an error: all but the last, which may be cut, are lines of the rows."""
    whole = text_lines[:-1]
    if query.ordered:
        return whole == expected[: len(whole)]
    return not Counter(whole) - Counter(expected)
