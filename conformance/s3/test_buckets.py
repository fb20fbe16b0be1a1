"""Create, head, delete, list, location; names; sub-resources that are not there."""

from conformance.s3.context import expect, headers, status, test


@test()
def create_and_delete(c):
    name = c.server.bucket_name()
    made = c.s3.create_bucket(Bucket=name)
    assert status(made) == 200 and made.get("Location", f"/{name}").endswith(name), made
    assert status(c.s3.head_bucket(Bucket=name)) == 200
    assert status(c.s3.delete_bucket(Bucket=name)) == 204
    expect(("404", 404), c.s3.head_bucket, Bucket=name)


@test()
def create_again(c):
    # In us-east-1 it is done already, for the owner; elsewhere it is a conflict.
    answer = c.send("PUT", c.bucket)
    oldest = headers(c.s3.head_bucket(Bucket=c.bucket)).get("x-amz-bucket-region") == "us-east-1"
    assert (answer.status, answer.code) == ((200, "") if oldest else (409, "BucketAlreadyOwnedByYou")), (answer.status, answer.code)


@test()
def create_again_keeps_the_objects(c):
    key = c.put(b"stays")
    c.send("PUT", c.bucket)
    assert c.get(key) == b"stays"


@test()
def create_with_location(c):
    name = c.server.bucket_name()
    c.buckets.append(name)
    body = b'<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></CreateBucketConfiguration>'
    assert c.send("PUT", name, body=body).status == 200


@test()
def create_with_malformed_body(c):
    answer = c.send("PUT", c.server.bucket_name(), body=b"<CreateBucketConfiguration><Loc")
    assert (answer.status, answer.code) == (400, "MalformedXML"), (answer.status, answer.code)


@test()
def location(c):
    assert c.s3.get_bucket_location(Bucket=c.bucket)["LocationConstraint"] in (None, "", "us-east-1")


@test()
def head_tells_the_region(c):
    assert headers(c.s3.head_bucket(Bucket=c.bucket)).get("x-amz-bucket-region"), headers(c.s3.head_bucket(Bucket=c.bucket))


@test()
def list_names_every_bucket(c):
    names = [bucket["Name"] for bucket in c.s3.list_buckets()["Buckets"]]
    assert c.bucket in names and names == sorted(names), names


@test()
def list_tells_owner_and_dates(c):
    answer = c.s3.list_buckets()
    assert answer["Owner"]["ID"] and all(bucket["CreationDate"] for bucket in answer["Buckets"])


@test()
def list_with_prefix_and_pages(c):
    made = [c.new_bucket() for _ in range(3)]
    prefix = f"conf-{c.server.session}"
    seen, token = [], None
    while True:
        answer = c.s3.list_buckets(Prefix=prefix, MaxBuckets=1, **({"ContinuationToken": token} if token else {}))
        assert len(answer["Buckets"]) <= 1
        seen += [bucket["Name"] for bucket in answer["Buckets"]]
        token = answer.get("ContinuationToken")
        if not token:
            break
    assert set(made) <= set(seen) and all(name.startswith(prefix) for name in seen), seen


@test()
def delete_of_a_bucket_with_objects(c):
    bucket = c.filled(["a"])
    expect(("BucketNotEmpty", 409), c.s3.delete_bucket, Bucket=bucket)
    c.s3.delete_object(Bucket=bucket, Key="a")
    c.s3.delete_bucket(Bucket=bucket)


@test()
def delete_of_a_bucket_with_an_open_upload(c):
    bucket = c.new_bucket()
    c.s3.create_multipart_upload(Bucket=bucket, Key="k")
    # AWS lets it go with its uploads; a server may ask for them to be aborted first.
    answer = c.send("DELETE", bucket)
    assert (answer.status, answer.code) in [(204, ""), (409, "BucketNotEmpty")], (answer.status, answer.code)


@test()
def delete_of_a_bucket_that_is_not_there(c):
    expect(("NoSuchBucket", 404), c.s3.delete_bucket, Bucket=c.server.bucket_name())


@test()
def head_of_a_bucket_that_is_not_there(c):
    expect(("404", 404), c.s3.head_bucket, Bucket=c.server.bucket_name())


@test(
    ("list_objects", {}), ("list_objects_v2", {}), ("put_object", {"Key": "k", "Body": b"x"}), ("get_object", {"Key": "k"}),
    ("delete_object", {"Key": "k"}), ("get_bucket_location", {}), ("create_multipart_upload", {"Key": "k"}), ("list_multipart_uploads", {}),
    ("delete_objects", {"Delete": {"Objects": [{"Key": "k"}]}}), ("get_bucket_tagging", {}), ("get_bucket_versioning", {}),
)
def no_such_bucket(c, operation, arguments):
    expect(("NoSuchBucket", 404), getattr(c.s3, operation), Bucket=c.server.bucket_name(), **arguments)


@test("ab", "a" * 64, "Upper-case", "under_score", "-dash-first", "dash-last-", "dot..dot", ".dot-first", "192.168.5.4", "sp%20ace", "excl!mark", "xn--abc",
      "name-s3alias")
def bad_name(c, name):
    answer = c.server.send("PUT", f"/{name}")
    assert (answer.status, answer.code) == (400, "InvalidBucketName"), (answer.status, answer.code)


@test("abc", "a-b-c", "1234", "a.b.c", "x" * 63)
def good_name(c, name):
    name = f"{name}-{c.server.session}"[:63] if len(name) < 63 else (c.server.session + "x" * 63)[:63]
    c.s3.create_bucket(Bucket=name)
    c.s3.delete_bucket(Bucket=name)


@test()
def a_deleted_bucket_comes_back_empty(c):
    bucket = c.filled(["a"])
    c.s3.delete_object(Bucket=bucket, Key="a")
    c.s3.delete_bucket(Bucket=bucket)
    c.s3.create_bucket(Bucket=bucket)
    assert c.s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


@test()
def buckets_do_not_share_keys(c):
    one, other = c.filled(["a"]), c.new_bucket()
    expect(("NoSuchKey", 404), c.s3.get_object, Bucket=other, Key="a")
    assert c.get("a", Bucket=one) == b"a"


@test(
    ("policy", "NoSuchBucketPolicy"), ("cors", "NoSuchCORSConfiguration"), ("lifecycle", "NoSuchLifecycleConfiguration"),
    ("website", "NoSuchWebsiteConfiguration"), ("encryption", "ServerSideEncryptionConfigurationNotFoundError"), ("tagging", "NoSuchTagSet"),
    ("replication", "ReplicationConfigurationNotFoundError"), ("object-lock", "ObjectLockConfigurationNotFoundError"),
)
def a_configuration_that_is_not_there(c, resource, code):
    answer = c.send("GET", c.new_bucket(), query=f"{resource}=")
    assert (answer.status, answer.code) == (404, code), (answer.status, answer.code)


@test("policy", "lifecycle", "website", "encryption", "replication", "cors", "tagging")
def removing_a_configuration_that_is_not_there(c, resource):
    answer = c.send("DELETE", c.new_bucket(), query=f"{resource}=")
    assert answer.status == 204, (answer.status, answer.code)


@test("retention", "legal-hold")
def a_lock_where_the_bucket_has_none(c, resource):
    answer = c.send("GET", c.bucket, c.put(), query=f"{resource}=")
    assert (answer.status, answer.code) == (400, "InvalidRequest"), (answer.status, answer.code)


@test("versioning", "acl", "logging", "notification", "requestPayment")
def an_empty_configuration(c, resource):
    assert c.send("GET", c.bucket, query=f"{resource}=").status == 200


@test()
def versioning_is_off(c):
    assert "Status" not in c.s3.get_bucket_versioning(Bucket=c.bucket)


@test(
    ("versioning", b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"), ("website", b"<WebsiteConfiguration/>"),
    ("policy", b"{}"), ("replication", b"<ReplicationConfiguration/>"), ("object-lock", b"<ObjectLockConfiguration/>"),
    ("accelerate", b"<AccelerateConfiguration/>"),
)
def not_implemented(c, resource, body):
    bucket = c.new_bucket()
    headers = {"Content-MD5": md5(body)}
    answer = c.send("PUT", bucket, query=f"{resource}=", body=body, headers=headers)
    assert (answer.status, answer.code) == (501, "NotImplemented"), (answer.status, answer.code)


def md5(body):
    import base64
    import hashlib

    return base64.b64encode(hashlib.md5(body).digest()).decode()


@test()
def tagging(c):
    bucket = c.new_bucket()
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b c", "Value": "ü"}]
    c.s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    assert sorted(c.s3.get_bucket_tagging(Bucket=bucket)["TagSet"], key=lambda tag: tag["Key"]) == tags
    assert status(c.s3.delete_bucket_tagging(Bucket=bucket)) == 204
    expect(("NoSuchTagSet", 404), c.s3.get_bucket_tagging, Bucket=bucket)


@test()
def tagging_refuses_a_key_twice(c):
    tags = [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]
    expect(("InvalidTag", 400), c.s3.put_bucket_tagging, Bucket=c.bucket, Tagging={"TagSet": tags})


@test()
def post_of_a_bucket_without_a_query(c):
    answer = c.send("POST", c.bucket)
    assert answer.status in (400, 405, 411, 412, 501), (answer.status, answer.code)


@test()
def an_unknown_method(c):
    answer = c.send("PATCH", c.bucket)
    assert answer.status in (400, 405, 501), (answer.status, answer.code)
