"""Headers that ask for encryption by the server: where it is not implemented, nonsense is told from it all the same."""

import base64
import hashlib

from conformance.s3.context import expect, test

METHOD = "x-amz-server-side-encryption"
KMS_KEY = f"{METHOD}-aws-kms-key-id"
KEY = bytes(range(32))
CUSTOMER = {
    f"{METHOD}-customer-algorithm": "AES256", f"{METHOD}-customer-key": base64.b64encode(KEY).decode(),
    f"{METHOD}-customer-key-md5": base64.b64encode(hashlib.md5(KEY).digest()).decode(),
}


def without(name):
    return {header: value for header, value in CUSTOMER.items() if not header.endswith(name)}


@test(
    ("an unknown method", {METHOD: "aes:kms"}), ("a key of KMS without its method", {KMS_KEY: "k"}), ("a key of KMS for AES256", {METHOD: "AES256", KMS_KEY: "k"}),
    ("two methods", {METHOD: "AES256", **CUSTOMER}), ("a key of the client's and one of KMS", {METHOD: "aws:kms", KMS_KEY: "k", **CUSTOMER}),
    ("no key", without("-key")), ("no digest of the key", without("-md5")), ("no algorithm", without("-algorithm")),
    ("another digest", {**CUSTOMER, f"{METHOD}-customer-key-md5": "AAAAAAAAAAAAAAAAAAAAAA=="}),
)
def nonsense(c, _, headers):
    key = c.key()
    answer = c.send("PUT", c.bucket, key, headers=headers, body=b"body")
    assert (answer.status, answer.code) == (400, "InvalidArgument"), (answer.status, answer.code)
    expect(("404", 404), c.head, key)


@test(("AES256", {METHOD: "AES256"}), ("aws:kms", {METHOD: "aws:kms", KMS_KEY: "k"}), ("a key of the client's", CUSTOMER))
def encrypted_or_refused(c, _, headers):
    key = c.key()
    answer = c.send("PUT", c.bucket, key, headers=headers, body=b"body")
    # Never stored in the clear while the client believes otherwise.
    told = any(answer.headers.get(name) for name in headers if not name.endswith("-key"))
    assert (answer.status, answer.code) == (501, "NotImplemented") or (answer.status == 200 and told) or answer.status == 400, (answer.status, answer.code)


@test("GET", "HEAD")
def a_method_is_nothing_for_reads(c, method):
    assert c.send(method, c.bucket, c.put(), headers={METHOD: "AES256"}).status == 400


@test("GET", "HEAD")
def a_key_for_what_is_not_encrypted(c, method):
    assert c.send(method, c.bucket, c.put(), headers=CUSTOMER).status == 400
