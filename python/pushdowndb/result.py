"""The rows of a statement: while it runs (`Result`), and in memory (`Table`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import _display
from ._pushdowndb import RawRows, RawTable
from ._rows import Profile, Readable, Row, Stats, stats_of
from .errors import InterfaceError


class Result(Readable):
    """The rows of a statement that runs. Each row is read once; what reads all reads those left."""

    def __init__(self, rows: RawRows, progress: bool | None) -> None:
        self._rows = rows
        self._progress = progress

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self._rows.columns]

    @property
    def types(self) -> list[str]:
        """The SQL types of the columns."""
        return [kind for _, kind in self._rows.columns]

    @property
    def has_rows(self) -> bool:
        """True if the statement is of a kind that has rows, as SELECT and unlike SET."""
        return self._rows.has_rows

    @property
    def stats(self) -> Stats:
        """What the statement did and cost so far; final once all rows are read."""
        return stats_of(self._rows.stats())

    def profile(self) -> Profile:
        """The profile of the statement so far; final once all rows are read."""
        return profile_of(self._rows.profile())

    def fetchone(self) -> Row | None:
        """The next row; None at the end."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[Row]:
        """The next ``size`` rows, fewer at the end."""
        with _display.Progress(self._progress) as progress:
            return self._rows.fetch(size, progress)

    def fetchall(self) -> list[Row]:
        """The rows that are left."""
        with _display.Progress(self._progress) as progress:
            return self._rows.fetch(None, progress)

    def __iter__(self) -> Iterator[Row]:
        while rows := self.fetchmany(1024):
            yield from rows

    def collect(self) -> Table:
        """The rows that are left, in memory."""
        return Table(self._in_memory())

    def cancel(self) -> None:
        """Stops the statement; there are no more rows."""
        self._rows.cancel()

    def _in_memory(self) -> RawTable:
        with _display.Progress(self._progress) as progress:
            return self._rows.collect(progress)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)


class Table(Readable):
    """Rows in memory. They may be read any number of times, and be a table of other queries."""

    def __init__(self, table: RawTable) -> None:
        self._table = table

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self._table.columns]

    @property
    def types(self) -> list[str]:
        """The SQL types of the columns."""
        return [kind for _, kind in self._table.columns]

    @property
    def stats(self) -> Stats:
        """What the statement did and cost."""
        return stats_of(self._table.stats())

    def profile(self) -> Profile:
        """The profile of the statement."""
        return profile_of(self._table.profile())

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Row]:
        for start in range(0, len(self), 1024):
            yield from self._table.fetch(start, 1024)

    def show(self, rows: int = _display.SHOWN_ROWS) -> None:
        """Prints the first ``rows`` rows."""
        print(self._box(rows))

    def _box(self, rows: int) -> str:
        if not self.columns:
            return "<no rows>"
        return _display.box(self._table.columns, self._table.cells(0, rows), len(self) > rows)

    def _html(self, rows: int) -> str:
        return _display.html_table(self._table.columns, self._table.cells(0, rows), len(self) > rows)

    def _in_memory(self) -> RawTable:
        return self._table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return self._box(_display.SHOWN_ROWS)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return bundle(self, _display.SHOWN_ROWS)


def bundle(table: Table, rows: int) -> dict[str, str]:
    """What a notebook shows of a table."""
    shown = {"text/plain": table._box(rows)}
    if table.columns:
        shown["text/html"] = table._html(rows)
    return shown


def profile_of(page: str | None) -> Profile:
    """The profile that the native half has as a page."""
    if page is None:
        raise InterfaceError("the statement has no plan, and so no profile")
    return Profile(page)
