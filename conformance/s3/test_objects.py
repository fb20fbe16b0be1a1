"""PUT, GET, HEAD, DELETE: bodies, keys, metadata, content headers, ranges, overrides."""

import contextlib
import hashlib
import io
import os
import threading
from datetime import datetime, timezone

from conformance.s3.context import expect, headers, status, test

BIG = os.urandom(3_000_000)


@test()
def put_and_get(c):
    body = b"hello"
    answer = c.s3.put_object(Bucket=c.bucket, Key="hello", Body=body)
    assert status(answer) == 200 and answer["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'
    got = c.s3.get_object(Bucket=c.bucket, Key="hello")
    assert got["Body"].read() == body and got["ETag"] == answer["ETag"] and got["ContentLength"] == 5
    assert abs((datetime.now(timezone.utc) - got["LastModified"]).total_seconds()) < 60


@test(("nothing", b""), ("one byte", b"\0"), ("all bytes", bytes(range(256)) * 100), ("three megabytes", BIG), ("newlines", b"\r\n\n\r" * 100))
def bodies(c, _, body):
    key = c.put(body)
    assert c.get(key) == body and c.head(key)["ContentLength"] == len(body)
    assert c.head(key)["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'


@test("a", "a/b", "a/b/c.txt", "/leading", "trailing/", "a//b", "//", "/", ".", "..", "../up", "a/../b", "a/./b", "./a", "with space", " lead", "trail ", "plus+plus",
      "percent%25", "100%", "q?x=1", "hash#x", "amp&x", "semi;x", "colon:x", "comma,x", "equals=x", "at@x", "dollar$x", "quote'x", 'dquote"x', "back\\slash", "<xml>",
      "{brace}", "[bracket]", "pipe|x", "caret^x", "tick`x", "tilde~x", "star*x", "(paren)", "ümläut", "日本語", "😀", "e\u0301", "\u00e9", "tab\tx",
      "newline\nx", "x" * 200 + "/" + "y" * 200, "k" * 1024, "CON", "nul\u0001x", "con.", "a" * 255 + "/b", "...", "aws", "soap", "?", "%2F", "%00", "\u2028", "\ufeff")
def keys(c, key):
    bucket = key_bucket(c)
    body = hashlib.sha256(key.encode()).digest()
    c.s3.put_object(Bucket=bucket, Key=key, Body=body)
    assert c.s3.get_object(Bucket=bucket, Key=key)["Body"].read() == body
    assert c.s3.head_object(Bucket=bucket, Key=key)["ContentLength"] == len(body)
    if key.isprintable() and not key.startswith("\ufeff"):
        listed = [entry["Key"] for page in c.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket) for entry in page.get("Contents", [])]
        assert key in listed, f"{key!r} is not listed"
    c.s3.delete_object(Bucket=bucket, Key=key)
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=bucket, Key=key)


def key_bucket(c):
    if not hasattr(c, "_keys"):
        c._keys = c.new_bucket()
    return c._keys


@test()
def keys_are_told_apart(c):
    bucket = c.new_bucket()
    names = ["a", "A", "a/", "a//", "a/b", "a b", "a+b", "a%20b", "é", "e\u0301", ".", "..", "./a"]
    for name in names:
        c.s3.put_object(Bucket=bucket, Key=name, Body=name.encode())
    for name in names:
        assert c.get(name, Bucket=bucket) == name.encode(), name
    listed = [entry["Key"] for entry in c.s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert listed == sorted(names, key=str.encode), listed


@test()
def a_key_that_is_too_long(c):
    expect(("KeyTooLongError", 400), c.s3.put_object, Bucket=c.bucket, Key="k" * 1025, Body=b"")


@test()
def a_key_that_is_too_long_in_bytes(c):
    expect(("KeyTooLongError", 400), c.s3.put_object, Bucket=c.bucket, Key="ü" * 513, Body=b"")


@test()
def a_key_that_is_not_utf8(c):
    answer = c.server.send("PUT", f"/{c.bucket}/bad%ff%fe", body=b"x")
    assert answer.status == 400, (answer.status, answer.code)


@test()
def no_path_leads_out(c):
    for path in ("/../../../../etc/passwd", f"/{c.bucket}/../../etc/passwd", f"/{c.bucket}/..%2f..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd"):
        answer = c.server.send("GET", path)
        assert answer.status in (400, 403, 404) and b"root:" not in answer.body, (path, answer.status)


@test()
def overwrite(c):
    key = c.put(b"first", Metadata={"a": "1"}, ContentType="text/plain")
    c.put(b"second!", key)
    got = c.head(key)
    assert c.get(key) == b"second!" and got["Metadata"] == {} and got["ContentType"] in ("binary/octet-stream", "application/octet-stream")


@test()
def get_of_nothing(c):
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=c.key())


@test()
def head_of_nothing(c):
    expect(("404", 404), c.s3.head_object, Bucket=c.bucket, Key=c.key())


@test()
def head_has_no_body(c):
    answer = c.send("HEAD", c.bucket, c.put(b"body"))
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "4"), answer


@test()
def delete(c):
    key = c.put()
    assert status(c.s3.delete_object(Bucket=c.bucket, Key=key)) == 204
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=key)


@test()
def delete_of_nothing(c):
    assert status(c.s3.delete_object(Bucket=c.bucket, Key=c.key())) == 204


@test()
def errors_are_xml(c):
    answer = c.send("GET", c.bucket, "no-such-key-here")
    assert answer.status == 404 and answer.headers["content-type"] == "application/xml", answer.headers
    assert b"<Code>NoSuchKey</Code>" in answer.body and b"<Message>" in answer.body and b"<RequestId>" in answer.body, answer.body


@test()
def answers_carry_a_request_id(c):
    ids = {c.send("GET", c.bucket, "no-such-key-here").headers.get("x-amz-request-id") for _ in range(3)}
    assert len(ids) == 3 and None not in ids, ids


@test()
def metadata(c):
    key = c.put(Metadata={"one": "1", "two-words": "a b", "UPPER": "Case"})
    assert c.head(key)["Metadata"] == {"one": "1", "two-words": "a b", "upper": "Case"}
    assert c.s3.get_object(Bucket=c.bucket, Key=key)["Metadata"] == c.head(key)["Metadata"]


@test()
def metadata_that_is_empty(c):
    key = c.put(Metadata={"empty": ""})
    assert c.head(key)["Metadata"] in ({"empty": ""}, {}), c.head(key)["Metadata"]


@test()
def metadata_beyond_ascii(c):
    key = c.key()
    encoded = "=?UTF-8?B?w6TDtsO8?="
    answer = c.send("PUT", c.bucket, key, headers={"x-amz-meta-m": encoded}, body=b"x")
    assert answer.status == 200 and c.head(key)["Metadata"]["m"] in ("äöü", encoded), c.head(key)["Metadata"]


@test()
def metadata_that_is_too_large(c):
    expect(("MetadataTooLarge", 400), c.put, Metadata={"m": "x" * 2100})


@test()
def metadata_at_the_limit(c):
    value = "x" * 1900
    assert c.head(c.put(Metadata={"m": value}))["Metadata"] == {"m": value}


CONTENT = {
    "ContentType": "text/css; charset=utf-8", "ContentEncoding": "gzip", "ContentLanguage": "de, en", "ContentDisposition": 'attachment; filename="x y.txt"',
    "CacheControl": "max-age=60, public",
}


@test(*CONTENT.items())
def content_headers(c, name, value):
    key = c.put(**{name: value})
    assert c.head(key)[name] == value and c.s3.get_object(Bucket=c.bucket, Key=key)[name] == value


@test()
def expires(c):
    key = c.put(Expires=datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone.utc))
    assert headers(c.head(key))["expires"] == "Wed, 02 Jan 2030 03:04:05 GMT", headers(c.head(key))


@test()
def all_content_headers_at_once(c):
    got = c.head(c.put(**CONTENT))
    assert {name: got.get(name) for name in CONTENT} == CONTENT


@test()
def the_default_content_type(c):
    assert c.head(c.put())["ContentType"] in ("binary/octet-stream", "application/octet-stream")


@test()
def aws_chunked_is_not_kept(c):
    key = c.put(b"x", ContentEncoding="aws-chunked,gzip")
    assert c.head(key).get("ContentEncoding") == "gzip", c.head(key).get("ContentEncoding")


@test(
    ("response-content-type", "text/x-y", "content-type"), ("response-content-language", "fr", "content-language"),
    ("response-content-disposition", "inline", "content-disposition"), ("response-content-encoding", "br", "content-encoding"),
    ("response-cache-control", "no-store", "cache-control"), ("response-expires", "Wed, 02 Jan 2030 03:04:05 GMT", "expires"),
)
def overrides(c, parameter, value, header):
    for method in ("GET", "HEAD"):
        answer = c.send(method, c.bucket, c.put(**CONTENT), query={parameter: value})
        assert answer.status == 200 and answer.headers.get(header) == value, (method, answer.headers)


RANGED = bytes(range(100))


@test(
    ("bytes=0-0", 0, 1), ("bytes=0-9", 0, 10), ("bytes=10-", 10, 100), ("bytes=-10", 90, 100), ("bytes=-1000", 0, 100), ("bytes=90-1000", 90, 100),
    ("bytes=99-99", 99, 100), ("bytes=99-", 99, 100), ("bytes=0-", 0, 100), ("bytes=0-99", 0, 100),
)
def ranges(c, asked, start, end):
    got = c.s3.get_object(Bucket=c.bucket, Key=c.put(RANGED), Range=asked)
    assert status(got) == 206 and got["Body"].read() == RANGED[start:end], status(got)
    assert got["ContentRange"] == f"bytes {start}-{end - 1}/100" and got["ContentLength"] == end - start


@test("bytes=100-", "bytes=100-200", "bytes=-0", "bytes=1000-2000")
def ranges_that_are_not_there(c, asked):
    key = c.put(RANGED)
    expect(("InvalidRange", 416), c.s3.get_object, Bucket=c.bucket, Key=key, Range=asked)


@test("bytes=5-3", "bytes=x-y", "lines=0-5", "bytes", "bytes=0-1,5-6", "bytes=-", "bytes=1.5-2")
def ranges_that_are_none(c, asked):
    """What is no range is ignored, as HTTP says."""
    got = c.s3.get_object(Bucket=c.bucket, Key=c.put(RANGED), Range=asked)
    assert status(got) == 200 and got["Body"].read() == RANGED, status(got)


@test()
def a_range_of_nothing(c):
    expect(("InvalidRange", 416), c.s3.get_object, Bucket=c.bucket, Key=c.put(b""), Range="bytes=0-0")


@test()
def a_range_of_head(c):
    got = c.head(c.put(RANGED), Range="bytes=10-19")
    assert status(got) == 206 and got["ContentLength"] == 10, (status(got), got["ContentLength"])


@test()
def ranges_are_announced(c):
    assert c.head(c.put())["AcceptRanges"] == "bytes"


@test()
def ranges_cover_a_large_object(c):
    key = c.put(BIG)
    parts = [c.get(key, Range=f"bytes={start}-{start + 699_999}") for start in range(0, len(BIG), 700_000)]
    assert b"".join(parts) == BIG


@test(("get_object",), ("head_object",))
def version_null_is_the_object(c, operation):
    assert status(getattr(c.s3, operation)(Bucket=c.bucket, Key=c.put(), VersionId="null")) == 200


@test(
    ("ServerSideEncryption", "aws:kms"), ("WebsiteRedirectLocation", "/x"), ("ObjectLockMode", "GOVERNANCE"), ("ObjectLockLegalHoldStatus", "ON"),
)
def options_that_are_not_implemented(c, name, value):
    expect(("NotImplemented", 501), c.put, **{name: value})


@test(
    ("deflate, gzip", "deflate, gzip"), ("gzip,br", "gzip,br"), ("gzip, aws-chunked", "gzip"), ("aws-chunked,gzip", "gzip"), ("aws-chunked", None),
)
def content_encodings(c, given, told):
    # How the bytes were sent is not told of the object.
    assert c.head(c.put(ContentEncoding=given)).get("ContentEncoding") == told


@test()
def a_bucket_that_goes_away_during_an_upload(c):
    bucket = c.new_bucket()

    class Slow(io.BytesIO):
        def read(self, size=-1):
            block = super().read(size)
            if self.tell() == len(self.getvalue()) and block:
                with contextlib.suppress(c.s3.exceptions.ClientError):
                    c.s3.delete_bucket(Bucket=bucket)
            return block

    expect(("NoSuchBucket", 404), c.s3.put_object, Bucket=bucket, Key="a", Body=Slow(bytes(1 << 20)))


@test(("STANDARD",), ("REDUCED_REDUNDANCY",))
def storage_classes_are_accepted(c, name):
    assert c.get(c.put(b"x", StorageClass=name)) == b"x"


@test()
def an_unknown_storage_class(c):
    expect(("InvalidStorageClass", 400), c.put, StorageClass="CHEAPEST")


@test(("private",),)
def canned_acls_that_change_nothing(c, name):
    assert c.get(c.put(b"x", ACL=name)) == b"x"


@test()
def acl_of_an_object(c):
    got = c.s3.get_object_acl(Bucket=c.bucket, Key=c.put())
    assert got["Owner"]["ID"] and [grant["Permission"] for grant in got["Grants"]] == ["FULL_CONTROL"], got


@test()
def put_races_leave_one_whole_body(c):
    key = c.key()
    bodies = [bytes([n]) * 200_000 for n in range(8)]
    threads = [threading.Thread(target=c.put, args=(body, key)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got = c.s3.get_object(Bucket=c.bucket, Key=key)
    body = got["Body"].read()
    assert body in bodies and got["ETag"] == f'"{hashlib.md5(body).hexdigest()}"'


@test()
def readers_see_the_old_or_the_new(c):
    key = c.key()
    bodies = {bytes([n]) * 300_000 for n in range(4)}
    c.put(next(iter(bodies)), key)
    stop, wrong = threading.Event(), []

    def write():
        while not stop.is_set():
            for body in bodies:
                c.put(body, key)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(40):
            body = c.get(key)
            if body not in bodies:
                wrong.append(len(body))
    finally:
        stop.set()
        writer.join()
    assert not wrong, f"mixed bodies of {wrong} bytes"


@test()
def a_deleted_object_is_read_to_its_end(c):
    key = c.put(BIG)
    got = c.s3.get_object(Bucket=c.bucket, Key=key)
    first = got["Body"].read(1000)
    c.s3.delete_object(Bucket=c.bucket, Key=key)
    assert first + got["Body"].read() == BIG


@test()
def attributes(c):
    key = c.put(b"hello", ChecksumAlgorithm="SHA256")
    got = c.s3.get_object_attributes(Bucket=c.bucket, Key=key, ObjectAttributes=["ETag", "Checksum", "ObjectSize", "StorageClass", "ObjectParts"])
    assert got["ETag"] == hashlib.md5(b"hello").hexdigest() and got["ObjectSize"] == 5 and got["StorageClass"] == "STANDARD", got
    assert got["Checksum"]["ChecksumSHA256"], got


@test()
def attributes_that_are_not_asked_for(c):
    got = c.s3.get_object_attributes(Bucket=c.bucket, Key=c.put(b"hello"), ObjectAttributes=["ObjectSize"])
    assert got["ObjectSize"] == 5 and "ETag" not in got and "StorageClass" not in got, got


@test()
def attributes_of_nothing(c):
    expect(("NoSuchKey", 404), c.s3.get_object_attributes, Bucket=c.bucket, Key=c.key(), ObjectAttributes=["ETag"])


@test("torrent", "retention", "legal-hold")
def sub_resources_that_are_not_implemented(c, resource):
    answer = c.send("GET", c.bucket, c.put(), query=f"{resource}=")
    assert answer.status in (400, 404, 501), (answer.status, answer.code)


@test()
def content_length_must_be_there(c):
    request = f"PUT /{c.bucket}/x HTTP/1.1\r\nHost: {c.server.netloc}\r\nConnection: close\r\n\r\n"
    answer = c.server.raw(request.encode())
    assert b" 200 " not in answer.split(b"\r\n")[0], answer[:200]


@test()
def a_body_that_is_cut_off_is_not_stored(c):
    key = c.key()
    made = c.server.signed_headers("PUT", f"/{c.bucket}/{key}", {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}, b"x" * 1000)
    head = "".join(f"{name}: {value}\r\n" for name, value in made.items() if name.lower() not in ("content-length", "host"))
    request = f"PUT /{c.bucket}/{key} HTTP/1.1\r\nHost: {c.server.netloc}\r\n{head}Content-Length: 1000\r\n\r\n".encode() + b"x" * 500
    import socket

    with socket.create_connection((c.server.host, c.server.port), timeout=10) as stream:
        stream.sendall(request)
        stream.shutdown(socket.SHUT_WR)
        stream.recv(10_000)
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=key)


@test()
def expect_100_continue(c):
    key = c.key()
    body = b"y" * 100_000
    made = c.server.signed_headers("PUT", f"/{c.bucket}/{key}", None, body)
    head = "".join(f"{name}: {value}\r\n" for name, value in made.items() if name.lower() not in ("content-length", "host"))
    import socket

    with socket.create_connection((c.server.host, c.server.port), timeout=10) as stream:
        stream.sendall(
            f"PUT /{c.bucket}/{key} HTTP/1.1\r\nHost: {c.server.netloc}\r\n{head}Content-Length: {len(body)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n".encode()
        )
        assert stream.recv(1000).startswith(b"HTTP/1.1 100 "), "no 100 Continue"
        stream.sendall(body)
        assert b" 200 " in stream.recv(1000).split(b"\r\n")[0]
    assert c.get(key) == body


@test(("the same", None, 206), ("another", '"deadbeef"', 200), ("a weak one", "W/{etag}", 200), ("a word", "x", 200))
def range_of_what_was_read_before(c, _, state, wanted):
    """If-Range: the rest of an object that was replaced is no rest of what was read."""
    key = c.put(b"0123456789")
    etag = c.head(key)["ETag"]
    answer = c.send("GET", c.bucket, key, headers={"Range": "bytes=5-", "If-Range": (state or etag).format(etag=etag)})
    assert (answer.status, answer.body) == (wanted, b"56789" if wanted == 206 else b"0123456789"), answer


@test()
def range_of_what_was_read_at_a_time(c):
    key = c.put(b"0123456789")
    modified = c.send("HEAD", c.bucket, key).headers["last-modified"]
    get = lambda time: c.send("GET", c.bucket, key, headers={"Range": "bytes=5-", "If-Range": time})
    assert get(modified).status == 206 and get("Thu, 01 Jan 1970 00:00:00 GMT").status == 200


@test(
    ("PUT encryption", "encryption"), ("PUT renameObject", "renameObject"), ("PUT uploadId", "uploadId=x"), ("PUT partNumber", "partNumber=1"),
    ("DELETE acl", "acl"), ("DELETE somethingNew", "somethingNew="),
)
def parts_that_are_not_known(c, title, query):
    """What s3 may learn tomorrow must not write or remove the object today."""
    key, method = c.put(b"body"), title.split()[0]
    name, _, value = query.partition("=")
    answer = c.send(method, c.bucket, key, query={name: value}, body=b"<x/>" if method == "PUT" else b"")
    assert answer.status in (400, 405, 501), (answer.status, answer.code)
    assert c.get(key) == b"body"


@test(("ours", "pushdowndb", 200), ("another's", "111122223333", 403))
def owner_that_is_expected(c, _, owner, wanted):
    answer = c.send("GET", c.bucket, c.put(b"body"), headers={"x-amz-expected-bucket-owner": owner})
    assert answer.status == wanted, (answer.status, answer.code)
