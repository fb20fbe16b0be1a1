#!/usr/bin/env python3
"""Real clients of PostgreSQL against an SQL server: psycopg, asyncpg, ADBC, DuckDB.

usage: clients.py HOST:PORT FOLDER [CASE…]

FOLDER is one that the server's SQL may read; data is made in it. Values are compared with those of pyarrow, which
wrote them. A client that is not installed is shown as SKIPPED.
"""

import asyncio
import datetime as dt
import decimal
import json
import math
import struct
import threading
import time
import uuid

import pyarrow as pa
import pyarrow.parquet as pq

from cases import DSN, FOLDER, HOST, PORT, URL, run
from every_type import table

D = decimal.Decimal
UTC = dt.timezone.utc


def expected(value, name):
    """The value as clients of PostgreSQL have it."""
    return D(value) if name == "u64" and value is not None else value


def check_rows(rows, how):
    made = table()
    pq.write_table(made, f"{FOLDER}/types.parquet")
    wanted = [[expected(v, n) for n, v in row.items()] for row in made.to_pylist()]
    assert len(rows) == len(wanted), how
    for row, want in zip(rows, wanted):
        for name, value, right in zip(made.column_names, row, want):
            if name == "obj" and isinstance(value, str):
                value = json.loads(value)
            if name == "f32" and value is not None:
                value = struct.unpack("f", struct.pack("f", value))[0]
            if name == "ns" and right is not None:
                right = right.to_pydatetime() if hasattr(right, "to_pydatetime") else right
            assert value == right, f"{how}: {name}: {value!r} is not {right!r}"


def psycopg_types():
    import psycopg
    pq.write_table(table(), f"{FOLDER}/types.parquet")
    with psycopg.connect(DSN, autocommit=True) as connection:
        # Python has no dates before the year 1, and intervals are timedeltas there.
        for binary in (False, True):
            cursor = connection.cursor(binary=binary)
            check_rows(cursor.execute(f"SELECT * FROM '{FOLDER}/types.parquet'").fetchall(), f"binary={binary}")
            # The same by the extended protocol.
            rows = cursor.execute(f"SELECT * FROM '{FOLDER}/types.parquet' WHERE %s", (True,)).fetchall()
            check_rows(rows, f"extended, binary={binary}")
            nan = cursor.execute("SELECT CAST('NaN' AS DOUBLE), CAST('-inf' AS DOUBLE)").fetchone()
            assert math.isnan(nan[0]) and nan[1] == -math.inf, nan


def psycopg_parameters():
    import psycopg
    path = f"{FOLDER}/types.parquet"
    pq.write_table(table(), path)
    with psycopg.connect(DSN, autocommit=True) as connection:
        one = lambda sql, *values: connection.execute(sql, values).fetchone()[0]
        count = lambda condition, *values: one(f"SELECT count(*) FROM '{path}' WHERE {condition}", *values)
        for form in ("%s", "%b", "%t"):
            assert count(f"i64 = {form}", 2**63 - 1) == 1, form
            assert count(f"i32 < {form}", 0) == 1, form
            assert count(f"t = {form}", "ümläut 'quote' \"double\" \\ \t\n") == 1, form
            assert count(f"small = {form}", D("9999999.99")) == 1, form
            # Compared as it is, not rounded to the column's scale.
            assert count(f"small = {form}", D("9999999.994")) == 0, form
            assert count(f"d = {form}", dt.date(9999, 12, 31)) == 1, form
            assert count(f"ts >= {form}", dt.datetime(2000, 1, 1)) == 1, form
            assert count(f"tz = {form}", dt.datetime(2200, 1, 1, tzinfo=UTC)) == 1, form
            assert count(f"b = {form}", True) == 1, form
            assert count(f"bin = {form}", b"\x00\xff\\'") == 1, form
            assert count(f"f64 = {form}", 1.7976931348623157e308) == 1, form
            assert count(f"i64 = ANY({form})", [5, 2**63 - 1]) == 1, form
            assert count(f"t = ANY({form})", ["", "x"]) == 1, form
            assert count(f"i64 = {form}", None) == 0, form
        rows = connection.execute(f"SELECT i64 FROM '{path}' ORDER BY i64 LIMIT %s OFFSET %s", (1, 1)).fetchall()
        assert rows == [(2**63 - 1,)], rows
        assert one("SELECT %s", "it's; DROP TABLE x --") == "it's; DROP TABLE x --"
        assert one("SELECT %s::int + 1", 41) == 42
        assert one("SELECT %s + 1", 41) == 42
        exists = "SELECT EXISTS (SELECT 1 FROM information_schema.schemata WHERE schema_name = %s)"
        assert one(exists, "public") is True and one(exists, "missing") is False
        assert one("SELECT %s", uuid.UUID(int=7)) in (str(uuid.UUID(int=7)), uuid.UUID(int=7))
        # Prepared once, run often.
        for number in range(20):
            assert connection.execute("SELECT %s::bigint * 2", (number,), prepare=True).fetchone() == (number * 2,)


def psycopg_errors():
    import psycopg
    from psycopg import errors
    with psycopg.connect(DSN, autocommit=True) as connection:
        for sql, kind in [
            ("SELEC 1", errors.SyntaxError),
            ("SELECT * FROM missing", errors.UndefinedTable),
            (f"SELECT nothing FROM '{FOLDER}/types.parquet'", errors.UndefinedColumn),
            ("SELECT no_such_function(1)", errors.UndefinedFunction),
            ("SELECT 1 / 0", errors.DivisionByZero),
            ("SELECT CAST('x' AS INT)", errors.InvalidTextRepresentation),
            (f"SELECT sum(t) FROM '{FOLDER}/types.parquet'", errors.UndefinedFunction),
            ("SELECT value, count(*) FROM generate_series(1, 3)", errors.GroupingError),
            ("SELECT value FROM generate_series(1, 3) ORDER BY 9", errors.InvalidColumnReference),
            ("SELECT (SELECT value FROM generate_series(1, 3))", errors.CardinalityViolation),
            ("SELECT value FROM generate_series(1, 3) LIMIT -1", errors.InvalidRowCountInLimitClause),
            ("SELECT value FROM generate_series(1, 3) WHERE value", errors.DatatypeMismatch),
            ("SELECT 1 UNION SELECT 1, 2", errors.SyntaxError),
            ("SELECT CAST('2024-13-01' AS DATE)", errors.InvalidDatetimeFormat),
            ("SELECT CAST(99999 AS SMALLINT)", errors.NumericValueOutOfRange),
            ("SELECT CAST(1 AS NO_SUCH_TYPE)", errors.UndefinedObject),
            ("SELECT regexp_replace('a', '(', 'b')", errors.InvalidRegularExpression),
            ("DROP TABLE missing", errors.UndefinedTable),
            ("SELECT * FROM '/etc/passwd.csv'", errors.InsufficientPrivilege),
            ("SET pushdown.memory = '1TB'", errors.InsufficientPrivilege),
            ("SET no_such_setting = 1", errors.UndefinedObject),
            ("SET pushdown.max_usd = 'x'", errors.InvalidParameterValue),
            ("COPY x FROM STDIN", errors.FeatureNotSupported),
        ]:
            try:
                connection.execute(sql).fetchall()
            except kind:
                continue
            except psycopg.Error as error:
                raise AssertionError(f"{sql}: {error.sqlstate}: {error}") from error
            raise AssertionError(f"{sql}: no error")
        try:
            connection.execute("SELECT 1;\n  SELECT 'é' AS a FROM t )")
        except errors.SyntaxError as error:
            place = int(error.diag.statement_position)
            assert "SELECT 1;\n  SELECT 'é' AS a FROM t )"[place - 1:] == ")", place
        for sql, place in [
            ("SELECT 'missing' FROM missing", 23),
            (f"SELECT i64, own.nope FROM '{FOLDER}/types.parquet' AS own", 13),
            ("SELECT 1 +\n no_such_function(1)", 13),
            ("SELECT CAST('x' AS INT)", 13),
            ("SELECT 1 WHERE", 15),
            ("SELECT 'é'; SELECT nope", 20),
        ]:
            try:
                connection.execute(sql).fetchall()
                raise AssertionError(f"{sql}: no error")
            except psycopg.Error as error:
                assert error.diag.statement_position == str(place), f"{sql}: {error.diag.statement_position}"
        # The connection is as good as before.
        assert connection.execute("SELECT 1").fetchone() == (1,)


def psycopg_transactions():
    import psycopg
    with psycopg.connect(DSN) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        try:
            connection.execute("SELECT 1 / 0").fetchall()
        except psycopg.errors.DivisionByZero:
            pass
        try:
            connection.execute("SELECT 1")
            raise AssertionError("the transaction has failed")
        except psycopg.errors.InFailedSqlTransaction:
            pass
        connection.rollback()
        with connection.transaction():
            try:
                with connection.transaction():
                    connection.execute("SELECT 1 / 0").fetchall()
            except psycopg.errors.DivisionByZero:
                pass
            assert connection.execute("SELECT 2").fetchone() == (2,), "after the savepoint"
        connection.execute("SET LOCAL pushdown.level = 'none'")
        assert connection.execute("SHOW pushdown.level").fetchone() == ("none",)
        connection.commit()
        assert connection.execute("SHOW pushdown.level").fetchone() == ("auto",)


def psycopg_many_rows():
    import psycopg
    sql = "SELECT value AS n, value * 2 AS m, 'row ' || value AS t FROM generate_series(1, 300000) ORDER BY 1"
    with psycopg.connect(DSN) as connection:
        with connection.cursor(name="c") as cursor:
            cursor.itersize = 7000
            cursor.execute(sql)
            for number, row in enumerate(cursor, 1):
                assert row == (number, 2 * number, f"row {number}"), row
            assert number == 300000
        with connection.cursor(name="d") as cursor:
            cursor.execute(sql)
            assert cursor.fetchmany(3)[-1][0] == 3
            assert cursor.fetchone()[0] == 4
        connection.rollback()
        for binary in (False, True):
            cursor = connection.cursor(binary=binary)
            total = sum(row[0] for row in cursor.stream(sql))
            assert total == 300000 * 300001 // 2, total


def psycopg_copy():
    import psycopg
    path = f"{FOLDER}/types.parquet"
    pq.write_table(table(), path)
    query = f"SELECT i64, t, d, small, bin, ints FROM '{path}'"
    with psycopg.connect(DSN, autocommit=True) as connection:
        wanted = connection.execute(query).fetchall()
        types = ["int8", "text", "date", "numeric", "bytea", "int8[]"]
        for form in ("text", "binary"):
            with connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT {form})") as copy:
                copy.set_types(types)
                assert list(copy.rows()) == wanted, form
        with connection.cursor().copy(f"COPY (SELECT i64, t FROM '{path}') TO STDOUT (FORMAT csv, HEADER)") as copy:
            text = b"".join(copy).decode()
        assert text.startswith('i64,t\n-9223372036854775808,""\n'), text
        assert text.endswith('\n,\n'), text
        import csv, io
        assert list(csv.reader(io.StringIO(text)))[2][1] == table()["t"][1].as_py()
        with connection.cursor().copy("COPY (SELECT 1 AS x WHERE false) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["int8"])
            assert list(copy.rows()) == []
        assert connection.execute("SELECT 1").fetchone() == (1,)


SLOW = "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 3 = 7"


def psycopg_cancel():
    import psycopg
    with psycopg.connect(DSN, autocommit=True) as connection, psycopg.connect(DSN, autocommit=True) as other:
        for how in ("cancel", "kill", "function", "timeout"):
            began = time.monotonic()
            pid = connection.info.backend_pid
            if how == "timeout":
                connection.execute("SET statement_timeout = '1s'")
            failed = []

            def stop():
                deadline = time.monotonic() + 60
                while time.monotonic() < deadline:
                    seen = other.execute(
                        "SELECT query FROM pg_stat_activity WHERE state = 'active' AND pid = %s", (pid,)).fetchall()
                    if any("1000000" in row[0] for row in seen):
                        break
                    time.sleep(0.05)
                else:
                    failed.append("the query is not listed")
                shown = other.execute("SHOW QUERIES").fetchall()
                if not any(row[0] == pid for row in shown):
                    failed.append(f"not in SHOW QUERIES: {shown}")
                if how == "cancel":
                    connection.cancel_safe()
                elif how == "kill":
                    other.execute(f"KILL {pid}")
                else:
                    other.execute("SELECT pg_cancel_backend(%s)", (pid,)).fetchall()

            thread = threading.Thread(target=stop)
            if how != "timeout":
                thread.start()
            try:
                connection.execute(SLOW).fetchall()
                raise AssertionError(f"{how}: it ran to its end")
            except psycopg.errors.QueryCanceled:
                pass
            finally:
                if how != "timeout":
                    thread.join()
            assert not failed, failed
            assert time.monotonic() - began < 60, how
            assert connection.execute("SELECT 1").fetchone() == (1,), how
        connection.execute("RESET statement_timeout")
        other.execute(f"KILL CONNECTION {connection.info.backend_pid}")
        try:
            connection.execute("SELECT 1")
            raise AssertionError("the session goes on")
        except psycopg.errors.AdminShutdown:
            pass
        except psycopg.OperationalError:
            pass


def psycopg_64_clients():
    import psycopg
    path = f"{FOLDER}/numbers.parquet"
    pq.write_table(pa.table({"n": pa.array(range(50000), pa.int64())}), path)
    errors = []

    def client(number):
        try:
            for turn in range(6):
                with psycopg.connect(DSN, autocommit=True) as connection:
                    kind = (number + turn) % 4
                    if kind == 0:
                        try:
                            connection.execute("SELECT wrong FROM nowhere")
                            raise AssertionError("no error")
                        except psycopg.errors.UndefinedTable:
                            pass
                    elif kind == 1:
                        # It goes away in the midst of its rows.
                        cursor = connection.cursor()
                        for _ in zip(range(10), cursor.stream(f"SELECT n FROM '{path}'")):
                            pass
                    connection.execute(f"SET pushdown.retries = {number % 5}")
                    sql = f"SELECT count(*), sum(n) FROM '{path}' WHERE n %% %s = 0"
                    divisor = number % 7 + 1
                    right = range(0, 50000, divisor)
                    assert connection.execute(sql, (divisor,)).fetchone() == (len(right), sum(right))
                    assert connection.execute("SHOW pushdown.retries").fetchone() == (str(number % 5),)
        except Exception as error:  # noqa: BLE001: each is reported
            errors.append(f"client {number}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=client, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[:5]


def asyncpg_all():
    import asyncpg
    path = f"{FOLDER}/types.parquet"
    pq.write_table(table(), path)

    async def run():
        connection = await asyncpg.connect(host=HOST, port=int(PORT), user="tester", database="pushdowndb")
        try:
            names = [n for n in table().column_names]
            rows = await connection.fetch(f"SELECT * FROM '{path}'")
            check_rows([list(row.values()) for row in rows], "asyncpg")
            assert list(rows[0].keys()) == names
            row = await connection.fetchrow(f"SELECT * FROM '{path}' WHERE i64 = $1 AND t = $2", -(2**63), "")
            assert row["small"] == D("-0.01")
            value = connection.fetchval
            assert await value(f"SELECT count(*) FROM '{path}' WHERE small = $1", D("-0.01")) == 1
            assert await value(f"SELECT count(*) FROM '{path}' WHERE i64 = ANY($1::bigint[])", [1, -(2**63)]) == 1
            statement = await connection.prepare(f"SELECT i64 FROM '{path}' WHERE i32 = $1 LIMIT $2")
            assert [p.name for p in statement.get_parameters()] == ["int4", "int8"], statement.get_parameters()
            assert await statement.fetchval(2**31 - 1, 5) == 2**63 - 1
            assert await statement.fetchval(0, 5) is None
            async with connection.transaction():
                numbers = [row[0] async for row in connection.cursor("SELECT value FROM generate_series(1, 1000) ORDER BY 1", prefetch=37)]
            assert numbers == list(range(1, 1001))
            try:
                await connection.fetch(SLOW, timeout=1)
                raise AssertionError("no timeout")
            except asyncio.TimeoutError:
                pass
            assert await value("SELECT 5") == 5
            try:
                await connection.fetch("SELECT * FROM missing")
                raise AssertionError("no error")
            except asyncpg.UndefinedTableError:
                pass
            import io
            out = io.BytesIO()
            await connection.copy_from_query("SELECT value FROM generate_series(1, 3)", output=out, format="csv")
            assert out.getvalue() == b"1\n2\n3\n", out.getvalue()
            assert (await connection.fetchval("SELECT current_database()")) == "pushdowndb"
            await connection.reset()
        finally:
            await connection.close()
    asyncio.run(run())


def declare(name, path):
    """A table that other sessions see is declared in the server's catalog, which these cases have none of: they
    name the file."""
    return f'CREATE VIEW {name} AS SELECT * FROM \'{path}\''


def adbc_all():
    from adbc_driver_postgresql import dbapi
    made = table().drop_columns(["u64", "dur", "obj", "texts", "ints", "large", "deep", "small", "time", "ns"])
    path = f"{FOLDER}/adbc.parquet"
    pq.write_table(made, path)
    with dbapi.connect(f"postgresql://{URL}", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM '{path}'")
        got = cursor.fetch_arrow_table()
        for name in made.column_names:
            assert got[name].to_pylist() == made[name].to_pylist(), f"{name}: {got[name]} is not {made[name]}"
        cursor.execute(f"SELECT count(*) FROM '{path}' WHERE i32 < $1 AND t IS NOT NULL", (5,))
        assert cursor.fetchone() == (1,)
        cursor.execute("SELECT value FROM generate_series(1, 100000)")
        assert sum(cursor.fetch_arrow_table()["value"].to_pylist()) == 5000050000
        try:
            cursor.execute("SELECT * FROM missing")
            cursor.fetchall()
            raise AssertionError("no error")
        except dbapi.Error as error:
            assert error.sqlstate == "42P01", error
        cursor.execute(declare("seen", path))
        assert connection.adbc_get_table_schema("seen").names == made.column_names


def duckdb_all():
    import duckdb
    import duckdb_extension_postgres_scanner
    import pathlib
    found = sorted(pathlib.Path(duckdb_extension_postgres_scanner.__file__).parent.rglob("*.duckdb_extension"))
    duck = duckdb.connect(config={"allow_unsigned_extensions": True})
    duck.execute(f"LOAD '{found[0]}'")
    duck.execute(f"ATTACH '{DSN}' AS p (TYPE postgres, READ_ONLY)")
    # It would split tables by the places of their rows, which objects do not have.
    duck.execute("SET pg_use_ctid_scan = false")
    duck.execute("SET pg_experimental_filter_pushdown = false")
    # A session of DuckDB's pool has the tables that the server declares for all.
    rows = duck.execute("SELECT day, item, price FROM p.public.sales ORDER BY day").fetchall()
    assert rows == [(dt.date(2024, 1, 1), "book", D("12.50")), (dt.date(2024, 1, 2), "pen", D("1.20"))], rows
    assert duck.execute("SELECT sum(price) FROM p.sales WHERE item = 'pen'").fetchone() == (D("1.20"),)
    types = duck.execute("SELECT column_type FROM (DESCRIBE p.sales)").fetchall()
    assert types == [("DATE",), ("VARCHAR",), ("DECIMAL(10,2)",)], types
    names = duck.execute("SELECT table_name FROM duckdb_tables() WHERE database_name = 'p' AND schema_name = 'public'")
    assert ("sales",) in names.fetchall()
    assert duck.execute("SELECT * FROM postgres_query('p', 'SELECT count(*) AS n FROM sales')").fetchone() == (2,)
    duck.execute("DETACH p")


CASES = {name: case for name, case in list(globals().items()) if callable(case) and name.split("_")[0] in
         ("psycopg", "asyncpg", "adbc", "duckdb")}

if __name__ == "__main__":
    run(CASES)
