"""The answer as bytes: order of events, checksums, headers, the numbers of Stats and Progress, errors on the way."""

import gzip
import http.client
from xml.sax.saxutils import escape

from conformance.harness.server import between
from conformance.select.case import CSV_OUT, Case, csv, lines
from conformance.select.frames import messages

ROWS = "".join(f"{n},{'x' * (n % 50)}\n" for n in range(60_000))


def xml(value) -> str:
    """Nested dictionaries as the body of a request."""
    if isinstance(value, dict):
        return "".join(f"<{name}>{xml(part)}</{name}>" for name, part in value.items())
    return escape({True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value))


def ask(session, sql, source, output=CSV_OUT, **more):
    """The answer's head and its messages."""
    asked = {"Expression": sql, "ExpressionType": "SQL", "InputSerialization": source.serialization, "OutputSerialization": output, **more}
    path = session.server.path(session.bucket, session.put(source.data), "select&select-type=2")
    answer = session.server.send("POST", path, body=f"<SelectObjectContentRequest>{xml(asked)}</SelectObjectContentRequest>".encode())
    assert answer.status == 200, f"{answer.status} {answer.code}"
    return answer, messages(answer.body)


def numbers(message) -> dict:
    return {name: int(between(message.payload, f"<{name}>".encode(), f"</{name}>".encode())) for name in ("BytesScanned", "BytesProcessed", "BytesReturned")}


def kinds(found):
    return [message.kind for message in found]


def head(session):
    answer, _ = ask(session, "SELECT * FROM S3Object", csv("1,2\n"))
    assert answer.headers.get("transfer-encoding") == "chunked", answer.headers
    assert "content-length" not in answer.headers and answer.headers.get("x-amz-request-id"), answer.headers


def order(session):
    _, found = ask(session, "SELECT * FROM S3Object", csv(ROWS))
    names = kinds(found)
    assert names[-2:] == ["Stats", "End"] and names.count("Stats") == names.count("End") == 1, names[-5:]
    assert set(names[:-2]) <= {"Records", "Cont"} and "Records" in names, set(names)
    rows = b"".join(message.payload for message in found if message.kind == "Records")
    assert rows == ROWS.encode()


def headers(session):
    _, found = ask(session, "SELECT * FROM S3Object", csv(ROWS), RequestProgress={"Enabled": True})
    for message in found:
        assert message.headers[":message-type"] == "event", message.headers
        wanted = {"Records": "application/octet-stream", "Stats": "text/xml", "Progress": "text/xml"}.get(message.kind)
        assert message.headers.get(":content-type") == wanted, message.headers
        if message.kind in ("End", "Cont"):
            assert message.payload == b"", message.kind


def sizes(session):
    _, found = ask(session, "SELECT * FROM S3Object", csv(ROWS))
    largest = max(len(message.payload) for message in found)
    assert largest <= 1 << 20, f"a message of {largest} bytes"
    assert all(message.payload for message in found if message.kind == "Records"), "an empty Records message"


def no_rows(session):
    _, found = ask(session, "SELECT * FROM S3Object WHERE 1 = 2", csv(ROWS))
    assert [kind for kind in kinds(found) if kind != "Cont"] == ["Stats", "End"], kinds(found)
    assert numbers(found[-2])["BytesReturned"] == 0


def stats(session):
    _, found = ask(session, "SELECT _1 FROM S3Object", csv(ROWS))
    returned = sum(len(message.payload) for message in found if message.kind == "Records")
    size = len(ROWS)
    assert numbers(found[-2]) == {"BytesScanned": size, "BytesProcessed": size, "BytesReturned": returned}, numbers(found[-2])
    assert between(found[-2].payload, b"<Stats", b"</Stats>"), found[-2].payload


def stats_of_gzip(session):
    packed = gzip.compress(ROWS.encode())
    _, found = ask(session, "SELECT COUNT(*) FROM S3Object", csv(packed, compression="GZIP", pack=False))
    got = numbers(found[-2])
    assert (got["BytesScanned"], got["BytesProcessed"]) == (len(packed), len(ROWS)), (got, len(packed), len(ROWS))


def stats_of_json(session):
    text = '{"a":1}\n{"a":2}\n'
    _, found = ask(session, "SELECT s.a FROM S3Object s", lines(text), {"JSON": {}})
    assert numbers(found[-2]) == {"BytesScanned": len(text), "BytesProcessed": len(text), "BytesReturned": len(text)}, numbers(found[-2])


def stats_of_range(session):
    _, found = ask(session, "SELECT COUNT(*) FROM S3Object", csv(ROWS), ScanRange={"Start": 0, "End": 99_999})
    got = numbers(found[-2])
    assert 100_000 <= got["BytesScanned"] <= 110_000, f"a range of 100000 bytes scanned {got['BytesScanned']}"


def stats_of_limit(session):
    text = ROWS * 8
    _, found = ask(session, "SELECT _1 FROM S3Object LIMIT 1", csv(text))
    got = numbers(found[-2])
    assert got["BytesScanned"] < len(text), f"all of {len(text)} bytes scanned for one row"


def progress(session):
    _, found = ask(session, "SELECT _1 FROM S3Object", csv(ROWS), RequestProgress={"Enabled": True})
    steps = [numbers(message) for message in found if message.kind == "Progress"]
    assert steps, f"no Progress among {sorted(set(kinds(found)))}"
    assert all(b"<Progress" in message.payload for message in found if message.kind == "Progress")
    for name in ("BytesScanned", "BytesProcessed", "BytesReturned"):
        counted = [step[name] for step in steps]
        assert counted == sorted(counted) and counted[-1] <= numbers(found[-2])[name], (name, counted)


def no_progress(session):
    for more in ({}, {"RequestProgress": {"Enabled": False}}):
        _, found = ask(session, "SELECT _1 FROM S3Object", csv(ROWS), **more)
        assert "Progress" not in kinds(found)


def error_on_the_way(session):
    text = ROWS + "oops,x\n" + ROWS
    _, found = ask(session, "SELECT CAST(_1 AS INT) FROM S3Object", csv(text))
    last = found[-1]
    assert last.kind == "error", f"the last message is {last.kind}"
    assert last.headers[":error-code"] in ("CastFailed", "InvalidCast"), last.headers
    assert last.headers.get(":error-message"), last.headers
    assert "End" not in kinds(found) and kinds(found).count("error") == 1


def records_break_anywhere(session):
    field = "y" * 500_000
    _, found = ask(session, "SELECT * FROM S3Object", csv(f"{field},1\n{field},2\n"))
    rows = b"".join(message.payload for message in found if message.kind == "Records")
    assert rows == f"{field},1\n{field},2\n".encode()


def a_slow_reader(session):
    """The client reads nothing for a while; all is there when it does."""
    import time

    path = session.server.path(session.bucket, session.put(ROWS.encode()), "select&select-type=2")
    asked = {"Expression": "SELECT * FROM S3Object", "ExpressionType": "SQL", "InputSerialization": {"CSV": {}}, "OutputSerialization": CSV_OUT}
    body = f"<SelectObjectContentRequest>{xml(asked)}</SelectObjectContentRequest>".encode()
    connection = session.server.connect()
    try:
        connection.request("POST", path, body=body, headers=session.server.signed_headers("POST", path, body=body))
        time.sleep(1)
        found = messages(connection.getresponse().read())
        assert b"".join(message.payload for message in found if message.kind == "Records") == ROWS.encode()
    finally:
        connection.close()


def a_client_that_leaves(session):
    """Clients that go away in the middle leave the server answering."""
    path = session.server.path(session.bucket, session.put((ROWS * 8).encode()), "select&select-type=2")
    asked = {"Expression": "SELECT * FROM S3Object", "ExpressionType": "SQL", "InputSerialization": {"CSV": {}}, "OutputSerialization": CSV_OUT}
    body = f"<SelectObjectContentRequest>{xml(asked)}</SelectObjectContentRequest>".encode()
    for _ in range(20):
        connection = session.server.connect()
        connection.request("POST", path, body=body, headers=session.server.signed_headers("POST", path, body=body))
        answer = connection.getresponse()
        assert isinstance(answer, http.client.HTTPResponse) and answer.status == 200
        answer.read(1000)
        connection.close()
    assert session.select(Case("after", "SELECT COUNT(*) FROM S3Object", None, csv("1\n2\n"), CSV_OUT)) == b"2\n"


CASES = [
    (f"stream/{test.__name__.replace('_', ' ')}", test)
    for test in [head, order, headers, sizes, no_rows, stats, stats_of_gzip, stats_of_json, stats_of_range, stats_of_limit, progress, no_progress,
                 error_on_the_way, records_break_anywhere, a_slow_reader, a_client_that_leaves]
]
