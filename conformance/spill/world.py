"""What a run of kills has: a node, the tables, the places, and what queries are known to return and to take."""

import os
import random
import subprocess
from pathlib import Path

from conformance.attacks.node import ROOT, Node
from conformance.harness.server import Server
from conformance.spill.places import BUCKET, Place
from conformance.spill.process import Outcome, Process, Query

SCALE = 0.05
MEMORY = ["8MB", "12MB", "16MB"]
VACUUM = Query("VACUUM", "VACUUM TEMPORARY FILES OLDER THAN '0 s'")
# Each shows another way of a part: how it is compressed and encrypted, and how many files are written at once.
VARIANTS = {"threads": ["1", "2", "4"], "spill_compression": ["lz4", "zstd", "none"], "spill_encryption": ["false", "false", "true"]}


class World:
    """A node on a folder, with the tables of TPC-H there and in a local folder."""

    def __init__(self, binary: str, folder: Path, kinds: list[str]):
        self.binary, self.folder = binary, folder
        self.node = Node(binary, folder) if kinds != ["disk"] else None
        self.expected: dict[Query, list] = {}
        self.durations: dict[tuple, float] = {}
        self.started = 0
        self.processes: list[Process] = []
        self.kinds = kinds

    def __enter__(self):
        self.environment = dict(os.environ)
        server = None
        if self.node:
            self.node.start()
            self.environment |= {
                "AWS_ACCESS_KEY_ID": ROOT.id, "AWS_SECRET_ACCESS_KEY": ROOT.secret, "AWS_ENDPOINT_URL": self.node.endpoint, "AWS_REGION": "us-east-1",
            }
            server = Server(self.node.endpoint, ROOT.id, ROOT.secret)
            server.s3.create_bucket(Bucket=BUCKET)
        try:
            self.tables = [self.generate(str(self.folder / "tpch"))]
            if self.node:
                self.tables.append(self.generate("s3://tpch/data", "--create-bucket"))
            spill = self.folder / "spill"
            self.places = {kind: Place(kind, spill, server) for kind in self.kinds}
            for place in self.places.values():
                place.put_foreign()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.end_processes()
        if self.node:
            self.node.__exit__()

    def end_processes(self) -> None:
        for process in self.processes:
            process.kill()
        self.processes = []

    def generate(self, place: str, *more) -> str:
        """The script that declares the tables, once these are there."""
        command = [self.binary, "generate", "tpch", "--scale", str(SCALE), "--format", "parquet", "--parts", "2", "--to", place, *more]
        made = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if made.returncode:
            raise SystemExit(f"generate: {made.stderr}")
        return f"{place}/schema.sql"

    def start(self, query: Query, place: Place | None, rng: random.Random, tables=None) -> Process:
        """Starts a query that spills to `place`, or one without a limit of memory."""
        self.started += 1
        settings = ["pushdown.memory=none"]
        if place:
            settings = [f"pushdown.memory={rng.choice(MEMORY)}", *place.settings()]
            settings += [f"pushdown.{name}={rng.choice(values)}" for name, values in VARIANTS.items()]
        output = self.folder / f"rows-{self.started}.csv"
        command = [self.binary, "--format", "csv", "--cache", str(self.folder / "cache"), "--stats-file", str(output.with_suffix(".json"))]
        for setting in settings:
            command += ["--set", setting]
        script = [] if query is VACUUM else ["-f", tables or self.tables[0]]
        process = Process([*command, *script, "-c", query.sql], output, self.environment, query.name)
        self.processes.append(process)
        return process

    def finish(self, process: Process, seconds=120) -> Outcome:
        """Waits for a process; its output is gone afterwards."""
        outcome = process.wait(seconds)
        self.processes.remove(process)
        for ending in (".csv", ".err", ".json"):
            process.output.with_suffix(ending).unlink(missing_ok=True)
        return outcome

    def rows(self, query: Query) -> list:
        """The lines of the query's rows where memory has no limit."""
        if query not in self.expected:
            outcome = self.finish(self.start(query, None, random.Random(0)))
            if outcome.code:
                raise SystemExit(f"{query.name} without a limit: {outcome.said()}")
            self.expected[query] = outcome.lines
        return self.expected[query]

    def usual(self, query: Query, place: Place, rng: random.Random) -> float:
        """Seconds that the query takes at such a place, measured at the first call."""
        key = (query, place.kind)
        if key not in self.durations:
            outcome = self.finish(self.start(query, place, random.Random(0)))
            self.durations[key] = outcome.seconds
        return self.durations[key]
