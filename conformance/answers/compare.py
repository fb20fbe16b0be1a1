"""Whether two answers are the same rows: as multisets of typed values, in order where order was asked for."""

import decimal
import math
import re
from collections import Counter
from datetime import date, datetime, timezone
from decimal import Decimal

from conformance.answers.engines import Answer

decimal.getcontext().prec = 100  # Python rounds to 28 digits else, even where it only writes a number in another way.
DIGITS = 6  # Significant digits of a float that must agree: REAL has no more.


# DuckDB writes numbers that are none as text in another way than PostgreSQL, and ours as the latter.
SPELLED = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def plain(value):
    """A value in a form that does not depend on who gave it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, Decimal)):
        return Decimal(value)
    if isinstance(value, float):
        return value
    if isinstance(value, datetime):
        if value.tzinfo:
            value = value.astimezone(timezone.utc).replace(tzinfo=None)
        return stamp(value.isoformat(timespec="microseconds"))
    if isinstance(value, date):
        return value.isoformat()
    return SPELLED.get(value, value) if isinstance(value, str) else str(value)


def fit(value, kind: str, form: str):
    """What the given form of output can tell of a value: JSON has no NaN, CSV no empty text beside NULL."""
    if form == "json" and isinstance(value, float) and not math.isfinite(value):
        return None
    if form == "csv" and value == "":
        return None
    return value


# An instant as we write it; the others' drivers give some of them as texts without a zone.
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


def typed(cell, like: str):
    """A cell of ours in the kind of value that the other engines gave in that column."""
    if cell is None or isinstance(cell, bool):
        return cell
    if isinstance(cell, (int, Decimal)):
        return float(cell) if like == "dbl" else Decimal(cell)
    if isinstance(cell, str) and (like == "time" or INSTANT.fullmatch(cell)):
        return stamp(cell)
    if isinstance(cell, str) and like in ("dbl", "num", "bool"):
        return read_cell(cell, like)
    return cell if isinstance(cell, str) else str(cell)


def stamp(text: str) -> str:
    """A time without zeros at its end: a DATE plus whole days is a DATE of ours, and a TIMESTAMP at midnight of the others."""
    text = text.replace(" ", "T").removesuffix("Z").removesuffix("+00:00")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.removesuffix("T00:00:00")


def read_cell(text: str, like: str):
    try:
        if like == "bool":
            return {"true": True, "false": False}.get(text, text)
        return float(text) if like == "dbl" else Decimal(text)
    except (ValueError, ArithmeticError):
        return text


def likes(answer: Answer) -> list[str]:
    """The kind of value in each column of another engine's answer."""
    found = []
    for number, kind in enumerate(answer.kinds):
        values = [row[number] for row in answer.rows if row[number] is not None]
        if kind == "dbl" or any(isinstance(value, float) for value in values):
            found.append("dbl")
        elif values and all(isinstance(value, bool) for value in values):
            found.append("bool")
        elif values and all(isinstance(value, (int, Decimal)) for value in values):
            found.append("num")
        elif values and all(isinstance(value, date) for value in values):
            found.append("time")
        else:
            found.append("text")
    return found


def theirs(answer: Answer, form="") -> list[tuple]:
    return [tuple(fit(plain(value), "", form) for value in row) for row in answer.rows]


def ours(answer: Answer, columns: list[str], form: str) -> list[tuple]:
    rows = []
    for row in answer.rows:
        if len(row) != len(columns):
            return [tuple(map(str, row)) for row in answer.rows] + [("columns", len(row))]
        cells = [None if form == "csv" and cell == "" else typed(cell, like) for cell, like in zip(row, columns)]
        rows.append(tuple(fit(cell, "", form) for cell in cells))
    return rows


def key(value):
    """Equal for values that are the same, as far as a float can tell."""
    if isinstance(value, float):
        if math.isnan(value):
            return "nan"
        if value in (0.0, math.inf, -math.inf):
            return value + 0.0
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Decimal):
        if value.is_nan():
            return "nan"
        return value.normalize() + 0 if value.is_finite() else float(value)
    return value


def near(one, other) -> bool:
    """Equal, or floats and decimals that differ by rounding."""
    if key(one) == key(other) and isinstance(one, bool) == isinstance(other, bool):
        return True
    if not all(isinstance(value, (float, Decimal)) for value in (one, other)):
        return False
    x, y = float(one), float(other)
    if math.isnan(x) or math.isnan(y):
        return math.isnan(x) and math.isnan(y)
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        scale = min(-one.as_tuple().exponent, -other.as_tuple().exponent) if one.is_finite() and other.is_finite() else 0
        if bool(one) != bool(other) and max(abs(one), abs(other)) > Decimal("1e-9"):
            return False
        # A double may be read as a decimal where DuckDB gives no rows that would tell.
        return 4 <= scale and abs(one - other) <= Decimal(1).scaleb(-scale) or math.isclose(x, y, rel_tol=1e-13) and scale > 10
    return math.isclose(x, y, rel_tol=2e-6, abs_tol=1e-12)


def same_row(one: tuple, other: tuple) -> bool:
    return len(one) == len(other) and all(map(near, one, other))


def same_rows(left: list[tuple], right: list[tuple]) -> bool:
    """The same multiset of rows."""
    if len(left) != len(right):
        return False
    mine = [tuple(("b", value) if isinstance(value, bool) else key(value) for value in row) for row in left]
    its = [tuple(("b", value) if isinstance(value, bool) else key(value) for value in row) for row in right]
    rest = Counter(its)
    rest.subtract(Counter(mine))
    if not any(rest.values()):
        return True
    # What is left over may differ by rounding only.
    over = [row for row, raw in zip(left, mine) if rest[raw] < 0]
    under = [row for row, raw in zip(right, its) if rest[raw] > 0]
    for row in over:
        twin = next((other for other in under if same_row(row, other)), None)
        if twin is None:
            return False
        under.remove(twin)
    return True


def agree(left: list[tuple], right: list[tuple], order: list[int], limited: bool) -> bool:
    """The same rows; with `order` the keys come in the same sequence, and with a limit rows that tie with the last
    or the first one may be others."""
    if not order:
        return len(left) == len(right) if limited else same_rows(left, right)
    if len(left) != len(right):
        return False
    keys = [[tuple(row[number] for number in order) for row in rows] for rows in (left, right)]
    if not all(same_row(one, other) for one, other in zip(*keys)):
        return False
    if limited and left:
        ends = (keys[0][0], keys[0][-1])
        inner = [number for number, one in enumerate(keys[0]) if not any(same_row(one, end) for end in ends)]
        return same_rows([left[number] for number in inner], [right[number] for number in inner])
    return same_rows(left, right)
