"""What tests are handed: the server, a bucket of their own, short names for what they often do."""

import uuid

from conformance.harness.server import Server, failure

TESTS = []


def test(*parameters):
    """Registers a test; with parameters it runs once for each, and its name ends in `[parameter]`.

    A parameter is a tuple whose first member names it; the test gets the whole tuple unpacked.
    """

    def register(function):
        group = function.__module__.rsplit(".", 1)[1].removeprefix("test_")
        title = f"{group}/{function.__name__}"
        for parameter in parameters or [None]:
            if parameter is None:
                TESTS.append((title, lambda context, f=function: f(context)))
            else:
                values = parameter if isinstance(parameter, tuple) else (parameter,)
                shown = str(values[0]) if str(values[0]).isprintable() else ascii(values[0])[1:-1]
                shown = shown if len(shown) < 60 else f"{shown[:40]}… of {len(shown)}"
                TESTS.append((f"{title}[{shown}]", lambda context, f=function, v=values: f(context, *v)))
        return function

    return register


class Context:
    """A server and what was made on it."""

    def __init__(self, server: Server, limited=None):
        self.server, self.s3, self.limited = server, server.s3, limited
        self.buckets = []
        self._bucket = None

    @property
    def bucket(self) -> str:
        """A bucket that tests share; they use keys of their own."""
        if self._bucket is None:
            self._bucket = self.new_bucket()
        return self._bucket

    def new_bucket(self) -> str:
        """A bucket for one test."""
        name = self.server.bucket_name()
        self.s3.create_bucket(Bucket=name)
        self.buckets.append(name)
        return name

    def key(self, hint="k") -> str:
        return f"{hint}-{uuid.uuid4().hex[:12]}"

    def put(self, body=b"x", key=None, **more) -> str:
        """Puts an object into the shared bucket and returns its key."""
        key = key or self.key()
        self.s3.put_object(Bucket=more.pop("Bucket", self.bucket), Key=key, Body=body, **more)
        return key

    def get(self, key, **more) -> bytes:
        return self.s3.get_object(Bucket=more.pop("Bucket", self.bucket), Key=key, **more)["Body"].read()

    def head(self, key, **more) -> dict:
        return self.s3.head_object(Bucket=more.pop("Bucket", self.bucket), Key=key, **more)

    def filled(self, keys) -> str:
        """A new bucket with these keys."""
        bucket = self.new_bucket()
        for key in keys:
            self.s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
        return bucket

    def send(self, method, bucket="", key="", query=None, headers=None, body=b"", keys=None):
        """A signed request by hand."""
        return self.server.send(method, self.server.path(bucket, key, query), headers, body, keys)

    def remove(self, bucket):
        """Empties and removes a bucket."""
        for page in self.s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket):
            for upload in page.get("Uploads", []):
                self.s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
        for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for entry in page.get("Contents", []):
                self.s3.delete_object(Bucket=bucket, Key=entry["Key"])
        self.s3.delete_bucket(Bucket=bucket)

    def close(self):
        for bucket in self.buckets:
            try:
                self.remove(bucket)
            except self.s3.exceptions.ClientError:
                pass


def expect(wanted, call, *arguments, **named):
    """A call must fail with this (code, status); a code may be a tuple of codes."""
    code, status = failure(call, *arguments, **named)
    codes = wanted[0] if isinstance(wanted[0], tuple) else (wanted[0],)
    assert code in codes and status == wanted[1], f"expected {wanted}, got {(code, status)}"


def status(answer) -> int:
    """The HTTP status of a boto3 answer."""
    return answer["ResponseMetadata"]["HTTPStatusCode"]


def headers(answer) -> dict:
    """The HTTP headers of a boto3 answer."""
    return answer["ResponseMetadata"]["HTTPHeaders"]


def keys_of(answer) -> list[str]:
    return [entry["Key"] for entry in answer.get("Contents", [])]


def prefixes_of(answer) -> list[str]:
    return [entry["Prefix"] for entry in answer.get("CommonPrefixes", [])]
