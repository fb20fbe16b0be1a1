"""SQL over object storage that moves the work instead of the data.

    >>> import pushdowndb
    >>> pushdowndb.sql("SELECT 6 * 7 AS answer").fetchall()
    [(42,)]

`connect` opens a session, `sql` runs SQL in one that the process shares. Results are Arrow streams,
with methods for pandas, Polars and pyarrow. `pushdowndb.dbapi` is the interface of DB-API 2.0, and
`pushdowndb.testing` has a storage node for tests.
"""

from __future__ import annotations

import threading as _threading
from collections.abc import Sequence as _Sequence
from typing import Any as _Any

from ._pushdowndb import __version__
from ._rows import Profile, Stats
from .connection import Connection, Path, connect
from .errors import (
    BugError,
    CancelledError,
    ConflictError,
    CorruptError,
    DatabaseError,
    DataError,
    DeniedError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    InvalidError,
    LimitError,
    NotFoundError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    ThrottledError,
    UnavailableError,
    UnsupportedError,
)
from .relation import Parameters, Relation
from .result import Result, Table

_lock = _threading.Lock()
_shared: Connection | None = None


def default_connection() -> Connection:
    """The session that the functions of this module use, opened by its first use."""
    global _shared
    with _lock:
        if _shared is None or _shared._raw.closed:
            _shared = connect()
        return _shared


def sql(sql: str, params: Parameters | None = None) -> Relation:
    """`Connection.sql` of the shared session."""
    return default_connection().sql(sql, params)


def execute(sql: str, params: Parameters | None = None) -> Result:
    """`Connection.execute` of the shared session."""
    return default_connection().execute(sql, params)


async def sql_async(sql: str, params: Parameters | None = None) -> Table:
    """`Connection.sql_async` of the shared session."""
    return await default_connection().sql_async(sql, params)


def read_csv(path: Path | _Sequence[str], **options: _Any) -> Relation:
    """`Connection.read_csv` of the shared session."""
    return default_connection().read_csv(path, **options)


def read_json(path: Path | _Sequence[str], **options: _Any) -> Relation:
    """`Connection.read_json` of the shared session."""
    return default_connection().read_json(path, **options)


def read_parquet(path: Path | _Sequence[str], **options: _Any) -> Relation:
    """`Connection.read_parquet` of the shared session."""
    return default_connection().read_parquet(path, **options)


def register(name: str, value: _Any) -> None:
    """`Connection.register` of the shared session."""
    default_connection().register(name, value)


__all__ = [
    "BugError", "CancelledError", "ConflictError", "Connection", "CorruptError", "DataError", "DatabaseError",
    "DeniedError", "Error", "IntegrityError", "InterfaceError", "InternalError", "InvalidError", "LimitError",
    "NotFoundError", "NotSupportedError", "OperationalError", "Profile", "ProgrammingError", "Relation", "Result",
    "Stats", "Table", "ThrottledError", "UnavailableError", "UnsupportedError", "__version__", "connect",
    "default_connection", "execute", "read_csv", "read_json", "read_parquet", "register", "sql", "sql_async",
]  # fmt: skip
