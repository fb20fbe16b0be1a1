"""The interface of DB-API 2.0 (PEP 249).

    >>> from pushdowndb import dbapi
    >>> with dbapi.connect() as con:
    ...     cursor = con.cursor()
    ...     _ = cursor.execute("SELECT ? + 1", [41])
    ...     cursor.fetchone()
    (42,)

Statements take effect at once: there are no transactions, so that ``commit()`` has nothing to do and
``rollback()`` undoes nothing. Variables of Python are not found as tables here; ``register`` of
``Connection.session`` makes them some.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._rows import Row, Stats
from .connection import Connection as Session
from .connection import connect as open_session
from .errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from .result import Result

apilevel = "2.0"
#: Threads may share the module and connections.
threadsafety = 2
#: ``?``; ``$1`` and ``:name`` are taken as well.
paramstyle = "qmark"

Parameters = Sequence[Any] | Mapping[str, Any]
Description = tuple[str, str, None, None, None, None, None]


class Connection:
    """A session by the interface of DB-API."""

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, session: Session) -> None:
        #: The session itself, which can do more.
        self.session = session

    def cursor(self) -> Cursor:
        """A cursor. Cursors of a connection are independent of each other."""
        self._check()
        return Cursor(self)

    def execute(self, sql: str, parameters: Parameters | None = None) -> Cursor:
        """A new cursor on which the statement was executed."""
        return self.cursor().execute(sql, parameters)

    def commit(self) -> None:
        """Nothing: statements have taken effect already."""
        self._check()

    def rollback(self) -> None:
        """Nothing: there are no transactions."""
        self._check()

    def close(self) -> None:
        """Ends the session."""
        self.session.close()

    def _check(self) -> None:
        if self.session._raw.closed:
            raise InterfaceError("the connection is closed")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Cursor:
    """Executes statements, and reads the rows of the last one."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        #: Rows that ``fetchmany`` reads if it is not told.
        self.arraysize = 1
        #: Rows that the last INSERT, UPDATE, DELETE or COPY wrote; -1 if that is not known.
        self.rowcount = -1
        #: The columns of the last statement: name, SQL type, and five times None.
        self.description: list[Description] | None = None
        self.lastrowid = None
        self._result: Result | None = None
        self._closed = False

    def execute(self, operation: str, parameters: Parameters | None = None) -> Cursor:
        """Executes one statement."""
        self._check()
        self._result, self.description, self.rowcount = None, None, -1
        query = self.connection.session._raw.query(operation, parameters or None)
        result = Result(query.start(), self.connection.session.progress)
        if not result.has_rows:
            return self
        if not query.is_query and result.columns == ["count"]:
            self.rowcount = sum(row[0] for row in result.fetchall())
            return self
        self.description = [(name, kind, None, None, None, None, None) for name, kind in result._rows.columns]
        self._result = result
        return self

    def executemany(self, operation: str, seq_of_parameters: Sequence[Parameters]) -> Cursor:
        """Executes the statement once for each of the parameters."""
        written = 0
        for parameters in seq_of_parameters:
            self.execute(operation, parameters)
            written += max(self.rowcount, 0)
        self.rowcount = written
        return self

    def fetchone(self) -> Row | None:
        """The next row; None at the end."""
        return self._read().fetchone()

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next rows: ``size`` or ``arraysize`` of them, fewer at the end."""
        return self._read().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        """The rows that are left."""
        return self._read().fetchall()

    def fetch_arrow_table(self) -> Any:
        """The rows that are left as a table of pyarrow, as ADBC's cursors have it."""
        return self._read().arrow()

    @property
    def stats(self) -> Stats:
        """What the last query did and cost."""
        return self._read().stats

    def cancel(self) -> None:
        """Stops the last query."""
        self._read().cancel()

    def close(self) -> None:
        """Stops the last query, and ends the cursor."""
        if self._result is not None:
            self._result.cancel()
        self._closed, self._result = True, None

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Nothing, as DB-API allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing, as DB-API allows."""

    def _check(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self.connection._check()

    def _read(self) -> Result:
        self._check()
        if self._result is None:
            raise ProgrammingError("there are no rows to read: no statement with rows was executed")
        return self._result

    def __iter__(self) -> Iterator[Row]:
        while row := self.fetchone():
            yield row

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(*args: Any, **options: Any) -> Connection:
    """Opens a session; the arguments are those of `pushdowndb.connect`."""
    return Connection(open_session(*args, **options))


class _TypeObject:
    """A group of SQL types, which equals the type of each column of these types."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other.split("(")[0].split(" ")[0] in self._names or self is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._names)


STRING = _TypeObject("VARCHAR")
BINARY = _TypeObject("Binary", "LargeBinary", "BinaryView", "BYTEA", "BLOB")
NUMBER = _TypeObject("TINYINT", "SMALLINT", "INT", "BIGINT", "REAL", "DOUBLE", "DECIMAL")
DATETIME = _TypeObject("DATE", "TIME", "TIMESTAMP")
ROWID = _TypeObject()

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """The local day of an instant in seconds since 1970."""
    return datetime.date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """The local time of day of an instant in seconds since 1970."""
    return datetime.time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The local time of an instant in seconds since 1970."""
    return datetime.datetime(*time.localtime(ticks)[:6])
