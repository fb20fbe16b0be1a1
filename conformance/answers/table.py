"""The faults of a run as a page of Markdown: one statement of each group, the shortest, and what everyone answered."""

from pathlib import Path

from conformance.answers.judge import Fault, functions


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def shortest(members):
    return min(members, key=lambda fault: len(fault.statement.sql))


def write(path: Path, groups: dict, differ: list) -> None:
    lines = []
    for kind in ("crash", "ways", "differs", "silent", "error", "rule", "neither"):
        chosen = {group: members for (of, group), members in groups.items() if of == kind}
        if not chosen:
            continue
        lines += [f"\n## {kind}\n", "| n | format | statement | DuckDB | PostgreSQL | local | none | select | fragment |", "|---|---|---|---|---|---|---|---|---|"]
        for members in sorted(chosen.values(), key=lambda one: -len(one)):
            fault = shortest(members)
            said = fault.answers()
            answers = [said.get(name, "") for name in ("DuckDB", "PostgreSQL", "local")]
            answers += ["same" if said.get(name) == said["local"] else said.get(name, "") for name in ("none", "select", "fragment")]
            lines.append(f"| {len(members)} | {fault.schema} | `{cell(fault.statement.sql)}` | " + " | ".join(map(cell, answers)) + " |")
    lines += ["\n## Where DuckDB and PostgreSQL differ, and whom we follow\n", "| n | whom | statement | DuckDB | PostgreSQL | ours |", "|---|---|---|---|---|---|"]
    seen: dict = {}
    for statement, schema, theirs, mine, whom in differ:
        seen.setdefault((functions(statement), tuple(whom)), []).append((statement, theirs, mine, whom))
    for members in sorted(seen.values(), key=lambda one: -len(one)):
        statement, theirs, mine, whom = min(members, key=lambda one: len(one[0].sql))
        said = Fault("", "", statement, "", theirs, mine).answers(2)
        answers = [said[name] for name in (*theirs, "local")]
        lines.append(f"| {len(members)} | {', '.join(whom) or 'nobody'} | `{cell(statement.sql)}` | " + " | ".join(map(cell, answers)) + " |")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
