"""`pushdowndb` as a reader: on local files, or over a node at a level of pushdown."""

import json
import os
import re
import subprocess
import tempfile
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from conformance.files.case import Case
from conformance.files.readers import Told

MARK = re.compile(r"(?m)^\[\{\"end_of_answer\":1\}\]\n")


class Ours:
    """One way of reading."""

    def __init__(self, binary: str, name: str, base: str, settings=(), environment=None):
        self.binary, self.name, self.base = binary, name, base
        self.settings = [*settings, "pushdown.query_timeout_s=20"]
        self.environment = {**os.environ, **(environment or {})}

    def run(self, script: str, form: str):
        """Runs a script; its output and its error, if any."""
        with tempfile.TemporaryDirectory(prefix="files-") as folder:
            path = Path(folder) / "batch.sql"
            path.write_text(script, encoding="utf-8")
            command = [self.binary, "--format", form, "--cache", f"{folder}/cache"]
            for setting in self.settings:
                command += ["--set", setting]
            done = subprocess.run([*command, "-f", str(path)], capture_output=True, env=self.environment)
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        if done.returncode not in range(0, 11):
            return done.stdout, f"CRASH {done.returncode}: {' '.join(lines)[:400]}"
        said = next((line for line in lines if line.startswith("error:")), " ".join(lines[-3:]))
        return done.stdout, re.sub(r"^error: \S*\.sql:\d+: ", "", said) if done.returncode else ""

    def read(self, case: Case, columns="*") -> Told:
        """The rows of a case, exactly."""
        order = " ORDER BY id" if case.filters or case.ordered else ""
        output, error = self.run(f"{case.declaration('t', self.base)};\nSELECT {columns} FROM t{order};\n", "arrow")
        if error:
            return Told(error=error)
        return Told(pa.ipc.open_stream(pa.BufferReader(output)).read_all())

    def answers(self, asked: list[tuple[Case, list[str]]]) -> list[list]:
        """For each case and each of its statements the rows as JSON has them, or an error as a text. A process runs them up to
        the first that fails; the next one goes on behind it."""
        answers: list[list] = [[] for _ in asked]
        case = 0
        while case < len(asked):
            script, places = [], []
            for number in range(case, len(asked)):
                one, statements = asked[number]
                script.append(f"DROP TABLE IF EXISTS t;\n{one.declaration('t', self.base)};\n")
                for sql in statements[len(answers[number]) :]:
                    script.append(f"{sql};\nSELECT 1 AS end_of_answer;\n")
                    places.append(number)
            output, error = self.run("".join(script), "json")
            parts = MARK.split(output.decode(errors="replace"))[:-1]
            for number, part in zip(places, parts):
                answers[number].append(rows_of(part))
            if len(parts) < len(places):
                answers[places[len(parts)]].append(error or "no answer and no error")
            case = next((n for n, (_, statements) in enumerate(asked) if len(answers[n]) < len(statements)), len(asked))
        return answers


def rows_of(text: str) -> list[tuple]:
    pairs = lambda row: tuple(row)  # noqa: E731
    return json.loads(text or "[]", parse_float=Decimal, object_pairs_hook=pairs)
