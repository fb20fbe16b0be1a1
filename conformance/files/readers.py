"""The references: pyarrow, pandas and DuckDB."""

import functools

import pyarrow as pa

from conformance.answers.engines import know_pytz
from conformance.files import values


@functools.cache
def connection():
    import duckdb

    know_pytz()
    made = duckdb.connect()
    made.execute("SET TimeZone = 'UTC'; SET threads = 1; SET preserve_insertion_order = true")
    return made


def duck(sql: str) -> pa.Table:
    return connection().execute(sql).to_arrow_table()


class Told:
    """The columns of a table as one reader has them, or an error."""

    def __init__(self, table: pa.Table | None = None, error: str = ""):
        self.error = " ".join(error.split())[:300]
        # Names that are there twice are told apart.
        names = table.schema.names if table is not None else []
        self.names = [name if name not in names[:at] else f"{name}#{at}" for at, name in enumerate(names)]
        self.types = dict(zip(self.names, table.schema.types)) if table is not None else {}
        self.columns = {name: values.column(table.column(at)) for at, name in enumerate(self.names)} if table is not None else {}
        self.rows = table.num_rows if table is not None else 0


def ask(reader, folder) -> Told:
    """What a reader says of a folder; whatever it raises is its error."""
    try:
        return Told(reader(folder))
    except Exception as error:  # pylint: disable=broad-except
        return Told(error=f"{type(error).__name__}: {error}")
