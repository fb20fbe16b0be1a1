"""Runs the cases: puts the inputs, asks with boto3, compares."""

import fnmatch
import hashlib
import importlib
import json
import math
import pkgutil
import re
from datetime import UTC, datetime
from decimal import Decimal

from botocore.exceptions import ClientError

from conformance.harness.server import Server
from conformance.select import cases
from conformance.select.case import JSON_OUT, AnyOf, Case, Err, Instant, Like, Num

# Turns our extensions of the dialect on; other servers ignore it.
EXTENSIONS = {"x-pushdowndb-select-extensions": "on"}


class Session:
    """A bucket, the inputs in it, and the two clients."""

    def __init__(self, server: Server):
        self.server, self.s3 = server, server.s3
        self.extended = server.client(extra_headers=EXTENSIONS)
        self.bucket = server.bucket_name()
        self.s3.create_bucket(Bucket=self.bucket)
        self.present = {}

    def put(self, data: bytes) -> str:
        """The key of an object with these bytes."""
        digest = hashlib.sha256(data).hexdigest()[:32]
        if digest not in self.present:
            self.s3.put_object(Bucket=self.bucket, Key=digest, Body=data)
            self.present[digest] = len(data)
        return digest

    def request(self, case: Case) -> dict:
        """The arguments of select_object_content."""
        asked = {
            "Bucket": self.bucket,
            "Key": self.put(case.input.data),
            "Expression": case.sql,
            "ExpressionType": "SQL",
            "InputSerialization": case.input.serialization,
            "OutputSerialization": case.output,
        }
        if case.range:
            names = ("Start", "End")
            asked["ScanRange"] = {name: at for name, at in zip(names, case.range) if at is not None}
        return asked | case.request

    def select(self, case: Case) -> bytes:
        """The rows; the stream must end and account for what it returned."""
        client = self.extended if case.extensions else self.s3
        rows, stats, ended = b"", None, False
        for event in client.select_object_content(**self.request(case))["Payload"]:
            assert not ended, f"{list(event)} after End"
            rows += event.get("Records", {}).get("Payload", b"")
            stats = event.get("Stats", {}).get("Details", stats)
            ended = "End" in event
        assert ended, "the stream stops without an End event"
        assert stats is not None, "the stream has no Stats event"
        assert stats["BytesReturned"] == len(rows), f"BytesReturned {stats['BytesReturned']}, but {len(rows)} bytes came"
        return rows

    def close(self):
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket):
            for entry in page.get("Contents", []):
                self.s3.delete_object(Bucket=self.bucket, Key=entry["Key"])
        self.s3.delete_bucket(Bucket=self.bucket)


def check(session: Session, case: Case):
    try:
        rows = session.select(case)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        message = error.response["Error"].get("Message", "")
        if not isinstance(case.expected, Err):
            raise AssertionError(f"{case.sql!r}: {code}: {message}") from None
        known = any(fnmatch.fnmatchcase(code, pattern) for pattern in case.expected.codes)
        assert known, f"{case.sql!r}: expected {case.expected}, got {code}: {message}"
        # An error in an answer that has begun comes as a frame and has no status of its own.
        assert status in (None, 200, case.expected.status), f"{case.sql!r}: status {status} with {code}"
        return
    shown = rows if len(rows) < 300 else rows[:300] + b"..."
    assert not isinstance(case.expected, Err), f"{case.sql!r}: expected {case.expected}, got {shown!r}"
    problem = differs(rows, case)
    assert not problem, f"{case.sql!r}: {problem}; got {shown!r}"


def differs(rows: bytes, case: Case):
    expected = case.expected
    if isinstance(expected, bytes):
        return None if rows == expected else f"expected {expected!r}"
    if callable(expected):
        return expected(rows)
    text = rows.decode("utf-8", "replace")
    if "JSON" in case.output:
        delimiter = case.output["JSON"].get("RecordDelimiter", "\n")
        got = split(text, delimiter)
        if got is None:
            return "the last record has no delimiter"
        if len(got) != len(expected):
            return f"expected {len(expected)} records {expected!r}"
        for one, wanted in zip(got, expected):
            try:
                pairs = parsed(one)
            except ValueError as error:
                return f"{one!r} is not JSON ({error})"
            wanted = parsed(wanted) if isinstance(wanted, str) else wanted
            if not same(pairs, wanted):
                return f"expected {expected!r}"
        return None
    got = split(text, case.output["CSV"].get("RecordDelimiter", "\n"))
    if got is None:
        return "the last record has no delimiter"
    if len(got) != len(expected):
        return f"expected {len(expected)} records {list(expected)!r}"
    for one, wanted in zip(got, expected):
        if isinstance(expected, Num):
            fields = list(zip(one.split(","), wanted.split(",")))
            if one.count(",") != wanted.count(",") or not all(same_number(a, b) for a, b in fields):
                return f"expected {list(expected)!r} as numbers"
        elif not same(one, wanted):
            return f"expected {list(expected)!r}"
    return None


def split(text: str, delimiter: str):
    """Records, each of which ends with the delimiter; None if the last does not."""
    if not text:
        return []
    return text[: -len(delimiter)].split(delimiter) if text.endswith(delimiter) else None


class Pairs(list):
    """A JSON object with its order and its duplicates."""


def parsed(text: str):
    return json.loads(text, parse_float=Decimal, object_pairs_hook=Pairs)


def same(got, wanted) -> bool:
    """Whether a value is the one expected."""
    if isinstance(wanted, AnyOf):
        return any(same(got, value) for value in wanted.values)
    if isinstance(wanted, Like):
        return isinstance(got, str) and re.fullmatch(wanted.pattern, got) is not None
    if isinstance(wanted, Instant):
        return isinstance(got, str) and instant(got) == instant(wanted.text)
    if isinstance(wanted, dict):
        wanted = Pairs((key, value) for key, value in wanted.items())
    if isinstance(wanted, Pairs):
        return (
            isinstance(got, Pairs)
            and [key for key, _ in got] == [key for key, _ in wanted]
            and all(same(a, b) for (_, a), (_, b) in zip(got, wanted))
        )
    if isinstance(wanted, list):
        return (
            isinstance(got, list)
            and not isinstance(got, Pairs)
            and len(got) == len(wanted)
            and all(same(a, b) for a, b in zip(got, wanted))
        )
    if isinstance(wanted, float):
        number = isinstance(got, (int, Decimal)) and not isinstance(got, bool)
        return number and math.isclose(float(got), wanted, rel_tol=1e-12, abs_tol=1e-300)
    return isinstance(got, bool) == isinstance(wanted, bool) and got == wanted


def same_number(got: str, wanted: str) -> bool:
    try:
        a, b = Decimal(got.strip('"')), Decimal(wanted)
    except ArithmeticError:
        return got == wanted
    return a == b or (len(b.as_tuple().digits) > 12 and math.isclose(a, b, rel_tol=1e-12))


def instant(text: str):
    """Timestamps that mean the same moment compare equal; no offset counts as UTC."""
    text = text.removesuffix("T") if re.fullmatch(r"[\d-]+T", text) else text
    text = re.sub(r"\.(\d+)", lambda found: "." + (found[1].rstrip("0") or "0").ljust(6, "0")[:6], text)
    moment = datetime.fromisoformat(text.replace(" ", "T"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def suite(server, _limited=None):
    """All tests as `(name, function)`. With `None` for the server only the names are of use."""
    session = Session(server) if server else None
    seen = set()
    for module in sorted(pkgutil.iter_modules(cases.__path__), key=lambda found: found.name):
        loaded = importlib.import_module(f"{cases.__name__}.{module.name}")
        for case in loaded.CASES:
            name, test = (case.name, lambda case=case: check(session, case)) if isinstance(case, Case) else (
                case[0],
                lambda test=case[1]: test(session),
            )
            assert name not in seen, f"two cases are called {name}"
            seen.add(name)
            yield name, test
    if session:
        session.close()


__all__ = ["JSON_OUT", "Session", "check", "suite"]
