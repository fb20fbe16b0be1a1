"""Objects of Python as tables of SQL, and where they are found."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from .errors import InvalidError

_MISSING = object()


def caller() -> FrameType | None:
    """The innermost frame outside of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return frame


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).split(".")[0] == "pushdowndb"


def variable(frame: FrameType | None, name: str) -> Any:
    """The value of the variable that code in ``frame`` finds by ``name``; None if there is none."""
    # Before Python 3.12 a comprehension is a frame within that of its function.
    while frame is not None and frame.f_code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>"):
        value = frame.f_locals.get(name, _MISSING)
        if value is not _MISSING:
            return value
        frame = frame.f_back
    if frame is None:
        return None
    value = frame.f_locals.get(name, _MISSING)
    return frame.f_globals.get(name) if value is _MISSING else value


def exporting(name: str, value: Any) -> Any:
    """The object that exports the Arrow data of a data frame, table or array.

    Raises ``InvalidError`` if it has none.
    """
    module = type(value).__module__.split(".")[0]
    kind = type(value).__name__
    if module == "polars" and kind == "LazyFrame":
        return value.collect()
    if module == "pandas" and kind == "DataFrame":
        try:
            import pyarrow
        except ImportError as error:
            raise InvalidError(f"{name}: data frames of pandas need pyarrow: pip install pyarrow") from error
        # As in DuckDB, the index is no column.
        return pyarrow.Table.from_pandas(value, preserve_index=False)
    if hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__"):
        return value
    raise InvalidError(
        f"there is no table {name}, and what Python has by this name is a {module}.{kind}, which exports no Arrow data"
    )
