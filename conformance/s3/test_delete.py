"""DeleteObjects: many keys in one request."""

import base64
import hashlib

from conformance.s3.context import expect, keys_of, test

XML = '<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{}</Delete>'


def remove(c, bucket, keys, **more):
    return c.s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys], **more})


def post(c, bucket, xml, digest=True):
    body = xml.encode()
    headers = {"Content-MD5": base64.b64encode(hashlib.md5(body).digest()).decode()} if digest else {}
    return c.send("POST", bucket, query="delete=", body=body, headers=headers)


@test()
def many(c):
    bucket = c.filled(["a", "b/c", "d e", "ü"])
    answer = remove(c, bucket, ["a", "b/c", "ü"])
    assert sorted(entry["Key"] for entry in answer["Deleted"]) == ["a", "b/c", "ü"] and "Errors" not in answer
    assert keys_of(c.s3.list_objects_v2(Bucket=bucket)) == ["d e"]


@test()
def what_is_not_there_counts_as_deleted(c):
    answer = remove(c, c.bucket, [c.key(), c.key()])
    assert len(answer["Deleted"]) == 2 and "Errors" not in answer


@test()
def quiet(c):
    bucket = c.filled(["a", "b"])
    answer = remove(c, bucket, ["a", "b"], Quiet=True)
    assert "Deleted" not in answer and "Errors" not in answer
    assert keys_of(c.s3.list_objects_v2(Bucket=bucket)) == []


@test()
def a_key_twice(c):
    key = c.put()
    answer = remove(c, c.bucket, [key, key])
    assert {entry["Key"] for entry in answer["Deleted"]} == {key}
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=c.bucket, Key=key)


@test()
def the_largest_request(c):
    assert len(remove(c, c.bucket, [f"none-{n}" for n in range(1000)])["Deleted"]) == 1000


@test()
def too_many(c):
    expect(("MalformedXML", 400), remove, c, c.bucket, [f"none-{n}" for n in range(1001)])


@test()
def none(c):
    answer = post(c, c.bucket, XML.format(""))
    assert (answer.status, answer.code) == (400, "MalformedXML"), (answer.status, answer.code)


@test()
def no_xml(c):
    answer = post(c, c.bucket, "delete it all")
    assert (answer.status, answer.code) == (400, "MalformedXML"), (answer.status, answer.code)


@test()
def a_wrong_digest(c):
    body = XML.format("<Object><Key>a</Key></Object>").encode()
    answer = c.send("POST", c.bucket, query="delete=", body=body, headers={"Content-MD5": "AAAAAAAAAAAAAAAAAAAAAA=="})
    assert (answer.status, answer.code) == (400, "BadDigest"), (answer.status, answer.code)


@test()
def keys_that_need_escapes(c):
    keys = ["a&b", "a<b", "a>b", 'a"b', "a'b", " a ", "a\tb"]
    bucket = c.filled(keys)
    remove(c, bucket, keys)
    assert keys_of(c.s3.list_objects_v2(Bucket=bucket)) == []


@test()
def another_bucket_is_left_alone(c):
    one, other = c.filled(["a"]), c.filled(["a"])
    remove(c, one, ["a"])
    assert keys_of(c.s3.list_objects_v2(Bucket=other)) == ["a"]


@test()
def no_such_bucket(c):
    expect(("NoSuchBucket", 404), remove, c, c.server.bucket_name(), ["a"])


@test()
def a_version_that_is_null(c):
    key = c.put()
    answer = c.s3.delete_objects(Bucket=c.bucket, Delete={"Objects": [{"Key": key, "VersionId": "null"}]})
    assert answer["Deleted"][0]["Key"] == key and "Errors" not in answer, answer


@test()
def if_etag_matches(c):
    key = c.put(b"x")
    wrong = c.s3.delete_objects(Bucket=c.bucket, Delete={"Objects": [{"Key": key, "ETag": '"0"'}]})
    assert wrong["Errors"][0]["Code"] == "PreconditionFailed" and c.get(key) == b"x", wrong
    right = c.s3.delete_objects(Bucket=c.bucket, Delete={"Objects": [{"Key": key, "ETag": c.head(key)["ETag"]}]})
    assert right["Deleted"][0]["Key"] == key, right
