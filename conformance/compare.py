#!/usr/bin/env python3
"""Writes the table of docs/s3-select.md from two results of the S3 Select suite.

    conformance/run.py --suite select --endpoint OURS … --json ours.json
    conformance/run.py --suite select --endpoint MINIO … --no-gaps --json minio.json
    conformance/compare.py ours.json minio.json
"""

import json
import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "s3-select.md"
START, END = "<!-- compared -->", "<!-- /compared -->"

# Groups that another server cannot know.
OURS_ONLY = ("extensions", "docs")


def group_of(name: str) -> str:
    """The first part of a name, and the second where the first is a large theme."""
    first, _, rest = name.partition("/")
    return f"{first}: {rest.split('/')[0]}" if first in ("functions", "operators", "csv", "json", "parquet", "statement") else first


def kind_of(row: dict) -> str:
    """How a case failed: other rows than expected, no rows but an error, an error with another code."""
    if row["outcome"] == "passed":
        return "passed"
    if re.search(r"got b['\"]", row["message"]) or not re.match(r"['\"]", row["message"]):
        return "wrong"
    return "code" if ": expected " in row["message"] else "refused"


def main():
    ours, other = ({row["name"]: kind_of(row) for row in json.loads(Path(path).read_text())} for path in sys.argv[1:3])
    groups = {}
    for name in ours:
        if not name.startswith(OURS_ONLY) and name in other:
            groups.setdefault(group_of(name), []).append(name)
    rows = ["| group | cases | this node | MinIO | wrong answer | refused | another error |", "| --- | --- | --- | --- | --- | --- | --- |"]
    groups = dict(sorted(groups.items()))
    groups["all"] = [name for names in groups.values() for name in names]
    for group, names in groups.items():
        counts = [len(names), count(ours, names, "passed"), *(count(other, names, kind) for kind in ("passed", "wrong", "refused", "code"))]
        rows.append(f"| {group} | " + " | ".join(map(str, counts)) + " |")
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(START)[0], text.split(END)[1]
    PAGE.write_text(f"{before}{START}\n\n" + "\n".join(rows) + f"\n\n{END}{after}", encoding="utf-8")
    print(rows[-1])


def count(results, names, kind) -> int:
    return sum(results[name] == kind for name in names)


if __name__ == "__main__":
    main()
