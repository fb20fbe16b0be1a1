"""Lazy relations: queries that run when their rows are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _display
from ._pushdowndb import RawQuery, RawTable
from ._rows import Profile, Readable, Row, Stats
from .errors import InterfaceError
from .result import Result, Table, bundle

if TYPE_CHECKING:
    from .connection import Connection

Parameters = Sequence[Any] | Mapping[str, Any]

# The tables of derived queries, whose names no table of a session should have.
_THIS = "__pushdowndb_this"
_OTHER = "__pushdowndb_other"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Relation(Readable):
    """A query that runs when its rows are read, each time anew.

    Relations derive from each other, and SQL finds them by the name of their variable. What is asked
    of a relation is planned as one query, so that conditions reach storage however they were added.

    A statement that is no query, such as ``SHOW`` or ``CREATE TABLE``, was run when the relation was
    made, which then has its rows in memory.
    """

    def __init__(self, connection: Connection, source: RawQuery | Table) -> None:
        self._connection = connection
        self._source = source
        self._columns: list[tuple[str, str]] | None = None
        self._last: Result | Table | None = source if isinstance(source, Table) else None
        self._cursor: Result | None = None

    # What it is.

    @property
    def columns(self) -> list[str]:
        """The names of the columns. The query is planned for it, not run."""
        return [name for name, _ in self._described()]

    @property
    def types(self) -> list[str]:
        """The SQL types of the columns."""
        return [kind for _, kind in self._described()]

    @property
    def sql_query(self) -> str:
        """The text of the query."""
        return self._source.sql if isinstance(self._source, RawQuery) else ""

    def explain(self, analyze: bool = False) -> str:
        """The plan, and where each operator runs and why; with ``analyze`` it runs, with figures."""
        if isinstance(self._source, Table):
            raise InterfaceError("the statement was run already; EXPLAIN its text")
        how = "EXPLAIN ANALYZE" if analyze else "EXPLAIN"
        query = self._connection._raw.query(f"{how} SELECT * FROM {_THIS}")
        query.add_query(_THIS, self._source)
        plans = Relation(self._connection, query).fetchall()
        return "\n".join(f"{kind.replace('_', ' ')}\n{plan}" for kind, plan in plans)

    @property
    def stats(self) -> Stats:
        """What the last run did and cost."""
        if self._last is None:
            raise InterfaceError("the relation has not run yet: read its rows first")
        return self._last.stats

    def profile(self) -> Profile:
        """Runs the query, and returns where its time and bytes went: a picture in a notebook."""
        return self.collect().profile()

    # Its rows.

    def execute(self) -> Result:
        """Starts the query. Its rows are computed as they are read."""
        if isinstance(self._source, Table):
            raise InterfaceError("the statement was run already; its rows are in collect()")
        with _display.Progress(self._connection.progress) as progress:
            rows = self._source.start(progress)
        self._last = result = Result(rows, self._connection.progress)
        return result

    def collect(self) -> Table:
        """Runs the query, and returns its rows in memory."""
        if isinstance(self._source, Table):
            return self._source
        self._last = table = self.execute().collect()
        return table

    async def collect_async(self) -> Table:
        """Runs the query without blocking the event loop, and returns its rows in memory."""
        if isinstance(self._source, Table):
            return self._source
        from ._async import finished

        self._last = table = Table(await finished(self._source))
        return table

    def fetchone(self) -> Row | None:
        """The next row: the first call runs the query, the one after the last row returns None."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[Row]:
        """The next ``size`` rows, fewer at the end. After the end the query runs again."""
        if self._cursor is None:
            table = self._source if isinstance(self._source, Table) else None
            self._cursor = self._again(table) if table is not None else self.execute()
        rows = self._cursor.fetchmany(size)
        if len(rows) < size:
            self._cursor = None
        return rows

    def _again(self, table: Table) -> Result:
        return self._connection._over(f"SELECT * FROM {_THIS}", {_THIS: table}).execute()

    def __iter__(self) -> Iterator[Row]:
        return iter(self.collect())

    def show(self, rows: int = _display.SHOWN_ROWS) -> None:
        """Prints the first ``rows`` rows; no more are asked for."""
        print(self._preview(rows)._box(rows))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        if isinstance(self._source, Table):
            return self._source.__arrow_c_stream__(requested_schema)
        return self.execute().__arrow_c_stream__(requested_schema)

    def __datafusion_table_provider__(self, session: object | None = None) -> object:
        """The query as a table of the package ``datafusion``, of the same version as the engine's.

        Each scan of it is a query of ours, with the columns, conditions and limit of the scan."""
        if isinstance(self._source, Table):
            raise InterfaceError("the statement was run already; register its arrow() instead")
        return self._source.datafusion_table()

    # Other relations. Their SQL may name tables and variables as that of `sql` may.

    def filter(self, condition: str, params: Parameters | None = None) -> Relation:
        """The rows that meet a condition."""
        return self._derive(f"SELECT * FROM {_THIS} AS relation WHERE (\n{condition}\n)", params)

    def project(self, *expressions: str, params: Parameters | None = None) -> Relation:
        """These expressions of each row."""
        if not expressions:
            raise InterfaceError("project() takes at least one expression")
        chosen = ",\n".join(expressions)
        return self._derive(f"SELECT\n{chosen}\nFROM {_THIS} AS relation", params)

    select = project

    def aggregate(self, expressions: str, by: str = "", params: Parameters | None = None) -> Relation:
        """Aggregates over all rows, or over the groups of the columns ``by``, which come first."""
        if by:
            return self._derive(f"SELECT {by},\n{expressions}\nFROM {_THIS} AS relation GROUP BY {by}", params)
        return self._derive(f"SELECT\n{expressions}\nFROM {_THIS} AS relation", params)

    def order(self, by: str) -> Relation:
        """The rows in an order."""
        return self._derive(f"SELECT * FROM {_THIS} AS relation ORDER BY {by}\n")

    def limit(self, count: int, offset: int = 0) -> Relation:
        """At most ``count`` rows, after the first ``offset``."""
        return self._derive(f"SELECT * FROM {_THIS} AS relation LIMIT {int(count)} OFFSET {int(offset)}")

    def distinct(self) -> Relation:
        """The rows without duplicates."""
        return self._derive(f"SELECT DISTINCT * FROM {_THIS} AS relation")

    def union(self, other: Relation) -> Relation:
        """The rows of both, duplicates included."""
        return self._derive(f"SELECT * FROM {_THIS} UNION ALL SELECT * FROM {_OTHER}", other=other)

    def join(self, other: object, on: str | Sequence[str], how: str = "inner") -> Relation:
        """The rows joined with those of another table: a relation, or anything that exports Arrow.

        ``on`` is a list of columns that both have, or a condition, in which they are ``a`` and ``b``.
        ``how`` is inner, left, right, full (or outer), semi or anti. A column of the other table whose
        name this one has too gets ``_1`` behind it.
        """
        kinds = {
            "inner": "INNER", "left": "LEFT", "right": "RIGHT", "full": "FULL", "outer": "FULL",
            "semi": "LEFT SEMI", "anti": "LEFT ANTI",
        }  # fmt: skip
        if how not in kinds:
            raise InterfaceError(f"join(): how is one of {', '.join(kinds)}, not {how!r}")
        if isinstance(on, str):
            condition, shared = f"ON (\n{on}\n)", []
        else:
            condition, shared = "USING (" + ", ".join(map(_quoted, on)) + ")", list(on)
        columns = "*" if how in ("semi", "anti") else self._joined(other, shared)
        return self._derive(f"SELECT {columns} FROM {_THIS} AS a {kinds[how]} JOIN {_OTHER} AS b {condition}", other=other)

    def count(self) -> int:
        """The number of rows."""
        row = self._derive(f"SELECT count(*) FROM {_THIS}").fetchone()
        return int(row[0]) if row else 0

    # Inside.

    def _derive(self, sql: str, params: Parameters | None = None, other: object | None = None) -> Relation:
        tables: dict[str, object] = {_THIS: self}
        if other is not None:
            tables[_OTHER] = other
        return self._connection._over(sql, tables, params)

    def _joined(self, other: object, shared: Sequence[str]) -> str:
        """The columns of a join as a list of SQL, each with a name of its own."""
        own = [name for name in self.columns if name not in shared]
        others = self._derive(f"SELECT * FROM {_OTHER}", other=other).columns
        taken = {*shared, *own}
        columns = [*map(_quoted, shared), *(f"a.{_quoted(name)}" for name in own)]
        for name in others:
            if name in shared:
                continue
            new, number = name, 0
            while new in taken:
                number += 1
                new = f"{name}_{number}"
            taken.add(new)
            columns.append(f"b.{_quoted(name)} AS {_quoted(new)}")
        return ", ".join(columns)

    def _described(self) -> list[tuple[str, str]]:
        if self._columns is None:
            source = self._source
            self._columns = source.columns() if isinstance(source, RawQuery) else source._table.columns
        return self._columns

    def _in_memory(self) -> RawTable:
        return self.collect()._in_memory()

    def _preview(self, rows: int) -> Table:
        if isinstance(self._source, Table):
            return self._source
        preview = self.limit(rows + 1)
        table = preview.collect()
        self._last = table
        return table

    def __repr__(self) -> str:
        return self._preview(_display.SHOWN_ROWS)._box(_display.SHOWN_ROWS)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return bundle(self._preview(_display.SHOWN_ROWS), _display.SHOWN_ROWS)
