#!/usr/bin/env python3
"""Real clients of Flight SQL against an SQL server: ADBC for Python, pyarrow's own client.

usage: clients.py HOST:PORT FOLDER [CASE…]

FOLDER is one that the server's SQL may read; data is made in it. Values are compared with those of pyarrow, which
wrote them. A client that is not installed is shown as SKIPPED.
"""

import datetime as dt
import decimal
import importlib
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

sys.path.append(str(Path(__file__).resolve().parents[1] / "postgres"))
from every_type import table  # noqa: E402

ADDRESS = sys.argv[1]
FOLDER = sys.argv[2]
URI = f"grpc://{ADDRESS}"
D = decimal.Decimal
UTC = dt.timezone.utc


def connect(**options):
    from adbc_driver_flightsql import dbapi
    return dbapi.connect(URI, autocommit=True, **options)


def message(*fields):
    """A message of protocol buffers whose fields, from 1, are bytes."""
    out = b""
    for number, value in enumerate(fields, 1):
        length, size = b"", len(value)
        while True:
            size, low = size >> 7, size & 127
            length += bytes([low | 128 if size else low])
            if not size:
                break
        out += bytes([number << 3 | 2]) + length + value
    return out


def command(sql):
    """The command of a query, as it stands in a descriptor."""
    url = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    return message(url, message(sql.encode()))


def adbc_types():
    from pyarrow import flight
    made = table()
    path = f"{FOLDER}/types.parquet"
    pq.write_table(made, path)
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM '{path}'")
        got = cursor.fetch_arrow_table()
        assert got.column_names == made.column_names
        for name in made.column_names:
            assert got[name].to_pylist() == made[name].to_pylist(), f"{name}: {got[name]} is not {made[name]}"
            assert got.schema.field(name).type == made.schema.field(name).type or name in ("time", "dur"), name
        cursor.execute("SELECT CAST('NaN' AS DOUBLE) AS n, CAST('-inf' AS DOUBLE) AS i")
        nan, infinite = cursor.fetchone()
        assert nan != nan and infinite == float("-inf")
    client = flight.connect(URI)
    info = client.get_flight_info(flight.FlightDescriptor.for_command(command(f"SELECT * FROM '{path}'")))
    reader = client.do_get(info.endpoints[0].ticket)
    assert info.schema == reader.schema, f"{info.schema} is not {reader.schema}"
    assert reader.read_all().num_rows == made.num_rows
    only = client.get_schema(flight.FlightDescriptor.for_command(command("SELECT 1 AS a, 'x' AS b")))
    assert only.schema.names == ["a", "b"]
    client.close()


def adbc_parameters():
    made = table()
    path = f"{FOLDER}/types.parquet"
    pq.write_table(made, path)
    with connect() as connection, connection.cursor() as cursor:

        def count(condition, *values):
            cursor.execute(f"SELECT count(*) FROM '{path}' WHERE {condition}", values)
            return cursor.fetchone()[0]

        for mark in ("?", "$1"):
            assert count(f"i64 = {mark}", 2**63 - 1) == 1
            assert count(f"i32 < {mark}", 0) == 1
            assert count(f"i32 = {mark}", 5.5) == 0, "compared as it is"
            assert count(f"t = {mark}", "ümläut 'quote' \"double\" \\ \t\n") == 1
            assert count(f"small = {mark}", D("9999999.99")) == 1
            assert count(f"small = {mark}", D("9999999.994")) == 0, "compared as it is"
            assert count(f"bin = {mark}", b"\x00\xff\\'") == 1
            assert count(f"d = {mark}", dt.date(9999, 12, 31)) == 1
            assert count(f"ts = {mark}", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)) == 1
            assert count(f"b = {mark}", True) == 1
            assert count(f"f64 = {mark}", 5e-324) == 1
            assert count(f"t = {mark}", None) == 0
        cursor.execute("SELECT ? AS a, ? AS b", (7, "it's"))
        assert cursor.fetchall() == [(7, "it's")]
        cursor.execute("SELECT * FROM (VALUES (1), (2), (3)) AS v(a) ORDER BY a LIMIT ?", (2,))
        assert cursor.fetchall() == [(1,), (2,)]
        # A statement runs once for each row of values.
        cursor.execute("SELECT ? * 2 AS twice", pa.record_batch({"a": pa.array([1, 2, None])}))
        assert cursor.fetchall() == [(2,), (4,), (None,)]
        # A value is never SQL.
        cursor.execute("SELECT ? AS a", ("'; DROP TABLE t; --",))
        assert cursor.fetchone() == ("'; DROP TABLE t; --",)


def adbc_errors():
    import adbc_driver_manager as manager
    with connect() as connection, connection.cursor() as cursor:
        for sql, kind, says in [
            ("SELEC 1", manager.ProgrammingError, "42601"),
            ("SELECT * FROM no_such_table", manager.ProgrammingError, "no_such_table"),
            ("SELECT no_such FROM (SELECT 1 AS a)", manager.ProgrammingError, "no_such"),
            ("SELECT 1 / 0", manager.ProgrammingError, "22012"),
            ("SELECT * FROM '/etc/passwd.csv'", manager.ProgrammingError, "42501"),
            ("SELECT 1; SELECT 2", manager.ProgrammingError, "42601"),
            ("LISTEN x; y", manager.ProgrammingError, "42601"),
            ("DECLARE c CURSOR FOR SELECT 1", manager.NotSupportedError, "0A000"),
        ]:
            try:
                cursor.execute(sql)
                cursor.fetchall()
                raise AssertionError(f"{sql} did not fail")
            except manager.Error as error:
                assert isinstance(error, kind) and says in str(error), f"{sql}: {type(error)} {error}"
        # In the middle of the rows.
        failure = None
        try:
            cursor.execute("SELECT 10 / (value - 99999) AS a FROM generate_series(1, 200000)")
            cursor.fetchall()
        except Exception as error:  # noqa: BLE001: some come from pyarrow, which reads the stream
            failure = str(error)
        assert failure and "22012" in failure, failure
        for mode in ("create", "append", "replace", "create_append"):
            try:
                cursor.adbc_ingest("ingested", table(), mode=mode)
                raise AssertionError(f"rows were taken in, mode {mode}")
            except manager.NotSupportedError as error:
                assert "tables are not filled row by row" in str(error), error
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,), "the session goes on"


def adbc_metadata():
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE VIEW seen AS SELECT 1 AS \"A b\", 'x' AS t")
        cursor.fetchall()
        assert connection.adbc_get_table_schema("seen").names == ["A b", "t"]
        assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]
        found = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        tables = [t for c in found for s in c["catalog_db_schemas"] for t in s["db_schema_tables"]]
        assert [t["table_name"] for t in tables] == ["seen"]
        assert [c["column_name"] for c in tables[0]["table_columns"]] == ["A b", "t"]
        info = connection.adbc_get_info()
        assert info["vendor_name"] == "PushdownDB", info
        cursor.adbc_prepare("SELECT * FROM seen WHERE t = ?")
        assert cursor.adbc_execute_schema("SELECT * FROM seen").names == ["A b", "t"]
        cursor.execute("DROP VIEW seen")
        cursor.fetchall()


def adbc_many_rows():
    rows = 10_000_000
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT value AS a, value * 2 AS b FROM generate_series(1, {rows})")
        count = 0
        for batch in cursor.fetch_record_batch():
            count += batch.num_rows
        assert count == rows, count
        # The first rows of a result that has no end come at once, and its end is not waited for.
        cursor.execute("SELECT value FROM generate_series(1, 1000000000000)")
        assert cursor.fetchone() == (1,)
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def adbc_cancel():
    with connect() as connection, connection.cursor() as cursor:
        began = time.monotonic()
        threading.Timer(1.0, cursor.adbc_cancel).start()
        failure = None
        try:
            cursor.execute("SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 3 = 7")
            cursor.fetchall()
        except Exception as error:  # noqa: BLE001
            failure = error
        assert failure is not None and time.monotonic() - began < 60, failure
        for _ in range(200):
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%generate_series(1, 10%' "
                           "AND state = 'active' AND query NOT LIKE '%pg_stat%'")
            if cursor.fetchone() == (0,):
                return
            time.sleep(0.1)
        raise AssertionError("the query goes on")


NEEDS = {"adbc": "adbc_driver_flightsql"}


def main():
    names = sys.argv[3:] or [name for name in globals() if name.startswith("adbc_")]
    for name in names:
        module = NEEDS[name.split("_")[0]]
        try:
            importlib.import_module(module)
        except ImportError:
            print(f"SKIPPED {name}: {module} is not installed", flush=True)
            continue
        globals()[name]()
        print(f"{name}: ok", flush=True)


if __name__ == "__main__":
    main()
