"""The dialect of SQLAlchemy: ``pushdowndb://``.

    create_engine("pushdowndb:///?endpoint=http://127.0.0.1:9000&catalog=tables.sql")
    create_engine("pushdowndb://ACCESS_KEY_ID:SECRET@127.0.0.1:9000/?tls=false&pushdown.level=select")

User and password are the keys of S3, host and port the endpoint; without ``tls=false`` it is https.
The query has arguments of `pushdowndb.connect`, and settings by names with a dot.
"""

from __future__ import annotations

import re
from typing import Any, cast

from sqlalchemy import exc, types
from sqlalchemy.engine import default
from sqlalchemy.engine.interfaces import DBAPIModule
from sqlalchemy.engine.url import URL

from .errors import NotFoundError

_FLAGS = {"anonymous", "requester_pays", "insecure"}
_TEXTS = {"endpoint", "region", "session_token", "profile", "catalog", "cache"}

_TYPES: dict[str, type[types.TypeEngine[Any]]] = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.SMALLINT,
    "SMALLINT": types.SMALLINT,
    "INT": types.INTEGER,
    "BIGINT": types.BIGINT,
    "REAL": types.REAL,
    "DOUBLE": types.DOUBLE,
    "VARCHAR": types.VARCHAR,
    "DATE": types.DATE,
    "Binary": types.LargeBinary,
    "BinaryView": types.LargeBinary,
}


class PushdownDialect(default.DefaultDialect):
    """The dialect of pushdowndb."""

    name = "pushdowndb"
    driver = "native"
    default_schema_name = "public"
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_multivalues_insert = True
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    supports_alter = False
    supports_sequences = False
    supports_default_values = False
    postfetch_lastrowid = False
    insert_returning = False

    @classmethod
    def import_dbapi(cls) -> DBAPIModule:
        """The module of DB-API 2.0."""
        from . import dbapi

        # As other dialects do: a module is no instance of the protocol for type checkers.
        return cast(DBAPIModule, dbapi)

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of `pushdowndb.connect` that an address says."""
        query = {name: value if isinstance(value, str) else value[-1] for name, value in url.query.items()}
        options: dict[str, Any] = {}
        settings: dict[str, str] = {}
        scheme = "http" if query.pop("tls", "true").lower() in ("false", "0", "no") else "https"
        for name, value in query.items():
            if "." in name:
                settings[name] = value
            elif name in _FLAGS:
                options[name] = value.lower() in ("true", "1", "yes")
            elif name in _TEXTS:
                options[name] = value
            else:
                raise exc.ArgumentError(f"pushdowndb:// has no option {name}")
        if url.host:
            port = f":{url.port}" if url.port else ""
            options["endpoint"] = f"{scheme}://{url.host}{port}"
        if url.username:
            options["access_key_id"] = url.username
        if url.password:
            options["secret_access_key"] = url.password
        return [], {**options, "settings": settings}

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:
        """The names of the schemas."""
        return ["public"]

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """The names of the tables."""
        return [name for name, kind in self._tables(connection) if kind != "view"]

    def get_view_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """The names of the views."""
        return [name for name, kind in self._tables(connection) if kind == "view"]

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> bool:
        """True if there is a table or view of this name."""
        return any(name == table_name for name, _ in self._tables(connection))

    def get_columns(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> list[Any]:
        """The columns of a table."""
        try:
            columns = _session(connection)._raw.describe('"' + table_name.replace('"', '""') + '"')
        except NotFoundError as error:
            raise exc.NoSuchTableError(table_name) from error
        return [
            {"name": name, "type": _type(kind), "nullable": nullable, "default": None}
            for name, kind, nullable in columns
        ]

    def get_pk_constraint(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        """None: there are no keys."""
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> list[Any]:
        """None: there are no keys."""
        return []

    def get_indexes(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> list[Any]:
        """None that SQLAlchemy could use: indexes are of objects, not of constraints."""
        return []

    def get_unique_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **_: Any
    ) -> list[Any]:
        """None: there are no constraints."""
        return []

    def get_check_constraints(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> list[Any]:
        """None: there are no constraints."""
        return []

    def get_table_comment(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        """None: there are no comments."""
        return {"text": None}

    def _tables(self, connection: Any) -> list[tuple[str, str]]:
        return [(name, kind) for name, kind, *_ in _session(connection)._raw.tables()]

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        from . import __version__

        return tuple(int(part) for part in re.findall(r"\d+", __version__))

    def _get_default_schema_name(self, connection: Any) -> str:
        return "public"


def _session(connection: Any) -> Any:
    """The session below a connection of SQLAlchemy."""
    return connection.connection.dbapi_connection.session


def _type(sql_type: str) -> types.TypeEngine[Any]:
    """SQLAlchemy's type for one of SQL."""
    if decimal := re.fullmatch(r"DECIMAL\((\d+),(-?\d+)\)", sql_type):
        return types.DECIMAL(int(decimal[1]), int(decimal[2]))
    if sql_type.startswith("TIMESTAMP"):
        return types.TIMESTAMP(timezone=sql_type.endswith("ZONE"))
    if sql_type.startswith("Time"):
        return types.TIME()
    found = _TYPES.get(sql_type.removesuffix(" UNSIGNED"))
    return found() if found else types.NullType()
