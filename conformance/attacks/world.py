"""The world of an attack: a node, a victim that goes on working, and what must hold meanwhile and afterwards."""

import contextlib
import threading
import time
from dataclasses import dataclass, field

from .node import MALLORY, OTHER, READER, ROOT, VICTIM, Node
from .peer import Peer

# While an attack runs, each request of the victim must succeed within so many seconds, tries included.
PATIENCE = 2.0

ROWS = b"".join(b"%d,name-%d,%d\n" % (n, n, n * 7 % 1000) for n in range(20_000))
SMALL = b"what the victim keeps\n" * 50


class Broken(AssertionError):
    """What an attack reached."""


@dataclass
class World:
    """One node under one attack."""

    node: Node
    answers: list = field(default_factory=list)

    def __post_init__(self):
        self.root = Peer(self.node, ROOT, "127.0.0.1")
        self.victim = Peer(self.node, VICTIM, "127.0.0.9")
        self.mallory = Peer(self.node, MALLORY)
        self.other = Peer(self.node, OTHER, "127.0.0.3")
        self.reader = Peer(self.node, READER)
        self.anonymous = Peer(self.node)
        self.open = []

    def prepare(self):
        """What there is before the attack."""
        self.root.make_bucket("victim")
        self.root.make_bucket("mallory")
        self.root.put("victim", "small", SMALL)
        self.root.put("victim", "rows.csv", ROWS)

    def keep(self, exchange):
        """A connection that stays open as long as the attack."""
        self.open.append(exchange)
        return exchange

    def close(self):
        for exchange in self.open:
            with contextlib.suppress(OSError):
                exchange.close()

    def check_victim(self):
        """A signed GET and a Select by a key that has nothing to do with the attack."""
        succeed("a signed GET of the victim", self.get_once)
        succeed("a Select of the victim", self.select_once)

    def get_once(self, timeout):
        answer = self.victim.get("victim", "small", timeout=timeout)
        return None if (answer.status, answer.body) == (200, SMALL) else f"{answer.status} {answer.code}"

    def select_once(self, timeout):
        error, rows = self.victim.select("victim", "rows.csv", "SELECT COUNT(*) FROM S3Object s WHERE s._1 <> '7'", timeout=timeout)
        return None if (error, rows) == (None, b"19999\n") else f"{error} {rows[:60]}"

    def meanwhile(self, seconds=3.0):
        """The victim at work while the attack goes on."""
        end = time.monotonic() + seconds
        while True:
            self.check_victim()
            if time.monotonic() > end:
                return
            time.sleep(0.2)

    @contextlib.contextmanager
    def watched(self):
        """The victim at work for as long as the block runs, and once more after it."""
        done, failures = threading.Event(), []

        def work():
            while not done.is_set():
                try:
                    self.check_victim()
                except AssertionError as error:
                    failures.append(error)
                    return
                done.wait(0.2)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        if failures:
            raise failures[0]
        self.check_victim()

    def afterwards(self, peak_mib):
        """The node still serves, has held no more memory than it says, and ends when it is told to."""
        self.check_victim()
        peak = self.node.peak_mib()
        assert peak <= peak_mib, f"the node held {peak:.0f} MiB, {peak_mib} are promised"
        self.close()
        self.node.stop()


def succeed(what, attempt):
    """Tries again until it works, within `PATIENCE`."""
    end, last = time.monotonic() + PATIENCE, "no answer"
    while (left := end - time.monotonic()) > 0.05:
        try:
            last = attempt(left)
        except (OSError, ValueError) as error:
            last = f"{type(error).__name__}: {error}"
        if last is None:
            return
        time.sleep(min(0.1, max(0.0, end - time.monotonic())))
    raise Broken(f"{what} does not succeed within {PATIENCE:.0f} s: {last}")


def together(count, work):
    """`work(n)` for each n at once, on threads; what they return, in order. Errors of sockets are returned too."""
    results = [None] * count

    def run(n):
        try:
            results[n] = work(n)
        except (OSError, AssertionError) as error:
            results[n] = error

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
