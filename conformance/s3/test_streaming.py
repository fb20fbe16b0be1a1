"""Uploads in chunks (aws-chunked), signed and unsigned, with and without trailers; HTTP at its edges."""

import base64
import hashlib
import hmac
import socket
import zlib
from datetime import datetime, timezone

from conformance.harness.server import Answer, between
from conformance.s3.context import expect, test

BODY = bytes(range(256)) * 600
EMPTY = hashlib.sha256(b"").hexdigest()


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256)


class Chunked:
    """Signs and writes an aws-chunked body as AWS describes it."""

    def __init__(self, c, key, payload, headers, trailer=None):
        self.c, self.trailer = c, trailer
        now = datetime.now(timezone.utc)
        self.stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        self.scope = f"{day}/us-east-1/s3/aws4_request"
        self.key = ("AWS4" + c.server.secret_key).encode()
        for part in (day, "us-east-1", "s3", "aws4_request"):
            self.key = sign(self.key, part).digest()
        self.path = c.server.path(c.bucket, key)
        self.headers = {"host": c.server.netloc, "x-amz-content-sha256": payload, "x-amz-date": self.stamp, "content-encoding": "aws-chunked", **headers}
        names = ";".join(sorted(self.headers))
        canonical = "\n".join(["PUT", self.path, "", *[f"{name}:{self.headers[name]}" for name in sorted(self.headers)], "", names, payload])
        self.seed = self.signature("AWS4-HMAC-SHA256", hashlib.sha256(canonical.encode()).hexdigest())
        self.headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={c.server.access_key}/{self.scope}, SignedHeaders={names}, Signature={self.seed}"

    def signature(self, kind, *lines):
        return sign(self.key, "\n".join([kind, self.stamp, self.scope, *lines])).hexdigest()

    def signed(self, chunks, spoil=None):
        """Chunks, each signed with the one before; the one numbered `spoil` has a wrong signature."""
        out, last = b"", self.seed
        for number, chunk in enumerate([*chunks, b""]):
            last = self.signature("AWS4-HMAC-SHA256-PAYLOAD", last, EMPTY, hashlib.sha256(chunk).hexdigest())
            shown = "0" * 64 if number == spoil else last
            out += f"{len(chunk):x};chunk-signature={shown}\r\n".encode() + chunk + (b"\r\n" if chunk else b"")
        if self.trailer:
            text = self.trailer + "\n"
            end = self.signature("AWS4-HMAC-SHA256-TRAILER", last, hashlib.sha256(text.encode()).hexdigest())
            out += f"{self.trailer}\r\nx-amz-trailer-signature:{end}\r\n".encode()
        return out + b"\r\n"

    def unsigned(self, chunks):
        out = b"".join(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" for chunk in chunks) + b"0\r\n"
        return out + (f"{self.trailer}\r\n".encode() if self.trailer else b"") + b"\r\n"

    def send(self, body) -> Answer:
        return self.c.server.plain("PUT", self.path, {**self.headers, "content-length": str(len(body))}, body)


def chunks(size):
    return [BODY[at : at + size] for at in range(0, len(BODY), size)]


def signed(c, key, parts, spoil=None, length=None, **headers):
    total = sum(map(len, parts)) if length is None else length
    upload = Chunked(c, key, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", {"x-amz-decoded-content-length": str(total), **headers})
    return upload.send(upload.signed(parts, spoil))


@test(("one chunk", 1 << 20), ("64 KB chunks", 65536), ("8 KB chunks", 8192), ("odd chunks", 10_007))
def signed_chunks(c, _, size):
    key = c.key()
    answer = signed(c, key, chunks(size))
    assert answer.status == 200, (answer.status, answer.code)
    head = c.head(key)
    assert c.get(key) == BODY and head["ETag"] == f'"{hashlib.md5(BODY).hexdigest()}"' and "ContentEncoding" not in head, head


@test()
def one_unsigned_chunk_of_many_megabytes(c):
    """As SDKs send it that know the length beforehand."""
    key, body = c.key(), BODY * 160
    upload = Chunked(c, key, KINDS["unsigned"], {"x-amz-decoded-content-length": str(len(body)), "x-amz-trailer": "x-amz-checksum-crc32"}, f"x-amz-checksum-crc32:{crc32(body)}")
    answer = upload.send(upload.unsigned([body]))
    assert answer.status == 200 and c.get(key) == body, (answer.status, answer.code)


@test()
def a_signed_chunk_that_is_long(c):
    key = c.key()
    body = bytes(range(256)) * (1 << 16) + b"!"
    answer = signed(c, key, [body])
    assert answer.status == 200, (answer.status, answer.code)
    assert c.get(key) == body


@test()
def signed_chunks_of_nothing(c):
    key = c.key()
    assert signed(c, key, []).status == 200 and c.get(key) == b""


@test(("first", 0), ("last", 2), ("end", 3))
def a_chunk_with_a_wrong_signature(c, _, number):
    key = c.key()
    answer = signed(c, key, chunks(51_200), spoil=number)
    assert answer.status in (400, 403) and answer.code in ("SignatureDoesNotMatch", "IncompleteBody", "InvalidChunk", "InvalidRequest"), (answer.status, answer.code)
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=key)


@test(("too long", 1), ("too short", -1))
def a_decoded_length_that_is_wrong(c, _, by):
    key = c.key()
    answer = signed(c, key, chunks(51_200), length=len(BODY) + by)
    assert answer.status == 400, (answer.status, answer.code)
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=key)


@test()
def a_decoded_length_that_is_missing(c):
    upload = Chunked(c, c.key(), "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", {})
    answer = upload.send(upload.signed([BODY]))
    assert answer.status in (400, 411), (answer.status, answer.code)


def crc32(data):
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()


def sha256(data):
    return base64.b64encode(hashlib.sha256(data).digest()).decode()


TRAILERS = [("crc32", crc32), ("sha256", sha256)]


def with_trailer(c, key, payload, name, value, parts, send):
    trailer = f"x-amz-checksum-{name}:{value}"
    upload = Chunked(c, key, payload, {"x-amz-decoded-content-length": str(sum(map(len, parts))), "x-amz-trailer": f"x-amz-checksum-{name}"}, trailer)
    return upload.send(getattr(upload, send)(parts))


KINDS = {"signed": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "unsigned": "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}


@test(*[(f"{kind} {name}", kind, name, function) for kind in KINDS for name, function in TRAILERS])
def trailers(c, _, kind, name, function):
    key = c.key()
    answer = with_trailer(c, key, KINDS[kind], name, function(BODY), chunks(65536), kind)
    assert answer.status == 200, (answer.status, answer.code, between(answer.body, b"<Message>", b"</Message>"))
    head = c.head(key, ChecksumMode="ENABLED")
    assert c.get(key) == BODY and head[f"Checksum{name.upper()}"] == function(BODY), head


@test(*[(f"{kind} {name}", kind, name, function) for kind in KINDS for name, function in TRAILERS])
def trailers_that_are_wrong(c, _, kind, name, function):
    key = c.key()
    answer = with_trailer(c, key, KINDS[kind], name, function(b"other"), chunks(65536), kind)
    assert (answer.status, answer.code) == (400, "BadDigest"), (answer.status, answer.code)
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=key)


@test(*KINDS)
def a_trailer_that_is_announced_and_missing(c, kind):
    key = c.key()
    upload = Chunked(c, key, KINDS[kind], {"x-amz-decoded-content-length": str(len(BODY)), "x-amz-trailer": "x-amz-checksum-crc32"})
    answer = upload.send(getattr(upload, kind)([BODY]))
    assert answer.status in (400, 403), (answer.status, answer.code)
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=key)


@test("signed",)
def a_trailer_with_a_wrong_signature(c, kind):
    key = c.key()
    upload = Chunked(c, key, KINDS[kind], {"x-amz-decoded-content-length": str(len(BODY)), "x-amz-trailer": "x-amz-checksum-crc32"}, f"x-amz-checksum-crc32:{crc32(BODY)}")
    body = upload.signed([BODY])
    answer = upload.send(body[:-6] + (b"0000" if body[-6:-2] != b"0000" else b"1111") + b"\r\n")
    assert answer.status in (400, 403), (answer.status, answer.code)
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=key)


@test("zz\r\nx\r\n0\r\n\r\n", "5\r\nhello", "5\r\nhelloX\r\n0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n", "ffffffffffffffff\r\nhello\r\n0\r\n\r\n", "5" + ";x" * 5000 + "\r\nhello\r\n0\r\n\r\n")
def chunks_that_are_none(c, body):
    key = c.key()
    upload = Chunked(c, key, KINDS["unsigned"], {"x-amz-decoded-content-length": "5", "x-amz-trailer": "x-amz-checksum-crc32"})
    answer = upload.send(body.encode())
    assert 400 <= answer.status < 500, (answer.status, answer.code)
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=key)


@test("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256")
def boto3_sends_checksums(c, algorithm):
    from botocore.exceptions import MissingDependencyException

    from conformance.harness.report import Skip

    try:
        key = c.put(BODY, ChecksumAlgorithm=algorithm)
    except MissingDependencyException:
        if algorithm in ("CRC32", "SHA1", "SHA256"):
            raise
        raise Skip(f"boto3 computes {algorithm} only with awscrt; test_checksums computes it by hand") from None
    got = c.s3.get_object(Bucket=c.bucket, Key=key, ChecksumMode="ENABLED")
    assert got["Body"].read() == BODY and got[f"Checksum{algorithm}"]


def raw(c, head, body=b""):
    return c.server.raw(head.encode() + body, timeout=5)


def first_line(answer):
    return answer.split(b"\r\n")[0].decode("latin-1")


@test("GARBAGE\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\0\0\0\0", "GET / HTTP/1.1\r\nHost: a\r\nBad Header\r\n\r\n", "GET / HTTP/1.1\r\n: x\r\n\r\n")
def what_is_no_http(c, request):
    answer = raw(c, request)
    assert not answer or first_line(answer).split(" ")[1][:1] in "45", answer[:100]
    assert c.s3.list_buckets()["Buckets"]


@test()
def a_huge_header_is_refused(c):
    answer = raw(c, f"GET / HTTP/1.1\r\nHost: {c.server.netloc}\r\nx-amz-meta-a: {'x' * 2_000_000}\r\n\r\n")
    assert not answer or " 4" in first_line(answer), answer[:100]


@test()
def many_headers_are_refused(c):
    lines = "".join(f"x-h-{n}: {n}\r\n" for n in range(5000))
    answer = raw(c, f"GET / HTTP/1.1\r\nHost: {c.server.netloc}\r\n{lines}\r\n")
    assert not answer or " 4" in first_line(answer), answer[:100]


@test()
def two_lengths_are_refused(c):
    answer = raw(c, f"PUT /{c.bucket}/x HTTP/1.1\r\nHost: {c.server.netloc}\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!")
    assert not answer or " 4" in first_line(answer), answer[:100]


@test()
def connections_are_kept(c):
    connection = c.server.connect()
    try:
        for _ in range(3):
            connection.request("GET", "/", headers=c.server.signed_headers("GET", "/"))
            answer = connection.getresponse()
            assert answer.status == 200
            answer.read()
    finally:
        connection.close()


@test()
def a_refused_body_leaves_the_connection_right_or_closed(c):
    """After a refusal that came before the body, the next request is answered or the answer said `close`."""
    head = f"PUT /{c.bucket}/x HTTP/1.1\r\nHost: {c.server.netloc}\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n"
    with socket.create_connection((c.server.host, c.server.port), timeout=5) as stream:
        stream.sendall(head.encode())
        answer = stream.recv(65536)
        assert " 403 " in first_line(answer), answer[:100]
        if b"connection: close" in answer.lower():
            return
        stream.sendall(f"GET / HTTP/1.1\r\nHost: {c.server.netloc}\r\n\r\n".encode())
        again = stream.recv(65536)
        assert " 403 " in first_line(again), f"the connection was not said to be closed, and then answered {again[:60]!r}"


@test(("empty", b""), ("short", b"x"), ("long", b"x" * 300_000))
def boto3_goes_on_after_a_refused_body(c, _, body):
    """boto3 takes the status of the refusal for that of the next PUT on the connection, unless that was closed."""
    client = c.server.client()
    for _ in range(3):
        expect(("KeyTooLongError", 400), client.put_object, Bucket=c.bucket, Key="k" * 1025, Body=body)
        client.put_object(Bucket=c.bucket, Key="after", Body=b"good")
    assert c.get("after") == b"good"


@test()
def boto3_goes_on_after_an_empty_body(c):
    """An empty body needs no `100 Continue`; boto3 then takes the next answer on the connection for a part of this one."""
    client = c.server.client(read_timeout=5, retries={"total_max_attempts": 1})
    for n in range(3):
        client.put_object(Bucket=c.bucket, Key="empty", Body=b"")
        answer = client.put_object(Bucket=c.bucket, Key="after", Body=str(n).encode())
        assert answer["ETag"] and c.get("after") == str(n).encode()


@test()
def pipelined_requests_are_answered_in_order(c):
    request = f"GET / HTTP/1.1\r\nHost: {c.server.netloc}\r\n\r\n" * 2 + f"GET / HTTP/1.1\r\nHost: {c.server.netloc}\r\nConnection: close\r\n\r\n"
    assert raw(c, request).count(b"HTTP/1.1 403") == 3


@test()
def head_then_get_on_one_connection(c):
    key = c.put(b"body")
    connection = c.server.connect()
    try:
        for method, body in (("HEAD", b""), ("GET", b"body"), ("HEAD", b"")):
            path = c.server.path(c.bucket, key)
            connection.request(method, path, headers=c.server.signed_headers(method, path))
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, body)
    finally:
        connection.close()


@test()
def a_put_with_transfer_encoding_chunked(c):
    key = c.key()
    path = c.server.path(c.bucket, key)
    headers = c.server.signed_headers("PUT", path, {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}, b"")
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if name.lower() not in ("content-length", "host"))
    answer = raw(c, f"PUT {path} HTTP/1.1\r\nHost: {c.server.netloc}\r\n{head}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n")
    # AWS asks for a length; a server may do without.
    assert first_line(answer).split(" ")[1] in ("411", "200", "501"), answer[:100]
