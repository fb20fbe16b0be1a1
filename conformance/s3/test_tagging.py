"""Tags of objects."""

from conformance.s3.context import expect, headers, status, test


def tags(c, key):
    return {tag["Key"]: tag["Value"] for tag in c.s3.get_object_tagging(Bucket=c.bucket, Key=key)["TagSet"]}


def put(c, key, pairs):
    return c.s3.put_object_tagging(Bucket=c.bucket, Key=key, Tagging={"TagSet": [{"Key": name, "Value": value} for name, value in pairs]})


@test()
def put_and_get(c):
    key = c.put()
    assert status(put(c, key, [("a", "1"), ("b c", "ü +=:@/-._")])) == 200
    assert tags(c, key) == {"a": "1", "b c": "ü +=:@/-._"}


@test()
def told_in_one_order(c):
    key = c.put(Tagging="foo=bar&bar")
    assert c.s3.get_object_tagging(Bucket=c.bucket, Key=key)["TagSet"] == [{"Key": "bar", "Value": ""}, {"Key": "foo", "Value": "bar"}]


@test()
def none(c):
    assert tags(c, c.put()) == {}


@test()
def put_replaces(c):
    key = c.put()
    put(c, key, [("a", "1")])
    put(c, key, [("b", "2")])
    assert tags(c, key) == {"b": "2"}


@test()
def put_of_none_empties(c):
    key = c.put()
    put(c, key, [("a", "1")])
    put(c, key, [])
    assert tags(c, key) == {}


@test()
def delete(c):
    key = c.put(Tagging="a=1")
    assert status(c.s3.delete_object_tagging(Bucket=c.bucket, Key=key)) == 204 and tags(c, key) == {}


@test()
def the_header_of_put(c):
    assert tags(c, c.put(Tagging="a=1&b%20c=%C3%BC&empty=")) == {"a": "1", "b c": "ü", "empty": ""}


@test()
def the_count_of_get(c):
    key = c.put(Tagging="a=1&b=2")
    assert c.s3.get_object(Bucket=c.bucket, Key=key)["TagCount"] == 2
    assert headers(c.s3.get_object(Bucket=c.bucket, Key=key)).get("x-amz-tagging-count") == "2"
    assert "x-amz-tagging-count" not in headers(c.s3.get_object(Bucket=c.bucket, Key=c.put()))


@test()
def an_overwritten_object_has_none(c):
    key = c.put(Tagging="a=1")
    c.put(b"new", key)
    assert tags(c, key) == {}


@test()
def the_body_and_its_date_stay(c):
    key = c.put(b"body", Metadata={"m": "1"})
    before = c.head(key)
    put(c, key, [("a", "1")])
    after = c.head(key)
    assert c.get(key) == b"body" and (after["ETag"], after["Metadata"], after["LastModified"]) == (before["ETag"], before["Metadata"], before["LastModified"])


@test()
def ten_are_the_most(c):
    key = c.put()
    put(c, key, [(f"k{n}", "v") for n in range(10)])
    assert len(tags(c, key)) == 10
    expect((("BadRequest", "InvalidTag"), 400), put, c, key, [(f"k{n}", "v") for n in range(11)])
    assert len(tags(c, key)) == 10


@test()
def the_longest(c):
    key = c.put()
    put(c, key, [("k" * 128, "v" * 256)])
    assert tags(c, key) == {"k" * 128: "v" * 256}


@test(("key", "k" * 129, "v"), ("value", "k", "v" * 257), ("reserved", "aws:x", "v"), ("bad character", "a?b", "v"))
def refused(c, _, name, value):
    expect(("InvalidTag", 400), put, c, c.put(), [(name, value)])


@test()
def a_key_twice(c):
    expect(("InvalidTag", 400), put, c, c.put(), [("a", "1"), ("a", "2")])


@test()
def a_key_twice_in_the_header(c):
    expect((("InvalidTag", "InvalidArgument"), 400), c.put, Tagging="a=1&a=2")


@test()
def too_many_in_the_header(c):
    expect((("BadRequest", "InvalidTag", "InvalidArgument"), 400), c.put, Tagging="&".join(f"k{n}=v" for n in range(11)))


@test("get_object_tagging", "delete_object_tagging")
def of_nothing(c, operation):
    expect(("NoSuchKey", 404), getattr(c.s3, operation), Bucket=c.bucket, Key=c.key())


@test()
def put_to_nothing(c):
    expect(("NoSuchKey", 404), put, c, c.key(), [("a", "1")])


@test()
def a_body_that_is_no_xml(c):
    answer = c.send("PUT", c.bucket, c.put(), "tagging=", body=b"a=1")
    assert (answer.status, answer.code) == (400, "MalformedXML"), (answer.status, answer.code)
