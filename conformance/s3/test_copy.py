"""CopyObject: directives, onto itself, across buckets, what cannot be copied."""

import os

from conformance.s3.context import expect, status, test


def copy(c, source, target, source_bucket=None, **more):
    return c.s3.copy_object(Bucket=more.pop("Bucket", c.bucket), Key=target, CopySource={"Bucket": source_bucket or c.bucket, "Key": source}, **more)


@test()
def within_a_bucket(c):
    source, target = c.put(b"body", Metadata={"a": "1"}, ContentType="text/plain"), c.key("copy")
    answer = copy(c, source, target)
    assert answer["CopyObjectResult"]["ETag"] == c.head(source)["ETag"] and answer["CopyObjectResult"]["LastModified"]
    got = c.head(target)
    assert c.get(target) == b"body" and got["Metadata"] == {"a": "1"} and got["ContentType"] == "text/plain"


@test()
def between_buckets(c):
    other = c.new_bucket()
    copy(c, c.put(b"body"), "k", Bucket=other)
    assert c.get("k", Bucket=other) == b"body"


@test()
def large(c):
    body = os.urandom(8_000_000)
    target = c.key("copy")
    copy(c, c.put(body), target)
    assert c.get(target) == body


@test()
def nothing(c):
    target = c.key("copy")
    copy(c, c.put(b""), target)
    assert c.get(target) == b""


@test()
def replaces_metadata(c):
    source, target = c.put(b"x", Metadata={"a": "1"}, ContentType="text/plain", CacheControl="no-cache"), c.key("copy")
    copy(c, source, target, MetadataDirective="REPLACE", Metadata={"b": "2"}, ContentType="text/html")
    got = c.head(target)
    assert got["Metadata"] == {"b": "2"} and got["ContentType"] == "text/html" and "CacheControl" not in got, got


@test()
def keeps_metadata_unless_told(c):
    source, target = c.put(b"x", Metadata={"a": "1"}), c.key("copy")
    copy(c, source, target, Metadata={"b": "2"})
    assert c.head(target)["Metadata"] == {"a": "1"}


@test()
def copies_content_headers(c):
    source, target = c.put(b"x", ContentEncoding="gzip", ContentLanguage="de", CacheControl="max-age=1", ContentDisposition="inline"), c.key("copy")
    copy(c, source, target)
    got = c.head(target)
    assert (got["ContentEncoding"], got["ContentLanguage"], got["CacheControl"], got["ContentDisposition"]) == ("gzip", "de", "max-age=1", "inline")


@test()
def onto_itself_is_refused(c):
    key = c.put()
    expect(("InvalidRequest", 400), copy, c, key, key)


@test()
def onto_itself_with_new_metadata(c):
    key = c.put(b"body", Metadata={"a": "1"})
    copy(c, key, key, MetadataDirective="REPLACE", Metadata={"b": "2"})
    assert c.head(key)["Metadata"] == {"b": "2"} and c.get(key) == b"body"


@test()
def over_another(c):
    source, target = c.put(b"new"), c.put(b"old", Metadata={"old": "1"})
    copy(c, source, target)
    assert c.get(target) == b"new" and c.head(target)["Metadata"] == {}


@test()
def the_source_stays(c):
    source = c.put(b"body")
    copy(c, source, c.key("copy"))
    assert c.get(source) == b"body"


@test()
def the_copy_outlives_the_source(c):
    source, target = c.put(b"body"), c.key("copy")
    copy(c, source, target)
    c.s3.delete_object(Bucket=c.bucket, Key=source)
    assert c.get(target) == b"body"


@test("a b", "a+b", "ü/日本", "a%20b", "a&b=c", "?x", "a/b/../c")
def odd_source_keys(c, name):
    key = f"{c.key()}{name}"
    c.put(key.encode(), key)
    target = c.key("copy")
    copy(c, key, target)
    assert c.get(target) == key.encode()


@test()
def a_source_with_a_leading_slash(c):
    source, target = c.put(b"body"), c.key("copy")
    answer = c.send("PUT", c.bucket, target, headers={"x-amz-copy-source": f"/{c.bucket}/{source}"})
    assert answer.status == 200 and c.get(target) == b"body", answer.code


@test()
def a_source_that_is_not_there(c):
    expect(("NoSuchKey", 404), copy, c, c.key(), c.key("copy"))


@test()
def a_source_bucket_that_is_not_there(c):
    expect(("NoSuchBucket", 404), copy, c, "k", c.key("copy"), source_bucket=c.server.bucket_name())


@test()
def a_target_bucket_that_is_not_there(c):
    expect(("NoSuchBucket", 404), copy, c, c.put(), "k", Bucket=c.server.bucket_name())


@test("", "no-slash", "/")
def a_source_that_is_none(c, source):
    answer = c.send("PUT", c.bucket, c.key("copy"), headers={"x-amz-copy-source": source})
    assert answer.status in (400, 404) if source else answer.status in (200, 400), (answer.status, answer.code)


@test()
def an_unknown_directive(c):
    answer = c.send("PUT", c.bucket, c.key("copy"), headers={"x-amz-copy-source": f"{c.bucket}/{c.put()}", "x-amz-metadata-directive": "MERGE"})
    assert (answer.status, answer.code) == (400, "InvalidArgument"), (answer.status, answer.code)


@test("COPY", "REPLACE")
def tags(c, directive):
    source, target = c.put(b"x", Tagging="a=1&b=2"), c.key("copy")
    copy(c, source, target, TaggingDirective=directive, **({"Tagging": "c=3"} if directive == "REPLACE" else {}))
    got = {tag["Key"]: tag["Value"] for tag in c.s3.get_object_tagging(Bucket=c.bucket, Key=target)["TagSet"]}
    assert got == ({"a": "1", "b": "2"} if directive == "COPY" else {"c": "3"}), got


@test()
def a_checksum(c):
    source, target = c.put(b"hello", ChecksumAlgorithm="SHA256"), c.key("copy")
    copy(c, source, target)
    assert c.head(target, ChecksumMode="ENABLED")["ChecksumSHA256"] == c.head(source, ChecksumMode="ENABLED")["ChecksumSHA256"]


@test()
def another_checksum(c):
    source, target = c.put(b"hello", ChecksumAlgorithm="SHA256"), c.key("copy")
    answer = copy(c, source, target, ChecksumAlgorithm="SHA1")
    assert answer["CopyObjectResult"]["ChecksumSHA1"] == "qvTGHdzF6KLavt4PO0gs2a6pQ00=", answer


@test()
def a_multipart_object(c):
    import io

    from boto3.s3.transfer import TransferConfig

    body = os.urandom(6 << 20)
    source, target = c.key(), c.key("copy")
    c.s3.upload_fileobj(io.BytesIO(body), c.bucket, source, Config=TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20))
    copy(c, source, target)
    assert c.get(target) == body


@test()
def storage_class_standard(c):
    target = c.key("copy")
    assert status(copy(c, c.put(), target, StorageClass="STANDARD")) == 200
