"""Multipart uploads: create, parts, complete, abort, lists; the errors on the way."""

import hashlib
import os
import threading

from conformance.harness.server import failure
from conformance.s3.context import expect, status, test

MB = 1 << 20
FIVE = os.urandom(5 * MB)


class Upload:
    """An upload under way."""

    def __init__(self, c, key=None, bucket=None, **more):
        self.c, self.here = c, {"Bucket": bucket or c.bucket, "Key": key or c.key("mp")}
        self.id = c.s3.create_multipart_upload(**self.here, **more)["UploadId"]
        self.parts = []

    @property
    def key(self):
        return self.here["Key"]

    def part(self, number, body, **more):
        answer = self.c.s3.upload_part(**self.here, UploadId=self.id, PartNumber=number, Body=body, **more)
        self.parts = [part for part in self.parts if part["PartNumber"] != number] + [{"PartNumber": number, "ETag": answer["ETag"]}]
        return answer

    def complete(self, parts=None, **more):
        parts = sorted(self.parts, key=lambda part: part["PartNumber"]) if parts is None else parts
        return self.c.s3.complete_multipart_upload(**self.here, UploadId=self.id, MultipartUpload={"Parts": parts}, **more)

    def abort(self):
        return self.c.s3.abort_multipart_upload(**self.here, UploadId=self.id)

    def listed(self, **more):
        return self.c.s3.list_parts(**self.here, UploadId=self.id, **more)


def etag_of(*bodies):
    return f'"{hashlib.md5(b"".join(hashlib.md5(body).digest() for body in bodies)).hexdigest()}-{len(bodies)}"'


@test()
def two_parts(c):
    upload = Upload(c, ContentType="text/x", Metadata={"m": "1"})
    first, second = upload.part(1, FIVE), upload.part(2, b"tail")
    assert first["ETag"] == f'"{hashlib.md5(FIVE).hexdigest()}"' and second["ETag"] == f'"{hashlib.md5(b"tail").hexdigest()}"'
    answer = upload.complete()
    assert answer["ETag"] == etag_of(FIVE, b"tail") and answer["Bucket"] == c.bucket and answer["Key"] == upload.key, answer
    assert c.get(upload.key) == FIVE + b"tail"
    head = c.head(upload.key)
    assert (head["ETag"], head["ContentLength"], head["ContentType"], head["Metadata"]) == (etag_of(FIVE, b"tail"), 5 * MB + 4, "text/x", {"m": "1"})


@test()
def one_small_part(c):
    upload = Upload(c)
    upload.part(1, b"small")
    assert upload.complete()["ETag"] == etag_of(b"small") and c.get(upload.key) == b"small"


@test()
def an_empty_part(c):
    upload = Upload(c)
    upload.part(1, b"")
    upload.complete()
    assert c.get(upload.key) == b""


@test()
def parts_out_of_order(c):
    upload = Upload(c)
    upload.part(3, b"tail")
    upload.part(1, FIVE)
    upload.part(2, FIVE[::-1])
    upload.complete()
    assert c.get(upload.key) == FIVE + FIVE[::-1] + b"tail"


@test()
def parts_with_gaps(c):
    upload = Upload(c)
    upload.part(10, FIVE)
    upload.part(9999, b"tail")
    upload.complete()
    assert c.get(upload.key) == FIVE + b"tail"


@test()
def a_part_again_replaces_it(c):
    upload = Upload(c)
    upload.part(1, b"first")
    upload.part(1, b"second")
    assert [part["Size"] for part in upload.listed()["Parts"]] == [6]
    upload.complete()
    assert c.get(upload.key) == b"second"


@test()
def parts_that_are_not_named_are_dropped(c):
    upload = Upload(c)
    upload.part(1, b"dropped")
    upload.part(2, b"kept")
    upload.complete([part for part in upload.parts if part["PartNumber"] == 2])
    assert c.get(upload.key) == b"kept"


@test()
def nothing_is_seen_before_complete(c):
    upload = Upload(c)
    upload.part(1, b"x")
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=upload.key)
    upload.abort()


@test()
def the_old_object_stays_until_complete(c):
    key = c.put(b"old")
    upload = Upload(c, key)
    upload.part(1, b"new")
    assert c.get(key) == b"old"
    upload.complete()
    assert c.get(key) == b"new"


@test()
def a_small_part_in_the_middle(c):
    upload = Upload(c)
    upload.part(1, b"small")
    upload.part(2, b"tail")
    expect(("EntityTooSmall", 400), upload.complete)
    upload.abort()


@test()
def the_order_must_be_ascending(c):
    upload = Upload(c)
    upload.part(1, FIVE)
    upload.part(2, b"tail")
    expect(("InvalidPartOrder", 400), upload.complete, upload.parts[::-1])
    upload.abort()


@test()
def a_part_named_twice(c):
    upload = Upload(c)
    upload.part(1, FIVE)
    expect(("InvalidPartOrder", 400), upload.complete, upload.parts * 2)
    upload.abort()


@test()
def a_part_that_is_not_there(c):
    upload = Upload(c)
    upload.part(1, b"x")
    expect(("InvalidPart", 400), upload.complete, [{"PartNumber": 2, "ETag": upload.parts[0]["ETag"]}])
    upload.abort()


@test()
def a_part_with_a_wrong_etag(c):
    upload = Upload(c)
    upload.part(1, b"x")
    expect(("InvalidPart", 400), upload.complete, [{"PartNumber": 1, "ETag": '"00000000000000000000000000000000"'}])
    upload.abort()


@test()
def an_etag_without_quotes(c):
    upload = Upload(c)
    upload.part(1, b"x")
    upload.complete([{"PartNumber": 1, "ETag": upload.parts[0]["ETag"].strip('"')}])
    assert c.get(upload.key) == b"x"


@test()
def no_parts(c):
    upload = Upload(c)
    answer = c.send("POST", c.bucket, upload.key, {"uploadId": upload.id}, body=b"<CompleteMultipartUpload></CompleteMultipartUpload>")
    assert (answer.status, answer.code) == (400, "MalformedXML"), (answer.status, answer.code)
    upload.abort()


@test()
def a_body_that_is_no_xml(c):
    upload = Upload(c)
    answer = c.send("POST", c.bucket, upload.key, {"uploadId": upload.id}, body=b"done!")
    assert (answer.status, answer.code) == (400, "MalformedXML"), (answer.status, answer.code)
    upload.abort()


@test()
def completing_again_is_no_error(c):
    upload = Upload(c)
    upload.part(1, b"x")
    first = upload.complete()
    assert upload.complete()["ETag"] == first["ETag"]


@test("upload_part", "complete", "abort", "list_parts")
def no_such_upload(c, operation):
    upload = Upload(c)
    upload.part(1, b"x")
    upload.abort()
    calls = {"upload_part": lambda: upload.part(2, b"y"), "complete": upload.complete, "abort": upload.abort, "list_parts": upload.listed}
    expect(("NoSuchUpload", 404), calls[operation])


@test("x", "../../etc/passwd", "00000000-0000-0000-0000-000000000000", "")
def an_upload_id_that_is_none(c, upload_id):
    answer = c.send("PUT", c.bucket, c.key(), {"uploadId": upload_id, "partNumber": "1"}, body=b"x")
    assert answer.status in (400, 404) and answer.code in ("NoSuchUpload", "InvalidArgument"), (answer.status, answer.code)


@test()
def an_upload_belongs_to_its_key(c):
    upload = Upload(c)
    expect(("NoSuchUpload", 404), c.s3.upload_part, Bucket=c.bucket, Key=c.key(), UploadId=upload.id, PartNumber=1, Body=b"x")
    upload.abort()


@test("0", "10001", "-1", "x")
def a_part_number_that_is_none(c, number):
    upload = Upload(c)
    answer = c.send("PUT", c.bucket, upload.key, {"uploadId": upload.id, "partNumber": number}, body=b"x")
    assert (answer.status, answer.code) == (400, "InvalidArgument"), (answer.status, answer.code)
    upload.abort()


@test()
def abort(c):
    upload = Upload(c)
    upload.part(1, b"x")
    assert status(upload.abort()) == 204
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=upload.key)
    assert upload.id not in [entry["UploadId"] for entry in c.s3.list_multipart_uploads(Bucket=c.bucket).get("Uploads", [])]


@test()
def list_parts(c):
    upload = Upload(c)
    for number in (1, 2, 5):
        upload.part(number, b"x" * number)
    got = upload.listed()
    assert [(part["PartNumber"], part["Size"]) for part in got["Parts"]] == [(1, 1), (2, 2), (5, 5)] and not got["IsTruncated"]
    assert got["UploadId"] == upload.id and got["Key"] == upload.key and all(part["LastModified"] and part["ETag"] for part in got["Parts"])
    upload.abort()


@test()
def list_parts_in_pages(c):
    upload = Upload(c)
    for number in (1, 2, 5):
        upload.part(number, b"x")
    first = upload.listed(MaxParts=2)
    assert first["IsTruncated"] and [part["PartNumber"] for part in first["Parts"]] == [1, 2] and int(first["NextPartNumberMarker"]) == 2
    second = upload.listed(MaxParts=2, PartNumberMarker=2)
    assert not second["IsTruncated"] and [part["PartNumber"] for part in second["Parts"]] == [5]
    upload.abort()


@test()
def list_parts_of_none(c):
    upload = Upload(c)
    assert upload.listed().get("Parts", []) == []
    upload.abort()


@test()
def list_uploads(c):
    bucket = c.new_bucket()
    uploads = [Upload(c, key, bucket) for key in ("b", "a", "a", "c/d")]
    got = c.s3.list_multipart_uploads(Bucket=bucket)
    assert [entry["Key"] for entry in got["Uploads"]] == ["a", "a", "b", "c/d"] and not got["IsTruncated"]
    assert {entry["UploadId"] for entry in got["Uploads"]} == {upload.id for upload in uploads} and all(entry["Initiated"] for entry in got["Uploads"])


@test()
def list_uploads_with_prefix_and_delimiter(c):
    bucket = c.new_bucket()
    for key in ("a", "d/1", "d/2", "e/3"):
        Upload(c, key, bucket)
    got = c.s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    assert [entry["Key"] for entry in got["Uploads"]] == ["a"] and [entry["Prefix"] for entry in got["CommonPrefixes"]] == ["d/", "e/"], got
    assert [entry["Key"] for entry in c.s3.list_multipart_uploads(Bucket=bucket, Prefix="d/")["Uploads"]] == ["d/1", "d/2"]


@test()
def list_uploads_in_pages(c):
    bucket = c.new_bucket()
    uploads = {Upload(c, key, bucket).id for key in ("a", "a", "b", "c", "c")}
    seen, more = [], {}
    for _ in range(10):
        got = c.s3.list_multipart_uploads(Bucket=bucket, MaxUploads=2, **more)
        seen += [entry["UploadId"] for entry in got.get("Uploads", [])]
        if not got["IsTruncated"]:
            break
        more = {"KeyMarker": got["NextKeyMarker"], "UploadIdMarker": got["NextUploadIdMarker"]}
    assert len(seen) == 5 and set(seen) == uploads, seen


@test()
def uploads_are_no_objects(c):
    bucket = c.new_bucket()
    Upload(c, "k", bucket).part(1, b"x")
    assert c.s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


@test()
def two_uploads_of_a_key(c):
    key = c.key()
    one, two = Upload(c, key), Upload(c, key)
    one.part(1, b"one")
    two.part(1, b"two")
    one.complete()
    two.complete()
    assert c.get(key) == b"two"


@test()
def completing_in_a_race(c):
    upload = Upload(c)
    upload.part(1, FIVE)
    upload.part(2, b"tail")
    failed = []

    def complete():
        try:
            upload.complete()
        except Exception as error:  # Told below.
            failed.append(error)

    threads = [threading.Thread(target=complete) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    codes = {error.response["Error"]["Code"] for error in failed}
    assert codes <= {"NoSuchUpload", "OperationAborted"} and len(failed) < 4 and c.get(upload.key) == FIVE + b"tail", codes


def parts_object(c):
    if not hasattr(c, "_parts_key"):
        upload = Upload(c)
        upload.part(1, FIVE)
        upload.part(2, FIVE[::-1])
        upload.part(3, b"tail")
        upload.complete()
        c._parts_key = upload.key
    return c._parts_key


@test((1, FIVE), (2, FIVE[::-1]), (3, b"tail"))
def get_a_part(c, number, body):
    got = c.s3.get_object(Bucket=c.bucket, Key=parts_object(c), PartNumber=number)
    assert status(got) == 206 and got["PartsCount"] == 3 and got["Body"].read() == body and got["ETag"].endswith('-3"')


@test()
def head_a_part(c):
    got = c.head(parts_object(c), PartNumber=3)
    assert (status(got), got["PartsCount"], got["ContentLength"]) == (206, 3, 4), got


@test()
def get_a_part_that_is_not_there(c):
    found = failure(c.s3.get_object, Bucket=c.bucket, Key=parts_object(c), PartNumber=4)
    assert found in [("InvalidPart", 400), ("InvalidPartNumber", 416), ("InvalidRange", 416)], found


@test()
def get_part_one_of_a_plain_object(c):
    got = c.s3.get_object(Bucket=c.bucket, Key=c.put(b"plain"), PartNumber=1)
    assert got["Body"].read() == b"plain" and "PartsCount" not in got


@test()
def a_range_over_parts(c):
    got = c.get(parts_object(c), Range=f"bytes={5 * MB - 2}-{5 * MB + 1}")
    assert got == FIVE[-2:] + FIVE[::-1][:2]


@test()
def attributes_of_parts(c):
    got = c.s3.get_object_attributes(Bucket=c.bucket, Key=parts_object(c), ObjectAttributes=["ObjectParts", "ObjectSize"])
    assert got["ObjectSize"] == 10 * MB + 4 and got["ObjectParts"]["TotalPartsCount"] == 3, got


@test()
def upload_part_copy(c):
    source = c.put(FIVE)
    upload = Upload(c)
    answer = c.s3.upload_part_copy(**upload.here, UploadId=upload.id, PartNumber=1, CopySource={"Bucket": c.bucket, "Key": source})
    upload.parts.append({"PartNumber": 1, "ETag": answer["CopyPartResult"]["ETag"]})
    upload.part(2, b"tail")
    upload.complete()
    assert c.get(upload.key) == FIVE + b"tail"


@test(("bytes=0-4", 0, 5), ("bytes=10-19", 10, 20), (f"bytes=0-{5 * MB - 1}", 0, 5 * MB))
def upload_part_copy_of_a_range(c, asked, start, end):
    source = c.put(FIVE)
    upload = Upload(c)
    answer = c.s3.upload_part_copy(**upload.here, UploadId=upload.id, PartNumber=1, CopySource={"Bucket": c.bucket, "Key": source}, CopySourceRange=asked)
    upload.complete([{"PartNumber": 1, "ETag": answer["CopyPartResult"]["ETag"]}])
    assert c.get(upload.key) == FIVE[start:end]


@test("bytes=0-99999999", "0-5", "bytes=5-2", "bytes=-5", "bytes=5-")
def upload_part_copy_of_a_range_that_is_none(c, asked):
    source = c.put(b"0123456789")
    upload = Upload(c)
    answer = c.send("PUT", c.bucket, upload.key, {"uploadId": upload.id, "partNumber": "1"}, headers={"x-amz-copy-source": f"{c.bucket}/{source}", "x-amz-copy-source-range": asked})
    assert answer.status in (400, 416) and answer.code in ("InvalidArgument", "InvalidRange", "InvalidRequest"), (answer.status, answer.code)
    upload.abort()


@test()
def upload_part_copy_of_a_range_beyond_the_end(c):
    source = c.put(b"01234")
    upload = Upload(c)
    answer = c.send("PUT", c.bucket, upload.key, {"uploadId": upload.id, "partNumber": "1"}, headers={"x-amz-copy-source": f"{c.bucket}/{source}", "x-amz-copy-source-range": "bytes=0-21"})
    assert answer.status in (400, 416) and answer.code == "InvalidRange", (answer.status, answer.code)
    upload.abort()


@test()
def upload_part_copy_of_nothing(c):
    upload = Upload(c)
    expect(("NoSuchKey", 404), c.s3.upload_part_copy, **upload.here, UploadId=upload.id, PartNumber=1, CopySource={"Bucket": c.bucket, "Key": c.key()})
    upload.abort()


@test()
def upload_part_copy_if_match(c):
    source = c.put(b"x")
    upload = Upload(c)
    expect(("PreconditionFailed", 412), c.s3.upload_part_copy, **upload.here, UploadId=upload.id, PartNumber=1,
           CopySource={"Bucket": c.bucket, "Key": source}, CopySourceIfMatch='"0"')
    upload.abort()


@test()
def tags(c):
    upload = Upload(c, Tagging="a=1")
    upload.part(1, b"x")
    upload.complete()
    assert c.s3.get_object_tagging(Bucket=c.bucket, Key=upload.key)["TagSet"] == [{"Key": "a", "Value": "1"}]


@test()
def a_part_with_a_wrong_digest(c):
    upload = Upload(c)
    expect(("BadDigest", 400), upload.part, 1, b"x", ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==")
    assert upload.listed().get("Parts", []) == []
    upload.abort()


@test()
def transfer_manager(c):
    import io

    from boto3.s3.transfer import TransferConfig

    body = os.urandom(17 * MB + 123)
    config = TransferConfig(multipart_threshold=5 * MB, multipart_chunksize=5 * MB, max_concurrency=4)
    key = c.key()
    c.s3.upload_fileobj(io.BytesIO(body), c.bucket, key, Config=config)
    out = io.BytesIO()
    c.s3.download_fileobj(c.bucket, key, out, Config=config)
    assert out.getvalue() == body and c.head(key)["ETag"].endswith('-4"')
    other = c.key("copy")
    c.s3.copy({"Bucket": c.bucket, "Key": key}, c.bucket, other, Config=config)
    assert c.get(other) == body


@test()
def no_such_bucket(c):
    expect(("NoSuchBucket", 404), c.s3.create_multipart_upload, Bucket=c.server.bucket_name(), Key="k")


@test()
def an_expected_size(c):
    upload = Upload(c)
    upload.part(1, b"12345")
    answer = c.send("POST", c.bucket, upload.key, {"uploadId": upload.id}, headers={"x-amz-mp-object-size": "6"},
                    body=f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{upload.parts[0]['ETag']}</ETag></Part></CompleteMultipartUpload>".encode())
    assert (answer.status, answer.code) == (400, "InvalidRequest"), (answer.status, answer.code)
    upload.abort()
