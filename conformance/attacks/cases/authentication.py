"""Who is asking: what a signature covers, and what may be read before there is one."""

import base64
import hashlib

from conformance.attacks.case import attack
from conformance.attacks.peer import Peer, form, form_fields, path_of, query_text
from conformance.attacks.node import Key

SECRET = b"what only the operator may read"
DISGUISES = [
    ("plain", "X-Amz-Signature=x"),
    ("escaped", "%58-Amz-Signature=x"),
    ("lower case", "x-amz-signature=x"),
    ("with an algorithm", "X-Amz-Signature=x&X-Amz-Algorithm=AWS4-HMAC-SHA256"),
    ("none", "x=x"),
]


def secret_of(world):
    world.root.make_bucket("private")
    world.root.put("private", "secret", SECRET)


@attack("1", *DISGUISES)
def copy_by_an_address_of_version_2(world, disguise):
    """Whoever has one address for uploading adds `x-amz-copy-source` to it: no bytes of the source may arrive."""
    secret_of(world)
    address = world.root.address_2("PUT", path_of("mallory", "guest"))
    for more in (f"&{disguise}&x-amz-copy-source=%2Fprivate%2Fsecret", f"&x-amz-copy-source=private/secret&{disguise}"):
        answer = world.anonymous.plain("PUT", address + more)
        assert b"CopyObjectResult" not in answer.body, answer.body
        assert SECRET not in world.root.get("mallory", "guest").body, "the secret was copied"
    first, rest = address.split("?")
    world.anonymous.plain("PUT", f"{first}?{disguise}&x-amz-copy-source=%2Fprivate%2Fsecret&{rest}")
    assert SECRET not in world.root.get("mallory", "guest").body, "the secret was copied"


@attack("found since", *DISGUISES)
def part_copy_by_an_address_of_version_2(world, disguise):
    """The same for a part of an upload."""
    secret_of(world)
    upload = world.root.send("POST", "mallory", "guest", [("uploads", "")]).body
    upload = upload.split(b"<UploadId>")[1].split(b"<")[0].decode()
    query = [("partNumber", "1"), ("uploadId", upload)]
    address = world.root.address_2("PUT", path_of("mallory", "guest"), query)
    answer = world.anonymous.plain("PUT", f"{address}&{disguise}&x-amz-copy-source=%2Fprivate%2Fsecret")
    assert b"CopyPartResult" not in answer.body, answer.body
    parts = world.root.send("GET", "mallory", "guest", [("uploadId", upload)]).body
    assert b"<Size>%d</Size>" % len(SECRET) not in parts, parts


@attack("found since", *DISGUISES)
def metadata_and_tags_by_an_address_of_version_2(world, disguise):
    """The holder of an address decides about the bytes, not about headers that nobody signed."""
    address = world.root.address_2("PUT", path_of("mallory", "guest"))
    more = "&x-amz-meta-owner=me&x-amz-tagging=public%3Dyes&x-amz-storage-class=REDUCED_REDUNDANCY"
    answer = world.anonymous.plain("PUT", f"{address}&{disguise}{more}", body=b"body")
    kept = world.root.send("HEAD", "mallory", "guest")
    assert "x-amz-meta-owner" not in kept.headers, (answer.status, kept.headers)
    assert "x-amz-storage-class" not in kept.headers, (answer.status, kept.headers)
    assert b"public" not in world.root.send("GET", "mallory", "guest", [("tagging", "")]).body


@attack("1", ("2 and 4", "2"), ("4 and 2", "4"))
def two_signatures_in_one_address(world, kind):
    """Which one counts is not for the sender to choose: such an address is refused."""
    path = path_of("victim", "small")
    if kind == "2":
        address = world.root.address_2("GET", path) + "&X-Amz-Signature=x&X-Amz-Algorithm=AWS4-HMAC-SHA256"
    else:
        address = world.root.address_4("GET", path) + "&Signature=x&AWSAccessKeyId=root&Expires=9999999999"
    answer = world.anonymous.plain("GET", address)
    assert answer.status in (400, 403), answer.status


@attack("1")
def an_address_and_a_header(world):
    """A presigned address with an Authorization header of another key."""
    address = world.root.address_2("GET", path_of("victim", "small"))
    headers = world.mallory.signed("GET", path_of("victim", "small"))
    for target in (address, world.root.address_4("GET", path_of("victim", "small"))):
        answer = world.anonymous.plain("GET", target, headers)
        assert answer.status in (400, 403), answer.status


@attack("16", ("ownershipControls",), ("publicAccessBlock",), ("encryption",), ("object-lock",), ("intelligent-tiering",))
def a_setting_by_an_address_of_version_2(world, setting):
    """A signature of version 2 for `PUT /bucket` is none for a setting of the bucket that it does not cover."""
    body = {
        "ownershipControls": b"<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>",
        "publicAccessBlock": b"<PublicAccessBlockConfiguration><BlockPublicAcls>false</BlockPublicAcls></PublicAccessBlockConfiguration>",
    }.get(setting, b"<X/>")
    before = world.root.send("GET", "mallory", query=[(setting, "")])
    address = world.root.address_2("PUT", path_of("mallory"))
    answer = world.anonymous.plain("PUT", f"{address}&{setting}", body=body)
    assert answer.status >= 400, answer.status
    after = world.root.send("GET", "mallory", query=[(setting, "")])
    assert (before.status, before.code) == (after.status, after.code), "the setting was changed"


@attack("16", ("attributes", "GET", "small", "attributes"), ("fragment", "POST", "", "pushdowndb-fragment"), ("retention", "PUT", "small", "retention"))
def an_operation_by_an_address_of_version_2(world, method, key, query):
    """Nor for another operation."""
    address = world.root.address_2(method, path_of("victim", key))
    answer = world.anonymous.plain(method, f"{address}&{query}", {"x-amz-object-attributes": "ObjectSize"} if query == "attributes" else {})
    # What the node does not know at all may also be said to be so.
    assert answer.status in ((400, 403, 501) if query == "retention" else (400, 403)), answer.status


@attack("17", ("%58-Amz-Expires",), ("X-Amz-E%78pires",), ("X-Amz-Expires",), ("%58%2d%41mz-Expires",))
def an_address_for_a_month(world, name):
    """Addresses are good for seven days at most, however the parameter is written."""
    for seconds in ("604801", "3000000", "99999999999999999999"):
        address = world.root.address_4("GET", path_of("victim", "small"), expires=seconds, expires_name=name)
        answer = world.anonymous.plain("GET", address)
        assert answer.status in (400, 403), (seconds, answer.status)
    good = world.root.address_4("GET", path_of("victim", "small"), expires="600")
    assert world.anonymous.plain("GET", good).status == 200


TYPES = [
    ("suffix", "multipart/form-datax"), ("suffix and boundary", "multipart/form-data-x; boundary=b"),
    ("upper case", "MULTIPART/FORM-DATAX"), ("exact", "multipart/form-data; boundary=b"), ("no boundary", "multipart/form-data"),
]


@attack("13", *TYPES)
def an_old_request_that_looks_like_a_form(world, kind):
    """A signed DeleteObjects of last week, captured, with the type of a form: it is as old as without."""
    body = b"<Delete><Object><Key>small</Key></Object></Delete>"
    headers = {"content-type": kind, "content-md5": base64.b64encode(hashlib.md5(body).digest()).decode()}
    headers = world.root.signed("POST", path_of("victim"), [("delete", "")], headers, hashlib.sha256(body).hexdigest(), age=int(6.9 * 86400))
    answer = world.anonymous.plain("POST", path_of("victim") + "?delete=", headers, body)
    assert answer.status in (400, 403), answer.status
    assert world.root.get("victim", "small").status == 200, "it was deleted"


@attack("13", *TYPES)
def a_wrong_digest_that_looks_like_a_form(world, kind):
    """Content-MD5 is checked whatever the type says."""
    body = b"<Delete><Object><Key>small</Key></Object></Delete>"
    headers = {"content-type": kind, "content-md5": base64.b64encode(hashlib.md5(b"other").digest()).decode()}
    answer = world.root.send("POST", "victim", query=[("delete", "")], headers=headers, body=body)
    assert answer.status in (400, 403), answer.status
    assert world.root.get("victim", "small").status == 200, "it was deleted"


ALLOWED = "<Tagging><TagSet><Tag><Key>a</Key><Value>allowed</Value></Tag></TagSet></Tagging>"
FORBIDDEN = "<Tagging><TagSet><Tag><Key>a</Key><Value>forbidden</Value></Tag></TagSet></Tagging>"


@attack("suspected", ("first", 0), ("last", -1))
def a_form_with_two_fields_of_tags(world, place):
    """A policy allows certain tags; a second field of that name may not carry others past it."""
    fields = form_fields(world.root, "mallory", "tagged", more=[("tagging", ALLOWED)])
    forbidden = ("tagging", FORBIDDEN)
    fields = [forbidden, *fields] if place == 0 else [*fields, forbidden]
    headers, body = form(fields)
    world.anonymous.plain("POST", "/mallory", headers, body)
    assert b"forbidden" not in world.root.send("GET", "mallory", "tagged", [("tagging", "")]).body, "forbidden tags were kept"


TWICE = [
    ("key", "key", "elsewhere"), ("metadata", "x-amz-meta-a", "forbidden"), ("policy", "policy", "e30="), ("signature", "x-amz-signature", "0" * 64),
    ("type", "Content-Type", "text/forbidden"),
]


@attack("suspected", *TWICE)
def a_form_with_a_field_twice(world, name, value):
    """Whichever of the two counts, what the policy does not allow is not kept."""
    for in_front in (True, False):
        more = {"x-amz-meta-a": [("x-amz-meta-a", "allowed")], "Content-Type": [("Content-Type", "text/allowed")]}.get(name, [])
        fields = form_fields(world.root, "mallory", "twice", more=more)
        fields = [(name, value), *fields] if in_front else [*fields, (name, value)]
        headers, body = form(fields)
        world.anonymous.plain("POST", "/mallory", headers, body)
        kept = world.root.send("HEAD", "mallory", "twice")
        assert world.root.send("HEAD", "mallory", "elsewhere").status == 404, "another key was written"
        assert kept.headers.get("x-amz-meta-a") != "forbidden" and kept.headers.get("content-type") != "text/forbidden", kept.headers


LARGE = {"content-length": str(1 << 30), "content-md5": base64.b64encode(hashlib.md5(b"").digest()).decode()}
BODIES = [
    ("object", "PUT", "/victim/new", {}), ("part", "PUT", "/victim/new?partNumber=1&uploadId=x", {}), ("tags", "PUT", "/victim/small?tagging", {}),
    ("bucket tags", "PUT", "/victim?tagging", {}), ("cors", "PUT", "/victim?cors", {}), ("delete", "POST", "/victim?delete", {}),
    ("select", "POST", "/victim/rows.csv?select&select-type=2", {}), ("fragment", "POST", "/victim?pushdowndb-fragment", {}),
    ("complete", "POST", "/victim/new?uploadId=x", {}), ("public access", "PUT", "/victim?publicAccessBlock", {}),
    ("ownership", "PUT", "/victim?ownershipControls", {}), ("bucket", "PUT", "/new-bucket", {}), ("access list", "PUT", "/victim/small?acl", {}),
]


@attack("2", *BODIES)
def an_anonymous_body_is_not_waited_for(world, method, target, headers):
    """The refusal comes before the body does, so that nobody holds the node by sending it slowly."""
    length = {**LARGE, "content-length": str(1 << 20)}
    with world.anonymous.begin(method, target, {**length, **headers}) as exchange:
        exchange.try_to_send(b"<")
        answer = exchange.answer(3)
    assert answer.status in (400, 403, 411), answer.status


@attack("2", *BODIES)
def a_body_with_a_wrong_signature_is_not_waited_for(world, method, target, headers):
    """Nor is that of a key that does not exist or has another secret."""
    path, _, query = target.partition("?")
    pairs = [tuple(pair.split("=")) if "=" in pair else (pair, "") for pair in query.split("&") if pair]
    for key in (Key("nobody", "x"), Key("victim", "wrong")):
        peer = Peer(world.node, key)
        made = peer.signed(method, path, pairs, {"content-md5": LARGE["content-md5"], **headers}, hashlib.sha256(b"x").hexdigest())
        with peer.begin(method, path + ("?" + query_text(pairs) if pairs else ""), {**made, "content-length": str(1 << 20)}) as exchange:
            exchange.try_to_send(b"<")
            answer = exchange.answer(3)
        assert answer.status in (400, 403), (key, answer.status)


@attack("2", *[body for body in BODIES if body[0] not in ("select", "fragment", "bucket")])
def a_body_that_its_key_may_not_send_is_not_waited_for(world, method, target, headers):
    """The reader of a bucket may not write there, and hears so before it sends anything."""
    path, _, query = target.partition("?")
    pairs = [tuple(pair.split("=")) if "=" in pair else (pair, "") for pair in query.split("&") if pair]
    made = world.reader.signed(method, path, pairs, {"content-md5": LARGE["content-md5"], **headers}, hashlib.sha256(b"x").hexdigest())
    with world.reader.begin(method, path + ("?" + query_text(pairs) if pairs else ""), {**made, "content-length": str(1 << 20)}) as exchange:
        exchange.try_to_send(b"<")
        answer = exchange.answer(3)
    assert answer.status in (400, 403, 404), answer.status
