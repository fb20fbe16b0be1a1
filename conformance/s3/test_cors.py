"""Cross-origin rules of buckets: their configuration, and what browsers are told."""

from conformance.s3.context import expect, status, test

RULE = {"AllowedOrigins": ["https://*.example.com", "http://one.test"], "AllowedMethods": ["GET", "PUT"], "AllowedHeaders": ["x-a", "x-b-*"],
        "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 60}


def ruled(c, *rules):
    bucket = c.new_bucket()
    c.s3.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": list(rules or [RULE])})
    return bucket


def preflight(c, bucket, origin, method, headers=None):
    return c.server.plain("OPTIONS", f"/{bucket}/k", {"Origin": origin, "Access-Control-Request-Method": method, **({"Access-Control-Request-Headers": headers} if headers else {})})


@test()
def put_get_delete(c):
    bucket = ruled(c)
    assert c.s3.get_bucket_cors(Bucket=bucket)["CORSRules"] == [RULE]
    assert status(c.s3.delete_bucket_cors(Bucket=bucket)) == 204
    expect(("NoSuchCORSConfiguration", 404), c.s3.get_bucket_cors, Bucket=bucket)


@test()
def an_unknown_method_is_refused(c):
    rule = {**RULE, "AllowedMethods": ["FETCH"]}
    expect((("InvalidRequest", "MalformedXML"), 400), c.s3.put_bucket_cors, Bucket=c.new_bucket(), CORSConfiguration={"CORSRules": [rule]})


@test(("by a star", "https://a.example.com", "GET", "x-a", 200), ("exactly", "http://one.test", "PUT", "x-a, x-b-1", 200), ("no headers asked", "http://one.test", "GET", None, 200),
      ("another origin", "http://two.test", "GET", None, 403), ("another method", "http://one.test", "DELETE", None, 403), ("another header", "http://one.test", "GET", "x-c", 403))
def preflights(c, _, origin, method, headers, wanted):
    if not hasattr(c, "_cors"):
        c._cors = ruled(c)
    answer = preflight(c, c._cors, origin, method, headers)
    assert answer.status == wanted, (answer.status, answer.code)
    if wanted == 200:
        assert answer.headers.get("access-control-allow-origin") == origin and method in answer.headers.get("access-control-allow-methods", ""), answer.headers
        assert answer.headers.get("access-control-max-age") == "60", answer.headers
    else:
        assert "access-control-allow-origin" not in answer.headers, answer.headers


@test()
def a_bucket_without_rules(c):
    answer = preflight(c, c.new_bucket(), "http://one.test", "GET")
    assert answer.status == 403, (answer.status, answer.code)


@test()
def answers_carry_the_headers(c):
    bucket = ruled(c)
    c.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    answer = c.send("GET", bucket, "k", headers={"Origin": "http://one.test"})
    assert answer.headers.get("access-control-allow-origin") == "http://one.test" and answer.headers.get("access-control-expose-headers") == "ETag", answer.headers
    other = c.send("GET", bucket, "k", headers={"Origin": "http://two.test"})
    assert other.status == 200 and "access-control-allow-origin" not in other.headers, other.headers


@test()
def a_rule_for_all_origins(c):
    bucket = ruled(c, {"AllowedOrigins": ["*"], "AllowedMethods": ["GET"]})
    answer = preflight(c, bucket, "http://anywhere.test", "GET")
    assert answer.status == 200 and answer.headers["access-control-allow-origin"] == "*", answer.headers
