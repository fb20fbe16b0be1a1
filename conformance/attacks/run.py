#!/usr/bin/env python3
"""Runs every attack against a node of its own; see README.md beside this file."""

import argparse
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from conformance.attacks.case import ATTACKS  # noqa: E402
from conformance.attacks.cases import authentication, cpu, damage, gateway, memory, ownership, shares, waiting  # noqa: E402, F401
from conformance.attacks.node import Node  # noqa: E402
from conformance.attacks.world import World  # noqa: E402
from conformance.harness.report import Report, known_gaps  # noqa: E402

HERE = Path(__file__).resolve().parent
# What the node is told that it may hold, which is what it then promises: docs/operations.md, Sizing.
MEMORY_MIB = 768


class TooLong(BaseException):
    """Not an error that a case may take for its own."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, help="the program pushdowndb")
    parser.add_argument("--match", metavar="TEXT", action="append", help="only attacks whose name contains this; may be repeated")
    parser.add_argument("--json", metavar="FILE", help="write all results there")
    parser.add_argument("--list", action="store_true", help="print the names of the attacks and stop")
    parser.add_argument("--no-gaps", action="store_true", help="ignore the list of known gaps")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for every attack")
    args = parser.parse_args()
    if args.list:
        print(*[f"{attack.name}  ({attack.finding})" for attack in ATTACKS], sep="\n")
        return 0
    # As many connections as an attack opens.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    signal.signal(signal.SIGALRM, give_up)
    options = options_of(args.binary)
    report = Withstood("attacks", {} if args.no_gaps else gaps(), args.verbose)
    for attack in ATTACKS:
        if not args.match or any(text in attack.name for text in args.match):
            report.run(attack.name, lambda attack=attack: withstand_in_two(attack, args.binary, options))
    return 0 if report.finish(args.json, whole=False) else 1


class Withstood(Report):
    """A report in which an attack of the list may be withstood: many depend on how fast the machine is."""

    def add(self, name, outcome, message, seconds):
        if outcome == "passed" and self.gaps.pop(name, None):
            print(f"attacks: {name} is on the list of known gaps and was withstood", flush=True)
        super().add(name, outcome, message, seconds)


def gaps() -> dict:
    """The reason for each attack that the list names, or whose family it names with a slash at its end."""
    listed = known_gaps(HERE / "known_gaps.txt")
    found = {}
    for attack in ATTACKS:
        names = [name for name in listed if attack.name == name or (name.endswith("/") and attack.name.startswith(name))]
        found |= {attack.name: listed[name] for name in names}
    unknown = [name for name in listed if name.endswith("/") and not any(attack.name.startswith(name) for attack in ATTACKS)]
    unknown += [name for name in listed if not name.endswith("/") and name not in found]
    if unknown:
        raise SystemExit(f"known_gaps.txt names attacks that there are not: {unknown}")
    return found


def give_up(*_):
    raise TooLong


def options_of(binary) -> set:
    """The flags that this build knows: older ones are attacked too."""
    import subprocess

    text = subprocess.run([binary, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    return {word.rstrip(",") for word in text.split() if word.startswith("--")}


def withstand_in_two(attack, binary, options):
    """The attack, and once more if the first did not go well: what is promised within seconds also depends on the machine."""
    try:
        withstand(attack, binary, options)
    except Exception as error:
        print(f"attacks: {attack.name} is tried again: {error}", flush=True)
        withstand(attack, binary, options)


def withstand(attack, binary, options):
    """The attack on a node of its own, and what must hold afterwards."""
    more = ["--memory", f"{MEMORY_MIB}MiB"] if "--memory" in options else []
    with tempfile.TemporaryDirectory(prefix="pushdowndb-attack-") as folder:
        node = Node(binary, Path(folder), more=more + attack.more)
        node.options = options
        signal.alarm(attack.seconds)
        try:
            with node:
                world = World(node)
                world.prepare()
                try:
                    attack.run(world)
                    world.afterwards(MEMORY_MIB)
                finally:
                    world.close()
        except TooLong:
            raise AssertionError(f"not over within {attack.seconds} s") from None
        except AssertionError as error:
            raise AssertionError(f"{error} (peak {node.last_peak:.0f} MiB)") from error
        finally:
            signal.alarm(0)
            # Threads of a case that still wait for their node have none any more.
            time.sleep(0)


if __name__ == "__main__":
    sys.exit(main())
