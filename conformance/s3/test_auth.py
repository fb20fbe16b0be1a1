"""Who may what: signatures, clocks, anonymous requests, presigned URLs, keys with fewer rights."""

import time
from datetime import datetime, timedelta, timezone
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from conformance.harness.report import Skip
from conformance.harness.server import failure
from conformance.s3.context import expect, status, test


@test()
def wrong_secret(c):
    other = c.server.client(secret_key="wrong")
    expect(("SignatureDoesNotMatch", 403), other.list_objects_v2, Bucket=c.bucket)


@test()
def unknown_key(c):
    other = c.server.client(access_key="NOBODY", secret_key="x")
    expect(("InvalidAccessKeyId", 403), other.list_objects_v2, Bucket=c.bucket)


@test(("list buckets", "GET", False), ("list objects", "GET", None), ("get", "GET", True), ("head", "HEAD", True), ("put", "PUT", True), ("delete", "DELETE", True))
def anonymous(c, _, method, object_):
    path = "/" if object_ is False else c.server.path(c.bucket, c.put() if object_ else "")
    answer = c.server.plain(method, path, body=b"x" if method == "PUT" else None)
    assert answer.status == 403 and (method == "HEAD" or answer.code == "AccessDenied"), (answer.status, answer.code)


@test()
def anonymous_does_not_learn_what_exists(c):
    answers = {c.server.plain("GET", c.server.path(c.bucket, key)).status for key in (c.put(), c.key())}
    assert answers == {403}, answers


@test("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=x", "Basic dXNlcjpwYXNz", "Bearer x", "AWS a:b", "", "AWS4-HMAC-SHA256 Credential=a/b/c/d/e, SignedHeaders=host, Signature=zz")
def authorization_that_is_none(c, value):
    answer = c.server.plain("GET", "/", {"Authorization": value, "x-amz-date": "20200101T000000Z"})
    assert answer.status in (400, 403), (answer.status, answer.code)


@test(("an hour ago", -3600, 403), ("in an hour", 3600, 403), ("a minute ago", -60, 200), ("in a minute", 60, 200), ("ten minutes ago", -600, 200))
def clocks(c, _, seconds, wanted):
    answer = with_clock(c, datetime.now(timezone.utc) + timedelta(seconds=seconds))
    assert answer.status == wanted, (answer.status, answer.code)
    if wanted == 403:
        assert answer.code == "RequestTimeTooSkewed", answer.code


def with_clock(c, moment):
    """Signs by hand: botocore always takes the real time."""
    import hashlib
    import hmac

    stamp, day = moment.strftime("%Y%m%dT%H%M%SZ"), moment.strftime("%Y%m%d")
    empty = hashlib.sha256(b"").hexdigest()
    headers = {"host": c.server.netloc, "x-amz-content-sha256": empty, "x-amz-date": stamp}
    names = ";".join(sorted(headers))
    canonical = "\n".join(["GET", "/", "", *[f"{name}:{headers[name]}" for name in sorted(headers)], "", names, empty])
    scope = f"{day}/us-east-1/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + c.server.secret_key).encode()
    for part in (day, "us-east-1", "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={c.server.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return c.server.plain("GET", "/", headers)


@test()
def a_header_changed_on_the_way(c):
    path = c.server.path(c.bucket, c.key())
    headers = c.server.signed_headers("PUT", path, {"x-amz-meta-a": "1"}, b"x")
    headers["x-amz-meta-a"] = "2"
    answer = c.server.plain("PUT", path, headers, b"x")
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch"), (answer.status, answer.code)


@test()
def a_query_changed_on_the_way(c):
    headers = c.server.signed_headers("GET", c.server.path(c.bucket, query={"prefix": "a"}))
    answer = c.server.plain("GET", c.server.path(c.bucket, query={"prefix": "b"}), headers)
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch"), (answer.status, answer.code)


@test()
def a_path_changed_on_the_way(c):
    key = c.put()
    headers = c.server.signed_headers("GET", c.server.path(c.bucket, c.key()))
    answer = c.server.plain("GET", c.server.path(c.bucket, key), headers)
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch"), (answer.status, answer.code)


@test()
def a_signature_changed_in_one_letter(c):
    headers = c.server.signed_headers("GET", "/")
    last = headers["Authorization"][-1]
    headers["Authorization"] = headers["Authorization"][:-1] + ("0" if last != "0" else "1")
    answer = c.server.plain("GET", "/", headers)
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch"), (answer.status, answer.code)


@test()
def unsigned_payload(c):
    key = c.key()
    answer = c.send("PUT", c.bucket, key, headers={"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}, body=b"body")
    assert answer.status == 200 and c.get(key) == b"body", (answer.status, answer.code)


def presigned(c, operation, key, expires=60, client=None, **more):
    return (client or c.s3).generate_presigned_url(operation, Params={"Bucket": c.bucket, "Key": key, **more}, ExpiresIn=expires)


def fetch(c, url, method="GET", body=None, headers=None):
    parts = urlsplit(url)
    return c.server.plain(method, urlunsplit(("", "", parts.path, parts.query, "")), headers, body)


@test()
def presigned_get(c):
    answer = fetch(c, presigned(c, "get_object", c.put(b"body")))
    assert (answer.status, answer.body) == (200, b"body"), (answer.status, answer.code)


@test()
def presigned_get_of_an_odd_key(c):
    key = c.put(b"body", c.key() + "/a b+c%ü&=?")
    answer = fetch(c, presigned(c, "get_object", key))
    assert (answer.status, answer.body) == (200, b"body"), (answer.status, answer.code)


@test()
def presigned_get_with_a_range(c):
    answer = fetch(c, presigned(c, "get_object", c.put(b"body")), headers={"Range": "bytes=1-2"})
    assert (answer.status, answer.body) == (206, b"od")


@test()
def presigned_get_with_overrides(c):
    answer = fetch(c, presigned(c, "get_object", c.put(b"body"), ResponseContentType="text/x-y"))
    assert answer.headers["content-type"] == "text/x-y", answer.headers


@test()
def presigned_head(c):
    answer = fetch(c, presigned(c, "head_object", c.put(b"body")), "HEAD")
    assert (answer.status, answer.headers["content-length"]) == (200, "4")


@test()
def presigned_put(c):
    key = c.key()
    answer = fetch(c, presigned(c, "put_object", key), "PUT", b"body")
    assert answer.status == 200 and c.get(key) == b"body", (answer.status, answer.code)


@test()
def presigned_put_with_a_signed_header(c):
    key = c.key()
    url = presigned(c, "put_object", key, ContentType="text/x")
    assert fetch(c, url, "PUT", b"body", {"Content-Type": "text/y"}).code == "SignatureDoesNotMatch"
    assert fetch(c, url, "PUT", b"body", {"Content-Type": "text/x"}).status == 200 and c.head(key)["ContentType"] == "text/x"


def signed_url(c, method, key, query="", headers=None):
    """Presigned by version 4, with more in the query than boto3 puts there."""
    from botocore.auth import S3SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    url = c.server.endpoint.rstrip("/") + c.server.path(c.bucket, key) + (f"?{query}" if query else "")
    request = AWSRequest(method=method, url=url, headers=headers or {})
    S3SigV4QueryAuth(Credentials(c.server.access_key, c.server.secret_key), "s3", "us-east-1", expires=60).add_auth(request)
    return request.url


@test()
def presigned_put_with_metadata_in_the_address(c):
    """As SDKs for JavaScript and Ruby sign them."""
    key = c.key()
    answer = fetch(c, signed_url(c, "PUT", key, "x-amz-meta-colour=blue&x-amz-tagging=a%3Db"), "PUT", b"body")
    assert answer.status == 200, (answer.status, answer.code)
    assert c.head(key)["Metadata"] == {"colour": "blue"}
    assert c.s3.get_object_tagging(Bucket=c.bucket, Key=key)["TagSet"] == [{"Key": "a", "Value": "b"}]


@test(("a copy", "x-amz-copy-source"), ("metadata", "x-amz-meta-colour"))
def presigned_put_with_an_unsigned_header(c, _, name):
    """Whoever has the address may not read what its signer may read."""
    secret, key = c.put(b"secret"), c.key()
    value = c.server.path(c.bucket, secret) if "copy" in name else "blue"
    answer = fetch(c, signed_url(c, "PUT", key), "PUT", b"", {name: value})
    assert (answer.status, answer.code) == (403, "AccessDenied"), (answer.status, answer.code)
    expect(("404", 404), c.head, key)


@test()
def presigned_delete(c):
    key = c.put()
    assert fetch(c, presigned(c, "delete_object", key), "DELETE").status == 204
    expect(("404", 404), c.head, key)


@test()
def presigned_for_another_method(c):
    answer = fetch(c, presigned(c, "get_object", c.put()), "PUT", b"x")
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch"), (answer.status, answer.code)


@test()
def presigned_that_has_expired(c):
    url = presigned(c, "get_object", c.put(), expires=1)
    time.sleep(2.1)
    answer = fetch(c, url)
    assert (answer.status, answer.code) == (403, "AccessDenied"), (answer.status, answer.code)


@test("0", "-1", "-1000")
def presigned_for_no_time(c, seconds):
    answer = fetch(c, presigned(c, "put_object", c.key(), expires=int(seconds)), "PUT", b"body")
    assert (answer.status, answer.code) == (403, "AccessDenied"), (answer.status, answer.code)


@test()
def presigned_for_too_long(c):
    url = presigned(c, "get_object", c.put(), expires=604_801)
    answer = fetch(c, url)
    assert answer.status in (400, 403), (answer.status, answer.code)


@test("X-Amz-Expires", "Response", "X-Amz-Signature", "X-Amz-Credential", "X-Amz-Date")
def presigned_and_changed(c, name):
    parts = urlsplit(presigned(c, "get_object", c.put(b"body")))
    query = dict(parse_qsl(parts.query))
    changed = {"X-Amz-Expires": "3600", "X-Amz-Signature": "0" * 64, "X-Amz-Credential": "x/20200101/us-east-1/s3/aws4_request", "X-Amz-Date": "20200101T000000Z"}
    if name == "Response":
        query["response-content-type"] = "text/html"
    else:
        query[name] = changed[name]
    answer = c.server.plain("GET", f"{parts.path}?{urlencode(query)}")
    assert answer.status in (400, 403), (answer.status, answer.code)


@test()
def presigned_with_a_wrong_secret(c):
    answer = fetch(c, presigned(c, "get_object", c.put(), client=c.server.client(secret_key="wrong")))
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch"), (answer.status, answer.code)


@test()
def signature_version_2_is_refused(c):
    old = c.server.client(signature_version="s3")
    code, http = failure(old.list_objects, Bucket=c.bucket)
    assert http in (400, 403), (code, http)


@test()
def virtual_host_without_a_domain_is_harmless(c):
    """A Host that the server does not know means path style: nothing is served that the path does not name."""
    key = c.put(b"body")
    answer = c.server.send("GET", f"/{key}", {"Host": f"{c.bucket}.elsewhere.example"})
    assert answer.status in (403, 404) or answer.body == b"body", (answer.status, answer.code)


@test()
def virtual_host_style(c):
    domain = c.server.domain
    if not domain:
        raise Skip("no --domain given: the server's domain for virtual-host style")
    key = c.put(b"body")
    answer = c.server.send("GET", f"/{key}", {"Host": f"{c.bucket}.{domain}"})
    assert (answer.status, answer.body) == (200, b"body"), (answer.status, answer.code)
    listed = c.server.send("GET", "/?list-type=2", {"Host": f"{c.bucket}.{domain}"})
    assert listed.status == 200 and key.encode() in listed.body
    put = c.server.send("PUT", f"/{key}-2", {"Host": f"{c.bucket}.{domain}"}, b"put")
    assert put.status == 200 and c.get(f"{key}-2") == b"put"
    path_style = c.server.send("GET", f"/{c.bucket}/{key}", {"Host": domain})
    assert (path_style.status, path_style.body) == (200, b"body"), (path_style.status, path_style.code)


def limited(c):
    """A client with the key that may read one bucket."""
    if not c.limited:
        raise Skip("no --limited-access-key given: a key that may only read --limited-bucket")
    access, secret, bucket = c.limited
    if not getattr(c, "_limited", None):
        if bucket not in [entry["Name"] for entry in c.s3.list_buckets()["Buckets"]]:
            c.s3.create_bucket(Bucket=bucket)
            c.buckets.append(bucket)
        c.s3.put_object(Bucket=bucket, Key="k", Body=b"body")
        c._limited = c.server.client(access, secret)
    return c._limited, bucket


@test()
def a_read_only_key_reads(c):
    client, bucket = limited(c)
    assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == b"body"
    assert status(client.head_object(Bucket=bucket, Key="k")) == 200 and client.list_objects_v2(Bucket=bucket)["KeyCount"] >= 1


@test(
    ("put_object", {"Key": "x", "Body": b"x"}), ("delete_object", {"Key": "k"}), ("create_multipart_upload", {"Key": "x"}), ("delete_bucket", {}),
    ("delete_objects", {"Delete": {"Objects": [{"Key": "k"}]}}), ("put_object_tagging", {"Key": "k", "Tagging": {"TagSet": []}}),
)
def a_read_only_key_does_not_write(c, operation, arguments):
    client, bucket = limited(c)
    try:
        answer = getattr(client, operation)(Bucket=bucket, **arguments)
    except client.exceptions.ClientError as error:
        assert error.response["Error"]["Code"] == "AccessDenied" and status(error.response) == 403, error
    else:
        # DeleteObjects tells of each key.
        assert [entry["Code"] for entry in answer.get("Errors", [])] == ["AccessDenied"], answer
    assert c.get("k", Bucket=bucket) == b"body"


@test()
def a_read_only_key_does_not_copy_into(c):
    client, bucket = limited(c)
    expect(("AccessDenied", 403), client.copy_object, Bucket=bucket, Key="x", CopySource={"Bucket": bucket, "Key": "k"})


@test()
def a_read_only_key_selects(c):
    client, bucket = limited(c)
    answer = client.select_object_content(Bucket=bucket, Key="k", Expression="SELECT * FROM S3Object", ExpressionType="SQL", InputSerialization={"CSV": {}},
                                          OutputSerialization={"CSV": {}})
    assert b"".join(event.get("Records", {}).get("Payload", b"") for event in answer["Payload"]) == b"body\n"


@test()
def another_bucket_is_closed_to_a_limited_key(c):
    client, _ = limited(c)
    key = c.put()
    expect(("AccessDenied", 403), client.get_object, Bucket=c.bucket, Key=key)
    expect(("AccessDenied", 403), client.list_objects_v2, Bucket=c.bucket)
    expect(("AccessDenied", 403), client.create_bucket, Bucket=c.server.bucket_name())


@test()
def a_limited_key_does_not_see_other_buckets(c):
    client, bucket = limited(c)
    names = [entry["Name"] for entry in client.list_buckets()["Buckets"]]
    assert names == [bucket], names
