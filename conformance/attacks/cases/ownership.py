"""Rights are those of the moment a change becomes visible: buckets change hands and keys are withdrawn meanwhile."""

import base64
import hashlib
import threading
import time

from conformance.attacks.case import attack
from conformance.attacks.node import GRANTS, MALLORY
from conformance.attacks.peer import form, form_fields

BUCKET = "changes-hands"
TAGS = b"<Tagging><TagSet><Tag><Key>a</Key><Value>of mallory</Value></Tag></TagSet></Tagging>"
RULES = (
    b"<CORSConfiguration><CORSRule><AllowedOrigin>http://of.mallory</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>"
)
DELETE = b"<Delete><Object><Key>kept</Key></Object></Delete>"
OWNERSHIP = b"<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>"
ACCESS = (
    b"<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls>"
    b"<BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>"
)
BODY = b"of mallory" * 1000

# What is sent by halves: a name, method, key, query, body.
HALVES = [
    ("put", "PUT", "kept", [], BODY), ("put of a new key", "PUT", "new", [], BODY), ("delete objects", "POST", "", [("delete", "")], DELETE),
    ("cors", "PUT", "", [("cors", "")], RULES), ("bucket tags", "PUT", "", [("tagging", "")], TAGS), ("tags", "PUT", "kept", [("tagging", "")], TAGS),
    ("ownership", "PUT", "", [("ownershipControls", "")], OWNERSHIP), ("public access", "PUT", "", [("publicAccessBlock", "")], ACCESS),
]
# Each with a digest that the body is held against, and without one.
HALVES = [(name + suffix, *rest, has_digest) for name, *rest in HALVES for suffix, has_digest in ((", digest", True), ("", False))]


def half_sent(world, method, key, query, body, has_digest=False):
    """A request whose last byte is missing, past the point where its rights were looked at."""
    headers = {"content-md5": base64.b64encode(hashlib.md5(body).digest()).decode()} if has_digest else {}
    exchange = world.keep(world.mallory.half(method, BUCKET, key, query, headers, body=body, timeout=8))
    exchange.send(body[:-1])
    time.sleep(0.3)
    return exchange


def state(peer):
    """Everything that the owner of the bucket sees of it."""
    settings = [peer.send("GET", BUCKET, query=[(name, "")]) for name in ("cors", "tagging", "ownershipControls", "publicAccessBlock", "uploads")]
    objects = [peer.get(BUCKET, key) for key in ("kept", "new", "copy", "form")]
    tags = peer.send("GET", BUCKET, "kept", [("tagging", "")])
    found = [(answer.status, answer.code if answer.status >= 400 else answer.body) for answer in [*settings, *objects, tags]]
    return [(status, body[:400]) for status, body in found]


def change_hands(world):
    """Mallory deletes its bucket, and another tenant makes one of that name."""
    for key in ("kept", "new", "source"):
        world.mallory.send("DELETE", BUCKET, key)
    answer = world.mallory.send("DELETE", BUCKET)
    assert answer.status == 204, f"the bucket is not deleted: {answer.status} {answer.code}"
    world.other.make_bucket(BUCKET)
    world.other.put(BUCKET, "kept", b"of another tenant")
    return state(world.other)


@attack("8", *HALVES)
def a_change_of_a_bucket_that_changed_hands(world, method, key, query, body, has_digest):
    """Half of a request, then the bucket becomes another tenant's, then the rest."""
    world.mallory.make_bucket(BUCKET)
    world.mallory.put(BUCKET, "kept", b"before")
    exchange = half_sent(world, method, key, query, body, has_digest)
    before = change_hands(world)
    exchange.try_to_send(body[-1:])
    answer = exchange.answer()
    after = state(world.other)
    assert after == before, f"the bucket of another tenant was changed ({answer.status}): {[pair for pair in zip(before, after) if pair[0] != pair[1]]}"
    if method == "POST":
        assert b"<Deleted>" not in answer.body, answer.body
    else:
        assert answer.status >= 400 or answer.status == 0, f"answered {answer.status}"


@attack("18", *HALVES)
def a_change_by_a_key_that_was_withdrawn(world, method, key, query, body, has_digest):
    """Half of a request, then the operator withdraws its key, then the rest."""
    world.mallory.make_bucket(BUCKET)
    world.mallory.put(BUCKET, "kept", b"before")
    before = state(world.root)
    exchange = half_sent(world, method, key, query, body, has_digest)
    world.node.set_grants({of: rights for of, rights in GRANTS.items() if of != MALLORY})
    exchange.try_to_send(body[-1:])
    answer = exchange.answer()
    after = state(world.root)
    assert after == before, f"a withdrawn key changed something ({answer.status}): {[pair for pair in zip(before, after) if pair[0] != pair[1]]}"
    assert b"<Deleted>" not in answer.body and (method == "POST" or answer.status >= 400 or answer.status == 0), answer.status


@attack("18", *HALVES[:8])
def a_change_by_a_key_that_may_only_read_now(world, method, key, query, body, has_digest):
    """The same where the key keeps some rights, and where its secret is another."""
    world.mallory.make_bucket(BUCKET)
    world.mallory.put(BUCKET, "kept", b"before")
    before = state(world.root)
    exchange = half_sent(world, method, key, query, body, has_digest)
    world.node.set_grants({**GRANTS, MALLORY: f'read = ["{BUCKET}"]\n'})
    exchange.try_to_send(body[-1:])
    answer = exchange.answer()
    assert state(world.root) == before, f"a key that may only read changed something ({answer.status})"


@attack("18", ("changed hands", "hands"), ("withdrawn", "key"))
def a_part_and_a_completion(world, what):
    """An upload in parts: a part, and the document that completes it."""
    world.mallory.make_bucket(BUCKET)
    world.mallory.put(BUCKET, "kept", b"before")
    upload = world.mallory.send("POST", BUCKET, "new", [("uploads", "")]).body.split(b"<UploadId>")[1].split(b"<")[0].decode()
    query = [("partNumber", "1"), ("uploadId", upload)]
    etag = world.mallory.send("PUT", BUCKET, "new", query, body=BODY).headers["etag"]
    complete = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>".encode()
    part = half_sent(world, "PUT", "new", [("partNumber", "2"), ("uploadId", upload)], BODY)
    whole = half_sent(world, "POST", "new", [("uploadId", upload)], complete)
    owner = world.root
    if what == "hands":
        world.mallory.send("DELETE", BUCKET, "new", [("uploadId", upload)])
        before, owner = change_hands(world), world.other
    else:
        before = state(world.root)
        world.node.set_grants({of: rights for of, rights in GRANTS.items() if of != MALLORY})
    whole.try_to_send(complete[-1:])
    part.try_to_send(BODY[-1:])
    answers = [whole.answer(), part.answer()]
    assert state(owner) == before, "an object appeared"
    assert b"CompleteMultipartUploadResult" not in answers[0].body or b"<Error>" in answers[0].body, answers[0].body
    assert answers[1].status >= 400 or answers[1].status == 0, answers[1].status


@attack("8", ("SHA256",), ("SHA1",), seconds=60)
def a_copy_into_a_bucket_that_changed_hands(world, algorithm):
    """A copy that makes the node read its source for a checksum takes a while; its bucket changes hands meanwhile."""
    large = b"of mallory" * (40 << 20 >> 3)
    world.mallory.make_bucket("mallory-source")
    for _ in range(3):
        world.mallory.make_bucket(BUCKET)
        world.mallory.put("mallory-source", "large", large * 6)
        result = []
        headers = {"x-amz-copy-source": "/mallory-source/large", "x-amz-checksum-algorithm": algorithm}
        copy = threading.Thread(target=lambda: result.append(world.mallory.send("PUT", BUCKET, "copy", headers=headers, timeout=40)))
        copy.start()
        time.sleep(0.05)
        deleted = world.mallory.send("DELETE", BUCKET).status
        if deleted == 204:
            world.other.make_bucket(BUCKET)
            copy.join()
            kept = world.other.send("HEAD", BUCKET, "copy").status
            assert kept == 404, "the copy appeared in the bucket of another tenant"
            return
        # It was over before: once more.
        copy.join()
        world.mallory.send("DELETE", BUCKET, "copy")
        world.mallory.send("DELETE", BUCKET)
    raise AssertionError("the copy was over each time before its bucket could be deleted")


@attack("8", ("changed hands", "hands"), ("withdrawn", "key"))
def a_form(world, what):
    """An upload form whose file is still coming."""
    world.mallory.make_bucket(BUCKET)
    world.mallory.put(BUCKET, "kept", b"before")
    headers, body = form(form_fields(world.mallory, BUCKET, "form"), BODY)
    exchange = world.keep(world.mallory.begin("POST", f"/{BUCKET}", {**headers, "content-length": str(len(body))}))
    exchange.send(body[:-20])
    time.sleep(0.3)
    owner = world.root
    if what == "hands":
        before, owner = change_hands(world), world.other
    else:
        before = state(world.root)
        world.node.set_grants({of: rights for of, rights in GRANTS.items() if of != MALLORY})
    exchange.try_to_send(body[-20:])
    answer = exchange.answer()
    assert state(owner) == before and (answer.status >= 400 or answer.status == 0), f"the form was taken: {answer.status}"


@attack("18")
def reading_with_a_key_that_was_withdrawn(world):
    """A read that had begun may end; the next one on the same connection is refused."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", world.node.port, timeout=10)
    path = "/victim/small"
    for wanted in (200, 403):
        connection.request("GET", path, headers=world.reader.signed("GET", path))
        answer = connection.getresponse()
        answer.read()
        assert answer.status == wanted, (answer.status, wanted)
        world.node.set_grants({of: rights for of, rights in GRANTS.items() if of != world.reader.key})
    connection.close()
