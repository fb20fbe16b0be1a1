"""What a terminal or a notebook shows: tables, pages, progress."""

from __future__ import annotations

import html
import shutil
import sys
import time
import unicodedata
from collections.abc import Sequence

# A statement that is done sooner shows no progress.
PATIENCE_S = 1.0
# Rows of a relation that are shown when it is looked at.
SHOWN_ROWS = 20
# No column is narrower than this, and none wider unless there is room.
MIN_WIDTH = 12

Columns = Sequence[tuple[str, str]]
Cells = Sequence[Sequence[str]]


def width(text: str) -> int:
    """The columns of a terminal that a text takes."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def printable(text: str) -> str:
    """The text with characters escaped that a terminal would act upon."""
    return "".join(c if c.isprintable() or c == " " else repr(c)[1:-1] for c in text)


def cut(text: str, limit: int) -> str:
    """The beginning of a text that takes at most ``limit`` columns."""
    if width(text) <= limit:
        return text
    kept = ""
    for c in text:
        if width(kept + c) > limit - 1:
            break
        kept += c
    return kept + "…"


def is_number(sql_type: str) -> bool:
    """True if values of the type are aligned to the right."""
    return sql_type.split(" ")[0].split("(")[0] in {
        "TINYINT", "SMALLINT", "INT", "BIGINT", "REAL", "DOUBLE", "DECIMAL",
    }  # fmt: skip


def box(columns: Columns, rows: Cells, more: bool, limit: int | None = None) -> str:
    """A table with a frame: names, types and rows, no wider than the terminal."""
    limit = limit or shutil.get_terminal_size((120, 24)).columns
    lines = [[printable(name) for name, _ in columns], [kind for _, kind in columns]]
    lines += [[printable(cell) for cell in row] for row in rows]
    widths = [max(width(line[place]) for line in lines) for place in range(len(columns))]
    while sum(widths) + 3 * len(widths) + 1 > limit and max(widths) > MIN_WIDTH:
        widest = widths.index(max(widths))
        widths[widest] -= 1
    right = [is_number(kind) for _, kind in columns]

    def line(cells: Sequence[str]) -> str:
        shown = [cut(cell, size) for cell, size in zip(cells, widths)]
        padded = [
            " " * (size - width(cell)) + cell if to_right else cell + " " * (size - width(cell))
            for cell, size, to_right in zip(shown, widths, right)
        ]
        return "│ " + " │ ".join(padded) + " │"

    def rule(left: str, cross: str, end: str) -> str:
        return left + cross.join("─" * (size + 2) for size in widths) + end

    drawn = [rule("┌", "┬", "┐"), line(lines[0]), line(lines[1]), rule("├", "┼", "┤")]
    drawn += [line(cells) for cells in lines[2:]]
    if more:
        drawn.append(line(["…" for _ in columns]))
    drawn.append(rule("└", "┴", "┘"))
    return "\n".join(drawn)


def html_table(columns: Columns, rows: Cells, more: bool) -> str:
    """The same as HTML."""
    heads = "".join(f"<th>{html.escape(name)}<br><small>{html.escape(kind)}</small></th>" for name, kind in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    note = f'<tr><td colspan="{len(columns)}">…</td></tr>' if more else ""
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}{note}</tbody></table>"


def frame(page: str) -> str:
    """A page of its own within a page: its style and its policy do not touch those around it."""
    return f'<iframe sandbox srcdoc="{html.escape(page)}" style="width:100%;height:40em;border:0"></iframe>'


class Progress:
    """Shows how far a statement is, on a terminal or in a notebook, once it takes long."""

    def __init__(self, wanted: bool | None) -> None:
        self._started = time.monotonic()
        self._in_notebook = _in_notebook()
        self._wanted = (self._in_notebook or sys.stderr.isatty()) if wanted is None else wanted
        self._handle: object | None = None
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        """Shows that ``done`` of ``total`` bytes are scanned."""
        if not self._wanted or time.monotonic() - self._started < PATIENCE_S:
            return
        share = min(done / total, 1.0) if total else 0.0
        text = f"{share:4.0%} of {total / 1e6:,.1f} MB, {time.monotonic() - self._started:.0f} s"
        self._shown = True
        if self._in_notebook:
            self._update(text)
        else:
            filled = round(share * 30)
            sys.stderr.write(f"\r\x1b[K{'━' * filled}{'─' * (30 - filled)} {text}")
            sys.stderr.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._shown:
            return
        if self._in_notebook:
            self._update("")
        else:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _update(self, text: str) -> None:
        from IPython.display import display

        shown = _Text(text)
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)  # type: ignore[attr-defined]


class _Text:
    """Text that a notebook shows as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
