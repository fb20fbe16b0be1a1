#!/usr/bin/env python3
"""Checks the documents: links, the types in the glossary, and the width of prose (100 columns).

    scripts/check_docs.py

Prints each fault as `file:line: what`, and exits with 1 if there is one. Tables, code and links may
be wider.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 100
# Written by programs, or kept as they were measured.
GENERATED = re.compile(r"docs/evaluation\.md|benches/record/.*\d{4}.*")


FOLDERS = """
. docs docs/decisions conformance conformance/answers conformance/attacks conformance/files conformance/spill
benches/record benches/record/decisions
"""


def documents():
    for folder in FOLDERS.split():
        yield from sorted((ROOT / folder).glob("*.md"))


def anchors(path):
    """The anchors of a page, as GitHub makes them of its headings."""
    found = set()
    for line in path.read_text().splitlines():
        if heading := re.match(r"#+ (.*)", line):
            text = re.sub(r"[^\w\- ]", "", heading[1].lower().replace("`", ""))
            found.add(text.strip().replace(" ", "-"))
    return found


def lines_of(path):
    """The numbered lines of a page, each with whether it is in a block of code."""
    code = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = line.lstrip().startswith("```")
        yield number, line, code or fence
        code ^= fence


def links(path):
    for number, line, code in lines_of(path):
        if code:
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            page = (path.parent / file).resolve() if file else path
            if not page.exists():
                yield number, f"{target} does not exist"
            elif anchor and page.suffix == ".md" and anchor not in anchors(page):
                yield number, f"{target} has no such heading"


def widths(path):
    for number, line, code in lines_of(path):
        if not code and len(line) > WIDTH and not line.lstrip().startswith(("|", "![", "[")):
            yield number, f"{len(line)} columns"


def mentions():
    """Documents that the tree names by their path, in code and comments, and that do not exist."""
    for path in sorted(ROOT.rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix not in {".rs", ".toml", ".py", ".md", ".sh", ".yml"} or re.match(r"target/|\.git/", name):
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            for target in re.findall(r"\bdocs/[\w./-]+\.md\b", line):
                if not (ROOT / target).exists():
                    yield f"{name}:{number}", f"{target} does not exist"
            for target in re.findall(r"\bdocs/decisions/(\d{4})\b(?!-)", line):
                if not list((ROOT / "docs/decisions").glob(f"{target}-*.md")):
                    yield f"{name}:{number}", f"there is no decision {target}"


def glossary():
    page = ROOT / "docs/glossary.md"
    for number, line, _ in lines_of(page):
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if len(cells) != 4 or cells[0] in {"term", "---"}:
            continue
        crate = ROOT / "crates" / cells[3].strip("`") / "src"
        source = "\n".join(file.read_text() for file in crate.rglob("*.rs"))
        for name in re.findall(r"`(\w+)`", cells[2]):
            if not re.search(rf"\b(struct|enum|trait|fn|type) {name}\b", source):
                yield number, f"{crate.parent.relative_to(ROOT)} has no {name}"


def main():
    faults = []
    for path in documents():
        name = path.relative_to(ROOT).as_posix()
        found = list(links(path))
        if not GENERATED.fullmatch(name):
            found += widths(path)
        faults += [f"{name}:{number}: {what}" for number, what in sorted(found)]
    faults += [f"docs/glossary.md:{number}: {what}" for number, what in glossary()]
    faults += [f"{where}: {what}" for where, what in mentions()]
    print("\n".join(faults) if faults else "the documents are in order")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
