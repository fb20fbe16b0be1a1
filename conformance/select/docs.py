"""The examples of docs/s3-select.md as cases.

A fence `csv`, `json` (lines) or `json document` is the input of what follows. A fence `sql` is a statement and the
`text` fence behind it what comes back, or `error CODE`. A fence `sql values` has a line for each expression, with its
value behind `--`. The words `as json`, `no header` and `extensions` behind `sql` or `csv` say how.
"""

import json
import re
from pathlib import Path

from conformance.select.case import CSV_OUT, JSON_OUT, Case, Err, Input, csv, document, lines, values

PAGE = Path(__file__).resolve().parents[2] / "docs" / "s3-select.md"


def cases() -> list[Case]:
    text = PAGE.read_text(encoding="utf-8")
    found, source, statement = [], None, None
    for fence in re.finditer(r"^```([^\n]*)\n(.*?)^```$", text, re.M | re.S):
        info, body = fence[1].strip(), fence[2]
        line = text.count("\n", 0, fence.start()) + 1
        if info.startswith("csv"):
            source = csv(body, "NONE" if "no header" in info else "USE")
        elif info == "json document":
            source = document(body)
        elif info == "json":
            source = lines(body)
        elif info == "sql values":
            found += [value(line + 1 + n, entry) for n, entry in enumerate(body.splitlines()) if entry.strip()]
        elif info.startswith("sql"):
            statement = (line, info, " ".join(body.split()))
        elif info == "text" and statement:
            found.append(example(*statement, source, body))
            statement = None
    assert statement is None, f"{PAGE}:{statement[0]}: a statement without its answer"
    return found


def example(line, info, sql, source: Input, answer: str) -> Case:
    output = JSON_OUT if "JSON" in source.serialization or "as json" in info else CSV_OUT
    error = re.fullmatch(r"error (\w+)\n", answer)
    expected = Err(error[1]) if error else answer.splitlines()
    return Case(f"docs/line {line}: {sql}", sql, expected, source, output, extensions="extensions" in info)


def value(line, entry) -> Case:
    expression, _, shown = entry.rpartition(" -- ")
    assert expression, f"{PAGE}:{line}: no value behind --"
    shown = shown.strip()
    if error := re.fullmatch(r"error (\w+)", shown):
        wanted = Err(error[1])
    elif shown == "missing":
        wanted = ...
    elif re.fullmatch(r"'.*'", shown):
        wanted = shown[1:-1].replace("''", "'")
    else:
        try:
            wanted = json.loads(shown)
        except ValueError:
            wanted = shown
    (case,) = values(f"docs/line {line}", [(expression.strip(), wanted)])
    return case
