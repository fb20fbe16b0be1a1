"""Filters of one column, and the rows that pass them by the values that were read, without anything to prune by."""

import math
import random

import pyarrow as pa

from conformance.files.parquet import literal


def draw(random_: random.Random, name: str, kind, values: list) -> list[tuple[str, list]]:
    """Conditions on a column of `kind`, and which of `values` pass them."""
    found = [(f"{name} IS NULL", [value is None for value in values]), (f"{name} IS NOT NULL", [value is not None for value in values])]
    there = [value for value in values if value is not None and literal(value, kind) is not None]
    if not there:
        return found
    one, other = random_.choice(there), random_.choice(there)
    for value in (one, other):
        sign = random_.choice(["=", "<>", "<", "<=", ">", ">="])
        found.append((f"{name} {sign} {literal(value, kind)}", [passes(each, sign, value) for each in values]))
    listed = [equals(each, one) or equals(each, other) if each is not None else False for each in values]
    found.append((f"{name} IN ({literal(one, kind)}, {literal(other, kind)})", listed))
    found.append((f"{name} = {literal(one, kind)}", [passes(each, "=", one) for each in values]))
    for most, function in ((largest(values), "max"), (least(values), "min")):
        if not pa.types.is_boolean(kind) and not pa.types.is_binary(kind):
            found.append((f"{name} = (SELECT {function}({name}) FROM t)", [passes(each, "=", most) for each in values]))
    if isinstance(one, str) and "\\" not in one:
        start = one[: random_.randint(0, 3)].replace("%", "").replace("_", "")
        for pattern, test in ((f"{start}%", str.startswith), (f"%{start}", str.endswith), (f"%{start}%", str.__contains__)):
            quoted = pattern.replace("'", "''")
            found.append((f"{name} LIKE '{quoted}'", [value is not None and test(value, start) for value in values]))
    return found


def rank(value):
    """Orders values as SQL does: NaN is greatest, false is least, text goes by its bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def equals(one, other) -> bool:
    return rank(one) == rank(other)


def largest(values):
    return max((value for value in values if value is not None), key=rank)


def least(values):
    return min((value for value in values if value is not None), key=rank)


def passes(value, sign: str, bound) -> bool:
    if value is None:
        return False
    left, right = rank(value), rank(bound)
    return {
        "=": left == right, "<>": left != right, "<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right,
    }[sign]
