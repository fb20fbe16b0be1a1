"""Random statements: an expression over one table mostly, else a shape of a query with expressions in it."""

import random
from dataclasses import dataclass, field

from conformance.answers.expressions import KINDS, Scope

AGGREGATES = [
    "count(*)", "count({int})", "count(DISTINCT {int})", "count(DISTINCT {text})", "sum({int})", "sum({dec})", "sum({dbl})", "avg({int})", "avg({dec})", "min({int})", "max({int})",
    "min({dec})", "max({dbl})", "min({dbl})", "min({text})", "max({text})", "min({date})", "max({ts})", "max({tz})", "bool_and({bool})", "bool_or({bool})", "sum(DISTINCT {int})",
    "stddev_samp({dec})", "var_pop({int})", "sum({int}) FILTER (WHERE {bool})", "count(*) FILTER (WHERE {bool})", "max({text}) FILTER (WHERE {bool})",
    "string_agg({same}, ',' ORDER BY {same})", "bit_or({int})", "bit_and({int})", "avg(DISTINCT {dec})", "stddev({int})", "sum({dec}) FILTER (WHERE {bool})",
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY {dbl})",
]
# Two orders of rows are drawn as one where the rows tie, so windows are ordered by the key, which is unique.
WINDOWS = [
    "row_number() OVER ({part}ORDER BY {order})", "rank() OVER ({part}ORDER BY {free})", "dense_rank() OVER ({part}ORDER BY {free})", "lag({col}) OVER ({part}ORDER BY {order})",
    "lead({col}, 2) OVER ({part}ORDER BY {order})", "first_value({col}) OVER ({part}ORDER BY {order})", "last_value({col}) OVER ({part}ORDER BY {order})", "nth_value({col}, 2) OVER ({part}ORDER BY {order})",
    "ntile(3) OVER ({part}ORDER BY {order})", "percent_rank() OVER ({part}ORDER BY {free})", "cume_dist() OVER ({part}ORDER BY {free})", "sum({int0}) OVER ({part}ORDER BY {free})", "count({col}) OVER ({part}ORDER BY {free})",
    "sum({int0}) OVER ({part}ORDER BY {order} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)", "max({int0}) OVER ({part}ORDER BY {order} ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING)",
    "min({dec0}) OVER ({part}ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)", "count(*) OVER ({part}ORDER BY id RANGE BETWEEN 3 PRECEDING AND 2 FOLLOWING)",
    "sum({int0}) OVER ({part}ORDER BY {free} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)", "avg({int0}) OVER ({part}ORDER BY {order} ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING)",
    "count(*) OVER ({part}ORDER BY {free} GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW)", "lag({int0}, 1, 0) OVER ({part}ORDER BY {order})", "sum(sm) FILTER (WHERE bo) OVER ({part}ORDER BY {free})",
    "count(*) OVER ({part}ORDER BY dt RANGE BETWEEN INTERVAL '1 month' PRECEDING AND CURRENT ROW)", "max({col}) OVER ({part})",
]
KEYS = ["k", "g", "bo", "ti", "dt", "d2", "u"]


@dataclass
class Statement:
    """SQL, the columns whose order counts, whether a limit cuts ties, who can read it, and the shape it was drawn from."""

    sql: str
    order: list = field(default_factory=list)
    limited: bool = False
    everywhere: bool = True
    shape: str = ""


class Generator:
    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.shapes = {
            name: getattr(self, f"of_{name}")
            for name in ("expression", "filter", "aggregate", "group", "sets", "join", "semi", "distinct", "union", "window", "top", "correlated", "literal", "nested", "usingjoin", "three", "best")
        }
        self.weights = dict.fromkeys(self.shapes, 2) | {"expression": 12, "filter": 6, "literal": 3, "group": 4, "window": 4, "join": 4}

    def next(self) -> Statement:
        shape = self.rng.choices(list(self.weights), list(self.weights.values()))[0]
        statement = self.shapes[shape]()
        statement.shape = shape
        return statement

    def table(self) -> str:
        return self.rng.choices(["a", "b", "e"], [7, 3, 1])[0]

    def scope(self, *aliases) -> Scope:
        return Scope(self.rng, aliases or ("",))

    def where(self, scope, chance=0.4, depth=2) -> str:
        return f" WHERE {scope.make('bool', depth)}" if self.rng.random() < chance else ""

    def of_expression(self):
        scope = self.scope()
        text, _ = scope.any(self.rng.choice([1, 1, 2, 2, 3]))
        return Statement(f"SELECT id, {text} AS c FROM {self.table()}")

    def of_literal(self):
        text, _ = Scope(self.rng, ()).any(self.rng.choice([1, 2]))
        return Statement(f"SELECT {text} AS c")

    def of_filter(self):
        return Statement(f"SELECT id FROM {self.table()} WHERE {self.scope().make('bool', self.rng.choice([1, 2, 2, 3]))}")

    def some_aggregates(self, scope, count, depth=1):
        chosen = []
        for _ in range(count):
            text, deep = self.rng.choice(AGGREGATES), self.rng.choice([0, 0, depth])
            # What is put together in an order is ordered by itself: ties would be put together in any order.
            chosen.append(scope.fill(text.replace("{same}", scope.make("text", deep)) if "{same}" in text else text, deep))
        return chosen

    def of_aggregate(self):
        scope = self.scope()
        chosen = ", ".join(f"{text} AS c{n}" for n, text in enumerate(self.some_aggregates(scope, self.rng.choice([1, 1, 2]))))
        return Statement(f"SELECT {chosen} FROM {self.table()}{self.where(scope)}")

    def of_group(self):
        rng, scope = self.rng, self.scope()
        keys = rng.sample(KEYS, rng.choice([1, 1, 2]))
        if rng.random() < 0.3:
            keys[0] = scope.make(rng.choice(["int", "text", "bool", "date"]), 1)
        named = ", ".join(f"{text} AS k{n}" for n, text in enumerate(keys))
        chosen = ", ".join(f"{text} AS c{n}" for n, text in enumerate(self.some_aggregates(scope, rng.choice([1, 2]))))
        having = f" HAVING {rng.choice(['count(*) > 1', 'sum(sm) > 0', 'max(s) IS NOT NULL', 'min(dt) < max(dt)', 'bool_or(bo)'])}" if rng.random() < 0.3 else ""
        by = ", ".join(keys if rng.random() < 0.7 else [str(n + 1) for n in range(len(keys))])
        return Statement(f"SELECT {named}, {chosen} FROM {self.table()}{self.where(scope)} GROUP BY {by}{having}")

    def of_sets(self):
        rng, scope = self.rng, self.scope()
        x, y = rng.sample(["k", "g", "bo", "u"], 2)
        by = rng.choice([f"GROUPING SETS (({x}), ({y}), ())", f"ROLLUP ({x}, {y})", f"CUBE ({x}, {y})", f"GROUPING SETS (({x}, {y}), ({x}))", f"{x}, ROLLUP ({y})", f"GROUPING SETS (({x}), ({x}), ())"])
        extra = rng.choice([f", grouping({x}) AS gx", f", grouping({x}, {y}) AS gxy", ""])
        return Statement(f"SELECT {x}, {y}{extra}, {self.some_aggregates(scope, 1)[0]} AS c FROM {self.table()}{self.where(scope, 0.3)} GROUP BY {by}")

    def condition(self, scope) -> str:
        rng = self.rng
        return rng.choice(["x.k = y.k", "x.k = y.id", "x.g = y.g AND x.k = y.k", "x.u = y.u", "x.id = y.id", "x.sm = y.i", "x.k = y.k AND x.d2 < y.d2", "x.dt = y.dt", "x.k < y.ti", f"x.id = y.id AND {scope.make('bool', 1)}", "x.k IS NOT DISTINCT FROM y.k", "x.l = y.sm", "x.f = y.f", "x.d2 = y.d6"])

    def of_join(self):
        rng, scope = self.rng, self.scope("x", "y")
        kind = rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        on = self.condition(scope)
        if kind == "FULL JOIN" and ("<" in on or "DISTINCT" in on):
            on = "x.k = y.k"
        chosen = rng.choice([f"x.id AS xi, y.id AS yi, {scope.any(1)[0]} AS c", f"count(*) AS c, {self.some_aggregates(scope, 1)[0]} AS c1", "x.id AS xi, y.id AS yi"])
        where = f" WHERE {self.across()}" if rng.random() < 0.4 else self.where(scope)
        return Statement(f"SELECT {chosen} FROM {self.table()} AS x {kind} {self.table()} AS y ON {on}{where}")

    def across(self) -> str:
        """A condition on both sides of a join that NULLs do not fail, so that it is no inner join in disguise."""
        rng = self.rng
        c, d = [rng.choice(["k", "sm", "g", "s", "d2", "dt", "bo", "f"])] * 2 if rng.random() < 0.7 else rng.sample(["k", "sm", "id", "ti"], 2)
        return rng.choice([
            f"(x.{c} IS NULL) {rng.choice(['=', '<>', 'AND', 'OR'])} (y.{d} IS NULL)", f"x.{c} IS DISTINCT FROM y.{d}", f"y.{d} IS NOT DISTINCT FROM x.{c}", f"coalesce(x.{c}, y.{d}) IS NOT NULL",
            f"CASE WHEN x.{c} IS NULL THEN y.{d} IS NULL ELSE y.{d} IS NOT NULL END", f"coalesce(x.{c} = y.{d}, true)", f"NOT coalesce(y.{d} <= x.{c}, false)", f"x.{c} IS NULL OR x.{c} = y.{d}",
            f"y.{d} IS NULL", f"x.{c} IS NULL AND y.id > 3", f"coalesce(x.id, 0) < coalesce(y.id, 100) AND (x.{c} IS NULL OR y.{d} IS NULL)",
        ])

    def of_usingjoin(self):
        kind = self.rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"])
        x, y = self.table(), self.table()
        return Statement(self.rng.choice([
            f"SELECT k, x.id AS xi, y.id AS yi FROM {x} AS x {kind} {y} AS y USING (k)",
            f"SELECT g, k, count(*) AS c FROM {x} AS x {kind} {y} AS y USING (g, k) GROUP BY g, k",
            f"SELECT x.id AS xi, v.n FROM {x} AS x {kind} (VALUES (1, 'one'), (2, 'two'), (NULL, 'none')) AS v(k, n) ON x.k = v.k",
            f"SELECT x.id AS xi, y.c FROM {x} AS x {kind} (SELECT k, count(*) AS c FROM {y} GROUP BY k) AS y ON x.k = y.k",
            f"WITH w AS (SELECT id, k FROM {x} WHERE bo) SELECT p.id AS pi, q.id AS qi FROM w AS p {kind} w AS q ON p.k = q.id",
        ]))

    def of_semi(self):
        rng, x, y = self.rng, self.table(), self.table()
        inner = self.scope("y")
        column = rng.choice(["k", "g", "u", "ti", "d2", "dt", "id"])
        test = rng.choice([
            f"x.{column} IN (SELECT y.{column} FROM {y} AS y{self.where(inner)})",
            f"x.{column} NOT IN (SELECT y.{column} FROM {y} AS y WHERE y.{column} IS NOT NULL)",
            f"x.{column} NOT IN (SELECT y.{column} FROM {y} AS y{self.where(inner)})",
            f"EXISTS (SELECT 1 FROM {y} AS y WHERE y.{column} = x.{column} AND {self.scope('x', 'y').make('bool', 1)})",
            f"NOT EXISTS (SELECT 1 FROM {y} AS y WHERE y.{column} = x.{column})",
            f"x.i > (SELECT min(y.i) FROM {y} AS y)",
            f"x.sm >= ALL (SELECT y.ti FROM {y} AS y WHERE y.ti IS NOT NULL)",
            f"x.sm = ANY (SELECT y.ti FROM {y} AS y)",
            f"x.bo OR x.k IN (SELECT y.id FROM {y} AS y)",
            f"(x.k, x.g) IN (SELECT y.k, y.g FROM {y} AS y)",
        ])
        return Statement(f"SELECT x.id FROM {x} AS x WHERE {test}")

    def of_correlated(self):
        rng, x, y = self.rng, self.table(), self.table()
        aggregate = rng.choice(["count(*)", "sum(y.sm)", "max(y.s)", "min(y.dt)", "avg(y.d2)", "count(y.k)"])
        on = rng.choice(["y.k = x.k", "y.k = x.k AND y.id < x.id", "y.g = x.g AND y.bo", "y.k = x.id"])
        inner = f"(SELECT {aggregate} FROM {y} AS y WHERE {on})"
        return Statement(rng.choice([
            f"SELECT x.id, {inner} AS c FROM {x} AS x",
            f"SELECT x.id FROM {x} AS x WHERE {inner} IS NOT NULL",
            f"SELECT x.id FROM {x} AS x WHERE x.sm > (SELECT min(y.sm) FROM {y} AS y WHERE {on})",
            f"SELECT x.id, coalesce({inner}, NULL) AS c FROM {x} AS x",
            f"SELECT x.id, z.c FROM {x} AS x, LATERAL (SELECT count(*) AS c FROM {y} AS y WHERE {on}) AS z",
            f"SELECT x.id, CASE WHEN EXISTS (SELECT 1 FROM {y} AS y WHERE {on}) THEN 'some' ELSE 'none' END AS c FROM {x} AS x",
        ]))

    def of_distinct(self):
        rng, scope = self.rng, self.scope()
        if rng.random() < 0.4:
            column = rng.choice(["k", "g", "bo", "u"])
            return Statement(f"SELECT DISTINCT ON ({column}) {column}, id, s FROM {self.table()}{self.where(scope)} ORDER BY {column}, id{rng.choice(['', ' DESC'])}")
        chosen = ", ".join(f"{text} AS c{n}" for n, text in enumerate(rng.sample(KEYS, 2) if rng.random() < 0.6 else [scope.any(1)[0]]))
        return Statement(f"SELECT DISTINCT {chosen} FROM {self.table()}{self.where(scope)}")

    def of_union(self):
        rng, scope = self.rng, self.scope()
        kind = rng.choice(KINDS)
        operator = rng.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
        sides = [f"SELECT {scope.make(kind, rng.choice([0, 0, 1]))} AS c FROM {self.table()}{self.where(scope)}" for _ in range(2)]
        if rng.random() < 0.3:
            sides = [f"SELECT {pair} FROM {self.table()}{self.where(scope)}" for pair in ("k, g", rng.choice(["k, g", "ti, u", "k, NULL"]))]
        return Statement(f" {operator} ".join(sides))

    def of_window(self):
        rng, scope = self.rng, self.scope()
        text = rng.choice(WINDOWS)
        column = rng.choice(["sm", "s", "d2", "dt", "k", "bo", "ts", "f"])
        down = rng.choice(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])
        for name, value in {
            "{part}": rng.choice(["", "PARTITION BY k ", "PARTITION BY g, bo "]), "{order}": rng.choice([f"{rng.choice(KEYS)}{down}, id", "id", "id DESC"]), "{free}": f"{rng.choice(KEYS)}{down}",
            "{col}": column, "{int0}": rng.choice(["sm", "ti", "id", "k"]), "{dec0}": rng.choice(["d2", "d6"]),
        }.items():
            text = text.replace(name, value)
        if rng.random() < 0.15 and "GROUPS" not in text:
            return Statement(f"SELECT id, k FROM {self.table()} QUALIFY {text} IS NOT NULL", everywhere=False)
        return Statement(f"SELECT id, {text} AS c FROM {self.table()}{self.where(scope, 0.2)}")

    def of_top(self):
        rng, scope = self.rng, self.scope()
        keys = rng.sample(["k", "g", "sm", "d2", "s", "dt", "ts", "f", "l", "bo", "tz"], rng.choice([1, 1, 2]))
        order = ", ".join(key + rng.choice(["", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST", " NULLS LAST"]) for key in keys)
        limit = rng.choice(["", f" LIMIT {rng.choice([0, 1, 3, 10, 1000])}", f" LIMIT {rng.choice([2, 5])} OFFSET {rng.choice([0, 1, 7, 100])}", " OFFSET 5", " FETCH FIRST 4 ROWS ONLY"])
        sql = f"SELECT {', '.join(keys)}, id FROM {self.table()}{self.where(scope)} ORDER BY {order}{limit}"
        return Statement(sql, list(range(len(keys))), bool(limit))

    def of_nested(self):
        rng, scope = self.rng, self.scope()
        inner = f"SELECT id, k, sm, g, {scope.make('int', 1)} AS n, {scope.make('text', 1)} AS w FROM {self.table()}{self.where(scope)}"
        return Statement(rng.choice([
            f"SELECT g, count(*) AS c, max(n) AS m FROM ({inner}) AS q WHERE sm IS NOT NULL GROUP BY g",
            f"SELECT id, n FROM ({inner}) AS q WHERE n > 0 OR w IS NULL",
            f"WITH q AS ({inner}) SELECT count(*) AS c, count(n) AS n, max(w) AS w FROM q",
            f"WITH q AS ({inner}), p AS (SELECT k, max(sm) AS m FROM q GROUP BY k) SELECT q.id, p.m FROM q JOIN p ON p.k = q.k",
            f"SELECT c, count(*) AS n FROM (SELECT k, count(*) AS c FROM ({inner}) AS q GROUP BY k) AS p GROUP BY c",
            f"WITH RECURSIVE q(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM q WHERE n < 5) SELECT q.n, x.id FROM q LEFT JOIN {self.table()} AS x ON x.k = q.n",
        ]))

    def of_three(self):
        """Joins of three tables, and what is not in another one."""
        rng, scope = self.rng, self.scope("x", "y", "z")
        x, y, z = self.table(), self.table(), self.table()
        kinds = [rng.choice(["JOIN", "LEFT JOIN"]) for _ in range(2)]
        if rng.random() < 0.4:
            return self.same_names(x, y, z)
        return Statement(rng.choice([
            f"SELECT count(*) AS c, sum(x.sm) AS s, max(z.u) AS u FROM {x} AS x {kinds[0]} {y} AS y ON x.id = y.k {kinds[1]} {z} AS z ON y.id = z.k{self.where(scope, 0.6, 1)}",
            f"SELECT x.id FROM {x} AS x LEFT JOIN {y} AS y ON x.k = y.id WHERE y.id IS NULL",
            f"SELECT x.g, count(*) AS c FROM {x} AS x, {y} AS y, {z} AS z WHERE x.k = y.id AND y.k = z.id AND z.sm IS NOT NULL GROUP BY x.g",
            f"SELECT x.id, y.id AS yi FROM {x} AS x {kinds[0]} ({y} AS y {kinds[1]} {z} AS z ON y.k = z.id) ON x.id = y.id",
            f"SELECT x.k, count(DISTINCT y.id) AS c FROM {x} AS x {kinds[0]} {y} AS y ON x.k = y.k AND y.bo WHERE x.id IN (SELECT k FROM {z}) GROUP BY x.k",
            f"SELECT x.id FROM {x} AS x WHERE x.sm = (SELECT max(sm) FROM {y}) OR x.id = (SELECT min(k) FROM {z})",
        ]))

    def same_names(self, x, y, z):
        """Columns of one name from each table, in filters, keys and orders above joins of them."""
        rng = self.rng
        c, down, limit = rng.choice(["k", "sm", "id", "d2", "s", "dt"]), rng.choice(["", " DESC"]), rng.choice([1, 2, 5])
        kind, more = rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN"]), rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN"])
        on, and_on = rng.choice(["x.id = y.k", "x.k = y.k", "x.id = y.id"]), rng.choice(["y.id = z.k", "y.id = z.id", "x.id = z.id"])
        joined = f"{x} AS x {kind} {y} AS y ON {on}"
        if rng.random() < 0.5:
            first, second = rng.sample(["x", "y", "z"], 2)
            return Statement(f"SELECT {first}.{c} AS p, {second}.{c} AS q FROM {joined} {more} {z} AS z ON {and_on} ORDER BY {first}.{c}{down} LIMIT {limit}", [0], True)
        return Statement(rng.choice([
            f"SELECT s.id, q.p, q.q FROM {z} AS s {more} (SELECT x.{c} AS p, y.{c} AS q FROM {joined}) AS q ON s.{c} = q.{rng.choice('pq')}",
            f"SELECT z.id, q.w FROM {z} AS z JOIN (SELECT x.{c}, y.{c} AS w, y.id FROM {joined}) AS q ON z.{c} = q.{c}",
            f"SELECT x.id, y.id AS yi FROM {joined} WHERE y.{c} IN (SELECT {c} FROM {z} WHERE bo)",
            f"SELECT x.{c} AS p, y.{c} AS q, count(*) AS n FROM {joined} GROUP BY x.{c}, y.{c} HAVING x.{c} IS NULL OR y.{c} IS NOT NULL",
            f"SELECT p, q FROM (SELECT x.{c} AS p, y.{c} AS q, x.k AS xk, y.k AS yk FROM {joined}) AS t WHERE q IS DISTINCT FROM p AND yk > 0",
        ]))

    def of_best(self):
        """The first rows by an expression, by a group, or of each group."""
        rng, scope = self.rng, self.scope()
        down, limit = rng.choice(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]), rng.choice([1, 3, 7])
        text = scope.make(rng.choice(["int", "dec", "text", "date", "ts"]), 1)
        if rng.random() < 0.3:
            return Statement(
                f"SELECT k, g, id FROM (SELECT k, g, id, row_number() OVER (PARTITION BY k ORDER BY {rng.choice(['sm', 'd2', 'dt', 's'])}{down}, id) AS n FROM {self.table()}) AS q WHERE n <= {limit}"
            )
        if rng.random() < 0.4:
            key = rng.choice(["k", "g", "bo"])
            return Statement(f"SELECT count(*) AS c, {key} FROM {self.table()}{self.where(scope)} GROUP BY {key} ORDER BY c DESC, {key}{down} LIMIT {limit}", [0, 1], True)
        return Statement(f"SELECT {text} AS c, id FROM {self.table()}{self.where(scope)} ORDER BY 1{down}, id LIMIT {limit}", [0, 1], True)
