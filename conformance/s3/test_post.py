"""Uploads by HTML form (POST Object): policy, signature, conditions, what the form asks for."""

import base64
import hashlib
import hmac
import json
import uuid
from datetime import datetime, timedelta, timezone

from conformance.harness.server import between
from conformance.s3.context import expect, test


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def fields(c, key, conditions=(), more=None, expires=3600, secret=None, bucket=None, age=0):
    """The fields of a form and its policy; `conditions` come on top of those of the fields."""
    more = more or {}
    now = datetime.now(timezone.utc) - timedelta(seconds=age)
    day = now.strftime("%Y%m%d")
    base = {
        "key": key, "x-amz-algorithm": "AWS4-HMAC-SHA256", "x-amz-credential": f"{c.server.access_key}/{day}/us-east-1/s3/aws4_request",
        "x-amz-date": now.strftime("%Y%m%dT%H%M%SZ"), **more,
    }
    policy = {
        "expiration": (now + timedelta(seconds=expires)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "conditions": [{"bucket": bucket or c.bucket}, ["starts-with", "$key", ""], *[{name: value} for name, value in base.items() if name != "key"], *conditions],
    }
    encoded = base64.b64encode(json.dumps(policy).encode()).decode()
    signing = ("AWS4" + (secret or c.server.secret_key)).encode()
    for part in (day, "us-east-1", "s3", "aws4_request"):
        signing = sign(signing, part)
    return {**base, "policy": encoded, "x-amz-signature": sign(signing, encoded).hex()}


def post(c, form, body=b"body", filename="file.txt", bucket=None, file=True):
    boundary = uuid.uuid4().hex
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in form.items()]
    if file:
        parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\nContent-Type: text/plain\r\n\r\n'.encode() + body + b"\r\n")
    whole = b"".join(parts) + f"--{boundary}--\r\n".encode()
    return c.server.plain("POST", f"/{bucket or c.bucket}", {"Content-Type": f"multipart/form-data; boundary={boundary}", "Content-Length": str(len(whole))}, whole)


def refused(c, answer, key, status, *codes):
    assert answer.status == status and (not codes or answer.code in codes), (answer.status, answer.code)
    expect(("404", 404), c.head, key)


@test(("an hour old", 3600, 7200, 204), ("expired", 3600, 1800, 403))
def forms_of_some_age(c, _, age, expires, wanted):
    """The policy says how long a form may be used."""
    key = c.key("form")
    answer = post(c, fields(c, key, expires=expires, age=age))
    assert answer.status == wanted, (answer.status, answer.code)


@test()
def uploads(c):
    key = c.key("form")
    answer = post(c, fields(c, key))
    assert answer.status == 204 and c.get(key) == b"body", (answer.status, answer.code)
    assert answer.headers.get("etag") == f'"{hashlib.md5(b"body").hexdigest()}"', answer.headers


@test()
def boto3_makes_the_form(c):
    key = c.key("form")
    made = c.s3.generate_presigned_post(c.bucket, key, Fields={"Content-Type": "text/x"}, Conditions=[{"Content-Type": "text/x"}])
    answer = post(c, made["fields"])
    assert answer.status == 204 and c.head(key)["ContentType"] == "text/x", (answer.status, answer.code)


@test()
def a_large_body(c):
    key, body = c.key("form"), bytes(range(256)) * 8000
    assert post(c, fields(c, key), body).status == 204 and c.get(key) == body


@test()
def a_body_of_some_megabytes(c):
    key, body = c.key("form"), bytes(range(256)) * (1 << 15)
    assert post(c, fields(c, key), body).status == 204 and c.get(key) == body


@test()
def a_body_whose_every_piece_may_be_the_start_of_a_boundary(c):
    key, body = c.key("form"), b"\r" * (4 << 20)
    assert post(c, fields(c, key), body).status == 204 and c.get(key) == body


@test()
def a_body_with_line_ends(c):
    key, body = c.key("form"), b"\r\n--x\r\n\r\n--\r\n"
    assert post(c, fields(c, key), body).status == 204 and c.get(key) == body


@test()
def nothing(c):
    key = c.key("form")
    assert post(c, fields(c, key), b"").status == 204 and c.get(key) == b""


@test("200", "201", "204", "500")
def success_action_status(c, value):
    key = c.key("form")
    answer = post(c, fields(c, key, more={"success_action_status": value}))
    assert answer.status == (204 if value == "500" else int(value)), answer.status
    if value == "201":
        assert between(answer.body, b"<Key>", b"</Key>").decode() == key and b"<ETag>" in answer.body and b"<Location>" in answer.body, answer.body


@test()
def success_action_redirect(c):
    key = c.key("form")
    answer = post(c, fields(c, key, more={"success_action_redirect": "http://example.com/done"}))
    where = answer.headers.get("location", "")
    assert answer.status == 303 and where.startswith("http://example.com/done?") and f"key={key}" in where and "etag=" in where, (answer.status, where)


@test()
def the_name_of_the_file(c):
    prefix = c.key("form")
    assert post(c, fields(c, f"{prefix}/${{filename}}"), filename="my file.txt").status == 204
    assert c.get(f"{prefix}/my file.txt") == b"body"


@test()
def metadata(c):
    key = c.key("form")
    assert post(c, fields(c, key, more={"x-amz-meta-a": "1", "Content-Type": "text/x", "Cache-Control": "no-store"})).status == 204
    got = c.head(key)
    assert (got["Metadata"], got["ContentType"], got["CacheControl"]) == ({"a": "1"}, "text/x", "no-store"), got


@test()
def a_wrong_signature(c):
    key = c.key("form")
    refused(c, post(c, fields(c, key, secret="wrong")), key, 403, "SignatureDoesNotMatch")


@test()
def a_policy_changed_on_the_way(c):
    key = c.key("form")
    form = fields(c, key)
    policy = json.loads(base64.b64decode(form["policy"]))
    policy["expiration"] = "2099-01-01T00:00:00Z"
    form["policy"] = base64.b64encode(json.dumps(policy).encode()).decode()
    refused(c, post(c, form), key, 403, "SignatureDoesNotMatch")


@test()
def expired(c):
    key = c.key("form")
    refused(c, post(c, fields(c, key, expires=-60)), key, 403, "AccessDenied")


@test()
def anonymous(c):
    key = c.key("form")
    refused(c, post(c, {"key": key}), key, 403, "AccessDenied")


@test(("another bucket", [{"bucket": "other"}]), ("another prefix", [["starts-with", "$key", "elsewhere/"]]), ("another key", [["eq", "$key", "elsewhere"]]))
def a_condition_that_does_not_hold(c, _, conditions):
    key = c.key("form")
    refused(c, post(c, fields(c, key, conditions)), key, 403, "AccessDenied")


@test()
def a_field_without_a_condition(c):
    key = c.key("form")
    form = fields(c, key)
    refused(c, post(c, {**form, "x-amz-meta-extra": "1"}), key, 403, "AccessDenied")


@test()
def x_ignore_needs_no_condition(c):
    key = c.key("form")
    assert post(c, {**fields(c, key), "x-ignore-this": "1"}).status == 204


@test(("too large", 0, 3, "EntityTooLarge"), ("too small", 5, 10, "EntityTooSmall"))
def content_length_range(c, _, low, high, code):
    key = c.key("form")
    refused(c, post(c, fields(c, key, [["content-length-range", low, high]])), key, 400, code)


@test()
def content_length_range_that_holds(c):
    key = c.key("form")
    assert post(c, fields(c, key, [["content-length-range", 4, 4]])).status == 204


@test()
def no_file(c):
    key = c.key("form")
    refused(c, post(c, fields(c, key), file=False), key, 400)


@test()
def no_key(c):
    form = fields(c, "x")
    del form["key"]
    answer = post(c, form)
    assert answer.status in (400, 403), (answer.status, answer.code)


@test()
def a_policy_that_is_none(c):
    key = c.key("form")
    form = fields(c, key)
    for policy in ("!!!", base64.b64encode(b"{").decode(), ""):
        answer = post(c, {**form, "policy": policy})
        assert answer.status in (400, 403), (policy, answer.status)
    expect(("404", 404), c.head, key)


@test()
def no_such_bucket(c):
    bucket = c.server.bucket_name()
    answer = post(c, fields(c, "k", bucket=bucket), bucket=bucket)
    assert (answer.status, answer.code) == (404, "NoSuchBucket"), (answer.status, answer.code)


@test()
def a_form_that_is_cut_off(c):
    whole = b'--b\r\nContent-Disposition: form-data; name="key"\r\n\r\nk'
    answer = c.server.plain("POST", f"/{c.bucket}", {"Content-Type": "multipart/form-data; boundary=b", "Content-Length": str(len(whole))}, whole)
    assert 400 <= answer.status < 500, (answer.status, answer.code)
