"""The server under test, and clients for it: boto3, signed HTTP by hand, plain sockets."""

import contextlib
import http.client
import io
import socket
import uuid
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode, urlsplit

import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

REGION = "us-east-1"


@dataclass
class Answer:
    """An HTTP answer, whole."""

    status: int
    headers: dict
    body: bytes

    @property
    def code(self) -> str:
        """The code of an S3 error."""
        return between(self.body, b"<Code>", b"</Code>").decode()


def between(text: bytes, start: bytes, end: bytes) -> bytes:
    """What stands between two marks, empty where they are missing."""
    return text.partition(start)[2].partition(end)[0] if start in text else b""


@dataclass
class Server:
    """Where the server is, and who we are there."""

    endpoint: str
    access_key: str
    secret_key: str
    domain: str | None = None
    session: str = field(default_factory=lambda: uuid.uuid4().hex[:10])

    def __post_init__(self):
        parts = urlsplit(self.endpoint)
        self.secure = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.secure else 80)
        self.netloc = parts.netloc
        self.s3 = self.client()

    def client(self, access_key=None, secret_key=None, *, extra_headers=None, **config):
        """A boto3 client that shows every answer as it is."""
        s3 = {"addressing_style": "path", **config.pop("s3", {})}
        made = boto3.session.Session().client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=access_key or self.access_key,
            aws_secret_access_key=secret_key or self.secret_key,
            config=Config(**{
                "signature_version": "s3v4",
                # A second attempt, because a server may close a connection after it refused a body unread.
                "retries": {"total_max_attempts": 2, "mode": "standard"},
                "connect_timeout": 10,
                "read_timeout": 60,
                "max_pool_connections": 40,
                "s3": s3,
                **config,
            }),
        )
        if extra_headers:
            made.meta.events.register("before-call.s3", lambda params, **_: params["headers"].update(extra_headers))
        return made

    def bucket_name(self) -> str:
        """A name nobody else uses."""
        return f"conf-{self.session}-{uuid.uuid4().hex[:8]}"

    def path(self, bucket="", key="", query=None) -> str:
        """The path-style address of a bucket or an object."""
        path = "/" + quote(bucket) + ("/" + quote(key, safe="/~") if key else "")
        return path + ("?" + (query if isinstance(query, str) else urlencode(query, quote_via=quote)) if query else "")

    def connect(self, timeout=30) -> http.client.HTTPConnection:
        """A connection of its own."""
        kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
        return kind(self.host, self.port, timeout=timeout)

    def plain(self, method, path, headers=None, body=None) -> Answer:
        """A request without a signature."""
        connection = self.connect()
        try:
            # A server may refuse before it has taken the body in; its answer is there all the same.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def signed_headers(self, method, path, headers=None, body=b"", keys=None) -> dict:
        """The headers of a request signed with signature version 4."""
        access, secret = keys or (self.access_key, self.secret_key)
        request = AWSRequest(method=method, url=self.endpoint.rstrip("/") + path, headers=headers or {}, data=body)
        S3SigV4Auth(Credentials(access, secret), "s3", REGION).add_auth(request)
        made = dict(request.headers.items())
        if body is not None and not isinstance(body, io.IOBase):
            made["Content-Length"] = str(len(body))
        return made

    def send(self, method, path, headers=None, body=b"", keys=None) -> Answer:
        """A signed request, sent as it is."""
        return self.plain(method, path, self.signed_headers(method, path, headers, body, keys), body)

    def raw(self, request: bytes, timeout=10) -> bytes:
        """Bytes as they are over a socket, and all that comes back until the server closes or falls silent."""
        with socket.create_connection((self.host, self.port), timeout=timeout) as stream:
            answer = b""
            try:
                stream.sendall(request)
                while piece := stream.recv(65536):
                    answer += piece
            except (TimeoutError, ConnectionError):
                pass
            return answer


def failure(call, *arguments, **named):
    """The (code, status) of the error that a call must fail with."""
    try:
        answer = call(*arguments, **named)
        if isinstance(answer, dict) and "Payload" in answer:
            for _ in answer["Payload"]:
                pass
    except ClientError as error:
        return error.response["Error"]["Code"], error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    raise AssertionError("no error, though one was expected")
