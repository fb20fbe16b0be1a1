"""Content-MD5 and the x-amz-checksum headers, on objects and on parts; trailers are in test_streaming."""

import base64
import hashlib
import struct
import zlib

from conformance.s3.context import expect, test

BODY = b"hello world"


def reflected(polynomial, bits, data):
    """A reflected CRC, bit by bit: slow and plainly right."""
    mask = (1 << bits) - 1
    crc = mask
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (polynomial if crc & 1 else 0)
    return crc ^ mask


def checksum(algorithm, data) -> str:
    """As the header carries it."""
    if algorithm == "CRC32":
        raw = struct.pack(">I", zlib.crc32(data))
    elif algorithm == "CRC32C":
        raw = struct.pack(">I", reflected(0x82F63B78, 32, data))
    elif algorithm == "CRC64NVME":
        raw = struct.pack(">Q", reflected(0x9A6C9329AC4BC9B5, 64, data))
    else:
        raw = hashlib.new(algorithm.lower(), data).digest()
    return base64.b64encode(raw).decode()


ALL = ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256")


def put(c, algorithm, value, key=None, body=BODY):
    key = key or c.key()
    return key, c.send("PUT", c.bucket, key, headers={f"x-amz-checksum-{algorithm.lower()}": value}, body=body)


@test()
def the_tests_know_their_checksums(c):
    assert checksum("CRC32C", b"123456789") == base64.b64encode(bytes.fromhex("e3069283")).decode()
    assert checksum("CRC64NVME", b"123456789") == base64.b64encode(bytes.fromhex("ae8b14860a799888")).decode()


@test(*ALL)
def given(c, algorithm):
    value = checksum(algorithm, BODY)
    key, answer = put(c, algorithm, value)
    assert answer.status == 200 and answer.headers.get(f"x-amz-checksum-{algorithm.lower()}") == value, (answer.status, answer.code, answer.headers)
    assert c.get(key) == BODY


@test(*ALL)
def wrong(c, algorithm):
    key, answer = put(c, algorithm, checksum(algorithm, b"something else"))
    assert (answer.status, answer.code) == (400, "BadDigest"), (answer.status, answer.code)
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=key)


@test(*ALL)
def malformed(c, algorithm):
    key, answer = put(c, algorithm, "not base64!")
    assert answer.status == 400 and answer.code in ("InvalidRequest", "InvalidArgument", "BadDigest", "InvalidDigest"), (answer.status, answer.code)
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=key)


@test(*ALL)
def returned_on_request(c, algorithm):
    value = checksum(algorithm, BODY)
    key, _ = put(c, algorithm, value)
    for answer in (c.s3.get_object(Bucket=c.bucket, Key=key, ChecksumMode="ENABLED"), c.head(key, ChecksumMode="ENABLED")):
        assert answer[f"Checksum{algorithm}"] == value and answer.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT", answer
    plain = c.send("HEAD", c.bucket, key)
    assert f"x-amz-checksum-{algorithm.lower()}" not in plain.headers, plain.headers


@test(*ALL)
def in_attributes(c, algorithm):
    value = checksum(algorithm, BODY)
    key, _ = put(c, algorithm, value)
    got = c.s3.get_object_attributes(Bucket=c.bucket, Key=key, ObjectAttributes=["Checksum"])
    assert got["Checksum"][f"Checksum{algorithm}"] == value, got


@test()
def a_range_has_none(c):
    key, _ = put(c, "SHA256", checksum("SHA256", BODY))
    answer = c.send("GET", c.bucket, key, headers={"Range": "bytes=0-3", "x-amz-checksum-mode": "ENABLED"})
    assert answer.status == 206 and "x-amz-checksum-sha256" not in answer.headers, answer.headers


@test()
def of_nothing(c):
    value = checksum("SHA256", b"")
    key, answer = put(c, "SHA256", value, body=b"")
    assert answer.status == 200 and c.head(key, ChecksumMode="ENABLED")["ChecksumSHA256"] == value


@test()
def two_at_once(c):
    answer = c.send("PUT", c.bucket, c.key(), body=BODY,
                    headers={"x-amz-checksum-sha256": checksum("SHA256", BODY), "x-amz-checksum-crc32": checksum("CRC32", BODY)})
    assert (answer.status, answer.code) == (400, "InvalidRequest"), (answer.status, answer.code)


@test()
def an_unknown_algorithm(c):
    answer = c.send("PUT", c.bucket, c.key(), body=BODY, headers={"x-amz-sdk-checksum-algorithm": "MD4", "x-amz-checksum-md4": "AAAA"})
    assert answer.status == 400, (answer.status, answer.code)


@test()
def content_md5(c):
    digest = base64.b64encode(hashlib.md5(BODY).digest()).decode()
    assert c.get(c.put(BODY, ContentMD5=digest)) == BODY


@test()
def content_md5_that_is_wrong(c):
    key = c.key()
    expect(("BadDigest", 400), c.put, BODY, key, ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==")
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=key)


@test("short", "AAAA", "not base64!!")
def content_md5_that_is_none(c, value):
    answer = c.send("PUT", c.bucket, c.key(), headers={"Content-MD5": value}, body=BODY)
    assert (answer.status, answer.code) == (400, "InvalidDigest"), (answer.status, answer.code)


@test()
def a_wrong_checksum_keeps_the_old_object(c):
    key = c.put(b"old")
    put(c, "SHA256", checksum("SHA256", b"other"), key)
    assert c.get(key) == b"old"


@test()
def a_body_that_is_not_what_was_signed(c):
    key = c.key()
    path = c.server.path(c.bucket, key)
    headers = c.server.signed_headers("PUT", path, None, b"signed body")
    answer = c.server.plain("PUT", path, headers, b"other  body")
    assert (answer.status, answer.code) == (400, "XAmzContentSHA256Mismatch"), (answer.status, answer.code)
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=key)


def upload(c, algorithm, kind, *bodies, whole=None):
    """A multipart upload with checksums; the answer of Complete and the key."""
    here = {"Bucket": c.bucket, "Key": c.key("mp")}
    upload_id = c.s3.create_multipart_upload(**here, ChecksumAlgorithm=algorithm, **({"ChecksumType": kind} if kind else {}))["UploadId"]
    parts = []
    for number, body in enumerate(bodies, 1):
        value = checksum(algorithm, body)
        answer = c.send("PUT", c.bucket, here["Key"], {"uploadId": upload_id, "partNumber": str(number)}, {f"x-amz-checksum-{algorithm.lower()}": value}, body)
        assert answer.status == 200, (answer.status, answer.code)
        parts.append({"PartNumber": number, "ETag": answer.headers["etag"], f"Checksum{algorithm}": value})
    more = {f"Checksum{algorithm}": whole} if whole else {}
    if kind:
        more["ChecksumType"] = kind
    return c.s3.complete_multipart_upload(**here, UploadId=upload_id, MultipartUpload={"Parts": parts}, **more), here["Key"]


def composite(algorithm, *bodies):
    joined = b"".join(base64.b64decode(checksum(algorithm, body)) for body in bodies)
    return f"{checksum(algorithm, joined)}-{len(bodies)}"


@test("CRC32", "CRC32C", "SHA1", "SHA256")
def multipart_composite(c, algorithm):
    answer, key = upload(c, algorithm, "COMPOSITE", b"only part")
    wanted = composite(algorithm, b"only part")
    assert answer[f"Checksum{algorithm}"] == wanted and answer.get("ChecksumType", "COMPOSITE") == "COMPOSITE", answer
    head = c.head(key, ChecksumMode="ENABLED")
    assert head[f"Checksum{algorithm}"] == wanted and head["ChecksumType"] == "COMPOSITE", head


@test("CRC32", "CRC32C", "CRC64NVME")
def multipart_full_object(c, algorithm):
    answer, key = upload(c, algorithm, "FULL_OBJECT", b"only part", whole=checksum(algorithm, b"only part"))
    wanted = checksum(algorithm, b"only part")
    assert answer[f"Checksum{algorithm}"] == wanted, answer
    head = c.head(key, ChecksumMode="ENABLED")
    assert head[f"Checksum{algorithm}"] == wanted and head["ChecksumType"] == "FULL_OBJECT", head


@test("CRC32",)
def multipart_full_object_of_two_parts(c, algorithm):
    first, second = b"a" * (5 << 20), b"tail"
    answer, key = upload(c, algorithm, "FULL_OBJECT", first, second)
    assert answer[f"Checksum{algorithm}"] == checksum(algorithm, first + second), answer
    assert c.head(key, ChecksumMode="ENABLED")[f"Checksum{algorithm}"] == checksum(algorithm, first + second)


@test("SHA256",)
def multipart_composite_of_two_parts(c, algorithm):
    first, second = b"a" * (5 << 20), b"tail"
    answer, _ = upload(c, algorithm, None, first, second)
    assert answer[f"Checksum{algorithm}"] == composite(algorithm, first, second), answer


@test()
def multipart_full_object_that_is_wrong(c):
    expect((("BadDigest", "InvalidRequest"), 400), upload, c, "CRC32", "FULL_OBJECT", b"only part", whole=checksum("CRC32", b"other"))


@test("SHA1", "SHA256")
def multipart_full_object_needs_a_crc(c, algorithm):
    expect(("InvalidRequest", 400), c.s3.create_multipart_upload, Bucket=c.bucket, Key=c.key(), ChecksumAlgorithm=algorithm, ChecksumType="FULL_OBJECT")


@test("CRC32", "SHA256")
def a_part_with_a_wrong_checksum(c, algorithm):
    here = {"Bucket": c.bucket, "Key": c.key("mp")}
    upload_id = c.s3.create_multipart_upload(**here, ChecksumAlgorithm=algorithm)["UploadId"]
    answer = c.send("PUT", c.bucket, here["Key"], {"uploadId": upload_id, "partNumber": "1"}, {f"x-amz-checksum-{algorithm.lower()}": checksum(algorithm, b"y")}, b"x")
    assert (answer.status, answer.code) == (400, "BadDigest"), (answer.status, answer.code)
    c.s3.abort_multipart_upload(**here, UploadId=upload_id)


@test()
def list_parts_tells_checksums(c):
    here = {"Bucket": c.bucket, "Key": c.key("mp")}
    upload_id = c.s3.create_multipart_upload(**here, ChecksumAlgorithm="SHA256")["UploadId"]
    c.s3.upload_part(**here, UploadId=upload_id, PartNumber=1, Body=BODY, ChecksumAlgorithm="SHA256")
    got = c.s3.list_parts(**here, UploadId=upload_id)
    assert got["ChecksumAlgorithm"] == "SHA256" and got["Parts"][0]["ChecksumSHA256"] == checksum("SHA256", BODY), got
    c.s3.abort_multipart_upload(**here, UploadId=upload_id)
