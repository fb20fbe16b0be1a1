"""Where DuckDB and PostgreSQL differ, whom PushdownDB follows: rules whose patterns are found.

Patterns are looked for in the statement and in the errors of all (`PostgreSQL says division by zero`). `either` says that
an error will do, or the rows of one of them; `own` that nothing is promised. Of several rules one must hold. Where there is none, ours must give one of the two answers, whichever. docs/sql.md tells
the same to readers, by example.
"""

import re

POSTGRESQL, DUCKDB, EITHER, OWN = "PostgreSQL", "DuckDB", "either", "own"

# Pattern, whom we follow, why.
RULES = [
    (r"local says .*(not implemented|Invalid function|Too many columns|No infix parser|Unsupported Value|Expected|Date32|Divide by zero|division by zero|Cast error|Compute error|Error parsing)", EITHER, "errors of ours are looked at where the others agree"),
    (r"\bupper\(|\blower\(|\binitcap\(", OWN, "upper and lower case of letters beyond ASCII depends on the locale"),
    (r"DuckDB says .*(Overflow in .*(DECIMAL|HUGEINT)|Could not cast|Casting value)", EITHER, "DuckDB stops at 18 or 38 digits"),
    (r"PostgreSQL says (value out of range|division by zero|zero raised|a negative number raised)", OWN, "DOUBLE has infinity and NaN"),
    (r"PostgreSQL says (date|timestamp) too (large|small)|^SELECT DATE '9999", OWN, "Python has no years beyond 9999"),
    (r"PostgreSQL says cannot cast type (bigint|smallint|boolean|real|double|numeric)", DUCKDB, "casts between BOOLEAN and numbers"),
    (r"DuckDB says (Catalog|Binder|Parser) Error", POSTGRESQL, "DuckDB does not know it"),
    (r"DuckDB says Invalid Input Error: (Insufficient padding|Failed to cast)", POSTGRESQL, "DuckDB refuses"),
    (r"PostgreSQL says .*(does not exist|syntax error|trailing junk)", DUCKDB, "PostgreSQL does not know it"),
    (r"DuckDB says Out of Range Error: Overflow", EITHER, "types of literals and of TINYINT: PostgreSQL computes it in a wider one"),
    (r"\bSIMILAR TO\b", POSTGRESQL, "the pattern is one of the standard, no regular expression"),
    (r"\bLIKE\b|\bESCAPE\b", POSTGRESQL, "the backslash escapes in LIKE"),
    (r"\bsubstr(ing)?\(|\bleft\(|\bright\(", POSTGRESQL, "positions before the first character"),
    (r"\bround\(", DUCKDB, "halves of a DOUBLE are rounded away from zero"),
    (r"\bto_hex\(", POSTGRESQL, "small letters"),
    (r"1 \|\| 2|'2\.5' AS|IN \(1, 'a'\)", POSTGRESQL, "texts are no numbers unless they look like one"),
    (r"CAST\(.*DOUBLE PRECISION\) AS VARCHAR|AS VARCHAR\)", DUCKDB, "a DOUBLE as text has a point"),
    (r"\(1, NULL\) = \(1, 2\)|\(NULL, 1\) < \(1, 2\)", POSTGRESQL, "rows with NULLs"),
    (r"extract\(second|extract\(milli", DUCKDB, "seconds without their fraction"),
    (r"percentile_cont", OWN, "between infinities"),
    (r"\bcorr\(|\bregr_", POSTGRESQL, "no variance is NULL"),
]


def follows(text: str) -> list:
    """The rules for a statement and what was said, each (whom, why)."""
    return [(whom, why) for pattern, whom, why in RULES if re.search(pattern, text, re.IGNORECASE | re.DOTALL)]
