"""What everything with rows can do: relations, results and tables."""

from __future__ import annotations

import importlib
import json
from typing import TYPE_CHECKING, Any

from . import _display
from .errors import InterfaceError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from ._pushdowndb import RawTable

Row = tuple[Any, ...]


class Stats(dict[str, Any]):
    """What a statement did and cost: seconds, rows, bytes, requests and dollars.

    A dict as ``pushdowndb --stats json`` prints it, of which the most asked for are attributes.
    """

    @property
    def bytes(self) -> int:
        """Bytes over the network, both ways."""
        return int(self["bytes_network"])

    @property
    def requests(self) -> int:
        """Requests to storage."""
        return sum(self["requests"].values())

    @property
    def dollars(self) -> float:
        """Dollars of the price book."""
        return float(self["cost_usd"]["total"])

    @property
    def rows(self) -> int:
        """Rows of the result."""
        return int(self["rows"])

    @property
    def seconds(self) -> float:
        """Seconds from the start to the last row."""
        return float(self["wall_s"])

    def __repr__(self) -> str:
        return (
            f"<{self.rows} rows, {self.bytes} bytes over the network, {self.requests} requests, "
            f"${self.dollars:.6f}, {self.seconds:.3f} s>"
        )


def stats_of(text: str) -> Stats:
    """The stats that the native half has as JSON."""
    return Stats(json.loads(text))


class Profile:
    """The profile of a query: a page of HTML, which a notebook shows."""

    def __init__(self, html: str) -> None:
        self.html = html

    def save(self, path: str) -> None:
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def _repr_html_(self) -> str:
        return _display.frame(self.html)

    def __repr__(self) -> str:
        return f"<profile of {len(self.html)} bytes of HTML; save(path) writes the page>"


class Readable:
    """Reads rows as objects of Python, Arrow, pandas and Polars."""

    def _in_memory(self) -> RawTable:
        """The rows that are left, in memory."""
        raise NotImplementedError

    def arrow(self) -> pyarrow.Table:
        """The rows as a table of pyarrow, whose buffers are those of the engine."""
        return _needed("arrow()", "pyarrow").table(self._in_memory())

    def df(self) -> pandas.DataFrame:
        """The rows as a data frame of pandas.

        Integers beside NULL get the nullable types of pandas (``Int64``), since floats, which pandas
        takes otherwise, would round them.
        """
        table = _needed("df()", "pandas", "pyarrow").table(self._in_memory())
        frame = table.to_pandas()
        for place, column in enumerate(table.columns):
            if column.null_count and _is_integer(column.type):
                frame.isetitem(place, _nullable(column))
        return frame

    to_df = df

    def pl(self) -> polars.DataFrame:
        """The rows as a data frame of Polars."""
        try:
            import polars
        except ImportError as error:
            raise InterfaceError("pl() needs polars: pip install polars") from error
        return polars.DataFrame(self._in_memory())

    def fetchall(self) -> list[Row]:
        """The rows as tuples."""
        return self._in_memory().fetch()


def _needed(what: str, *packages: str) -> Any:
    """The last of the packages that ``what`` needs."""
    try:
        return [importlib.import_module(package) for package in packages][-1]
    except ImportError as error:
        names = " and ".join(packages)
        raise InterfaceError(f"{what} needs {names}: pip install {' '.join(packages)}") from error


def _is_integer(kind: Any) -> bool:
    import pyarrow.types

    return bool(pyarrow.types.is_integer(kind))


def _nullable(column: Any) -> Any:
    """A column of integers as an array of pandas' nullable type."""
    import pandas

    name = str(column.type)
    dtype: Any = pandas.api.types.pandas_dtype(name.upper().replace("INT", "Int"))
    return dtype.__from_arrow__(column)
