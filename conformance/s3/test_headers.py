"""Requests whose headers are odd, in the manner of ceph's test_headers: each must be answered, none taken wrongly."""

from conformance.s3.context import expect, test


def put(c, key, body=b"bar", drop=(), **changed):
    """A PUT whose headers are changed after they were signed; `_` stands for `-`."""
    path = c.server.path(c.bucket, key)
    headers = {name.lower(): value for name, value in c.server.signed_headers("PUT", path, None, body).items()}
    for name, value in changed.items():
        headers[name.replace("_", "-")] = value
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if name not in drop and name != "host")
    answer = c.server.raw(f"PUT {path} HTTP/1.1\r\nHost: {c.server.netloc}\r\n{lines}Connection: close\r\n\r\n".encode() + body, timeout=3)
    # 100 Continue may come first.
    while answer.startswith(b"HTTP/1.1 1"):
        answer = answer.partition(b"\r\n\r\n")[2]
    return int(answer.split(b" ")[1]) if answer else 0, answer


@test("100-continue", "200", "")
def expect_of_some_kind(c, value):
    key = c.key()
    status, answer = put(c, key, expect=value)
    assert (status == 200 and c.get(key) == b"bar") or status == 417, answer[:200]


@test(("empty", ""), ("negative", "-1"), ("a word", "many"), ("two", "3, 3"))
def content_length(c, _, value):
    key = c.key()
    status, answer = put(c, key, content_length=value)
    assert status in (400, 411, 200), answer[:200]
    if status == 200:
        assert c.get(key) == b"bar"
    else:
        expect(("404", 404), c.head, key)


@test()
def content_length_missing(c):
    key = c.key()
    status, answer = put(c, key, drop=("content-length",), body=b"")
    assert status in (200, 411) and (status == 200 or b"MissingContentLength" in answer), answer[:200]


@test("text/plain", "")
def content_type(c, value):
    status, answer = put(c, c.key(), content_type=value)
    assert status == 200, answer[:200]


@test(("empty", ""), ("a word", "none"), ("another scheme", "Basic x"), ("AWS2", "AWS HAHAHA:HAHAHA"))
def authorization(c, _, value):
    key = c.key()
    status, answer = put(c, key, authorization=value)
    assert status in (400, 403), answer[:200]
    expect(("404", 404), c.head, key)


@test()
def authorization_missing(c):
    status, answer = put(c, c.key(), drop=("authorization",))
    assert status == 403 and b"<Code>AccessDenied</Code>" in answer, answer[:300]


@test(("a word", "Bad Date"), ("empty", ""), ("before the epoch", "19500707T215304Z"), ("far off", "99990707T215304Z"), ("long past", "20100707T215304Z"))
def the_date(c, _, value):
    key = c.key()
    status, answer = put(c, key, x_amz_date=value)
    assert status in (400, 403), answer[:200]
    expect(("404", 404), c.head, key)


@test()
def the_date_missing(c):
    key = c.key()
    status, answer = put(c, key, drop=("x-amz-date",))
    assert status in (400, 403), answer[:200]


@test(("short", "YWJyYWNhZGFicmE=", b"InvalidDigest"), ("empty", "", b"InvalidDigest"), ("wrong", "rL0Y20xC+Fzt72VPzMSk2A==", b"BadDigest"))
def content_md5(c, _, value, code):
    key = c.key()
    status, answer = put(c, key, content_md5=value)
    assert status == 400 and code in answer, answer[:300]
    expect(("404", 404), c.head, key)


@test("x-amz-content-sha256", "host")
def a_header_that_must_be_there(c, name):
    if name == "host":
        answer = c.server.raw(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", timeout=3)
        assert answer.split(b" ")[1] in (b"400", b"403"), answer[:100]
    else:
        status, answer = put(c, c.key(), drop=(name,))
        assert status in (400, 403), answer[:200]


@test()
def user_agent_of_any_kind(c):
    status, answer = put(c, c.key(), user_agent="\u00fc" * 50)
    assert status == 200, answer[:200]


@test("ConnectionUpgrade", "x-amz-acl", "x-amz-unknown", "x-forwarded-for")
def headers_that_are_not_signed(c, name):
    """x-amz-* must be signed; what is none of ours is left alone."""
    status, answer = put(c, c.key(), **{name.replace("-", "_").lower(): "private"})
    assert status == (403 if name.startswith("x-amz") else 200), answer[:200]
