"""Whether two outputs of the same statement are the same rows."""

import csv
import io
import json
import math
from collections import Counter
from decimal import Decimal

TOLERANCE = 1e-9  # Of floats, which depend on the order in which they are added.


def differ(got: str, expected: str, form: str, order: list[int], limited: bool) -> str:
    """What is wrong with the output `got` of a statement; empty if nothing is.

    Rows are the same multiset; by the columns `order` they come in the same sequence. With a limit, rows that tie with
    the first or the last one may be others.
    """
    if got == expected:
        return ""
    mine, its = got.splitlines(), expected.splitlines()
    if len(mine) != len(its):
        return f"{len(mine)} lines, {len(its)} expected; {shown(mine, its)}"
    same = Counter(mine) == Counter(its)
    if same and not order:
        return ""
    left, right = parse(got, form), parse(expected, form)
    if order:
        keys = [[tuple(row[number] for number in order) for row in rows] for rows in (left, right)]
        odd = next((number for number, pair in enumerate(zip(*keys)) if not all(map(near, *pair))), None)
        if odd is not None:
            return f"in another order: row {odd} is {mine[odd][:200]}, {its[odd][:200]} expected"
        if limited and left:
            ends = (keys[0][0], keys[0][-1])
            inner = [number for number, key in enumerate(keys[0]) if key not in ends]
            left, right = [left[number] for number in inner], [right[number] for number in inner]
    if same or alike(left, right):
        return ""
    return shown(mine, its)


def shown(mine: list[str], its: list[str]) -> str:
    only, missing = (list((Counter(one) - Counter(other)).elements()) for one, other in ((mine, its), (its, mine)))
    return f"{len(only)} lines only here {[line[:160] for line in only[:2]]}, {len(missing)} missing {[line[:160] for line in missing[:2]]}"


def parse(text: str, form: str) -> list[tuple]:
    if form == "csv":
        return [tuple(map(number, row)) for row in csv.reader(io.StringIO(text))][1:]
    return [tuple(value for _, value in json.loads(line, parse_float=Decimal, object_pairs_hook=list)) for line in text.splitlines()]


def number(text: str):
    """A cell of CSV with a point or an exponent as a number; integers stay texts."""
    if not text[:1].isdigit() and text[:1] not in ("-", "."):
        return text
    try:
        return Decimal(text) if "." in text or "e" in text else text
    except ArithmeticError:
        return text


def near(one, other) -> bool:
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one == other or math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(one) is type(other) and one == other


def alike(left: list[tuple], right: list[tuple]) -> bool:
    """The same multiset, but for the last digits of floats."""

    def place(row):
        exact = [repr(value) for value in row if not isinstance(value, Decimal)]
        return exact, [float(value) for value in row if isinstance(value, Decimal)]

    pairs = zip(sorted(left, key=place), sorted(right, key=place))
    return len(left) == len(right) and all(len(one) == len(other) and all(map(near, one, other)) for one, other in pairs)
