"""Random statements that hold many rows: sorts, groups, joins, windows, sets, and some of them above each other.

They have none of the expressions of `conformance/answers/generate.py` that are errors for some values, since one row in
thousands would fail the statement; and they are few enough rows to be compared.
"""

import random

from conformance.answers.generate import WINDOWS, Statement
from conformance.spill.tables import COLUMNS

OF_KIND: dict[str, list[str]] = {}
for name, _type, kind in COLUMNS:
    OF_KIND.setdefault("dbl" if kind == "real" else kind, []).append(name)

# What is no error for any row: how often, and its text with a kind in braces for each column.
SHAPES = {
    "int": [(8, "{int}"), (1, "coalesce({int}, -1)"), (1, "({id} % 97)"), (1, "nullif({int}, 7)"), (1, "length({text})"), (1, "CASE WHEN {bool} THEN {id} ELSE {int} END")],
    "dec": [(6, "{dec}"), (1, "coalesce({dec}, 0.5)"), (1, "({d2} + 1.5)"), (1, "round({d2}, 1)"), (1, "greatest({dec}, {dec})")],
    "dbl": [(6, "{dbl}"), (1, "coalesce({dbl}, 0.0)"), (1, "abs({dbl})"), (1, "({dbl} * 2)")],
    "text": [
        (8, "{text}"), (2, "{w}"), (1, "({text} || {text})"), (1, "left({w}, 20)"), (1, "substr({w}, 3, 200)"), (1, "concat({v}, {w})"), (1, "coalesce({text}, '')"), (1, "repeat({s}, 9)"),
        (1, "CAST({id} AS VARCHAR)"), (1, "CASE WHEN {bool} THEN {text} ELSE {text} END"),
    ],
    "bool": [(4, "{bool}"), (1, "({int} > 3)"), (1, "({text} LIKE 'a%')"), (1, "({date} IS NULL)"), (1, "({id} % 5 = 2)"), (1, "({dbl} > 0.5)")],
    "date": [(4, "{date}"), (1, "coalesce({date}, DATE '2024-02-29')"), (1, "({date} + INTERVAL '1 month')")],
    "ts": [(4, "{ts}"), (1, "date_trunc('hour', {ts})"), (1, "coalesce({ts}, TIMESTAMP '2024-02-29 12:00:00')")],
    "tz": [(4, "{tz}"), (1, "coalesce({tz}, TIMESTAMPTZ '2024-02-29 12:00:00+00')")],
}
KINDS = list(SHAPES)
# Aggregates whose result does not depend on the order of the rows, but for the last digits of a float. Not corr and
# regr_slope, which divide by such digits where all values are equal.
AGGREGATES = [
    "count(*)", "count({any})", "count(DISTINCT {any})", "sum({int})", "sum({dec})", "sum({dbl})", "avg({int})", "avg({dec})", "avg({dbl})", "min({any})", "max({any})", "min({text})", "max({text})",
    "max({w})", "bool_and({bool})", "bool_or({bool})", "sum(DISTINCT {int})", "avg(DISTINCT {d2})", "stddev_samp({sm})", "var_pop({sm})", "bit_or({int})", "bit_and({int})", "bit_xor({int})",
    "sum({int}) FILTER (WHERE {bool})", "count(*) FILTER (WHERE {bool})", "max({text}) FILTER (WHERE {bool})", "string_agg({text}, ',' ORDER BY {id})", "array_agg({int} ORDER BY {id} DESC)",
    "first_value({any} ORDER BY {id})", "last_value({text} ORDER BY {id})", "nth_value({any}, 2 ORDER BY {id})", "median({d2})", "percentile_cont(0.25) WITHIN GROUP (ORDER BY {sm})", "covar_samp({sm}, {ti})",
    "approx_distinct({text})",
]
# Columns by the number of their values: of the first there are few, and of the last two rows seldom share one.
FEW, SOME, MANY = ["g", "bo", "ti", "r"], ["sm", "f", "dt", "k", "u", "d2", "tz"], ["s", "v", "j", "l", "d6", "ts", "w", "i", "id"]
# Keys of joins, of which two tables share values; and pairs of those, to be equal or to be compared.
ROWS_OF_PAIRS = ["{x}.id = {y}.id", "{x}.j = {y}.id", "{x}.id = {y}.j", "{x}.v = {y}.v", "{x}.u = {y}.u", "{x}.ts = {y}.ts", "{x}.d6 = {y}.d6", "{x}.l = {y}.l AND {x}.l <> 0", "{x}.d2 = {y}.d2", "{x}.w = {y}.w"]
MANY_PAIRS = ["{x}.k = {y}.k", "{x}.s = {y}.s", "{x}.f = {y}.f", "{x}.dt = {y}.dt", "{x}.k = {y}.id", "{x}.d2 = {y}.d6", "{x}.i = {y}.l", "{x}.j = {y}.j"]
ALSO = [
    " AND {x}.d2 < {y}.d2", " AND {x}.g = {y}.g", " AND {x}.bo", " AND {y}.w > {x}.w", " AND {x}.k IS NOT DISTINCT FROM {y}.k", " AND coalesce({x}.s, '') <> coalesce({y}.s, '')",
    " AND ({x}.bo OR {y}.bo)", " AND {x}.dt = {y}.dt", " AND {x}.k + {y}.sm > 0",
]
SIDES = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]


class Expressions:
    """Draws expressions over the columns of the tables with the given aliases."""

    def __init__(self, rng: random.Random, *aliases: str):
        self.rng, self.aliases = rng, aliases or ("",)

    def column(self, name: str) -> str:
        alias = self.rng.choice(self.aliases)
        return f"{alias}.{name}" if alias else name

    def of(self, kind: str) -> str:
        shapes = SHAPES[kind]
        return self.fill(self.rng.choices([text for _, text in shapes], [often for often, _ in shapes])[0])

    def any(self) -> str:
        return self.of(self.rng.choice(KINDS))

    def fill(self, shape: str) -> str:
        """The shape with a column in each pair of braces: that of the name, or one of the kind."""
        first, *parts = shape.split("{")
        for part in parts:
            hole, rest = part.split("}", 1)
            of_kind = OF_KIND[self.rng.choice(KINDS)] if hole == "any" else OF_KIND.get(hole, [hole])
            first += self.column(self.rng.choice(of_kind)) + rest
        return first

    def aggregates(self, most: int) -> str:
        """Aggregates; of joined tables, whose rows may share an `id`, none that depends on the order of the rows."""
        allowed = AGGREGATES if self.aliases == ("",) else [text for text in AGGREGATES if "ORDER BY {id}" not in text]
        chosen = self.rng.sample(allowed, self.rng.randint(1, most))
        return ", ".join(f"{self.fill(text)} AS c{number}" for number, text in enumerate(chosen))


class Generator:
    """Draws statements; the same ones for a seed."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.shapes = {
            self.of_sort: 6, self.of_groups: 7, self.of_sets: 3, self.of_distinct: 3, self.of_join: 10, self.of_semi: 5, self.of_window: 5, self.of_union: 3, self.of_three: 5,
            self.of_nested: 6, self.of_correlated: 1, self.of_loop: 1, self.of_aggregate: 1, self.of_top: 1,
        }

    def next(self) -> Statement:
        shape = self.rng.choices(list(self.shapes), list(self.shapes.values()))[0]
        statement = shape()
        statement.shape = shape.__name__.removeprefix("of_")
        return statement

    def table(self) -> str:
        return self.rng.choices(["a", "b", "c", "e"], [40, 8, 1, 1])[0]

    def where(self, *aliases, chance=0.25) -> str:
        return f" WHERE {Expressions(self.rng, *aliases).of('bool')}" if self.rng.random() < chance else ""

    def direction(self) -> str:
        return self.rng.choice(["", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"])

    def keys(self, most=3) -> list[str]:
        """Columns to group by, of which one has many values."""
        rng = self.rng
        first = rng.choice(MANY + SOME[3:])
        return [first, *rng.sample([name for name in FEW + SOME + MANY if name != first], rng.randint(0, most - 1))]

    def of_sort(self) -> Statement:
        rng, scope = self.rng, Expressions(self.rng)
        keys = rng.sample(FEW + SOME + MANY, rng.choice([1, 1, 2, 3, 5]))
        order = ", ".join(key + self.direction() for key in keys)
        more = rng.choice(["", ", *", ", *", f", {scope.any()} AS c", ", w, v, u", ", s, w", ", id"])
        if rng.random() < 0.15:
            return Statement(f"SELECT {scope.any()} AS c, id, s, w FROM {self.table()}{self.where()} ORDER BY 1{self.direction()}", [0])
        if more == ", *":
            return Statement(f"SELECT * FROM {self.table()}{self.where()} ORDER BY {order}", [position(key) for key in keys])
        more = "".join(f", {name}" for name in more.split(", ")[1:] if name not in keys)
        return Statement(f"SELECT {', '.join(keys)}{more} FROM {self.table()}{self.where()} ORDER BY {order}", list(range(len(keys))))

    def of_top(self) -> Statement:
        rng = self.rng
        keys = rng.sample(SOME + MANY, rng.choice([1, 2]))
        limit = rng.choice(["LIMIT 10", "LIMIT 3000", "LIMIT 1000000", "LIMIT 5000 OFFSET 100", "OFFSET 7000"])
        more = "".join(f", {name}" for name in ("id", "w") if name not in keys)
        return Statement(f"SELECT {', '.join(keys)}{more} FROM {self.table()} ORDER BY {', '.join(key + self.direction() for key in keys)} {limit}", list(range(len(keys))), True)

    def of_groups(self) -> Statement:
        rng, scope, keys = self.rng, Expressions(self.rng), self.keys()
        if rng.random() < 0.2:
            keys[0] = scope.of(rng.choice(["int", "text", "dec", "ts", "dbl"]))
        named = ", ".join(f"{key} AS k{number}" for number, key in enumerate(keys))
        having = rng.choice(["", "", "", " HAVING count(*) > 1", " HAVING max(s) IS NOT NULL"])
        order = rng.choice(["", "", " ORDER BY 1", " ORDER BY 1 DESC, 2"])
        sql = f"SELECT {named}, {scope.aggregates(4)} FROM {self.table()}{self.where()} GROUP BY {', '.join(str(number + 1) for number in range(len(keys)))}{having}"
        return Statement(sql + order, [0] if order else [])

    def of_sets(self) -> Statement:
        rng, scope = self.rng, Expressions(self.rng)
        x, y = rng.choice(MANY), rng.choice(FEW + SOME)
        by = rng.choice([f"GROUPING SETS (({x}), ({y}), ())", f"ROLLUP ({y}, {x})", f"CUBE ({x}, {y})", f"GROUPING SETS (({x}, {y}), ({x}))"])
        return Statement(f"SELECT {x}, {y}, grouping({x}) AS gx, {scope.aggregates(2)} FROM {self.table()}{self.where()} GROUP BY {by}")

    def of_aggregate(self) -> Statement:
        return Statement(f"SELECT {Expressions(self.rng).aggregates(3)} FROM {self.table()}{self.where()}")

    def of_distinct(self) -> Statement:
        rng, keys = self.rng, self.keys()
        chosen = ", ".join(keys)
        return Statement(rng.choice([
            f"SELECT DISTINCT {chosen} FROM {self.table()}{self.where()}",
            f"SELECT count(*) AS n, max({keys[0]}) AS m FROM (SELECT DISTINCT {chosen} FROM {self.table()}) AS q",
            f"SELECT DISTINCT ON ({keys[0]}) {keys[0]}, id AS i0, w AS w0 FROM {self.table()}{self.where()} ORDER BY {keys[0]}{rng.choice([', id', ', id DESC']) if keys[0] != 'id' else ''}",
            f"SELECT {rng.choice(FEW)} AS p, count(DISTINCT {keys[0]}) AS c, sum(DISTINCT sm) AS d FROM {self.table()} GROUP BY 1",
            f"SELECT {rng.choice(SOME)} AS p, count(DISTINCT {keys[0]}) AS c FROM {self.table()} GROUP BY 1",
            f"SELECT count(DISTINCT {keys[0]}) AS c, count(DISTINCT {rng.choice(MANY)}) AS d FROM {self.table()}",
        ]))

    def on(self, x="x", y="y", most=False) -> str:
        """The condition of a join; `most` if it may hold for many pairs of rows."""
        rng = self.rng
        text = rng.choice(MANY_PAIRS if most else ROWS_OF_PAIRS)
        if rng.random() < 0.15:
            text = text.replace(" = ", " IS NOT DISTINCT FROM ", 1) if "id" in text or ".v" in text else text
        if rng.random() < 0.3:
            text += rng.choice(ALSO)
        return text.replace("{x}", x).replace("{y}", y)

    def of_join(self) -> Statement:
        rng, scope = self.rng, Expressions(self.rng, "x", "y")
        most = rng.random() < 0.4
        joined = f"{self.table()} AS x {rng.choice(SIDES)} {self.table()} AS y ON {self.on(most=most)}"
        wide = rng.choice(["x.id AS xi, y.id AS yi", "x.id AS xi, y.id AS yi, x.w AS xw, y.w AS yw", "x.id AS xi, y.id AS yi, x.w AS xw, x.v AS xv, y.u AS yu, y.s AS ys", f"x.id AS xi, y.id AS yi, {scope.any()} AS c, {scope.any()} AS d"])
        if most or rng.random() < 0.3:
            first = rng.choice(["", f"x.{rng.choice(FEW + SOME)} AS p, "])
            return Statement(f"SELECT {first}count(*) AS n, count(x.id) AS nx, count(y.id) AS ny, sum(x.id + y.id) AS s, max(x.w) AS mx, {scope.aggregates(2)} FROM {joined}{self.where('x', 'y')}{' GROUP BY 1' if first else ''}")
        if rng.random() < 0.3:
            return Statement(f"SELECT {wide} FROM {joined} ORDER BY 2{self.direction()}, 1{self.direction()}", [1, 0])
        if rng.random() < 0.2:
            name = rng.choice(["id", "v", "u", "ts"])
            return Statement(f"SELECT {name}, x.w AS xw, y.id AS yi FROM {self.table()} AS x {rng.choice(['JOIN', 'LEFT JOIN'])} {self.table()} AS y USING ({name})")
        return Statement(f"SELECT {wide} FROM {joined}{self.where('x', 'y')}")

    def of_semi(self) -> Statement:
        rng, x, y = self.rng, self.table(), self.table()
        column = rng.choice(["k", "u", "d2", "dt", "s", "v", "w", "f", "j", "ts", "ti"])
        also = rng.choice(["", "", " AND y.d2 > x.d2", " AND y.g = x.g", " AND y.w < x.w", " AND y.id <> x.id"])
        test = rng.choice([
            f"x.{column} IN (SELECT y.{column} FROM {y} AS y{self.where('y')})",
            f"x.{column} NOT IN (SELECT y.{column} FROM {y} AS y WHERE y.{column} IS NOT NULL AND y.bo)",
            f"x.{column} NOT IN (SELECT y.{column} FROM {y} AS y{self.where('y')})",
            f"EXISTS (SELECT 1 FROM {y} AS y WHERE y.{column} = x.{column}{also})",
            f"NOT EXISTS (SELECT 1 FROM {y} AS y WHERE y.{column} = x.{column}{also})",
            f"(x.bo OR x.{column} IN (SELECT y.{column} FROM {y} AS y))",
            f"(x.ti > 3 OR NOT EXISTS (SELECT 1 FROM {y} AS y WHERE y.{column} = x.{column}))",
            f"EXISTS (SELECT 1 FROM {y} AS y WHERE y.k = x.k AND y.g = x.g)",
            f"x.j IN (SELECT y.id FROM {y} AS y) AND x.v IN (SELECT y.v FROM {y} AS y WHERE y.bo)",
        ])
        return Statement(f"SELECT x.id{rng.choice(['', ', x.w', ', x.w', ', x.s, x.v, x.u, x.w'])} FROM {x} AS x WHERE {test}")

    def window(self) -> str:
        rng = self.rng
        text = rng.choice(WINDOWS)
        order = rng.choice([f"{rng.choice(SOME + MANY)}{self.direction()}, id", "id", "id DESC", f"{rng.choice(FEW)}{self.direction()}, id DESC"])
        holes = {
            "{part}": rng.choice(["", "PARTITION BY k ", "PARTITION BY g, bo ", "PARTITION BY g ", "PARTITION BY u "]), "{order}": order, "{free}": f"{rng.choice(SOME + MANY)}{self.direction()}",
            "{col}": rng.choice(["sm", "s", "d2", "dt", "k", "ts", "w", "v"]), "{int0}": rng.choice(["sm", "ti", "id", "k"]), "{dec0}": rng.choice(["d2", "d6"]),
        }
        for hole, filled in holes.items():
            text = text.replace(hole, filled)
        return text

    def of_window(self) -> Statement:
        rng = self.rng
        chosen = ", ".join(f"{self.window()} AS c{number}" for number in range(rng.choice([1, 1, 1, 2])))
        more = rng.choice(["", ", w", ", w", ", s, v, w"])
        if rng.random() < 0.15:
            return Statement(f"SELECT count(*) AS n, sum(id) AS s, max(c0) AS m FROM (SELECT id, {chosen} FROM {self.table()}) AS q")
        return Statement(f"SELECT id{more}, {chosen} FROM {self.table()}{self.where(chance=0.1)}")

    def of_union(self) -> Statement:
        rng = self.rng
        operator = rng.choice(["UNION", "UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
        keys = self.keys()
        sides = [f"SELECT {', '.join(keys)} FROM {self.table()}{self.where()}" for _ in range(2)]
        order = rng.choice(["", "", " ORDER BY 1"])
        return Statement(f" {operator} ".join(sides) + order, [0] if order else [])

    def of_three(self) -> Statement:
        rng, scope = self.rng, Expressions(self.rng, "x", "y", "z")
        x, y, z = self.table(), self.table(), self.table()
        kinds = [rng.choice(SIDES) for _ in range(2)]
        first, second = rng.choice(["x.j = y.id", "x.id = y.id", "x.v = y.v"]), rng.choice(["y.j = z.id", "y.id = z.id", "y.u = z.u", "x.j = z.id", "x.id = z.j"])
        joined = f"{x} AS x {kinds[0]} {y} AS y ON {first} {kinds[1]} {z} AS z ON {second}"
        return Statement(rng.choice([
            f"SELECT x.id AS xi, y.id AS yi, z.id AS zi, x.w AS w FROM {joined}",
            f"SELECT x.g AS p, count(*) AS n, count(y.id) AS ny, count(z.id) AS nz, {scope.aggregates(2)} FROM {joined} GROUP BY 1",
            f"SELECT y.u AS p, z.k AS q, count(*) AS n, sum(x.d2) AS s, max(z.w) AS m FROM {joined} GROUP BY 1, 2",
        ]))

    def of_nested(self) -> Statement:
        rng, x, y = self.rng, self.table(), self.table()
        key, other = rng.choice(["k", "u", "s", "v", "j", "dt", "d2"]), rng.choice(MANY)
        return Statement(*rng.choice([
            (f"SELECT q.{key} AS p, q.n, y.w AS w, y.id AS yi FROM (SELECT {key}, count(*) AS n FROM {x} GROUP BY {key}) AS q {rng.choice(SIDES)} {y} AS y ON y.{key} = q.{key}",),
            (f"SELECT n, count(*) AS c FROM (SELECT {key}, {other}, count(*) AS n FROM {x} GROUP BY {key}, {other}) AS q GROUP BY n",),
            (f"SELECT {key}, id, w FROM (SELECT {key}, id, w, row_number() OVER (PARTITION BY {key} ORDER BY {other}, id) AS n FROM {x}) AS q WHERE n <= 2",),
            (f"SELECT q.p, q.n, q.m FROM (SELECT {key} AS p, count(*) AS n, max(w) AS m FROM {x} GROUP BY {key}) AS q ORDER BY q.m DESC, q.p", [2, 0]),
            (f"WITH q AS (SELECT id, {key}, w FROM {x} WHERE bo) SELECT p.id AS pi, r.id AS ri, p.w AS w FROM q AS p {rng.choice(SIDES)} q AS r ON p.id = r.id AND p.{key} = r.{key}",),
            (f"SELECT {key}, n, sum(n) OVER (ORDER BY n, {key} ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS c FROM (SELECT {key}, count(*) AS n FROM {x} GROUP BY {key}) AS q",),
            (f"SELECT x.id, q.m FROM {x} AS x JOIN (SELECT {key}, max(w) AS m, count(*) AS n FROM {y} GROUP BY {key}) AS q ON x.{key} = q.{key} WHERE q.n < 30 ORDER BY x.id DESC, q.m", [0, 1]),
        ]))

    def of_correlated(self) -> Statement:
        rng, x, y = self.rng, self.table(), self.table()
        aggregate = rng.choice(["count(*)", "sum(y.sm)", "max(y.w)", "min(y.dt)", "avg(y.d2)"])
        inner = f"(SELECT {aggregate} FROM {y} AS y WHERE {rng.choice(['y.k = x.k', 'y.j = x.id', 'y.g = x.g AND y.bo', 'y.u = x.u'])})"
        return Statement(rng.choice([
            f"SELECT x.id, {inner} AS c FROM {x} AS x", f"SELECT x.id, x.w FROM {x} AS x WHERE {inner} IS NOT NULL", f"SELECT x.id, x.w, z.c FROM {x} AS x, LATERAL {inner[:-1].replace(aggregate, aggregate + ' AS c')}) AS z",
        ]))

    def of_loop(self) -> Statement:
        """Joins without equal keys, of the small table."""
        rng = self.rng
        on = rng.choice(["x.id < y.ti", "x.dt < y.dt AND x.sm > y.sm + 90", "x.d2 BETWEEN y.d2 AND y.d2 + 1", "x.w < y.w AND x.id > y.id AND y.ti = 3", "x.k <> y.k AND x.id % 50 = 1"])
        return Statement(f"SELECT count(*) AS n, count(x.id) AS nx, count(y.id) AS ny, sum(x.id + y.id) AS s, max(y.w) AS m FROM c AS x {rng.choice(SIDES)} c AS y ON {on}")


def position(column: str) -> int:
    """The number of a column among those of `*`."""
    return next(number for number, (name, *_) in enumerate(COLUMNS) if name == column)
