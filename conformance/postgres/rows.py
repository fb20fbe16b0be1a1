#!/usr/bin/env python3
"""How fast many rows reach a client: Python, PostgreSQL's protocol and Flight SQL, beside DuckDB and PostgreSQL.

    conformance/postgres/rows.py --binary target/release/pushdowndb [--rows 10000000] [--repeat 3]

Makes a Parquet file of six columns (two integers, a fraction, a decimal, a date, a text), and reads all of it:

- to a table of Arrow in Python: by DuckDB, by the Python package, and by Flight SQL (ADBC);
- by psycopg's COPY … TO STDOUT, as text and binary: from the SQL server, and from a PostgreSQL that holds the rows.

Each is run in a process of its own, --repeat times in turn; the shortest counts. Prints seconds, and ratios to DuckDB
and PostgreSQL. Exit status 1 if a count or a sum was wrong, or a ratio is above --most (Arrow) or --most-copy. What is
not installed is shown as SKIPPED. The Python package is the one that `import pushdowndb` finds.
"""

import argparse
import importlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from server import start as start_server

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

COLUMNS = "id, city, price, paid, day, name"


def make(path, rows):
    import duckdb
    duckdb.execute(
        "COPY (SELECT i AS id, (i % 50)::INTEGER AS city, (i % 1000) / 4.0::DOUBLE AS price, "
        "((i % 100000) / 100)::DECIMAL(12, 2) AS paid, DATE '2020-01-01' + (i % 1500)::INTEGER AS day, "
        f"'name ' || (i % 9973) AS name FROM range({rows}) AS t(i)) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 200000)")


def check(count, total, rows):
    assert count == rows and total == rows * (rows - 1) // 2, f"{count} rows, whose numbers are {total}"


def check_table(table, rows):
    import pyarrow.compute
    assert table.num_columns == 6, table.schema
    check(table.num_rows, pyarrow.compute.sum(table["id"]).as_py(), rows)


def read_duckdb(options):
    import duckdb
    connection = duckdb.connect()
    began = time.perf_counter()
    table = connection.execute(f"SELECT * FROM '{options.file}'").to_arrow_table()
    return time.perf_counter() - began, table


def read_python(options):
    import pushdowndb
    connection = pushdowndb.connect()
    connection.progress = False
    began = time.perf_counter()
    table = connection.sql(f"SELECT * FROM '{options.file}'").arrow()
    return time.perf_counter() - began, table


def read_flight(options):
    from adbc_driver_flightsql import dbapi
    with dbapi.connect(f"grpc://{options.flight}", autocommit=True) as connection, connection.cursor() as cursor:
        began = time.perf_counter()
        cursor.execute(f"SELECT * FROM '{options.file}'")
        table = cursor.fetch_arrow_table()
        return time.perf_counter() - began, table


def copy(connection, query, form):
    """Seconds and bytes of a COPY, which are counted and left."""
    began = time.perf_counter()
    size = lines = 0
    with connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT {form})") as rows:
        for piece in rows:
            size += len(piece)
            lines += bytes(piece).count(b"\n") if form == "text" else 0
    return time.perf_counter() - began, size, lines


def read_copy(options, dsn, table):
    import psycopg
    form = options.reader.rsplit("_", 1)[1]
    with psycopg.connect(dsn, autocommit=True) as connection:
        check(*connection.execute(f"SELECT count(*), sum(id) FROM {table}").fetchone(), options.rows)
        seconds, size, lines = copy(connection, f"SELECT {COLUMNS} FROM {table}", form)
    if form == "text":
        assert lines == options.rows, lines
    return seconds, size


READERS = {
    "duckdb": ("duckdb", read_duckdb),
    "python": ("pushdowndb", read_python),
    "flight": ("adbc_driver_flightsql", read_flight),
}
for kind in ("text", "binary"):
    READERS[f"postgres_{kind}"] = ("psycopg", lambda options: read_copy(options, options.postgres, "rows"))
    READERS[f"copy_{kind}"] = ("psycopg", lambda options: read_copy(options, options.server, f"'{options.file}'"))


def read(options):
    """One reading, in this process."""
    seconds, got = READERS[options.reader][1](options)
    if options.reader in ("duckdb", "python", "flight"):
        check_table(got, options.rows)
        got = got.nbytes
    print(json.dumps([seconds, got]))


class Reference:
    """A PostgreSQL with the rows, on a socket in a temporary folder."""

    def __init__(self, file):
        from conformance.answers.engines import has_user, tools_of_postgres
        import os
        tools = Path(tools_of_postgres())
        self.folder = Path(tempfile.mkdtemp(prefix="rows-pg-"))
        # It refuses to run as root.
        self.user = ("postgres" if has_user("postgres") else "nobody") if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)
        data = self.folder / "data"
        self.call(tools / "initdb", "-D", data, "-U", "rows", "-A", "trust", "--locale=C", "-E", "UTF8", "-N")
        self.control = [tools / "pg_ctl", "-D", data, "-w", "-l", self.folder / "log"]
        self.call(*self.control, "-o", f"-k {self.folder} -c listen_addresses='' -c fsync=off -c max_wal_size=8GB", "start")
        self.dsn = f"host={self.folder} user=rows dbname=postgres"
        self.fill(file)

    def call(self, *command):
        command = [str(part) for part in command]
        subprocess.run(command, stdout=subprocess.DEVNULL, cwd=self.folder, user=self.user, check=True)

    def fill(self, file):
        import duckdb
        import psycopg
        text = self.folder / "rows.csv"
        duckdb.execute(f"COPY (SELECT * FROM '{file}') TO '{text}' (FORMAT csv, HEADER false)")
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("CREATE UNLOGGED TABLE rows (id bigint, city int, price float8, paid numeric(12,2), day date, "
                               "name text)")
            with connection.cursor().copy("COPY rows FROM STDIN (FORMAT csv)") as into, open(text, "rb") as lines:
                while piece := lines.read(1 << 20):
                    into.write(piece)
            connection.execute("VACUUM (FREEZE, ANALYZE) rows")
        text.unlink()

    def close(self):
        self.call(*self.control, "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)


def start(binary, folder):
    server, postgres, flight = start_server(binary, "--allow", f"{folder}/", stderr=subprocess.DEVNULL)
    host, port = postgres.rsplit(":", 1)
    return server, f"host={host} port={port} user=rows dbname=pushdowndb", flight


def measure(options, file, server, flight, postgres):
    """The shortest seconds of each reader, and the bytes that it got."""
    found = {}
    readers = [name for name in READERS if postgres or not name.startswith("postgres")]
    for name in list(readers):
        try:
            importlib.import_module(READERS[name][0])
        except ImportError:
            print(f"SKIPPED: {READERS[name][0]} is not installed: {name}")
            readers.remove(name)
    for _ in range(options.repeat):
        for name in readers:
            command = [sys.executable, __file__, "--reader", name, "--file", str(file), "--rows", str(options.rows)]
            command += ["--server", server, "--flight", flight, "--postgres", postgres or ""]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{name}: {done.stderr}")
            seconds, size = json.loads(done.stdout.splitlines()[-1])
            if name not in found or seconds < found[name][0]:
                found[name] = (seconds, size)
    return found


def report(options, found):
    """Prints the figures; true if no ratio is above what it may be."""
    beside = {"python": "duckdb", "flight": "duckdb", "copy_text": "postgres_text", "copy_binary": "postgres_binary"}
    is_well = True
    print(f"{options.rows} rows of six columns, the shortest of {options.repeat}")
    print(f"{'reader':17}{'seconds':>9}{'MB':>8}  {'ratio':>6}")
    for name, (seconds, size) in found.items():
        ratio = ""
        if beside.get(name) in found:
            factor = seconds / found[beside[name]][0]
            most = options.most if beside[name] == "duckdb" else options.most_copy
            is_well &= not most or factor <= most
            ratio = f"{factor:6.2f} times {beside[name]}" + (f", at most {most}" if most else "")
        print(f"{name:17}{seconds:9.2f}{size / 1e6:8.0f}  {ratio}")
    print("rows: ok" if is_well else "rows: FAILED")
    return is_well


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--most", type=float, help="the highest ratio to DuckDB's time that is no failure")
    parser.add_argument("--most-copy", type=float, help="the highest ratio to the time of PostgreSQL's COPY")
    for hidden in ("reader", "file", "server", "flight", "postgres"):
        parser.add_argument(f"--{hidden}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.reader:
        return read(options)
    if not options.binary:
        parser.error("--binary is needed")
    with tempfile.TemporaryDirectory(prefix="rows-") as name:
        folder = Path(name)
        file = folder / "rows.parquet"
        make(file, options.rows)
        server, address, flight = start(options.binary, folder)
        reference = None
        try:
            from conformance.answers.engines import tools_of_postgres
            if tools_of_postgres():
                reference = Reference(file)
            else:
                print("SKIPPED: PostgreSQL is not installed")
            found = measure(options, file, address, flight, reference and reference.dsn)
        finally:
            server.terminate()
            server.wait(30)
            if reference:
                reference.close()
    return 0 if report(options, found) else 1


if __name__ == "__main__":
    sys.exit(main())
