"""Random expressions by kind, in SQL that DuckDB, PostgreSQL and ours all read.

Kinds: int, dec, dbl, text, bool, date, ts, tz. `Scope` knows which columns there are; depth bounds the nesting.
"""

from conformance.answers.data import COLUMNS

KINDS = ["int", "dec", "dbl", "text", "bool", "date", "ts", "tz"]
OF_KIND: dict[str, list[str]] = {}
for name, _ours, _theirs, kind in COLUMNS:
    OF_KIND.setdefault("dbl" if kind == "real" else kind, []).append(name)

LITERALS = {
    "int": ["0", "1", "-1", "2", "3", "7", "10", "127", "-128", "32767", "2147483647", "-2147483648", "9223372036854775807", "4294967296"],
    "dec": ["0.0", "1.5", "2.50", "-2.5", "0.01", "100.00", "9999999.99", "0.000001", "3.141593", "12345678901234567890.5"],
    "dbl": [f"CAST('{text}' AS DOUBLE PRECISION)" for text in ("NaN", "Infinity", "-Infinity", "-0.0", "0.1", "1e300", "2.5", "-2.5")],
    "text": ["''", "' '", "'a'", "'A'", "'abc'", "'é'", "'日本語'", "'%'", "'12'", "'-7'", "'apple'", "'NULL'", "'x'"],
    "bool": ["true", "false", "CAST(NULL AS BOOLEAN)"],
    "date": ["DATE '1970-01-01'", "DATE '2024-02-29'", "DATE '2023-12-31'", "DATE '2024-03-31'"],
    "ts": ["TIMESTAMP '2024-02-29 12:34:56.789'", "TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '2024-12-31 23:59:59.999999'"],
    "tz": ["TIMESTAMPTZ '2024-02-29 12:34:56+02'", "TIMESTAMPTZ '1970-01-01 00:00:00+00'", "TIMESTAMPTZ '2024-06-30 23:00:00-05'"],
}
TYPES = {
    "int": ["SMALLINT", "INT", "BIGINT"],
    "dec": ["DECIMAL(9,2)", "DECIMAL(18,6)", "DECIMAL(5,1)", "DECIMAL(20,0)", "DECIMAL(38,10)"],
    "dbl": ["DOUBLE PRECISION", "REAL"],
    "text": ["VARCHAR"],
    "bool": ["BOOLEAN"],
    "date": ["DATE"],
    "ts": ["TIMESTAMP"],
    "tz": ["TIMESTAMPTZ"],
}
INTERVALS = ["INTERVAL '1 day'", "INTERVAL '1 month'", "INTERVAL '1 year'", "INTERVAL '13 months'", "INTERVAL '90 minutes'", "INTERVAL '-1 month'", "INTERVAL '1 day 2 hours'"]
FIELDS = ["year", "month", "day", "hour", "minute", "quarter", "week", "dow", "doy", "isodow", "century", "decade", "epoch", "second"]
UNITS = ["year", "quarter", "month", "week", "day", "hour", "minute", "second"]
PATTERNS = ["'%'", "'a%'", "'%b'", "'_'", "'%a%b%'", "''", "'a\\%%'", "'%\\_%'", "'é%'", "'__'", "'%%'", "'A%'", "'x\\\\y'"]
COMPARE = ["=", "<>", "<", "<=", ">", ">="]

# What an expression of each kind may be: how often, and its text with a kind in braces for each argument.
SHAPES = {
    "int": [
        (3, "({int} + {int})"), (2, "({int} - {int})"), (2, "({int} * {int})"), (2, "({int} / {int})"), (2, "({int} % {int})"),
        (1, "(- {int})"), (1, "abs({int})"), (1, "length({text})"), (1, "position({text} IN {text})"), (1, "ascii({text})"),
        (1, "octet_length({text})"), (1, "CAST(extract({field} FROM {ts}) AS BIGINT)"), (1, "CAST(extract({dfield} FROM {date}) AS INT)"),
        (1, "({date} - {date})"), (1, "coalesce({int}, {int})"), (1, "nullif({int}, {int})"), (1, "greatest({int}, {int})"),
        (1, "least({int}, {int})"), (1, "sign({int})"), (1, "strpos({text}, {text})"), (1, "bit_length({text})"), (1, "({int} & {int})"),
        (1, "({int} | {int})"), (1, "gcd({int}, {int})"), (1, "CAST({bool} AS INT)"),
    ],
    "dec": [
        (3, "({dec} + {dec})"), (2, "({dec} - {dec})"), (2, "({dec} * {dec})"), (2, "({dec} / {dec})"), (1, "({dec} % {dec})"),
        (2, "({dec} + {int})"), (2, "({int} * {dec})"), (1, "(- {dec})"), (1, "abs({dec})"), (2, "round({dec}, {small})"), (1, "round({dec})"),
        (1, "floor({dec})"), (1, "ceil({dec})"), (1, "trunc({dec})"), (1, "coalesce({dec}, {dec})"), (1, "greatest({dec}, {dec})"),
        (1, "least({dec}, {int})"), (1, "sign({dec})"),
    ],
    "dbl": [
        (3, "({dbl} + {dbl})"), (2, "({dbl} - {dbl})"), (2, "({dbl} * {dbl})"), (2, "({dbl} / {dbl})"), (2, "({dbl} + {dec})"), (1, "({dbl} * {int})"),
        (1, "abs({dbl})"), (1, "sqrt({dbl})"), (1, "ln({dbl})"), (1, "exp({dbl})"), (1, "power({dbl}, {dbl})"), (1, "floor({dbl})"), (1, "ceil({dbl})"),
        (1, "round({dbl})"), (1, "trunc({dbl})"), (1, "sign({dbl})"), (1, "coalesce({dbl}, {dbl})"), (1, "nullif({dbl}, {dbl})"), (1, "greatest({dbl}, {dbl})"),
        (1, "least({dbl}, {dbl})"), (1, "log10({dbl})"), (1, "sin({dbl})"), (1, "atan2({dbl}, {dbl})"), (1, "cbrt({dbl})"), (1, "degrees({dbl})"), (1, "(- {dbl})"),
    ],
    "text": [
        (3, "({text} || {text})"), (2, "upper({text})"), (2, "lower({text})"), (2, "substring({text} FROM {small} FOR {size})"), (1, "substr({text}, {small})"),
        (2, "trim({text})"), (1, "ltrim({text}, 'a ')"), (1, "rtrim({text}, 'b')"), (1, "trim(BOTH 'a' FROM {text})"), (2, "replace({text}, {text}, {text})"),
        (1, "left({text}, {small})"), (1, "right({text}, {small})"), (1, "lpad({text}, {size}, {text})"), (1, "rpad({text}, {size}, '*')"), (1, "repeat({text}, {size})"),
        (1, "reverse({text})"), (1, "concat({text}, {int}, {text})"), (1, "concat_ws('-', {text}, {text})"), (1, "split_part({text}, 'a', {size})"), (1, "initcap({text})"),
        (1, "translate({text}, 'ab', 'xy')"), (1, "coalesce({text}, {text})"), (1, "nullif({text}, {text})"), (1, "greatest({text}, {text})"), (1, "md5({text})"),
        (1, "chr({char})"), (1, "regexp_replace({text}, '[ab]+', '#')"), (1, "overlay({text} PLACING 'zz' FROM 2)"), (1, "to_hex({byte})"),
    ],
    "bool": [
        (3, "({int} {compare} {int})"), (2, "({dec} {compare} {dec})"), (2, "({dbl} {compare} {dbl})"), (3, "({text} {compare} {text})"), (2, "({date} {compare} {date})"),
        (1, "({ts} {compare} {ts})"), (1, "({tz} {compare} {tz})"), (1, "({date} {compare} {ts})"), (1, "({int} {compare} {dec})"), (1, "({int} {compare} {dbl})"), (1, "({dec} {compare} {dbl})"),
        (3, "({bool} AND {bool})"), (3, "({bool} OR {bool})"), (2, "(NOT {bool})"), (3, "({text} LIKE {pattern})"), (1, "({text} NOT LIKE {pattern})"), (1, "({text} ILIKE {pattern})"),
        (2, "({int} BETWEEN {int} AND {int})"), (1, "({text} NOT BETWEEN {text} AND {text})"), (2, "({int} IN ({int}, {int}, 1))"), (1, "({text} IN ({text}, {text}))"), (1, "({int} NOT IN (1, {int}, NULL))"),
        (1, "({int} IS NULL)"), (1, "({text} IS NOT NULL)"), (1, "({dbl} IS NULL)"), (2, "({int} IS DISTINCT FROM {int})"), (1, "({text} IS NOT DISTINCT FROM {text})"), (1, "({bool} IS TRUE)"),
        (1, "({bool} IS NOT FALSE)"), (1, "({bool} IS UNKNOWN)"), (1, "({bool} = {bool})"), (1, "starts_with({text}, {text})"), (1, "(({int}, {text}) = ({int}, {text}))"), (1, "({dbl} IS DISTINCT FROM {dbl})"),
        (1, "({text} SIMILAR TO '(a|b)%')"), (1, "({dec} IN ({dec}, 1.5, {int}))"), (1, "({dbl} BETWEEN {dbl} AND {dbl})"), (1, "(({int}, {int}) < ({int}, {int}))"),
    ],
    "date": [
        (2, "({date} + {tiny})"), (1, "({date} - {tiny})"), (1, "CAST(({date} + {interval}) AS DATE)"), (1, "CAST({ts} AS DATE)"), (1, "coalesce({date}, {date})"),
        (1, "greatest({date}, {date})"), (1, "CAST(date_trunc({unit}, {date}) AS DATE)"), (1, "make_date(2024, {month}, 28)"), (1, "nullif({date}, {date})"),
    ],
    "ts": [
        (3, "({ts} + {interval})"), (2, "({ts} - {interval})"), (2, "({date} + {interval})"), (2, "date_trunc({unit}, {ts})"), (1, "CAST({date} AS TIMESTAMP)"), (1, "coalesce({ts}, {ts})"),
        (1, "greatest({ts}, {ts})"), (1, "date_bin(INTERVAL '15 minutes', {ts}, TIMESTAMP '2001-01-01 00:00:00')"), (1, "({ts} + ({ts} - {ts}))"), (1, "nullif({ts}, {ts})"),
    ],
    "tz": [(2, "({tz} + {interval})"), (1, "date_trunc({unit}, {tz})"), (1, "coalesce({tz}, {tz})"), (1, "({tz} - {interval})"), (1, "CAST({ts} AS TIMESTAMPTZ)")],
}
CASTS = {
    "int": ["dec", "dbl", "text", "int"], "dec": ["int", "dbl", "text", "dec"], "dbl": ["int", "dec", "text", "dbl"],
    "text": ["int", "dec", "bool", "date", "ts"], "bool": ["int", "text"], "date": ["ts", "text"], "ts": ["date", "text", "tz"], "tz": ["ts", "date"],
}


class Scope:
    """The columns that an expression may use: aliases of tables, or none for expressions of literals alone."""

    def __init__(self, rng, aliases=("",)):
        self.rng, self.aliases = rng, list(aliases)

    def column(self, kind: str) -> str:
        alias = self.rng.choice(self.aliases)
        name = self.rng.choice(OF_KIND[kind])
        return f"{alias}.{name}" if alias else name

    def any(self, depth=2) -> tuple[str, str]:
        """An expression and its kind."""
        kind = self.rng.choice(KINDS)
        return self.make(kind, depth), kind

    def make(self, kind: str, depth=2) -> str:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            return self.column(kind) if self.aliases and rng.random() < 0.75 else rng.choice(LITERALS[kind])
        draw = rng.random()
        if draw < 0.12:
            return f"CAST({self.make(rng.choice(CASTS[kind]), depth - 1)} AS {rng.choice(TYPES[kind])})"
        if draw < 0.20:
            return self.case(kind, depth)
        shapes = SHAPES[kind]
        shape = rng.choices([text for _, text in shapes], [weight for weight, _ in shapes])[0]
        return self.fill(shape, depth - 1)

    def case(self, kind: str, depth: int) -> str:
        rng = self.rng
        otherwise = f" ELSE {self.make(kind, depth - 1)}" if rng.random() < 0.7 else ""
        if rng.random() < 0.6:
            return f"CASE WHEN {self.make('bool', depth - 1)} THEN {self.make(kind, depth - 1)}{otherwise} END"
        what = rng.choice(["int", "text"])
        return f"CASE {self.make(what, depth - 1)} WHEN {self.make(what, 0)} THEN {self.make(kind, depth - 1)}{otherwise} END"

    def fill(self, shape: str, depth: int) -> str:
        """The shape with something of its kind in each pair of braces."""
        rng = self.rng
        parts = shape.split("{")
        text = parts[0]
        for part in parts[1:]:
            hole, rest = part.split("}", 1)
            text += self.hole(rng, hole, depth) + rest
        return text

    def hole(self, rng, hole: str, depth: int) -> str:
        if hole in KINDS:
            return self.make(hole, depth)
        drawn = {
            "compare": lambda: rng.choice(COMPARE),
            "pattern": lambda: rng.choice(PATTERNS),
            "interval": lambda: rng.choice(INTERVALS),
            "unit": lambda: f"'{rng.choice(UNITS)}'",
            "field": lambda: rng.choice(FIELDS),
            "dfield": lambda: rng.choice([one for one in FIELDS if one not in ("hour", "minute", "second", "epoch")]),
            "small": lambda: str(rng.randint(-2, 4)),
            "size": lambda: str(rng.randint(1, 6)),
            "tiny": lambda: str(rng.choice([0, 1, 30, 365])),
            "month": lambda: str(rng.randint(1, 12)),
            "char": lambda: str(rng.choice([65, 97, 233, 26085])),
            "byte": lambda: str(rng.choice([0, 1, 255, 65535])),
        }
        return drawn[hole]()
