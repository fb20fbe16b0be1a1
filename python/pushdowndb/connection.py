"""Connections: sessions of the engine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from ._display import Progress
from ._pushdowndb import RawConnection, RawQuery
from ._tables import caller, exporting, variable
from .errors import InterfaceError
from .relation import Parameters, Relation
from .result import Result, Table

Path = str | os.PathLike[str]


class Connection:
    """A session: settings, tables, open connections to storage. Threads may share it."""

    #: True shows progress, False does not, None does on terminals and in notebooks.
    progress: bool | None = None

    def __init__(self, raw: RawConnection) -> None:
        self._raw = raw

    # Statements.

    def sql(self, sql: str, params: Parameters | None = None) -> Relation:
        """The relation of a query, which runs when its rows are read.

        Other statements run at once, and so do all but the last of several. A table that the session
        does not know is a variable of the caller: a relation, or anything that exports Arrow.

        ``params`` are the values of ``?`` or ``$1`` (a list) or of ``:name`` (a dict).
        """
        query = self._last_of(sql, params)
        if query.is_query:
            return Relation(self, query)
        with Progress(self.progress) as progress:
            return Relation(self, Table(query.start(progress).collect(progress)))

    def execute(self, sql: str, params: Parameters | None = None) -> Result:
        """Starts a statement, and returns its rows, which are computed as they are read.

        A statement that is no query, such as CREATE or COPY, has run to its end when it returns.
        """
        query = self._last_of(sql, params)
        with Progress(self.progress) as progress:
            rows = query.start(progress)
            if not query.is_query:
                rows.load(progress)
        return Result(rows, self.progress)

    async def sql_async(self, sql: str, params: Parameters | None = None) -> Table:
        """Runs one statement without blocking the event loop, and returns its rows in memory."""
        from ._async import finished

        query = self._raw.query(sql, params)
        self._add_variables(query)
        return Table(await finished(query))

    # Tables.

    def table(self, name: str) -> Relation:
        """The rows of a table, or of the objects at an address."""
        quoted = '"' + name.replace('"', '""') + '"'
        return self._over(f"SELECT * FROM {quoted}", {})

    def read_csv(self, path: Path | Sequence[str], **options: Any) -> Relation:
        """The rows of CSV files, with the options of SQL's ``read_csv``."""
        return self._read("read_csv", path, options)

    def read_json(self, path: Path | Sequence[str], **options: Any) -> Relation:
        """The rows of JSON files, with the options of SQL's ``read_json``."""
        return self._read("read_json", path, options)

    def read_parquet(self, path: Path | Sequence[str], **options: Any) -> Relation:
        """The rows of Parquet files, with the options of SQL's ``read_parquet``."""
        return self._read("read_parquet", path, options)

    def register(self, name: str, value: Any) -> None:
        """Makes a data frame, or anything that exports Arrow, a table of the session.

        SQL finds it whatever the case of ``name``. Later changes of ``value`` do not show.
        """
        source = value._in_memory() if isinstance(value, (Relation, Table)) else exporting(name, value)
        self._raw.register(name.lower(), source)

    def unregister(self, name: str) -> None:
        """Removes a table that `register` made."""
        if not self._raw.unregister(name.lower()):
            raise InterfaceError(f"no table {name} is registered")

    def tables(self) -> list[str]:
        """The names of the tables that SQL can name."""
        return [name for name, *_ in self._raw.tables()]

    def describe(self, table: str) -> list[tuple[str, str]]:
        """The columns of a table or of the objects at an address: names and SQL types."""
        return [(name, kind) for name, kind, _ in self._raw.describe(table)]

    def create_bucket(self, address: str) -> None:
        """Creates the bucket of an ``s3://`` address, unless it exists."""
        self._raw.create_bucket(address)

    # Settings.

    @property
    def settings(self) -> dict[str, str]:
        """The settings ``pushdown.*``, with their values."""
        return {name: value for name, value, _ in self._raw.settings()}

    def set(self, name: str, value: object) -> None:
        """Changes a setting for later statements."""
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name):
            raise InterfaceError(f"{name!r} is no name of a setting")
        self.execute(f"SET {name} = {_literal(_as_setting(value))}")

    # The end.

    def close(self) -> None:
        """Ends the session."""
        self._raw.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Inside.

    def _last_of(self, sql: str, params: Parameters | None) -> RawQuery:
        """Runs all statements of a script but the last."""
        statements = self._raw.statements(sql)
        if not statements:
            raise InterfaceError("there is no statement in this text")
        if len(statements) > 1 and params is not None:
            raise InterfaceError("parameters are for one statement, and this text has several")
        for statement in statements[:-1]:
            query = self._raw.query(statement)
            self._add_variables(query)
            query.start().collect()
        query = self._raw.query(statements[-1], params)
        self._add_variables(query)
        return query

    def _over(self, sql: str, tables: Mapping[str, object], params: Parameters | None = None) -> Relation:
        """The relation of a query over tables that only it can name."""
        query = self._raw.query(sql, params)
        for name, table in tables.items():
            self._add(query, name, table)
        self._add_variables(query, tables)
        return Relation(self, query)

    def _add_variables(self, query: RawQuery, known: Mapping[str, object] | None = None) -> None:
        """Adds the caller's variables that the query names as tables."""
        unknown = [name for name in query.unknown_tables() if name not in (known or {})]
        frame = caller() if unknown else None
        for name in unknown:
            value = variable(frame, name)
            # Functions of SQL have names of functions here, too.
            if value is not None and not callable(value) and not isinstance(value, ModuleType):
                self._add(query, name, value)

    def _add(self, query: RawQuery, name: str, value: object) -> None:
        if isinstance(value, Relation) and isinstance(value._source, RawQuery):
            query.add_query(name, value._source)
        elif isinstance(value, (Relation, Table)):
            query.add_table(name, value._in_memory())
        else:
            query.add_table(name, exporting(name, value))

    def _read(self, function: str, path: Path | Sequence[str], options: Mapping[str, Any]) -> Relation:
        plain = os.fspath(path) if isinstance(path, (str, os.PathLike)) else [os.fspath(one) for one in path]
        arguments = [_literal(plain), *(f"{name} = {_literal(value)}" for name, value in options.items())]
        return self._over(f"SELECT * FROM {function}({', '.join(arguments)})", {})


def _as_setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _literal(value: object) -> str:
    """A value as SQL, for where there are no parameters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(str(key))}: {_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(map(_literal, value)) + "]"
    raise InterfaceError(f"an option cannot be a {type(value).__name__}")


def connect(
    endpoint: str | None = None,
    *,
    region: str | None = None,
    access_key_id: str | None = None,
    secret_access_key: str | None = None,
    session_token: str | None = None,
    profile: str | None = None,
    anonymous: bool = False,
    requester_pays: bool = False,
    insecure: bool = False,
    settings: Mapping[str, object] | None = None,
    catalog: Path | None = None,
    cache: Path | None = None,
    allow_read: Sequence[str] | None = None,
    allow_write: Sequence[str] | None = None,
) -> Connection:
    """Opens a session.

    ``endpoint`` is the address of an S3 server, such as ``http://127.0.0.1:9000``; without one it is
    AWS, or that of the environment (``AWS_ENDPOINT_URL``). Credentials that are not given come from
    the environment and from the profiles of AWS.

    ``settings`` are those of SET. ``catalog`` is a file that keeps declared tables, ``cache`` a folder
    that keeps statistics of tables; without them they end with the session.

    With ``allow_read`` or ``allow_write`` SQL may use the locations that they list and nothing else;
    without, whatever this process may.
    """
    raw = RawConnection(
        endpoint=endpoint,
        region=region,
        access_key_id=access_key_id,
        secret_access_key=secret_access_key,
        session_token=session_token,
        profile=profile,
        anonymous=anonymous,
        requester_pays=requester_pays,
        insecure=insecure,
        settings=[(name, _as_setting(value)) for name, value in (settings or {}).items()],
        catalog=catalog,
        cache=cache,
        allow_read=allow_read,
        allow_write=allow_write,
    )
    return Connection(raw)
