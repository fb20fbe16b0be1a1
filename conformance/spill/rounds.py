"""One round: queries that spill are killed, and what they leave is cleaned up."""

import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field

from conformance.spill.places import Place
from conformance.spill.process import CANCELLED, QUERIES, Outcome, Process, Query, differs, is_beginning
from conformance.spill.world import VACUUM, World

# How a round ends its queries, and how often: SIGKILL, the signals of Ctrl-C and of a service that stops, or the bucket's
# node is killed and started again.
WAYS = {"SIGKILL": 14, "SIGINT": 2, "SIGTERM": 2, "node": 3}
# What cleans up after SIGKILL: another query, VACUUM, or two of them at a time.
CLEANERS = {"query": 4, "vacuum": 4, "two": 1}
# Seconds within which a query ends that was cancelled, or whose node was killed.
CANCEL_SECONDS, NODE_SECONDS = 20, 180
DOWN_SECONDS = 3.0  # The node is started again before.
UNNAMED_SECONDS = 2 * 3600  # From an hour on, a folder without a name is one of a dead process.


def lacks_memory(outcome: Outcome) -> bool:
    """Whether a query says that its memory does not suffice, though it spills."""
    return outcome.code == 6 and "Resources exhausted" in outcome.error


@dataclass
class Tally:
    """What the rounds did, and the faults."""

    counts: Counter = field(default_factory=Counter)
    faults: list = field(default_factory=list)


class Round:
    """Round `number` of a seed: what it does depends on these alone, but for the times that queries take."""

    def __init__(self, world: World, seed: int, number: int, tally: Tally):
        self.world, self.number, self.tally = world, number, tally
        self.rng = rng = random.Random(f"{seed}/{number}")
        self.place: Place = world.places[rng.choice(world.kinds)]
        ways = {way: often for way, often in WAYS.items() if way != "node" or self.place.has_bucket}
        self.way = rng.choices(list(ways), list(ways.values()))[0]
        self.queries = [rng.choice(QUERIES) for _ in range(rng.choice([1, 1, 2, 3]))]
        self.times = sorted(rng.random() for _ in self.queries)
        self.cleaner = rng.choices(list(CLEANERS), list(CLEANERS.values()))[0]
        # A survivor runs beside the killed ones and their cleaner, or stands still while that one works.
        self.survivor = rng.choice(QUERIES) if rng.random() < 0.4 else None
        self.frozen = rng.random() < 0.5
        self.down = rng.random() * DOWN_SECONDS

    def fault(self, text: str) -> None:
        about = f"round {self.number}, {self.way}, spilling to {self.place.kind}, {', '.join(query.name for query in self.queries)}"
        print(f"FAULT {about}: {text}", flush=True)
        self.tally.faults.append((self.number, text))

    def run(self) -> None:
        for query in {*self.queries, *([self.survivor] if self.survivor else []), QUERIES[0]}:
            self.world.rows(query)
            self.world.usual(query, self.place, self.rng)
        try:
            self.node_round() if self.way == "node" else self.signal_round()
        finally:
            self.world.end_processes()
        if lost := self.place.lost_foreign():
            self.fault(f"foreign files or objects are gone: {lost}")
            self.place.put_foreign()

    def start_all(self) -> tuple[list, Process | None]:
        """The queries to be killed, each with its time, and the survivor."""
        usual = [self.world.usual(query, self.place, self.rng) for query in self.queries]
        # They share the cores.
        crowd = len(self.queries) + (self.survivor is not None)
        begun = time.monotonic()
        queries = [
            (query, self.world.start(query, self.place, self.rng, self.rng.choice(self.world.tables)), begun + share * seconds * max(1.0, crowd * 0.8))
            for query, share, seconds in zip(self.queries, self.times, usual)
        ]
        survivor = self.world.start(self.survivor, self.place, self.rng) if self.survivor else None
        return sorted(queries, key=lambda one: one[2]), survivor

    def signal_round(self) -> None:
        number = getattr(signal, self.way)
        queries, survivor = self.start_all()
        ended = []
        for query, process, moment in queries:
            time.sleep(max(0.0, moment - time.monotonic()))
            sent = process.send(number)
            self.tally.counts["kills"] += sent
            self.tally.counts[self.way] += sent
            ended.append((query, process, sent))
        for query, process, sent in ended:
            outcome = self.world.finish(process, CANCEL_SECONDS)
            if not sent:
                self.must_be_right(query, outcome)
            elif number == signal.SIGKILL:
                self.tally.counts["after the end"] += outcome.code == 0
            else:
                self.cancelled(query, number, outcome)
        if number == signal.SIGKILL:
            self.clean(survivor)
        else:
            self.nothing_left(survivor, "right after the exit")
        if survivor:
            self.must_be_right(self.survivor, self.world.finish(survivor))
            self.nothing_left(None, "after the survivor's end")

    def cancelled(self, query: Query, number: int, outcome: Outcome) -> None:
        """A query that was asked to end says so, or has ended just before."""
        if outcome.code == 0:
            self.tally.counts["after the end"] += 1
            self.must_be_right(query, outcome)
        elif outcome.code == -number:
            self.tally.counts["before the handler"] += 1  # It had not spilled: nothing_left tells.
        elif lacks_memory(outcome):
            self.tally.counts[f"{query.name}: not enough memory"] += 1
        elif outcome.code != CANCELLED or not is_beginning(query, outcome.lines, self.world.rows(query)):
            self.fault(f"{query.name}: {outcome.said()}")

    def must_be_right(self, query: Query, outcome: Outcome) -> None:
        """The rows of a query that was not killed are right."""
        if lacks_memory(outcome):
            self.tally.counts[f"{query.name}: not enough memory"] += 1
            return
        wrong = outcome.said() if outcome.code else differs(query, outcome.lines, self.world.rows(query))
        self.tally.counts["compared"] += 1
        if wrong:
            self.fault(f"{query.name} was not killed: {wrong}")

    def clean(self, survivor: Process | None) -> None:
        """Cleans up after killed queries while the survivor runs, if there is one."""
        place, counts = self.place, self.tally.counts
        nodes, before = set(), set()
        if survivor and self.frozen:
            nodes, before = self.freeze(survivor)
        place.rest()
        left = place.left(survivor.nodes(place.root) if survivor else frozenset())
        counts["left something"] += bool(left)
        counts["left files"] += len(left.files) - len(left.folders)
        counts["left objects"] += len(left.objects)
        self.age(left.unnamed)
        self.run_cleaners(None if survivor else left.parts())
        if nodes:
            lost = before - place.of(nodes)
            survivor.send(signal.SIGCONT)
            counts["survivors that stood still"] += 1
            if lost:
                self.fault(f"{len(lost)} files or objects of a running query were deleted: {sorted(map(str, lost))[:3]}")
        elif survivor:
            counts["survivors that ran on"] += survivor.runs()
        else:
            # One that runs may clean up, too, and has not finished then.
            self.nothing_left(None, f"after the cleaner, {self.cleaner}")

    def freeze(self, survivor: Process) -> tuple[set, set]:
        """Stops the survivor once it has spilled; its folders and what lies in them. Nothing if it ends before."""
        while survivor.runs():
            nodes = survivor.nodes(self.place.root)
            if len(self.place.of(nodes)) > len(nodes):  # More than its locks.
                survivor.send(signal.SIGSTOP)
                self.place.rest()
                return nodes, self.place.of(nodes)
            time.sleep(0.01)
        return set(), set()

    def age(self, unnamed: set) -> None:
        """Folders whose process was killed before they had a name are kept for an hour: they get older than that."""
        for folder in unnamed:
            self.tally.counts["unnamed folders"] += 1
            then = time.time() - UNNAMED_SECONDS
            os.utime(folder, (then, then))

    def run_cleaners(self, parts: tuple | None) -> None:
        """Runs the cleaner; what VACUUM reports must be `parts`, their number and bytes, unless others clean as well."""
        queries = {"query": [QUERIES[0]], "vacuum": [VACUUM], "two": [VACUUM, self.rng.choice([VACUUM, QUERIES[0]])]}[self.cleaner]
        self.tally.counts[f"cleaned by {self.cleaner}"] += 1
        running = [(query, self.world.start(query, self.place, self.rng)) for query in queries]
        for query, process in running:
            outcome = self.world.finish(process)
            if query is not VACUUM:
                self.must_be_right(query, outcome)
            elif outcome.code:
                self.fault(f"VACUUM: {outcome.said()}")
            elif parts is not None and len(queries) == 1:
                rows = [line.split(",") for line in outcome.lines[1:]]
                told = (sum(int(row[2]) for row in rows), sum(int(row[3]) for row in rows))
                if told != parts:
                    self.fault(f"VACUUM reports {told[0]} files of {told[1]} bytes, there were {parts[0]} of {parts[1]}")

    def nothing_left(self, survivor: Process | None, when: str) -> None:
        left = self.place.left(survivor.nodes(self.place.root) if survivor else frozenset())
        if left.objects and not left.folders and not survivor and self.way == "SIGKILL":
            # A query that spills for the first time cleans up at once, also after a process that died a moment ago: uploads
            # that this one had begun arrive later. They are left to VACUUM.
            self.tally.counts["uploads after the cleaning"] += 1
            self.world.finish(self.world.start(VACUUM, self.place, self.rng))
            left = self.place.left()
        if left:
            self.fault(f"{when} there are {left.text()}")
            self.place.remove(left)
        for folder in left.unnamed:
            self.fault(f"{when} there is {folder}")
            folder.rename(self.place.folder / f"fault-{folder.name}")

    def node_round(self) -> None:
        """Kills the bucket's node and starts it again; queries give their rows or an error."""
        self.survivor = None  # All queries lose their node.
        queries, _ = self.start_all()
        time.sleep(max(0.0, queries[0][2] - time.monotonic()))
        node = self.world.node
        node.process.kill()
        node.process.wait()
        self.tally.counts["kills"] += 1
        self.tally.counts["kills of the node"] += 1
        time.sleep(self.down)
        node.start()
        for query, process, _ in queries:
            outcome = self.world.finish(process, NODE_SECONDS)
            if outcome.code == 0:
                self.must_be_right(query, outcome)
                continue
            self.tally.counts["errors after kills of the node"] += 1
            said = [line for line in outcome.error.splitlines() if line.startswith("error:")]
            if outcome.code not in range(1, 11) or len(said) != 1 or "panicked" in outcome.error:
                self.fault(f"{query.name}: {outcome.said()}")
            elif not is_beginning(query, outcome.lines, self.world.rows(query)):
                self.fault(f"{query.name} printed wrong rows before its error")
        self.place.rest()
        self.cleaner = "vacuum"
        self.run_cleaners(None)
        self.nothing_left(None, "after VACUUM")
