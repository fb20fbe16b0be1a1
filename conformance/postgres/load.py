#!/usr/bin/env python3
"""Many clients at once against an SQL server, by both protocols: right rows for all, and nobody starves.

    conformance/postgres/load.py --binary target/release/pushdowndb --seconds 120 --clients 64

Starts a server with four users over a folder of Parquet and CSV. Half of the clients speak PostgreSQL, half Flight SQL.
Of each four, one asks queries whose answers are known, one goes away in the middle of rows, one reads rows slowly, and
one sends wrong SQL and then asks again. Prints what each kind did, its longest query, and the server's resident size
at the start, after a quarter of the time, and at the end. Exit status 1 if a row was wrong, an error was not the
expected one, a client of known answers got none for longer than --patience, or the size at the end is more than
--growth times that after a quarter of the time.
"""

import argparse
import importlib
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from server import start as start_server

ROWS = 400_000
USERS = ["ann", "bob", "cat", "dan"]
KINDS = ["asks", "aborts", "slow", "wrong"]
WRONG = [
    "SELEC 1",
    "SELECT * FROM no_such_table",
    "SELECT no_such_column FROM facts",
    "SELECT 1 / 0",
    "SELECT * FROM '/etc/passwd.csv'",
    "SELECT count(*) FROM facts WHERE name = 5 + ",
]


def make_data(folder):
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq
    ids = list(range(ROWS))
    facts = pa.table({
        "id": pa.array(ids, pa.int64()),
        "city": pa.array([i % 50 for i in ids], pa.int32()),
        "price": pa.array([i % 1000 / 4 for i in ids], pa.float64()),
        "name": pa.array([f"name {i % 9973}" for i in ids]),
    })
    (folder / "facts").mkdir()
    for part in range(4):
        pq.write_table(facts.slice(part * ROWS // 4, ROWS // 4), folder / f"facts/{part}.parquet", row_group_size=20_000)
    cities = pa.table({"city": pa.array(range(50), pa.int32()), "country": [f"country {i % 5}" for i in range(50)]})
    pyarrow.csv.write_csv(cities, folder / "cities.csv")
    (folder / "catalog.sql").write_text(
        f"CREATE EXTERNAL TABLE facts STORED AS PARQUET LOCATION '{folder}/facts/';\n"
        f"CREATE EXTERNAL TABLE cities (city INT, country VARCHAR) STORED AS CSV LOCATION '{folder}/cities.csv' "
        "OPTIONS ('has_header' 'true');\n"
    )


def questions(random_number):
    """A query and its rows."""
    city, low = random_number.randrange(50), random_number.randrange(ROWS - 2000)
    return random_number.choice([
        (f"SELECT count(*) FROM facts WHERE city = {city}", [(ROWS // 50,)]),
        (f"SELECT min(id), max(id), count(*) FROM facts WHERE id BETWEEN {low} AND {low + 1999}",
         [(low, low + 1999, 2000)]),
        ("SELECT country, count(*) FROM facts JOIN cities USING (city) GROUP BY country ORDER BY country",
         [(f"country {i}", ROWS // 5) for i in range(5)]),
        (f"SELECT id FROM facts ORDER BY id DESC LIMIT 3 OFFSET {low}",
         [(ROWS - 1 - low - i,) for i in range(3)]),
        (f"SELECT name FROM facts WHERE id = {low}", [(f"name {low % 9973}",)]),
    ])


class Postgres:
    name = "postgres"

    def __init__(self, address, user):
        import psycopg
        host, port = address.rsplit(":", 1)
        self.connection = psycopg.connect(
            f"host={host} port={port} user={user} password={user} dbname=pushdowndb", autocommit=True)

    def rows(self, sql):
        return self.connection.execute(sql).fetchall()

    def slowly(self, sql, is_over):
        with self.connection.transaction(), self.connection.cursor(name="c") as cursor:
            cursor.execute(sql)
            count = 0
            while not is_over() and (rows := cursor.fetchmany(20_000)):
                count += len(rows)
                time.sleep(0.3)
            return count

    def abort(self, sql):
        """Closes the socket while rows come, and reads none."""
        descriptor = self.connection.pgconn.socket
        self.connection.pgconn.send_query(sql.encode())
        self.connection.pgconn.flush()
        time.sleep(0.05)
        with socket.socket(fileno=socket.dup(descriptor)) as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            held.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def close(self):
        self.connection.close()


class Flight:
    name = "flight"

    def __init__(self, address, user):
        from adbc_driver_flightsql import dbapi
        self.connection = dbapi.connect(
            f"grpc://{address}", db_kwargs={"username": user, "password": user}, autocommit=True)

    def rows(self, sql):
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def slowly(self, sql, is_over):
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            count = 0
            for batch in cursor.fetch_record_batch():
                count += batch.num_rows
                if is_over():
                    break
                time.sleep(0.1)
            return count

    def abort(self, sql):
        """Leaves the rows behind after the first, and the connection with them."""
        cursor = self.connection.cursor()
        cursor.execute(sql)
        cursor.fetchone()
        cursor.close()
        self.connection.close()

    def close(self):
        self.connection.close()


class Client(threading.Thread):
    """One client, which does one kind of thing until the end."""

    def __init__(self, number, kind, protocol, address, until):
        super().__init__(daemon=True)
        self.kind, self.protocol, self.address, self.until = kind, protocol, address, until
        self.user = USERS[number // len(KINDS) % len(USERS)]
        self.random = random.Random(number)
        self.done, self.longest, self.faults, self.aborted = 0, 0.0, [], 0

    def is_over(self):
        return time.monotonic() >= self.until

    def run(self):
        client = None
        while not self.is_over():
            began = time.monotonic()
            try:
                client = client or self.protocol(self.address, self.user)
                if not getattr(self, f"do_{self.kind}")(client):
                    client = None
            except Exception as error:  # noqa: BLE001
                self.faults.append(f"{type(error).__name__}: {error}")
                client = None
            self.done += 1
            self.longest = max(self.longest, time.monotonic() - began)
        if client:
            client.close()

    def do_asks(self, client):
        sql, wanted = questions(self.random)
        rows = [tuple(row) for row in client.rows(sql)]
        if rows != wanted:
            self.faults.append(f"{sql}: {rows[:5]} is not {wanted[:5]}")
        return True

    def do_aborts(self, client):
        client.abort("SELECT a.id, b.name FROM facts a JOIN facts b ON a.city = b.city")
        return False

    def do_slow(self, client):
        count = client.slowly("SELECT * FROM facts", self.is_over)
        if not self.is_over() and count != ROWS:
            self.faults.append(f"{count} rows were read, not {ROWS}")
        return True

    def do_wrong(self, client):
        sql = self.random.choice(WRONG)
        try:
            client.rows(sql)
            self.faults.append(f"{sql} did not fail")
        except Exception as error:  # noqa: BLE001
            if any(code in str(error) + str(getattr(error, "sqlstate", "")) for code in ("53000", "XX000")):
                self.faults.append(f"{sql}: {error}")
        if [tuple(row) for row in client.rows("SELECT 6 * 7 AS n")] != [(42,)]:
            self.faults.append("the session did not go on")
        return True


def resident(pid):
    """The resident size of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def start(binary, folder):
    users = []
    for user in USERS:
        made = subprocess.run([binary, "sql-server", "--make-password"], input=user, capture_output=True, text=True, check=True)
        users.append(f'[users.{user}]\npassword = "{made.stdout.strip()}"\nread = ["{folder}/"]\n')
    (folder / "users.toml").write_text("".join(users))
    return start_server(binary, "--users", folder / "users.toml", "--catalog", folder / "catalog.sql", "--allow", f"{folder}/")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--patience", type=float, default=60, help="the longest that a known answer may take, in seconds")
    parser.add_argument("--growth", type=float, default=1.5, help="how much larger the server may become when it is warm")
    options = parser.parse_args()
    for module in ("psycopg", "adbc_driver_flightsql", "pyarrow"):
        try:
            importlib.import_module(module)
        except ImportError:
            print(f"SKIPPED load: {module} is not installed")
            return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_data(folder)
        server, postgres, flight = start(options.binary, folder)
        try:
            return judge(options, server, postgres, flight)
        finally:
            server.terminate()
            server.wait(30)


def judge(options, server, postgres, flight):
    # What the first query reads and keeps is no leak.
    for protocol, address in ((Postgres, postgres), (Flight, flight)):
        client = protocol(address, "ann")
        client.rows("SELECT count(*), min(name) FROM facts JOIN cities USING (city)")
        client.close()
    sizes = {"start": resident(server.pid)}
    until = time.monotonic() + options.seconds
    clients = []
    for number in range(options.clients):
        protocol, address = ((Postgres, postgres), (Flight, flight))[number // len(KINDS) // len(USERS) % 2]
        clients.append(Client(number, KINDS[number % len(KINDS)], protocol, address, until))
    for client in clients:
        client.start()
    peak = 0.0
    while time.monotonic() < until:
        peak = max(peak, resident(server.pid))
        if "quarter" not in sizes and time.monotonic() > until - options.seconds * 0.75:
            sizes["quarter"] = resident(server.pid)
        time.sleep(0.5)
    for client in clients:
        client.join(options.patience)
    time.sleep(2)
    sizes["end"], sizes["peak"] = resident(server.pid), peak
    is_well = server.poll() is None
    print(f"{options.clients} clients, {options.seconds:.0f} s")
    print(f"{'protocol':10}{'kind':10}{'clients':>8}{'done':>8}{'least':>7}{'longest s':>11}{'faults':>8}")
    for protocol in (Postgres, Flight):
        for kind in KINDS:
            own = [c for c in clients if c.kind == kind and c.protocol is protocol]
            if not own:
                continue
            faults = [fault for c in own for fault in c.faults]
            longest = max(c.longest for c in own)
            print(f"{protocol.name:10}{kind:10}{len(own):8}{sum(c.done for c in own):8}{min(c.done for c in own):7}"
                  f"{longest:11.1f}{len(faults):8}")
            for fault in faults[:3]:
                print(f"    {fault[:300]}")
            starves = kind == "asks" and (longest > options.patience or min(c.done for c in own) == 0)
            is_well &= not faults and not starves and not any(c.is_alive() for c in own)
    print("resident MB: " + ", ".join(f"{when} {size:.0f}" for when, size in sizes.items()))
    if sizes["end"] > options.growth * sizes["quarter"]:
        print(f"    the server grew by more than {options.growth} times")
        is_well = False
    print("load: ok" if is_well else "load: FAILED")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
