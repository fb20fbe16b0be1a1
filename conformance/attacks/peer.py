"""A peer of the node: requests signed by hand, sent whole, by halves, or never finished."""

import base64
import hashlib
import hmac
import http.client
import json
import socket
import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from urllib.parse import quote
from xml.sax.saxutils import escape

from conformance.harness.server import Answer

REGION = "us-east-1"
EMPTY = hashlib.sha256(b"").hexdigest()
UNSIGNED = "UNSIGNED-PAYLOAD"


def mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signing_key(key, day: str) -> bytes:
    made = ("AWS4" + key.secret).encode()
    for part in (day, REGION, "s3", "aws4_request"):
        made = mac(made, part)
    return made


def query_text(pairs) -> str:
    return "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in pairs)


def canonical_query(pairs) -> str:
    return query_text(sorted(pairs))


def path_of(bucket="", key="") -> str:
    return "/" + bucket + ("/" + quote(key, safe="/~-_.") if key else "")


@dataclass(frozen=True)
class Peer:
    """Who asks, and from where."""

    node: object
    key: object = None
    source: str = "127.0.0.2"

    def signed(self, method, path, query=(), headers=None, payload=EMPTY, age=0) -> dict:
        """Headers with a signature of version 4 over all of them; `age`: signed so many seconds ago."""
        now = datetime.now(timezone.utc) - timedelta(seconds=age)
        stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        made = {name.lower(): value for name, value in (headers or {}).items()}
        made |= {"host": f"127.0.0.1:{self.node.port}", "x-amz-date": stamp, "x-amz-content-sha256": payload}
        names = ";".join(sorted(made))
        lines = [method, path, canonical_query(query), *[f"{name}:{made[name]}" for name in sorted(made)], "", names, payload]
        scope = f"{day}/{REGION}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256("\n".join(lines).encode()).hexdigest()])
        signature = mac(signing_key(self.key, day), text).hex()
        made["authorization"] = f"AWS4-HMAC-SHA256 Credential={self.key.id}/{scope}, SignedHeaders={names}, Signature={signature}"
        return made

    def address_4(self, method, path, query=(), headers=None, expires="60", expires_name="X-Amz-Expires") -> str:
        """A presigned address of version 4. `expires_name` is written as it is, for names in disguise."""
        now = datetime.now(timezone.utc)
        stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
        scope = f"{day}/{REGION}/s3/aws4_request"
        covered = {"host": f"127.0.0.1:{self.node.port}", **(headers or {})}
        names = ";".join(sorted(covered))
        pairs = [*query, ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"), ("X-Amz-Credential", f"{self.key.id}/{scope}")]
        pairs += [("X-Amz-Date", stamp), ("X-Amz-Expires", expires), ("X-Amz-SignedHeaders", names)]
        lines = [method, path, canonical_query(pairs), *[f"{name}:{covered[name]}" for name in sorted(covered)], "", names, UNSIGNED]
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256("\n".join(lines).encode()).hexdigest()])
        signature = mac(signing_key(self.key, day), text).hex()
        return f"{path}?{query_text(pairs)}&X-Amz-Signature={signature}".replace("X-Amz-Expires=", f"{expires_name}=", 1)

    def address_2(self, method, path, query=(), kind="", seconds=60) -> str:
        """A presigned address of version 2, as boto3 makes them unless it is told otherwise. `query` is signed with it."""
        expires = str(int(time.time()) + seconds)
        covered = "&".join(f"{name}={value}" if value else name for name, value in sorted(query))
        text = f"{method}\n\n{kind}\n{expires}\n{path}" + (f"?{covered}" if covered else "")
        signature = base64.b64encode(hmac.new(self.key.secret.encode(), text.encode(), hashlib.sha1).digest()).decode()
        pairs = [*query, ("AWSAccessKeyId", self.key.id), ("Signature", signature), ("Expires", expires)]
        return f"{path}?{query_text(pairs)}"

    def connect(self, timeout=10) -> socket.socket:
        made = socket.socket()
        made.settimeout(timeout)
        made.bind((self.source, 0))
        made.connect(("127.0.0.1", self.node.port))
        return made

    def begin(self, method, target, headers=None, timeout=10):
        """A request whose head is sent, and nothing of its body."""
        sent = {"host": f"127.0.0.1:{self.node.port}", **{name.lower(): value for name, value in (headers or {}).items()}}
        exchange = Exchange(self.connect(timeout), method)
        head = f"{method} {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        exchange.send(head.encode() + b"\r\n")
        return exchange

    def plain(self, method, target, headers=None, body=b"", timeout=10) -> Answer:
        """A request as it is, without a signature in its headers."""
        headers = {**(headers or {})}
        if body or method in ("PUT", "POST"):
            headers["content-length"] = str(len(body))
        with self.begin(method, target, headers, timeout) as exchange:
            exchange.try_to_send(body)
            return exchange.answer()

    def send(self, method, bucket="", key="", query=(), headers=None, body=b"", timeout=10, payload=None) -> Answer:
        """A signed request."""
        path = path_of(bucket, key)
        made = self.signed(method, path, query, headers, payload or hashlib.sha256(body).hexdigest())
        return self.plain(method, path + (f"?{query_text(query)}" if query else ""), made, body, timeout)

    def half(self, method, bucket="", key="", query=(), headers=None, length=1, payload=UNSIGNED, timeout=10, body=None):
        """A signed request of which the body is still to come: `length` bytes of it, or `body`, whose digest is signed."""
        path = path_of(bucket, key)
        if body is not None:
            length, payload = len(body), hashlib.sha256(body).hexdigest()
        made = self.signed(method, path, query, headers, payload)
        made["content-length"] = str(length)
        return self.begin(method, path + (f"?{query_text(query)}" if query else ""), made, timeout)

    def make_bucket(self, bucket):
        answer = self.send("PUT", bucket)
        assert answer.status == 200, f"making {bucket}: {answer.status} {answer.code}"

    def put(self, bucket, key, body=b"", headers=None, timeout=60) -> Answer:
        answer = self.send("PUT", bucket, key, body=body, headers=headers, payload=UNSIGNED, timeout=timeout)
        assert answer.status == 200, f"putting {bucket}/{key}: {answer.status} {answer.code}"
        return answer

    def get(self, bucket, key, timeout=10, headers=None) -> Answer:
        return self.send("GET", bucket, key, timeout=timeout, headers=headers)

    def begin_select(self, bucket, key, sql, source="<CSV/>", out="<CSV/>", headers=None, timeout=30):
        """A Select request of which the answer is still to be read."""
        body = (
            f"<SelectObjectContentRequest><Expression>{escape(sql)}</Expression><ExpressionType>SQL</ExpressionType>"
            f"<InputSerialization>{source}</InputSerialization><OutputSerialization>{out}</OutputSerialization>"
            "</SelectObjectContentRequest>"
        ).encode()
        exchange = self.half("POST", bucket, key, [("select", ""), ("select-type", "2")], headers, body=body, timeout=timeout)
        exchange.try_to_send(body)
        return exchange

    def select(self, bucket, key, sql, source="<CSV/>", out="<CSV/>", headers=None, timeout=30):
        """What a Select request came to: the code of its error, or None and its records."""
        with self.begin_select(bucket, key, sql, source, out, headers, timeout) as exchange:
            answer = exchange.answer()
        if answer.status != 200:
            return answer.code or str(answer.status), b""
        return records(answer.body)


def records(stream: bytes):
    """The error, and the records, of an event stream."""
    found, at, ended = b"", 0, False
    while at + 16 <= len(stream):
        total, head = int.from_bytes(stream[at : at + 4]), int.from_bytes(stream[at + 4 : at + 8])
        headers, payload = stream[at + 12 : at + 12 + head], stream[at + 12 + head : at + total - 4]
        if b":error-code" in headers:
            value = headers.split(b":error-code", 1)[1]
            return value[3 : 3 + int.from_bytes(value[1:3])].decode(), found
        if b"Records" in headers:
            found += payload
        ended |= b"End" in headers
        at += total
    return (None if ended else "Truncated"), found


class Exchange:
    """A connection with one request on it."""

    def __init__(self, stream, method=None):
        self.stream, self.method = stream, method

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data: bytes):
        self.stream.sendall(data)

    def try_to_send(self, data: bytes) -> bool:
        """A server may refuse, and close, before it has taken the body in; its answer is there all the same."""
        try:
            self.stream.sendall(data)
        except (ConnectionError, TimeoutError):
            return False
        return True

    def answer(self, timeout=None) -> Answer:
        """The whole answer; status 0 where the server closed without one."""
        if timeout:
            self.stream.settimeout(timeout)
        response = http.client.HTTPResponse(self.stream, method=self.method)
        try:
            response.begin()
            body = response.read()
        except http.client.IncompleteRead as error:
            body = error.partial
        except (http.client.HTTPException, ConnectionError):
            return Answer(0, {}, b"")
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)

    def status(self, timeout=10) -> int:
        """The status of an answer that is not read any further."""
        self.stream.settimeout(timeout)
        response = http.client.HTTPResponse(self.stream, method=self.method)
        try:
            response.begin()
        except (http.client.HTTPException, ConnectionError):
            return 0
        return response.status

    def is_open(self) -> bool:
        """Whether the server has neither answered nor closed."""
        self.stream.setblocking(False)
        try:
            self.stream.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self):
        self.stream.close()


def form(fields, body=b"body", boundary=None, kind="multipart/form-data"):
    """The headers and the body of an upload form; `fields` are pairs, so that a name may come twice."""
    boundary = boundary or uuid.uuid4().hex
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields]
    parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'.encode() + body + b"\r\n")
    return {"content-type": f"{kind}; boundary={boundary}"}, b"".join(parts) + f"--{boundary}--\r\n".encode()


def form_fields(peer, bucket, key, conditions=(), more=()):
    """The fields of a form that a key allows; `conditions` and the fields `more` are in its policy."""
    now = datetime.now(timezone.utc)
    day = now.strftime("%Y%m%d")
    signed = [("key", key), ("x-amz-algorithm", "AWS4-HMAC-SHA256"), ("x-amz-credential", f"{peer.key.id}/{day}/{REGION}/s3/aws4_request")]
    signed += [("x-amz-date", now.strftime("%Y%m%dT%H%M%SZ")), *more]
    policy = {
        "expiration": (now + timedelta(seconds=600)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "conditions": [{"bucket": bucket}, *[{name: value} for name, value in signed], *conditions],
    }
    encoded = base64.b64encode(json.dumps(policy).encode()).decode()
    return [*signed, ("policy", encoded), ("x-amz-signature", mac(signing_key(peer.key, day), encoded).hex())]
