"""Puts objects onto a node, with a signature of version 4 made by hand."""

import hashlib
import hmac
import http.client
from datetime import datetime, timezone
from urllib.parse import quote, urlsplit


def put(endpoint: str, key, path: str, body: bytes | None) -> None:
    """Makes a bucket (`path` without a slash) or an object in one."""
    host = urlsplit(endpoint).netloc
    now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    digest = hashlib.sha256(body or b"").hexdigest()
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": now}
    signed = ";".join(sorted(headers))
    listed = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    request = f"PUT\n/{quote(path)}\n\n{listed}\n{signed}\n{digest}"
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    secret = f"AWS4{key.secret}".encode()
    for part in (*scope.split("/"), text):
        secret = hmac.digest(secret, part.encode(), "sha256")
    headers["authorization"] = f"AWS4-HMAC-SHA256 Credential={key.id}/{scope}, SignedHeaders={signed}, Signature={secret.hex()}"
    connection = http.client.HTTPConnection(host, timeout=20)
    try:
        connection.request("PUT", f"/{quote(path)}", body or b"", headers)
        answer = connection.getresponse()
        said = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"PUT {path}: {answer.status} {said.decode(errors='replace')}")
    finally:
        connection.close()
