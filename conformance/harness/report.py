"""Counts results, holds them against the list of known gaps, prints and stores them."""

import json
import sys
import time
import traceback
from pathlib import Path


class Skip(Exception):
    """A test that cannot run here, and why. Printed loudly, never counted as passed."""


def known_gaps(path: Path) -> dict[str, str]:
    """`name: reason` by line; `#` starts a comment."""
    gaps = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            line = line.strip()
            if line and not line.startswith("#"):
                name, separator, reason = line.partition(": ")
                if not separator or not reason.strip():
                    raise SystemExit(f"{path}: '{name}' needs a reason")
                gaps[name] = reason.strip()
    return gaps


class Report:
    """What came of each test."""

    def __init__(self, suite: str, gaps: dict[str, str], verbose=False):
        self.suite, self.gaps, self.verbose = suite, gaps, verbose
        self.results: list[dict] = []

    def run(self, name: str, test) -> None:
        """Runs one test and says so if it fails; `name` is `group/…/case`."""
        start = time.monotonic()
        try:
            test()
            self.add(name, "passed", "", time.monotonic() - start)
        except Skip as skip:
            self.add(name, "skipped", str(skip), time.monotonic() - start)
        except AssertionError as error:
            self.add(name, "failed", str(error) or where(error), time.monotonic() - start)
        except Exception as error:  # Whatever a client library throws is a failure of this test, not of the run.
            self.add(name, "failed", f"{type(error).__name__}: {error} {where(error)}", time.monotonic() - start)

    def add(self, name: str, outcome: str, message: str, seconds: float) -> None:
        gap = self.gaps.get(name)
        if gap and outcome == "failed":
            outcome, message = "gap", f"{gap} ({message})"
        elif gap and outcome == "passed":
            outcome, message = "failed", f"is listed as a known gap but passes; strike it off the list ({gap})"
        self.results.append({"name": name, "outcome": outcome, "message": message, "seconds": round(seconds, 4)})
        if outcome == "failed":
            print(f"FAILED {self.suite}: {name}: {one_line(message)}", flush=True)
        elif outcome == "skipped":
            print(f"SKIPPED {self.suite}: {name}: {one_line(message)}", flush=True)
        elif self.verbose:
            print(f"{outcome} {self.suite}: {name} {one_line(message)}", flush=True)

    def count(self, outcome: str) -> int:
        return sum(result["outcome"] == outcome for result in self.results)

    def finish(self, json_path=None, whole=True) -> bool:
        """Prints the last line; true if nothing failed."""
        names = {result["name"] for result in self.results}
        for name in sorted(set(self.gaps) - names) if whole else []:
            self.add(name, "failed", "is listed as a known gap, but there is no such test", 0)
        if json_path:
            Path(json_path).write_text(json.dumps(self.results, indent=1) + "\n", encoding="utf-8")
        more = "".join(f", {n} {kind}" for kind in ("skipped", "gap") if (n := self.count(kind)))
        print(f"{self.suite}: {self.count('passed')} passed, {self.count('failed')} failed{more.replace('gap', 'known gaps')}")
        sys.stdout.flush()
        return self.count("failed") == 0


def where(error) -> str:
    """The line of the test that failed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "conformance" in frame.filename]
    return f"[{Path(frames[-1].filename).name}:{frames[-1].lineno}: {frames[-1].line}]" if frames else ""


def one_line(text: str) -> str:
    text = " ".join(str(text).split())
    return text if len(text) < 420 else text[:420] + "…"
