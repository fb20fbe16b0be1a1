"""How an attack is written down: a function of a world, with the finding it stands for and its bound in seconds."""

import functools
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Attack:
    """One attack."""

    name: str
    run: object
    # What it stands for: the number of a finding in benches/record/decisions/0034.md.
    finding: str
    # It has failed if it takes longer.
    seconds: int
    # More arguments of the node.
    more: list = field(default_factory=list)


ATTACKS: list[Attack] = []


def attack(finding, *cases, seconds=30, more=()):
    """Declares an attack; with `cases`, one for each: a name and the arguments after the world, or a name that is the argument."""

    def declare(function):
        family = function.__module__.rsplit(".", 1)[1]
        for case in cases or [()]:
            name, *arguments = case or [""]
            full = f"{family}/{function.__name__}" + (f"/{name}" if name else "")
            run = functools.partial(call, function, arguments or case)
            ATTACKS.append(Attack(full, run, finding, seconds, list(more)))
        return function

    return declare


def call(function, arguments, world):
    function(world, *arguments)
