"""DuckDB, PostgreSQL and ours, each a thing that answers statements with rows or an error."""

import csv
import datetime
import importlib.util
import io
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import types
import zoneinfo
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from conformance.answers import data


@dataclass
class Answer:
    """Rows, or an error; `kinds` tells of each column whether it is `dbl`, `text` or another."""

    rows: list = field(default_factory=list)
    error: str = ""
    kinds: list = field(default_factory=list)


# What DuckDB has a setting for is set as in PostgreSQL; docs/sql.md tells of its defaults.
SETTINGS = """SET TimeZone = 'UTC'; SET threads = 1; SET integer_division = true;
SET default_null_order = 'nulls_last_on_asc_first_on_desc'"""


class Duck:
    """DuckDB in this process."""

    name = "DuckDB"

    def __init__(self, seed: int):
        import duckdb

        know_pytz()
        self.errors = duckdb.Error
        self.connection = duckdb.connect()
        self.connection.execute(SETTINGS)
        for schema in ("csv", "parquet"):
            for statement in data.script(seed, schema, postgres=False):
                self.connection.execute(statement)

    def use(self, schema: str) -> None:
        self.connection.execute(f"SET search_path = '{schema}'")

    def answer(self, sql: str) -> Answer:
        try:
            result = self.connection.execute(sql)
            kinds = [kind_of(str(column[1])) for column in result.description]
            return Answer(result.fetchall(), kinds=kinds)
        except self.errors as error:
            return Answer(error=str(error).split("\n")[0])
        except (OverflowError, ValueError) as error:  # Dates that Python has not.
            return Answer(error=f"client: {error}")


class Zone(datetime.tzinfo):
    """A zone as pytz has it: it can be laid onto a time."""

    def __init__(self, name: str):
        self.zone = zoneinfo.ZoneInfo(name)

    def localize(self, moment):
        return moment.replace(tzinfo=self.zone)

    def utcoffset(self, moment):
        return self.zone.utcoffset(moment)

    def dst(self, moment):
        return self.zone.dst(moment)

    def tzname(self, moment):
        return self.zone.tzname(moment)


def know_pytz() -> None:
    """DuckDB asks the package pytz for the zone of timestamps; what Python has itself does as well."""
    if not importlib.util.find_spec("pytz"):
        stand_in = types.ModuleType("pytz")
        stand_in.timezone, stand_in.utc = Zone, Zone("UTC")
        sys.modules["pytz"] = stand_in


def kind_of(type_name: str) -> str:
    lowered = type_name.lower()
    if lowered in ("double", "float", "float8", "float4", "real"):
        return "dbl"
    return "text" if lowered in ("varchar", "text", "string") else "other"


class Postgres:
    """A private PostgreSQL on a socket in a temporary folder, stopped on close."""

    name = "PostgreSQL"

    def __init__(self, seed: int):
        import psycopg

        self.errors = psycopg.Error
        self.folder = Path(tempfile.mkdtemp(prefix="answers-pg-"))
        tools = Path(tools_of_postgres())
        # It refuses to run as root.
        self.user = ("postgres" if has_user("postgres") else "nobody") if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)
        cluster = self.folder / "data"
        self.call(tools / "initdb", "-D", cluster, "-U", "answers", "-A", "trust", "--locale=C", "-E", "UTF8", "-N")
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off -c timezone=UTC -c max_connections=10"
        self.control = [tools / "pg_ctl", "-D", cluster, "-w", "-l", self.folder / "log"]
        self.call(*self.control, "-o", options, "start")
        self.connection = psycopg.connect(host=str(self.folder), user="answers", dbname="postgres", autocommit=True)
        self.connection.execute("SET statement_timeout = '10s'")
        for schema in ("csv", "parquet"):
            for statement in data.script(seed, schema, postgres=True):
                self.connection.execute(statement)

    def call(self, *command) -> None:
        done = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, cwd=self.folder, user=self.user
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stderr}")

    def use(self, schema: str) -> None:
        self.connection.execute(f"SET search_path = {schema}")

    def answer(self, sql: str) -> Answer:
        try:
            cursor = self.connection.execute(sql)
            kinds = [kind_of(column.type_display) for column in cursor.description]
            return Answer(cursor.fetchall(), kinds=kinds)
        except self.errors as error:
            return Answer(error=str(error).split("\n")[0])

    def close(self) -> None:
        self.connection.close()
        self.call(*self.control, "-m", "immediate", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)


def has_user(name: str) -> bool:
    return any(entry.pw_name == name for entry in pwd.getpwall())


def tools_of_postgres() -> str:
    """The folder with initdb and pg_ctl, or nothing."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((str(place) for place in places if (place / "initdb").exists() and (place / "pg_ctl").exists()), "")


PROCESS_SECONDS = 900  # Far above what a batch of statements takes.


class Ours:
    """`pushdowndb` in one way: on local files, or over a node at a level of pushdown."""

    def __init__(self, binary: str, name: str, base: str, settings=(), environment=None, seconds=20):
        self.binary, self.name, self.base = binary, name, base
        self.settings = [*settings, f"pushdown.query_timeout_s={seconds}"]
        self.forced: list[str] = []
        self.environment = {**os.environ, **(environment or {})}

    def answers(self, schema: str, statements: list[str], form="json") -> list[Answer]:
        """An answer for each statement. A process runs them up to the first that fails; the next one goes on behind it."""
        answers: list[Answer] = []
        with tempfile.TemporaryDirectory(prefix="answers-") as folder:
            tables = self.declared(schema)
            if not tables:
                tables = f"{folder}/tables.sql"
                Path(tables).write_text(";\n".join(data.declarations(schema, self.base)) + ";\n", encoding="utf-8")
            while len(answers) < len(statements):
                answers += self.some(folder, tables, statements[len(answers) :], form)
        return answers

    def declared(self, _schema: str) -> str:
        """The script that declares the tables, where there is one already."""
        return ""

    def some(self, folder: str, tables: str, statements: list[str], form: str) -> list[Answer]:
        """Answers up to the first error, at least one."""
        script = Path(folder) / "batch.sql"
        # A marker ends each answer: a line that no value can be.
        script.write_text("".join(f"{one};\nSELECT 1 AS end_of_answer_{n};\n" for n, one in enumerate(statements)), encoding="utf-8")
        done = self.run([*self.command(folder, form), "-f", tables, "-f", str(script)])
        parts = re.split(r"(?m)^(?:\[?\{\"end_of_answer_\d+\":1\}\]?|end_of_answer_\d+\n1)\n", done.stdout.decode())
        answers = [self.answer(part, form) for part in parts[:-1]]
        if len(answers) < len(statements):
            lines = done.stderr.decode().strip().splitlines()
            said = re.sub(r"^error: \S*\.sql:\d+: ", "", self.said(lines))
            if done.returncode not in range(1, 11):
                said = f"CRASH {done.returncode}: {' '.join(lines)[:400]}"
            answers.append(Answer(error=said or f"exit code {done.returncode} and no message"))
        return answers

    def command(self, folder: str, form: str) -> list[str]:
        """The program and its options."""
        command = [self.binary, "--format", form, "--cache", f"{folder}/cache"]
        for setting in self.settings + self.forced:
            command += ["--set", setting]
        return command

    def run(self, command: list[str]) -> subprocess.CompletedProcess:
        """Runs a process to its end, but not for ever."""
        try:
            return subprocess.run(command, capture_output=True, env=self.environment, timeout=PROCESS_SECONDS)
        except subprocess.TimeoutExpired as late:
            said = f"it does not end within {PROCESS_SECONDS} s".encode()
            return subprocess.CompletedProcess(command, -9, late.stdout or b"", said)

    def said(self, lines: list[str]) -> str:
        """The error among the lines of stderr."""
        return next((line for line in lines if line.startswith("error:")), " ".join(lines[-3:]))

    def answer(self, part: str, form: str) -> Answer:
        """The answer in a piece of the output."""
        return Answer(read_json(part) if form == "json" else read_csv(part))


def read_json(text: str) -> list[tuple]:
    return json.loads(text or "[]", parse_float=Decimal, object_pairs_hook=pairs, parse_constant=str)


def pairs(row) -> tuple:
    """The values of a row, though two may have one name."""
    return tuple(value for _, value in row)


def read_csv(text: str) -> list[tuple]:
    return [tuple(row) for row in csv.reader(io.StringIO(text))][1:]
