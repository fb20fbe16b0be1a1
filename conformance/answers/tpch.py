#!/usr/bin/env python3
"""The 22 queries of TPC-H at the extremes of their parameters, on ours beside DuckDB, which reads the same files.

    pip install duckdb
    python3 conformance/answers/tpch.py --binary target/release/pushdowndb --scale 0.01

The queries are those of `sql/tpch`, which have the parameters that the specification validates by. Each is asked with these,
with all parameters at one end of what its clause 2.4 allows, with all at the other, and with some drawn between. Every
way has to give DuckDB's rows: local files, and a node at each level. Exit status 1 if one does not.
"""

import argparse
import os
import random
import re
import sys
import tempfile
import time
from decimal import ROUND_DOWN, Decimal
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = HERE.parents[1]
sys.path[0] = str(HOME)

from conformance.answers import compare, engines  # noqa: E402
from conformance.attacks.node import ROOT, Node  # noqa: E402

QUERIES = HOME / "sql" / "tpch"
LEVELS = ["none", "select", "fragment"]
NATIONS = (
    "ALGERIA ARGENTINA BRAZIL CANADA EGYPT ETHIOPIA FRANCE GERMANY INDIA INDONESIA IRAN IRAQ JAPAN JORDAN KENYA MOROCCO MOZAMBIQUE "
    "PERU CHINA ROMANIA SAUDI_ARABIA VIETNAM RUSSIA UNITED_KINGDOM UNITED_STATES"
).replace("_", "\0").split()
NATIONS = [nation.replace("\0", " ") for nation in NATIONS]
REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
# The nations of each region, for the parameter of q08 that names both.
REGION_OF = {
    **dict.fromkeys(["ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE"], "AFRICA"),
    **dict.fromkeys(["ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES"], "AMERICA"),
    **dict.fromkeys(["CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"], "ASIA"),
    **dict.fromkeys(["FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"], "EUROPE"),
    **dict.fromkeys(["EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA"], "MIDDLE EAST"),
}
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]
MODES = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]
FIRST = ["ECONOMY", "LARGE", "MEDIUM", "PROMO", "SMALL", "STANDARD"]
SECOND = ["ANODIZED", "BRUSHED", "BURNISHED", "PLATED", "POLISHED"]
THIRD = ["BRASS", "COPPER", "NICKEL", "STEEL", "TIN"]
CONTAINERS = [f"{size} {kind}" for size in ("JUMBO", "LG", "MED", "SM", "WRAP") for kind in ("BAG", "BOX", "CAN", "CASE", "DRUM", "JAR", "PACK", "PKG")]
COLORS = (
    "almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood burnished chartreuse chiffon chocolate coral "
    "cornflower cornsilk cream cyan dark deep dim dodger drab firebrick floral forest frosted gainsboro ghost goldenrod green grey honeydew hot "
    "indian ivory khaki lace lavender lawn lemon light lime linen magenta maroon medium metallic midnight mint misty moccasin navajo navy olive "
    "orange orchid pale papaya peach peru pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna sky slate smoke snow "
    "spring steel tan thistle tomato turquoise violet wheat white yellow"
).split()
BRANDS = [f"Brand#{m}{n}" for m in range(1, 6) for n in range(1, 6)]


def months(first: tuple, last: tuple) -> list[tuple]:
    """The first days of the months from `first` to `last`, as (year, month)."""
    start, end = (year * 12 + month - 1 for year, month in (first, last))
    return [(number // 12, number % 12 + 1) for number in range(start, end + 1)]


def day(month: tuple, later: int = 0) -> str:
    """The first day of the month that is so many later."""
    number = month[0] * 12 + month[1] - 1 + later
    return f"{number // 12}-{number % 12 + 1:02}-01"


def span(texts: tuple, month: tuple, length: int) -> dict:
    """The two ends of a span of months in the place of those of a query."""
    return {texts[0]: day(month), texts[1]: day(month, length)}


def listed(values) -> str:
    return "(" + ", ".join(str(value) if isinstance(value, int) else f"'{value}'" for value in values) + ")"


SIZES_16 = (49, 14, 23, 45, 19, 3, 36, 9)
CODES_22 = ("13", "31", "23", "29", "30", "18", "17")


def sized(pick) -> dict:
    brand, first, second, start = pick(BRANDS), pick(FIRST), pick(SECOND), pick(list(range(1, 44)))
    return {"'Brand#45'": f"'{brand}'", "'MEDIUM POLISHED%'": f"'{first} {second}%'", listed(SIZES_16): listed(range(start, start + 8))}


def nation_of_region(pick) -> dict:
    nation = pick(NATIONS)
    kind = f"'{pick(FIRST)} {pick(SECOND)} {pick(THIRD)}'"
    return {"'BRAZIL'": f"'{nation}'", "'AMERICA'": f"'{REGION_OF[nation]}'", "'ECONOMY ANODIZED STEEL'": kind}


def two(pick, values) -> tuple:
    """Two of them that are not the same."""
    first = pick(values)
    return first, pick([value for value in values if value != first])


def quantities(pick) -> dict:
    brands, found = [pick(BRANDS) for _ in range(3)], {}
    for old, low, high, brand, was in ((1, 1, 10, 0, 12), (10, 10, 20, 1, 23), (20, 20, 30, 2, 34)):
        new = pick(list(range(low, high + 1)))
        found |= {f"l_quantity >= {old} and l_quantity <= {old} + 10": f"l_quantity >= {new} and l_quantity <= {new} + 10"}
        found |= {f"'Brand#{was}'": f"'{brands[brand]}'"}
    return found


def codes(pick) -> dict:
    start = pick(list(range(10, 29)))
    return {listed(CODES_22): listed(str(code) for code in range(start, start + 7))}


def pair(pick) -> dict:
    one, other = two(pick, NATIONS)
    return {"'FRANCE'": f"'{one}'", "'GERMANY'": f"'{other}'"}


def modes(pick) -> dict:
    one, other = two(pick, MODES)
    return {"('MAIL', 'SHIP')": f"('{one}', '{other}')"} | span(("1994-01-01", "1995-01-01"), (pick(YEARS), 1), 12)


YEARS = [1993, 1994, 1995, 1996, 1997]
DAYS_3 = [f"1995-03-{number:02}" for number in range(1, 32)]
# What each query has in the place of its parameters, given a function that picks one of some values in their order.
PARAMETERS = {
    1: lambda pick: {"1998-09-02": pick(["1998-10-02", "1998-08-03"])},
    2: lambda pick: {"p_size = 15": f"p_size = {pick(list(range(1, 51)))}", "'%BRASS'": f"'%{pick(THIRD)}'", "'EUROPE'": f"'{pick(REGIONS)}'"},
    3: lambda pick: {"'BUILDING'": f"'{pick(SEGMENTS)}'", "1995-03-15": pick(DAYS_3)},
    4: lambda pick: span(("1993-07-01", "1993-10-01"), pick(months((1993, 1), (1997, 10))), 3),
    5: lambda pick: {"'ASIA'": f"'{pick(REGIONS)}'"} | span(("1994-01-01", "1995-01-01"), (pick(YEARS), 1), 12),
    6: lambda pick: span(("1994-01-01", "1995-01-01"), (pick(YEARS), 1), 12)
    | {"0.05 and 0.07": pick([f"0.0{cents - 1} and 0.{cents + 1:02}" for cents in range(2, 10)]), "l_quantity < 24": f"l_quantity < {pick([24, 25])}"},
    7: pair,
    8: nation_of_region,
    9: lambda pick: {"'%green%'": f"'%{pick(COLORS)}%'"},
    10: lambda pick: span(("1993-10-01", "1994-01-01"), pick(months((1993, 2), (1995, 1))), 3),
    11: lambda pick: {"'GERMANY'": f"'{pick(NATIONS)}'", "0.0001": FRACTION},
    12: modes,
    13: lambda pick: {"special": pick(["express", "pending", "special", "unusual"]), "requests": pick(["accounts", "deposits", "packages", "requests"])},
    14: lambda pick: span(("1995-09-01", "1995-10-01"), pick(months((1993, 1), (1997, 12))), 1),
    15: lambda pick: span(("1996-01-01", "1996-04-01"), pick(months((1993, 1), (1997, 10))), 3),
    16: sized,
    17: lambda pick: {"'Brand#23'": f"'{pick(BRANDS)}'", "'MED BOX'": f"'{pick(CONTAINERS)}'"},
    18: lambda pick: {"> 300": f"> {pick(QUANTITIES)}"},
    19: quantities,
    20: lambda pick: {"'forest%'": f"'{pick(COLORS)}%'", "'CANADA'": f"'{pick(NATIONS)}'"} | span(("1994-01-01", "1995-01-01"), (pick(YEARS), 1), 12),
    21: lambda pick: {"'SAUDI ARABIA'": f"'{pick(NATIONS)}'"},
    22: codes,
}
# What depends on the scale: the specification divides by it, and at a small one there are few large orders.
FRACTION = "0.0001"
QUANTITIES = [250, 312, 315]
# The columns that each query with a LIMIT is ordered by: rows that tie with the last may be others.
ORDERED = {2: [0, 2, 1, 3], 3: [1, 2], 10: [2], 18: [4, 3], 21: [1, 0]}


def variants(number: int, draws: int, rng) -> dict:
    """The texts of a query by the name of what its parameters are."""
    text = (QUERIES / f"q{number:02}.sql").read_text(encoding="utf-8").strip().rstrip(";")
    made = {"validation": text, "low": replaced(text, PARAMETERS[number](lambda values: values[0]))}
    made["high"] = replaced(text, PARAMETERS[number](lambda values: values[-1]))
    for draw in range(draws):
        made[f"drawn {draw}"] = replaced(text, PARAMETERS[number](rng.choice))
    return {sql: f"q{number:02} {name}" for name, sql in reversed(made.items())}


def replaced(text: str, parameters: dict) -> str:
    """The query with other parameters, all put in at once."""
    missing = [old for old in parameters if old not in text]
    if missing:
        raise SystemExit(f"sql/tpch has another text than this script: {missing} is not in\n{text}")
    pattern = "|".join(re.escape(old) for old in sorted(parameters, key=len, reverse=True))
    return re.sub(pattern, lambda found: parameters[found[0]], text)


class Ours(engines.Ours):
    """Ours on the tables of a `schema.sql`."""

    def __init__(self, *args, schema: str, **more):
        super().__init__(*args, **more)
        self.schema = schema

    def declared(self, schema: str) -> str:
        return self.schema


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, help="the program pushdowndb")
    parser.add_argument("--scale", type=float, default=0.01, help="how many gigabytes of text the data would be")
    parser.add_argument("--format", default="parquet", choices=["csv", "parquet", "json"])
    parser.add_argument("--draws", type=int, default=1, metavar="N", help="how many times parameters are drawn for each query")
    parser.add_argument("--levels", default=",".join(LEVELS), help="levels of pushdown over a node, beside local files; empty for none")
    parser.add_argument("--queries", metavar="N,N", help="only these")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("PUSHDOWNDB_SEED") or random.randrange(1 << 32)))
    args = parser.parse_args()
    print(f"tpch: seed {args.seed} (PUSHDOWNDB_SEED={args.seed})", flush=True)
    try:
        import duckdb
    except ImportError:
        print("SKIPPED tpch: the Python package duckdb is missing", flush=True)
        return 0
    with tempfile.TemporaryDirectory(prefix="answers-tpch-") as folder, Node(args.binary, Path(folder)) as node:
        return run(args, Path(folder), duckdb.connect(), node)


def run(args, folder: Path, duck, node) -> int:
    global FRACTION
    FRACTION = f"{0.0001 / args.scale:.10f}".rstrip("0")
    environment = {
        "AWS_ACCESS_KEY_ID": ROOT.id, "AWS_SECRET_ACCESS_KEY": ROOT.secret, "AWS_ENDPOINT_URL": node.endpoint, "AWS_REGION": "us-east-1",
    }
    ways = [ours(args, "local", str(folder / "tpch"), [], environment)]
    for level in filter(None, args.levels.split(",")):
        ways.append(ours(args, level, "s3://tpch/tpch", [f"pushdown.level={level}"], environment))
    views(duck, args.format, folder / "tpch")
    rng, asked = random.Random(args.seed), {}
    for number in map(int, args.queries.split(",")) if args.queries else PARAMETERS:
        asked |= variants(number, args.draws, rng)
    start, wrong, empty = time.monotonic(), 0, 0
    answers = {way.name: way.answers("tpch", list(asked)) for way in ways}
    for at, (sql, name) in enumerate(asked.items()):
        number = int(name[1:3])
        expected = theirs(duck, sql)
        empty += not expected.rows
        for way in ways:
            said = difference(answers[way.name][at], expected, ORDERED.get(number, []), number in ORDERED)
            if said:
                wrong += 1
                print(f"tpch: FAILED {name}, {way.name}: {said}\n{sql}\n", flush=True)
    print(f"tpch: {len(asked)} statements, {empty} without rows, {len(ways)} ways, {wrong} failed, {time.monotonic() - start:.0f} s, seed {args.seed}")
    return 1 if wrong else 0


def ours(args, name: str, place: str, settings: list, environment: dict) -> Ours:
    """One way of ours; makes its data if it is not there."""
    where = ["--create-bucket"] if place.startswith("s3:") else []
    made = engines.subprocess.run(
        [args.binary, "generate", "tpch", "--scale", str(args.scale), "--format", args.format, "--parts", "2", "--overwrite", "--to", place, *where],
        capture_output=True, text=True, env={**os.environ, **environment},
    )
    if made.returncode:
        raise SystemExit(f"generate: {made.stderr}")
    return Ours(args.binary, name, place, settings, environment, seconds=120, schema=f"{place}/schema.sql")


def views(duck, form: str, folder: Path) -> None:
    """The tables in DuckDB, of the same files."""
    schema = (folder / "schema.sql").read_text(encoding="utf-8")
    for table, columns in re.findall(r"EXTERNAL TABLE (\w+)\s*(\(.*?\n\))?\s*STORED AS", schema, re.S):
        if form == "parquet":
            duck.execute(f"CREATE VIEW {table} AS SELECT * FROM '{folder}/{table}/*.parquet'")
        else:
            duck.execute(f"CREATE TABLE {table} {re.sub(r' NOT NULL', '', columns)}")
            duck.execute(f"INSERT INTO {table} BY NAME SELECT * FROM '{folder}/{table}/*.{form}'")
    duck.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")


def theirs(duck, sql: str) -> engines.Answer:
    result = duck.execute(sql)
    kinds = [engines.kind_of(str(column[1])) for column in result.description]
    return engines.Answer(result.fetchall(), kinds=kinds)


def cut_quotients(answer, expected) -> None:
    """Averages and quotients of decimals are decimals of ours and doubles of DuckDB, which are cut to as many digits."""
    for column, like in enumerate(compare.likes(expected)):
        digits = {row[column].as_tuple().exponent for row in answer.rows if len(row) > column and isinstance(row[column], Decimal)}
        if like == "dbl" and digits and max(digits) <= -4:
            cut = Decimal(1).scaleb(min(digits))
            cells = ([*row[:column], row[column] if row[column] is None else Decimal(row[column]).quantize(cut, ROUND_DOWN), *row[column + 1 :]] for row in expected.rows)
            expected.rows = [tuple(row) for row in cells]
            expected.kinds[column] = "other"


def difference(answer, expected, order: list, limited: bool) -> str:
    if answer.error:
        return answer.error
    cut_quotients(answer, expected)
    mine, its = compare.ours(answer, compare.likes(expected), "json"), compare.theirs(expected, "json")
    if compare.agree(mine, its, order, limited):
        return ""
    only = [[row for row in some if not any(compare.same_row(row, other) for other in others)] for some, others in ((mine, its), (its, mine))]
    shown = ["; ".join(str(list(map(str, row))) for row in rows[:2]) for rows in only]
    return f"{len(mine)} rows and {len(its)}, only ours {shown[0]}, only DuckDB {shown[1]}"


if __name__ == "__main__":
    sys.exit(main())
