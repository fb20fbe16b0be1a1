"""Our extensions of the dialect, which a header turns on: GROUP BY, ORDER BY … LIMIT, BLOOM_CONTAINS.

Servers without them pass the half that says they are off.
"""

from conformance.select.bloom import bloom
from conformance.select.case import PARSE_ERROR, Err, csv, group, lines, parquet

SALES = csv("city,n,price\nOslo,1,1.50\nRome,2,2.25\nOslo,3,0.25\nBonn,4,10\nRome,5,0.75\nOslo,6,\n", "USE")
REFUSED = Err("UnsupportedFunction", *PARSE_ERROR)


def extended(rows):
    return [(name, sql, expected, {"extensions": True, **(rest[0] if rest else {})}) for name, sql, expected, *rest in rows]


def unordered(*wanted):
    """Rows in any order: groups have none."""

    def check(rows):
        got = sorted(rows.decode().splitlines())
        return None if got == sorted(wanted) else f"expected {sorted(wanted)} in any order"

    return check


OFF = group("extensions/off", SALES, [
    ("GROUP BY", "SELECT city, COUNT(*) FROM S3Object GROUP BY city", REFUSED),
    ("ORDER BY", "SELECT n FROM S3Object ORDER BY n LIMIT 1", REFUSED),
    ("BLOOM_CONTAINS", "SELECT n FROM S3Object WHERE BLOOM_CONTAINS(n, 'AAAA')", REFUSED),
])

GROUP = group("extensions/group by", SALES, extended([
    ("COUNT", "SELECT city, COUNT(*) FROM S3Object GROUP BY city", unordered("Oslo,3", "Rome,2", "Bonn,1")),
    ("SUM", "SELECT city, SUM(CAST(n AS INT)) FROM S3Object GROUP BY city", unordered("Oslo,10", "Rome,7", "Bonn,4")),
    ("the key last", "SELECT COUNT(*), city FROM S3Object GROUP BY city", unordered("3,Oslo", "2,Rome", "1,Bonn")),
    ("the key not returned", "SELECT COUNT(*) FROM S3Object GROUP BY city", unordered("3", "2", "1")),
    ("MIN and MAX", "SELECT city, MIN(CAST(n AS INT)), MAX(CAST(n AS INT)) FROM S3Object GROUP BY city", unordered("Oslo,1,6", "Rome,2,5", "Bonn,4,4")),
    ("NULL is skipped", "SELECT city, COUNT(NULLIF(price, '')) FROM S3Object GROUP BY city", unordered("Oslo,2", "Rome,2", "Bonn,1")),
    ("WHERE before", "SELECT city, COUNT(*) FROM S3Object WHERE CAST(n AS INT) > 2 GROUP BY city", unordered("Oslo,2", "Rome,1", "Bonn,1")),
    ("two keys", "SELECT city, price, COUNT(*) FROM S3Object WHERE city = 'Rome' GROUP BY city, price", unordered("Rome,2.25,1", "Rome,0.75,1")),
    ("a key that is an expression", "SELECT CAST(n AS INT) % 2, COUNT(*) FROM S3Object GROUP BY CAST(n AS INT) % 2", unordered("1,3", "0,3")),
    ("no rows, no groups", "SELECT city, COUNT(*) FROM S3Object WHERE city = 'x' GROUP BY city", []),
    ("keys without aggregates", "SELECT city FROM S3Object GROUP BY city", unordered("Oslo", "Rome", "Bonn")),
    ("LIMIT", "SELECT city FROM S3Object GROUP BY city LIMIT 2", lambda rows: None if rows.count(b"\n") == 2 else "expected two rows"),
    ("NULL is a group", "SELECT s.a, COUNT(*) AS n FROM S3Object s GROUP BY s.a ORDER BY n LIMIT 10", [{"a": 1, "n": 1}, {"a": None, "n": 2}],
     {"input": lines('{"a":1}\n{"a":null}\n{"a":null}\n')}),
    ("Parquet", "SELECT s.k, COUNT(*), SUM(s.id) FROM S3Object s GROUP BY s.k",
     unordered(*(f"key {k},{len(range(k, 1000, 7))},{sum(range(k, 1000, 7))}" for k in range(7))), {"input": parquet("row_groups.parquet"), "output": {"CSV": {}}}),
    ("many groups", "SELECT COUNT(*), n FROM S3Object GROUP BY n", unordered(*(f"2,{n}" for n in range(3000))),
     {"input": csv("n\n" + "".join(f"{n}\n" for n in [*range(3000), *range(3000)]), "USE")}),
    ("a column that is no key", "SELECT n, COUNT(*) FROM S3Object GROUP BY city", Err("*")),
    ("HAVING is not there", "SELECT city FROM S3Object GROUP BY city HAVING COUNT(*) > 1", Err("*")),
    ("no key", "SELECT COUNT(*) FROM S3Object GROUP BY", Err(*PARSE_ERROR)),
]))

ORDER = group("extensions/order by", SALES, extended([
    ("text", "SELECT city, n FROM S3Object ORDER BY city, n LIMIT 3", ["Bonn,4", "Oslo,1", "Oslo,3"]),
    ("numbers", "SELECT n FROM S3Object ORDER BY CAST(n AS INT) DESC LIMIT 2", ["6", "5"]),
    ("ASC", "SELECT n FROM S3Object ORDER BY CAST(n AS INT) ASC LIMIT 2", ["1", "2"]),
    ("two directions", "SELECT city, n FROM S3Object ORDER BY city DESC, CAST(n AS INT) LIMIT 3", ["Rome,2", "Rome,5", "Oslo,1"]),
    ("a column that is not returned", "SELECT n FROM S3Object ORDER BY city LIMIT 1", ["4"]),
    ("more than there are", "SELECT n FROM S3Object ORDER BY CAST(n AS INT) DESC LIMIT 100", ["6", "5", "4", "3", "2", "1"]),
    ("WHERE before", "SELECT n FROM S3Object WHERE city = 'Oslo' ORDER BY CAST(n AS INT) DESC LIMIT 1", ["6"]),
    ("zero rows", "SELECT n FROM S3Object ORDER BY n LIMIT 0", []),
    ("NULLS LAST by default", "SELECT n FROM S3Object ORDER BY CAST(NULLIF(price, '') AS DECIMAL) LIMIT 6", ["3", "5", "1", "2", "4", "6"],
     {"silent": "as PostgreSQL: NULL is the largest"}),
    ("NULLS FIRST", "SELECT n FROM S3Object ORDER BY CAST(NULLIF(price, '') AS DECIMAL) NULLS FIRST LIMIT 2", ["6", "3"]),
    ("an alias", "SELECT CAST(n AS INT) * 2 AS d FROM S3Object ORDER BY d DESC LIMIT 1", ["12"]),
    ("groups by their count", "SELECT city, COUNT(*) AS c FROM S3Object GROUP BY city ORDER BY c DESC LIMIT 2", ["Oslo,3", "Rome,2"]),
    ("many rows", "SELECT _1 FROM S3Object ORDER BY CAST(_1 AS INT) DESC LIMIT 3", ["49999", "49998", "49997"],
     {"input": csv("".join(f"{n * 7919 % 50000}\n" for n in range(50000)))}),
    ("Parquet", "SELECT s.id FROM S3Object s ORDER BY s.id DESC LIMIT 2", [{"id": 999}, {"id": 998}], {"input": parquet("row_groups.parquet")}),
    ("JSON", "SELECT s.a FROM S3Object s ORDER BY s.a DESC LIMIT 2", [{"a": 10}, {"a": 9}], {"input": lines('{"a":9}\n{"a":10}\n{"a":1}\n')}),
    ("without LIMIT", "SELECT n FROM S3Object ORDER BY n", Err("*"), {"silent": "memory must have a bound"}),
]))

BLOOM = group("extensions/bloom", SALES, extended([
    ("text", f"SELECT n FROM S3Object WHERE BLOOM_CONTAINS(city, '{bloom(['Oslo', 'Bonn'])}')", ["1", "3", "4", "6"]),
    ("NOT", f"SELECT n FROM S3Object WHERE NOT BLOOM_CONTAINS(city, '{bloom(['Oslo', 'Bonn'])}')", ["2", "5"]),
    ("whole numbers", f"SELECT n FROM S3Object WHERE BLOOM_CONTAINS(CAST(n AS INT), '{bloom([2, 5])}')", ["2", "5"]),
    ("whole numbers of Parquet", f"SELECT s.id FROM S3Object s WHERE BLOOM_CONTAINS(s.id, '{bloom([7, 990], size=4096)}')", [{"id": 7}, {"id": 990}],
     {"input": parquet("row_groups.parquet")}),
    ("an empty filter", f"SELECT n FROM S3Object WHERE BLOOM_CONTAINS(city, '{bloom([])}')", []),
    ("with more conditions", f"SELECT n FROM S3Object WHERE BLOOM_CONTAINS(city, '{bloom(['Oslo'])}') AND n > '1'", ["3", "6"]),
    ("no member is lost", f"SELECT COUNT(*) FROM S3Object WHERE BLOOM_CONTAINS(CAST(_1 AS INT), '{bloom(range(0, 6000, 3), size=16384)}') AND CAST(_1 AS INT) % 3 = 0",
     ["2000"], {"input": csv("".join(f"{n}\n" for n in range(6000)))}),
    ("few others pass", f"SELECT COUNT(*) FROM S3Object WHERE BLOOM_CONTAINS(CAST(_1 AS INT), '{bloom(range(0, 6000, 3), size=16384)}')",
     lambda rows: None if 2000 <= int(rows) < 2100 else "expected about 2000", {"input": csv("".join(f"{n}\n" for n in range(6000)))}),
    ("NULL is in no filter", f"SELECT n FROM S3Object WHERE BLOOM_CONTAINS(NULLIF(city, 'Oslo'), '{bloom(['Oslo', 'Rome'])}')", ["2", "5"]),
    ("no base64", "SELECT n FROM S3Object WHERE BLOOM_CONTAINS(city, '!!')", Err("*")),
    ("no filter", "SELECT n FROM S3Object WHERE BLOOM_CONTAINS(city, 'AAAAAAAA')", Err("*")),
    ("another version", "SELECT n FROM S3Object WHERE BLOOM_CONTAINS(city, 'UERCRgkEAAAAAAAAAAAAAA==')", Err("*")),
    ("one argument", "SELECT n FROM S3Object WHERE BLOOM_CONTAINS(city)", Err("*")),
]))

CASES = OFF + GROUP + ORDER + BLOOM
