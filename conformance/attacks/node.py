"""A node in a process of its own, with the keys that attackers and victims use."""

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Key:
    """A pair of keys."""

    id: str
    secret: str


ROOT = Key("root", "root-secret-key")
VICTIM = Key("victim", "victim-secret-key")
MALLORY = Key("mallory", "mallory-secret-key")
OTHER = Key("other", "other-secret-key")
READER = Key("reader", "reader-secret-key")

# Buckets that keys are for; a tenant makes its own.
GRANTS = {
    ROOT: "",
    VICTIM: 'write = ["victim"]\n',
    MALLORY: 'write = ["mallory", "mallory-*"]\nown = true\n',
    OTHER: "own = true\n",
    READER: 'read = ["victim"]\n',
}


def credentials(grants) -> str:
    entries = [f'[[key]]\naccess_key_id = "{key.id}"\nsecret_access_key = "{key.secret}"\n{rights}' for key, rights in grants.items()]
    return "\n".join(entries)


class Node:
    """A running `pushdowndb serve`. Leaving the context kills it if it has not been stopped. One that is started
    again has the same port."""

    def __init__(self, binary: str, folder: Path, backing=None, more=(), environment=None):
        self.binary, self.folder, self.more, self.port = binary, folder, list(more), 0
        self.store = folder / "store"
        self.backing = backing or ["--store", str(self.store)]
        self.environment = environment or {}
        self.credentials = folder / "keys.toml"
        self.log_path = folder / "log.json"
        self.grants = dict(GRANTS)
        self.process = None
        self.last_peak = 0.0

    def start(self):
        self.credentials.write_text(credentials(self.grants), encoding="utf-8")
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        command = [self.binary, "serve", *self.backing, "--listen", f"127.0.0.1:{self.port}", "--admin-listen", "127.0.0.1:0"]
        command += ["--credentials", str(self.credentials), "--log-format", "json", "--log", "warn", *self.more]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, env={**kept, **self.environment}
            )
        line = self.process.stdout.readline().decode()
        if "serving S3 on" not in line:
            raise AssertionError(f"the node does not start: {line}{self.log()}")
        self.endpoint = line.split("serving S3 on ")[1].strip()
        self.port = int(self.endpoint.rsplit(":", 1)[1])
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.last_peak = self.peak_mib()
            self.process.kill()
            self.process.wait()

    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def records(self):
        """The lines of the log; those that are no JSON are an error."""
        return [json.loads(line) for line in self.log().splitlines()]

    def metric(self, name: str) -> float:
        """A figure of /metrics, summed over its labels."""
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port(), timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        lines = [line for line in text.splitlines() if line.split("{")[0].split(" ")[0] == f"pushdowndb_{name}"]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def admin_port(self) -> int:
        """As the node says it on stderr."""
        end = time.monotonic() + 5
        while time.monotonic() < end:
            if "metrics: on http://" in self.log():
                return int(self.log().split("metrics: on http://")[1].split("/")[0].rsplit(":", 1)[1])
            time.sleep(0.02)
        raise AssertionError("the node does not say where its metrics are")

    def status(self, field: str) -> int:
        """A number of /proc/PID/status."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
        raise KeyError(field)

    def peak_mib(self) -> float:
        """The most memory that it has held so far."""
        return self.status("VmHWM") / 1024

    def forget_peak(self):
        """Counts the peak anew, from what is held now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def cpu_seconds(self) -> float:
        """CPU time that it has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def set_grants(self, grants):
        """Other keys from now on, as an operator would: the file, then SIGHUP."""
        self.grants = dict(grants)
        self.credentials.write_text(credentials(self.grants), encoding="utf-8")
        before = self.log().count("credentials: read again")
        self.process.send_signal(signal.SIGHUP)
        wait_for("the keys to be read again", 5, lambda: self.log().count("credentials: read again") > before)

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def stop(self, seconds=20):
        """SIGTERM; it must end by itself, in time, without an error."""
        if not self.is_alive():
            raise AssertionError(f"the node died with {self.process.returncode}: {self.log()[-2000:]}")
        self.last_peak = self.peak_mib()
        self.process.terminate()
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"SIGTERM does not end the node within {seconds} s") from None
        assert code == 0, f"the node ended with {code}: {self.log()[-2000:]}"


def wait_for(what, seconds, holds):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.02)
