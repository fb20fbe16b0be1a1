"""Conditional requests on GET, HEAD, PUT, DELETE and COPY, also in races."""

import threading
from datetime import datetime, timedelta, timezone

from botocore.exceptions import ClientError

from conformance.s3.context import expect, status, test

PAST = datetime.now(timezone.utc) - timedelta(days=2)
FUTURE = datetime.now(timezone.utc) + timedelta(days=2)
OTHER = '"00000000000000000000000000000000"'


def made(c):
    key = c.put(b"body")
    return key, c.head(key)["ETag"]


@test("get_object", "head_object")
def if_match(c, operation):
    key, etag = made(c)
    call = getattr(c.s3, operation)
    assert status(call(Bucket=c.bucket, Key=key, IfMatch=etag)) == 200
    assert status(call(Bucket=c.bucket, Key=key, IfMatch=etag.strip('"'))) == 200
    assert status(call(Bucket=c.bucket, Key=key, IfMatch="*")) == 200
    code = ("PreconditionFailed", 412) if operation == "get_object" else ("412", 412)
    expect(code, call, Bucket=c.bucket, Key=key, IfMatch=OTHER)


@test("get_object", "head_object")
def if_none_match(c, operation):
    key, etag = made(c)
    call = getattr(c.s3, operation)
    assert status(call(Bucket=c.bucket, Key=key, IfNoneMatch=OTHER)) == 200
    expect((("304", "NotModified"), 304), call, Bucket=c.bucket, Key=key, IfNoneMatch=etag)
    expect((("304", "NotModified"), 304), call, Bucket=c.bucket, Key=key, IfNoneMatch="*")


@test("get_object", "head_object")
def if_modified_since(c, operation):
    key, _ = made(c)
    call = getattr(c.s3, operation)
    assert status(call(Bucket=c.bucket, Key=key, IfModifiedSince=PAST)) == 200
    expect((("304", "NotModified"), 304), call, Bucket=c.bucket, Key=key, IfModifiedSince=c.head(key)["LastModified"])


@test("get_object", "head_object")
def if_modified_since_the_future_is_ignored(c, operation):
    key, _ = made(c)
    answer = c.send("GET" if operation == "get_object" else "HEAD", c.bucket, key, headers={"If-Modified-Since": FUTURE.strftime("%a, %d %b %Y %H:%M:%S GMT")})
    assert answer.status in (200, 304), answer.status


@test("get_object", "head_object")
def if_unmodified_since(c, operation):
    key, _ = made(c)
    call = getattr(c.s3, operation)
    assert status(call(Bucket=c.bucket, Key=key, IfUnmodifiedSince=FUTURE)) == 200
    code = ("PreconditionFailed", 412) if operation == "get_object" else ("412", 412)
    expect(code, call, Bucket=c.bucket, Key=key, IfUnmodifiedSince=PAST)


@test()
def if_match_wins_over_if_unmodified_since(c):
    key, etag = made(c)
    assert status(c.s3.get_object(Bucket=c.bucket, Key=key, IfMatch=etag, IfUnmodifiedSince=PAST)) == 200


@test()
def if_none_match_wins_over_if_modified_since(c):
    key, etag = made(c)
    expect((("304", "NotModified"), 304), c.s3.get_object, Bucket=c.bucket, Key=key, IfNoneMatch=etag, IfModifiedSince=PAST)
    since = c.head(key)["LastModified"].strftime("%a, %d %b %Y %H:%M:%S GMT")
    answer = c.send("GET", c.bucket, key, headers={"If-None-Match": OTHER, "If-Modified-Since": since})
    assert (answer.status, answer.body) == (200, b"body"), answer.status


@test()
def not_modified_has_no_body_and_the_etag(c):
    key, etag = made(c)
    answer = c.send("GET", c.bucket, key, headers={"If-None-Match": etag})
    assert (answer.status, answer.body, answer.headers.get("etag")) == (304, b"", etag), (answer.status, answer.body, answer.headers)


@test()
def conditions_with_a_range(c):
    key, etag = made(c)
    got = c.s3.get_object(Bucket=c.bucket, Key=key, IfMatch=etag, Range="bytes=1-2")
    assert got["Body"].read() == b"od"
    expect(("PreconditionFailed", 412), c.s3.get_object, Bucket=c.bucket, Key=key, IfMatch=OTHER, Range="bytes=1-2")


@test()
def if_match_of_nothing(c):
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=c.key(), IfMatch=OTHER)


@test()
def put_if_none_match(c):
    key = c.key()
    c.put(b"first", key, IfNoneMatch="*")
    expect(("PreconditionFailed", 412), c.put, b"second", key, IfNoneMatch="*")
    assert c.get(key) == b"first"


@test()
def put_if_none_match_after_delete(c):
    key = c.put(b"first")
    c.s3.delete_object(Bucket=c.bucket, Key=key)
    c.put(b"second", key, IfNoneMatch="*")
    assert c.get(key) == b"second"


@test()
def put_if_match(c):
    key, etag = made(c)
    c.put(b"second", key, IfMatch=etag)
    expect(("PreconditionFailed", 412), c.put, b"third", key, IfMatch=etag)
    assert c.get(key) == b"second"


@test()
def put_if_match_of_nothing(c):
    expect(("NoSuchKey", 404), c.put, b"x", c.key(), IfMatch=OTHER)


@test()
def put_if_none_match_of_an_etag(c):
    key, etag = made(c)
    answer = c.send("PUT", c.bucket, key, headers={"If-None-Match": etag}, body=b"x")
    assert answer.status in (412, 501) and c.get(key) == b"body", (answer.status, answer.code)


@test()
def put_if_none_match_race_has_one_winner(c):
    for _ in range(5):
        key, won = c.key(), []

        def write(n, key=key, won=won):
            try:
                c.put(bytes([n]) * 1000, key, IfNoneMatch="*")
                won.append(n)
            except ClientError as error:
                code = error.response["Error"]["Code"]
                assert code in ("PreconditionFailed", "ConditionalRequestConflict"), code

        run(write, 8)
        assert len(won) == 1 and c.get(key) == bytes(won) * 1000, won


@test()
def put_if_match_race_loses_no_update(c):
    key = c.put(b"0")

    def count(_):
        done = 0
        while done < 5:
            got = c.s3.get_object(Bucket=c.bucket, Key=key)
            try:
                c.put(str(int(got["Body"].read()) + 1).encode(), key, IfMatch=got["ETag"])
                done += 1
            except ClientError as error:
                assert error.response["Error"]["Code"] in ("PreconditionFailed", "ConditionalRequestConflict"), error

    run(count, 6)
    assert c.get(key) == b"30", c.get(key)


def run(function, count):
    """Runs a function in threads and passes on what fails in one."""
    failed = []

    def guarded(n):
        try:
            function(n)
        except Exception as error:  # Told by the test below.
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed[0]


@test()
def delete_if_match(c):
    key, etag = made(c)
    expect(("PreconditionFailed", 412), c.s3.delete_object, Bucket=c.bucket, Key=key, IfMatch=OTHER)
    assert c.get(key) == b"body"
    assert status(c.s3.delete_object(Bucket=c.bucket, Key=key, IfMatch=etag)) == 204


@test()
def complete_if_none_match(c):
    key = c.put(b"old")
    here = {"Bucket": c.bucket, "Key": key}
    upload = c.s3.create_multipart_upload(**here)["UploadId"]
    etag = c.s3.upload_part(**here, UploadId=upload, PartNumber=1, Body=b"new")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": etag}]}
    expect(("PreconditionFailed", 412), c.s3.complete_multipart_upload, **here, UploadId=upload, MultipartUpload=parts, IfNoneMatch="*")
    assert c.get(key) == b"old"
    c.s3.complete_multipart_upload(**here, UploadId=upload, MultipartUpload=parts, IfMatch=c.head(key)["ETag"])
    assert c.get(key) == b"new"


@test(
    "CopySourceIfMatch", "CopySourceIfNoneMatch", "CopySourceIfUnmodifiedSince", "CopySourceIfModifiedSince",
)
def copy(c, name):
    key, etag = made(c)
    values = {"CopySourceIfMatch": (etag, OTHER), "CopySourceIfNoneMatch": (OTHER, etag), "CopySourceIfUnmodifiedSince": (FUTURE, PAST),
              "CopySourceIfModifiedSince": (PAST, c.head(key)["LastModified"])}
    good, bad = values[name]
    target = c.key("copy")
    expect(("PreconditionFailed", 412), c.s3.copy_object, Bucket=c.bucket, Key=target, CopySource={"Bucket": c.bucket, "Key": key}, **{name: bad})
    expect(("404", 404), c.head, target)
    c.s3.copy_object(Bucket=c.bucket, Key=target, CopySource={"Bucket": c.bucket, "Key": key}, **{name: good})
    assert c.get(target) == b"body"


@test()
def select_of_one_version(c):
    """S3 has no If-Match here; engines that pin a version send it, and this node holds to it."""
    key, etag = made(c)

    def select(version):
        client = c.server.client(extra_headers={"If-Match": version})
        return client.select_object_content(
            Bucket=c.bucket, Key=key, Expression="SELECT * FROM S3Object", ExpressionType="SQL",
            InputSerialization={"CSV": {}}, OutputSerialization={"CSV": {}},
        )

    assert any("End" in event for event in select(etag)["Payload"])
    expect(("PreconditionFailed", 412), select, OTHER)
