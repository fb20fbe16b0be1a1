"""Access control lists: what is private may be said to be, and what cannot be opened is not said to be open."""

from conformance.s3.context import expect, status, test

PUBLIC = ("public-read", "public-read-write", "authenticated-read")
EVERYONE = {"Type": "Group", "URI": "http://acs.amazonaws.com/groups/global/AllUsers"}


def granted(c, bucket, grantee, permission="FULL_CONTROL"):
    """The list of a bucket with one more grant."""
    now = c.s3.get_bucket_acl(Bucket=bucket)
    return {"Owner": now["Owner"], "Grants": now["Grants"] + [{"Grantee": grantee, "Permission": permission}]}


@test()
def private_again(c):
    bucket, key = c.bucket, c.put()
    assert status(c.s3.put_bucket_acl(Bucket=bucket, ACL="private")) == 200
    assert status(c.s3.put_object_acl(Bucket=bucket, Key=key, ACL="private")) == 200


@test()
def a_list_is_written_back_as_it_was_read(c):
    bucket, key = c.bucket, c.put()
    now = c.s3.get_bucket_acl(Bucket=bucket)
    assert status(c.s3.put_bucket_acl(Bucket=bucket, AccessControlPolicy={"Owner": now["Owner"], "Grants": now["Grants"]})) == 200
    now = c.s3.get_object_acl(Bucket=bucket, Key=key)
    assert status(c.s3.put_object_acl(Bucket=bucket, Key=key, AccessControlPolicy={"Owner": now["Owner"], "Grants": now["Grants"]})) == 200


@test()
def owners_are_the_same_in_lists_of_keys(c):
    bucket = c.filled(["a"])
    owner = c.s3.get_object_acl(Bucket=bucket, Key="a")["Owner"]
    assert c.s3.list_objects(Bucket=bucket)["Contents"][0]["Owner"] == owner == c.s3.get_bucket_acl(Bucket=bucket)["Owner"]


@test()
def an_unknown_canned_list(c):
    answer = c.send("PUT", c.bucket, query="acl=", headers={"x-amz-acl": "public-ready"})
    assert (answer.status, answer.code) == (400, "InvalidArgument"), (answer.status, answer.code)


@test()
def a_grant_to_nobody(c):
    expect(("InvalidArgument", 400), c.s3.put_bucket_acl, Bucket=c.bucket, AccessControlPolicy=granted(c, c.bucket, {"ID": "_nobody", "Type": "CanonicalUser"}))


@test()
def a_grant_to_an_address_of_nobody(c):
    nobody = {"EmailAddress": "nobody@example.invalid", "Type": "AmazonCustomerByEmail"}
    expect(("UnresolvableGrantByEmailAddress", 400), c.s3.put_bucket_acl, Bucket=c.bucket, AccessControlPolicy=granted(c, c.bucket, nobody))


@test(*PUBLIC)
def opening_happens_or_is_refused(c, name):
    # Whether a server has such lists or not: what it says afterwards is what it did.
    for target, get, arguments in [
        (c.s3.put_bucket_acl, c.s3.get_bucket_acl, {"Bucket": c.new_bucket()}),
        (c.s3.put_object_acl, c.s3.get_object_acl, {"Bucket": c.bucket, "Key": c.put()}),
    ]:
        refused = fails(target, ACL=name, **arguments)
        assert (len(get(**arguments)["Grants"]) == 1) is refused, (name, arguments)


@test()
def a_grant_to_everyone_happens_or_is_refused(c):
    bucket = c.new_bucket()
    wanted = granted(c, bucket, EVERYONE, "READ")
    refused = fails(c.s3.put_bucket_acl, Bucket=bucket, AccessControlPolicy=wanted)
    assert len(c.s3.get_bucket_acl(Bucket=bucket)["Grants"]) == (1 if refused else 2)


@test()
def a_list_of_nobody_happens_or_is_refused(c):
    bucket = c.new_bucket()
    owner = c.s3.get_bucket_acl(Bucket=bucket)["Owner"]
    refused = fails(c.s3.put_bucket_acl, Bucket=bucket, AccessControlPolicy={"Owner": owner, "Grants": []})
    assert len(c.s3.get_bucket_acl(Bucket=bucket)["Grants"]) == (1 if refused else 0)


def fails(call, **arguments):
    try:
        call(**arguments)
    except call.__self__.exceptions.ClientError:
        return True
    return False


@test(*PUBLIC)
def a_bucket_that_blocks_public_lists(c, name):
    bucket = c.new_bucket()
    block = {"BlockPublicAcls": True, "IgnorePublicAcls": False, "BlockPublicPolicy": False, "RestrictPublicBuckets": False}
    c.s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=block)
    expect(("AccessDenied", 403), c.s3.put_bucket_acl, Bucket=bucket, ACL=name)
    expect(("AccessDenied", 403), c.s3.put_object, Bucket=bucket, Key="a", Body=b"", ACL=name)
    assert status(c.s3.put_object(Bucket=bucket, Key="b", Body=b"", ACL="private")) == 200
    expect(("AccessDenied", 403), c.s3.put_object_acl, Bucket=bucket, Key="b", ACL=name)
    expect(("AccessDenied", 403), c.s3.copy_object, Bucket=bucket, Key="c", CopySource={"Bucket": bucket, "Key": "b"}, ACL=name)
    expect(("AccessDenied", 403), c.s3.create_multipart_upload, Bucket=bucket, Key="d", ACL=name)


@test()
def a_bucket_whose_owner_owns_all(c):
    bucket = c.server.bucket_name()
    c.s3.create_bucket(Bucket=bucket, ObjectOwnership="BucketOwnerEnforced")
    c.buckets.append(bucket)
    expect(("AccessControlListNotSupported", 400), c.s3.put_bucket_acl, Bucket=bucket, ACL="public-read")
    expect(("AccessControlListNotSupported", 400), c.s3.put_object, Bucket=bucket, Key="a", Body=b"", ACL="public-read")
