"""What is wrong with our answers to one statement, if anything."""

import math
import re
from dataclasses import dataclass
from decimal import Decimal

from conformance.answers import compare, rules
from conformance.answers.engines import Answer
from conformance.answers.generate import Statement


@dataclass
class Fault:
    """`kind` is one of
    error: the others give rows, we an error;
    silent: the others give an error, we rows;
    differs: the others agree on rows, ours are others;
    rule: they differ, and we do not as the rule says;
    neither: they differ, no rule says whom we follow, and we follow nobody;
    ways: our own ways differ;
    crash: a process of ours ended otherwise than it should.
    `group` is alike for faults that likely have the same cause."""

    kind: str
    group: str
    statement: Statement
    schema: str
    others: dict
    ours: dict

    def searched(self) -> str:
        """What patterns of rules and of known gaps are looked for in: the statement, and all errors."""
        return searched(self.statement, self.others, self.ours)

    def answers(self, limit=3) -> dict:
        """What everybody said in short; where two differ in few of many rows, these."""
        answers = {**self.others, **self.ours}
        rows = {name: shown_rows(answer) for name, answer in answers.items() if not answer.error}
        common = set.intersection(*map(set, rows.values())) if len(rows) > 1 else set()
        return {name: brief(answer, rows.get(name, []), common, limit) for name, answer in answers.items()}

    def text(self, limit=4) -> str:
        lines = [f"{self.kind} [{self.schema}] {self.group}", f"    {self.statement.sql}"]
        lines += [f"    {name:10} {said}" for name, said in self.answers(limit).items()]
        return "\n".join(lines)


def searched(statement: Statement, others: dict, ours: dict) -> str:
    errors = [f"{name} says {answer.error}" for name, answer in {**others, **ours}.items() if answer.error]
    return " || ".join([statement.sql, *errors])


def shown_rows(answer: Answer) -> list[str]:
    """The rows as text, in an order that does not depend on who gave them."""
    rows = sorted((tuple(map(compare.plain, row)) for row in answer.rows), key=lambda row: tuple(map(place, row)))
    return ["(" + ", ".join(map(show, row)) + ")" for row in rows]


def brief(answer: Answer, rows: list[str], common: set, limit: int) -> str:
    if answer.error:
        return f"error: {' '.join(answer.error.split())[:240]}"
    own = [row for row in rows if row not in common]
    told = own or rows
    mark = f", {len(own)} not everybody's" if own and len(own) < len(rows) else ""
    return f"{len(rows)} rows{mark}: {', '.join(told[:limit])}{' …' if len(told) > limit else ''}"


def place(value):
    """Numbers before text, by size, so that rows of two engines stand side by side."""
    try:
        number = float(value)
        return (0, number if math.isfinite(number) else 0.0, str(value))
    except (TypeError, ValueError):
        return (1, 0.0, str(value))


def show(value) -> str:
    if isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) < 40:
        return f"{value.normalize():f}"
    return "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)


def same(one: Answer, other: Answer, statement: Statement, form="", mine=None) -> bool:
    """Whether an answer of ours (of the given form) or of another engine agrees with that of an engine."""
    if one.error or other.error:
        return bool(one.error) == bool(other.error)
    left = compare.ours(one, compare.likes(other), form) if mine else compare.theirs(one)
    return compare.agree(left, compare.theirs(other, form), statement.order, statement.limited)


def unusual(answers: list[Answer]) -> bool:
    """Whether JSON cannot tell all of an answer: a float that is no number beside a NULL that might be one."""
    return any(
        like == "dbl" and any(row[n] is None or not math.isfinite(row[n]) for row in answer.rows)
        for answer in answers
        for n, like in enumerate(compare.likes(answer))
        if not answer.error
    )


def judge(statement: Statement, schema: str, others: dict, ours: dict, form="json") -> list[Fault]:
    def fault(kind, group):
        return Fault(kind, group, statement, schema, others, ours)

    crashed = next((answer.error for answer in ours.values() if answer.error.startswith("CRASH")), None)
    if crashed:
        return [fault("crash", message_class(crashed))]
    ways = list(ours.values())
    first = ways[0]
    found = []
    for name, answer in list(ours.items())[1:]:
        # Ours against ours: both are what the form can tell.
        if bool(answer.error) != bool(first.error) or not answer.error and not alike(answer, first, statement, others, form):
            said = answer.error or first.error
            found.append(fault("ways", f"{name}: {message_class(said) if said else functions(statement)}"))
            break
    if statement.everywhere and len(others) < 2:
        return found  # DuckDB alone does not tell where PostgreSQL is followed.
    right = [name for name, answer in others.items() if same(first, answer, statement, form, mine=True)]
    agreed = len(others) < 2 or same(*others.values(), statement)
    if agreed and not right:
        failed = next(iter(others.values())).error
        kind = "error" if first.error else "silent" if failed else "differs"
        group = message_class(first.error or failed) if first.error or failed else functions(statement)
        found.append(fault(kind, group))
    elif not agreed:
        listed = rules.follows(searched(statement, others, ours))
        if listed and not any(holds(whom, first, right) for whom, _ in listed):
            found.append(fault("rule", listed[0][1]))
        elif not listed and not right:
            found.append(fault("neither", message_class(first.error) if first.error else functions(statement)))
    return found


def holds(whom: str, first: Answer, right: list) -> bool:
    """Whether our answer is as a rule says."""
    return whom == rules.OWN or whom in right or whom == rules.EITHER and bool(first.error or right)


def alike(answer, first, statement, others, form) -> bool:
    columns = next((compare.likes(other) for other in others.values() if not other.error), None)
    if columns is None:
        columns = ["text"] * (len(first.rows[0]) if first.rows else 0)
    left, right = compare.ours(answer, columns, form), compare.ours(first, columns, form)
    return compare.agree(left, right, statement.order, statement.limited)


def message_class(message: str) -> str:
    """A message without what is peculiar to one statement."""
    message = " ".join(message.split())
    message = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", "'…'", message)
    return re.sub(r"-?\d[\d.e+]*", "N", message)[:110]


def functions(statement: Statement) -> str:
    """The shape of a statement and the words in it that do something."""
    words = re.findall(r"[a-zA-Z_]+(?=\()|\bCAST\b|\bAS (?:SMALLINT|INT|BIGINT|DECIMAL|VARCHAR|DATE|TIMESTAMPTZ|TIMESTAMP|REAL|DOUBLE|BOOLEAN)\b|INTERVAL|\bLIKE\b|\bIN\b|[%/*|]|(?<= )[-+](?= )", statement.sql)
    kept = dict.fromkeys(word.strip("(").lower() for word in words)
    return f"{statement.shape}: {' '.join(kept)}"
