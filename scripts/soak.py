#!/usr/bin/env python3
"""Loads a storage node with many clients and checks all answers and the state of the node afterwards.

    scripts/soak.py --minutes 10 --binary target/release/pushdowndb        starts a node of its own
    scripts/soak.py --seconds 20 --endpoint http://127.0.0.1:9000 --pid N  uses a running one

64 clients (--clients) each draw operations from a seed: PUT, GET, ranged GET, HEAD, DELETE, copy,
LIST, multipart uploads completed and aborted, S3 Select. Some read slowly, some disconnect during
an upload, a download or a scan, and some send malformed requests. Each client knows the content of
its keys and the results of its queries, and so finds wrong answers. Afterwards the node must be
idle: no requests, connections or scans, no more tasks and open files than at the start, no unknown
uploads and objects, and no growth of memory, which must always be below --most.

Python 3 and boto3. Prints one line per minute and a verdict; the exit status is 1 if anything was
wrong.
"""

import argparse
import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from urllib.parse import urlparse

import boto3
import botocore.exceptions
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

BUCKET = "soak"
ROWS = 20_000
KEYS_PER_CLIENT = 12
KEY, SECRET = "soak-key", "soak-secret-of-the-test"
# An answer that may follow from a refusal that is right.
PATIENT = {"SlowDown", "ServiceUnavailable", "503", "429"}


def table():
    """A CSV object and the answers of some queries over it."""
    rows = [(i, f"name {i % 97}", i * 7 % 1000) for i in range(ROWS)]
    text = "id,name,amount\n" + "".join(f"{i},{name},{amount}\n" for i, name, amount in rows)
    answers = [
        ("SELECT COUNT(*) FROM S3Object", f"{ROWS}\n"),
        ("SELECT SUM(CAST(amount AS INT)) FROM S3Object", f"{sum(row[2] for row in rows)}\n"),
        ("SELECT s.id FROM S3Object s WHERE s.name = 'name 13' LIMIT 5", "".join(f"{13 + 97 * i}\n" for i in range(5))),
        (
            "SELECT s.id, s.amount FROM S3Object s WHERE CAST(s.amount AS INT) > 990",
            "".join(f"{i},{amount}\n" for i, _, amount in rows if amount > 990),
        ),
        ("SELECT * FROM S3Object", text.split("\n", 1)[1]),
    ]
    return text, answers


class Verdict:
    """What went wrong and what was done, over all clients."""

    def __init__(self):
        self.lock = threading.Lock()
        self.done, self.wrong, self.busy = {}, [], 0

    def count(self, what):
        with self.lock:
            self.done[what] = self.done.get(what, 0) + 1

    def slow_down(self):
        with self.lock:
            self.busy += 1

    def fail(self, message):
        with self.lock:
            self.wrong.append(message)
        print("WRONG:", message, flush=True)


class Client(threading.Thread):
    """One client with keys of its own, so that it knows what each must hold."""

    def __init__(self, number, endpoint, seed, until, answers, verdict):
        super().__init__(daemon=True)
        self.number, self.endpoint, self.until = number, endpoint, until
        self.answers, self.verdict = answers, verdict
        self.random = random.Random(f"{seed}/{number}")
        self.held = {}
        self.s3 = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            config=Config(
                s3={"addressing_style": "path"},
                retries={"max_attempts": 8, "mode": "standard"},
                connect_timeout=10,
                read_timeout=60,
            ),
        )

    def run(self):
        deeds = [
            (self.put, 20), (self.get, 20), (self.ranged, 15), (self.head, 5), (self.list, 8), (self.delete, 6),
            (self.copy, 4), (self.multipart, 3), (self.select, 10), (self.slow_reader, 2), (self.hang_up_on_get, 3),
            (self.hang_up_on_put, 3), (self.hang_up_on_select, 2), (self.nonsense, 2),
        ]
        kinds, weights = zip(*deeds)
        while time.time() < self.until:
            deed = self.random.choices(kinds, weights)[0]
            try:
                deed()
                self.verdict.count(deed.__name__)
            except botocore.exceptions.ClientError as error:
                if error.response["Error"]["Code"] in PATIENT:
                    self.verdict.slow_down()
                else:
                    self.verdict.fail(f"client {self.number} {deed.__name__}: {error}")
            except Exception as error:  # noqa: BLE001: whatever it was, the node caused it
                self.verdict.fail(f"client {self.number} {deed.__name__}: {type(error).__name__} {error}")

    def key(self):
        return f"client-{self.number:03}/{self.random.randrange(KEYS_PER_CLIENT)}"

    def body(self, most=300_000):
        size = self.random.choice([0, 1, 100, self.random.randrange(most), self.random.randrange(most)])
        return self.random.randbytes(size)

    def check(self, key, got, wanted, what):
        if got != wanted:
            digest = lambda data: hashlib.sha256(data).hexdigest()[:12]
            self.verdict.fail(f"{what} of {key}: {len(got)} bytes {digest(got)}, not {len(wanted)} {digest(wanted)}")

    def put(self):
        key, body = self.key(), self.body()
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body, Metadata={"size": str(len(body))})
        self.held[key] = body

    def get(self):
        key = self.key()
        try:
            answer = self.s3.get_object(Bucket=BUCKET, Key=key)
        except self.s3.exceptions.NoSuchKey:
            if key in self.held:
                self.verdict.fail(f"{key} is gone")
            return
        if key not in self.held:
            self.verdict.fail(f"{key} came back")
            return
        self.check(key, answer["Body"].read(), self.held[key], "GET")
        if answer["Metadata"].get("size", str(len(self.held[key]))) != str(len(self.held[key])):
            self.verdict.fail(f"the metadata of {key} is another object's")

    def ranged(self):
        key = self.key()
        body = self.held.get(key)
        if not body:
            return
        start = self.random.randrange(len(body))
        end = self.random.randrange(start, len(body))
        answer = self.s3.get_object(Bucket=BUCKET, Key=key, Range=f"bytes={start}-{end}")
        self.check(key, answer["Body"].read(), body[start : end + 1], f"GET {start}-{end}")

    def head(self):
        key = self.key()
        if key in self.held and self.s3.head_object(Bucket=BUCKET, Key=key)["ContentLength"] != len(self.held[key]):
            self.verdict.fail(f"HEAD of {key}: another size")

    def list(self):
        keys = []
        pages = self.s3.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=BUCKET, Prefix=f"client-{self.number:03}/", PaginationConfig={"PageSize": 5}):
            keys += [entry["Key"] for entry in page.get("Contents", [])]
        if keys != sorted(self.held):
            self.verdict.fail(f"client {self.number} lists {keys}, not {sorted(self.held)}")

    def delete(self):
        key = self.key()
        self.s3.delete_object(Bucket=BUCKET, Key=key)
        self.held.pop(key, None)

    def copy(self):
        if self.held:
            source, key = self.random.choice(sorted(self.held)), self.key()
            if source != key:
                self.s3.copy_object(Bucket=BUCKET, Key=key, CopySource={"Bucket": BUCKET, "Key": source})
                self.held[key] = self.held[source]

    def multipart(self):
        key = self.key()
        upload = self.s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
        named = {"Bucket": BUCKET, "Key": key, "UploadId": upload}
        bodies = [self.random.randbytes(5 << 20), self.body()]
        parts = []
        for number, body in enumerate(bodies, 1):
            part = self.s3.upload_part(PartNumber=number, Body=body, **named)
            parts.append({"PartNumber": number, "ETag": part["ETag"]})
        if self.random.random() < 0.3:
            self.s3.abort_multipart_upload(**named)
        else:
            self.s3.complete_multipart_upload(MultipartUpload={"Parts": parts}, **named)
            self.held[key] = b"".join(bodies)

    def select(self):
        sql, wanted = self.random.choice(self.answers)
        answer = self.s3.select_object_content(
            Bucket=BUCKET,
            Key="table.csv",
            Expression=sql,
            ExpressionType="SQL",
            InputSerialization={"CSV": {"FileHeaderInfo": "USE"}},
            OutputSerialization={"CSV": {}},
        )
        got, ended = b"", False
        for event in answer["Payload"]:
            got += event.get("Records", {}).get("Payload", b"")
            ended = ended or "End" in event
        self.check(sql, got, wanted.encode(), "Select")
        if not ended:
            self.verdict.fail(f"{sql}: no End")

    # What follows is done with bare sockets, as no well-behaved client does it.

    def signed(self, method, path, body=b"", headers=None, declared=None):
        """The head of a signed request; `declared` is a length that the body does not have."""
        headers = dict(headers or {})
        headers["Content-Length"] = str(len(body) if declared is None else declared)
        request = AWSRequest(method, f"{self.endpoint}{path}", data=body, headers=headers)
        request.context["payload_signing_enabled"] = declared is None
        if declared is not None:
            request.headers["X-Amz-Content-SHA256"] = "UNSIGNED-PAYLOAD"
        S3SigV4Auth(Credentials(KEY, SECRET), "s3", "us-east-1").add_auth(request)
        lines = [f"{method} {path} HTTP/1.1", f"Host: {urlparse(self.endpoint).netloc}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in request.headers.items() if name.lower() != "host"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def connect(self):
        address = urlparse(self.endpoint)
        return socket.create_connection((address.hostname, address.port), timeout=60)

    def slow_reader(self):
        """Takes a download in small gulps, and all of it."""
        key = self.key()
        body = self.held.get(key)
        if not body:
            return
        with self.connect() as connection:
            connection.sendall(self.signed("GET", f"/{BUCKET}/{key}"))
            got = b""
            while piece := connection.recv(16 << 10):
                got += piece
                time.sleep(0.02)
        head, _, content = got.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 503"):
            self.check(key, content, body, "slow GET")

    def hang_up_on_get(self):
        key = self.key()
        with self.connect() as connection:
            connection.sendall(self.signed("GET", f"/{BUCKET}/{key}"))
            connection.recv(100)

    def hang_up_on_put(self):
        """Sends half a body. The object must stay what it was."""
        key, body = self.key(), self.random.randbytes(60_000)
        with self.connect() as connection:
            connection.sendall(self.signed("PUT", f"/{BUCKET}/{key}", declared=120_000))
            connection.sendall(body)

    def hang_up_on_select(self):
        body = (
            "<SelectObjectContentRequest><Expression>SELECT * FROM S3Object</Expression><ExpressionType>SQL"
            "</ExpressionType><InputSerialization><CSV/></InputSerialization><OutputSerialization><CSV/>"
            "</OutputSerialization></SelectObjectContentRequest>"
        ).encode()
        with self.connect() as connection:
            connection.sendall(self.signed("POST", f"/{BUCKET}/table.csv?select=&select-type=2", body) + body)
            connection.recv(1000)

    def nonsense(self):
        """Requests that are none: refused, and nothing else happens."""
        request = self.random.choice([
            b"GARBAGE\r\n\r\n",
            b"GET /soak/../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            b"PUT /soak/x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nConnection: close\r\n\r\n0123456789",
            b"GET /soak/x HTTP/1.1\r\nHost: x\r\nAuthorization: AWS4-HMAC-SHA256 nonsense\r\nConnection: close\r\n\r\n",
            b"POST /soak/table.csv?select&select-type=2 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\n<x>",
            self.random.randbytes(200) + b"\r\n\r\n",
        ])
        with self.connect() as connection:
            try:
                connection.sendall(request)
                answer = connection.recv(100)
            except (ConnectionResetError, BrokenPipeError):
                return
        if answer and not answer.startswith(b"HTTP/1.1 4") and not answer.startswith(b"HTTP/1.1 503"):
            self.verdict.fail(f"nonsense was answered with {answer!r}")


class Gauges:
    """The metrics of the node, and its memory."""

    def __init__(self, endpoint):
        with urllib.request.urlopen(f"{endpoint}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        values = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        self.values = {name.removeprefix("pushdowndb_"): float(value) for name, value in values}

    def __getitem__(self, name):
        return self.values[name]

    def resident_mib(self):
        return self["process_resident_bytes"] / (1 << 20)


# What must be back where it was when nobody is there any more.
AT_REST = ["requests_in_flight", "scans_active", "scans_waiting", "scan_tasks", "connections", "tasks", "process_open_files"]


def settle(endpoint, before, seconds=30):
    """Waits until the node is as idle as it was; returns the last reading and what is still there."""
    until = time.time() + seconds
    while True:
        now = Gauges(endpoint)
        left = [f"{name} {now[name]:.0f}, {before[name]:.0f} before" for name in AT_REST if now[name] > before[name]]
        if not left or time.time() > until:
            return now, left
        time.sleep(0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seconds", type=float, help="instead of --minutes")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--binary", default="target/release/pushdowndb", help="the program whose node is started")
    parser.add_argument("--endpoint", help="a running node instead, whose keys are soak-key and soak-secret-of-the-test")
    parser.add_argument("--most", type=float, default=512, help="MiB that memory may reach at any time")
    parser.add_argument("--growth", type=float, default=64, help="MiB that memory may grow in the second half")
    args = parser.parse_args()
    seconds = args.seconds if args.seconds is not None else args.minutes * 60
    print(f"seed {args.seed}, {args.clients} clients, {seconds:.0f} s", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        node = None
        endpoint = args.endpoint
        if endpoint is None:
            environment = dict(os.environ, PUSHDOWNDB_ACCESS_KEY_ID=KEY, PUSHDOWNDB_SECRET_ACCESS_KEY=SECRET)
            command = [args.binary, "serve", "--store", f"{folder}/store", "--listen", "127.0.0.1:0", "--log", "warn"]
            log = open(f"{folder}/log", "w+")
            node = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
            endpoint = node.stdout.readline().split()[-1]
        try:
            verdict = soak(args, endpoint, seconds)
        finally:
            if node is not None:
                node.send_signal(signal.SIGTERM)
                code = node.wait(timeout=60)
        if node is not None:
            if code != 0:
                verdict.fail(f"the node ended with {code}")
            log.seek(0)
            panics = [line for line in log if "panicked" in line]
            for line in panics:
                verdict.fail(line.strip())
            leftovers = os.listdir(f"{folder}/store/tmp")
            if leftovers:
                verdict.fail(f"files left in tmp: {leftovers}")

    total = sum(verdict.done.values())
    print(f"{total} operations: " + ", ".join(f"{count} {what}" for what, count in sorted(verdict.done.items())))
    print(f"{verdict.busy} told to slow down after all retries")
    print(f"FAILED: {len(verdict.wrong)} wrong, seed {args.seed}" if verdict.wrong else "PASSED")
    return 1 if verdict.wrong else 0


def soak(args, endpoint, seconds):
    verdict = Verdict()
    text, answers = table()
    started = time.time()
    clients = [Client(i, endpoint, args.seed, started + seconds, answers, verdict) for i in range(args.clients)]
    admin = clients[0].s3
    try:
        admin.create_bucket(Bucket=BUCKET)
    except admin.exceptions.BucketAlreadyOwnedByYou:
        pass
    admin.put_object(Bucket=BUCKET, Key="table.csv", Body=text.encode())
    # One of everything, so that what is made once is there before the count.
    clients[0].until = 0
    for deed in (clients[0].select, clients[0].list, clients[0].multipart):
        deed()
    admin.close()
    time.sleep(1)
    before, _ = settle(endpoint, Gauges(endpoint), 2)
    clients[0] = Client(0, endpoint, args.seed, started + seconds, answers, verdict)
    clients[0].held = {}
    for entry in clients[0].s3.list_objects_v2(Bucket=BUCKET, Prefix="client-000/").get("Contents", []):
        clients[0].s3.delete_object(Bucket=BUCKET, Key=entry["Key"])
    for client in clients:
        client.start()

    halfway = None
    marks, looked, peak = 0, 0, 0
    while any(client.is_alive() for client in clients):
        time.sleep(0.2)
        passed = time.time() - started
        if passed > looked:
            looked = passed + 2
            peak = max(peak, Gauges(endpoint).resident_mib())
        if halfway is None and passed > seconds / 2:
            halfway = Gauges(endpoint).resident_mib()
        if passed // 60 > marks:
            marks = int(passed // 60)
            now = Gauges(endpoint)
            done = sum(verdict.done.values())
            print(f"{marks} min: {done} operations, {now.resident_mib():.0f} MiB, {now['process_open_files']:.0f} files, "
                  f"{now['tasks']:.0f} tasks, {len(verdict.wrong)} wrong", flush=True)
        if passed > seconds + 180:
            verdict.fail("clients hang: " + ", ".join(str(c.number) for c in clients if c.is_alive()))
            break
    for client in clients:
        client.s3.close()

    # Everything that was put is there, once more, and nothing else is.
    checker = Client(args.clients, endpoint, args.seed, 0, answers, verdict)
    held = {key: body for client in clients for key, body in client.held.items()}
    pages = checker.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    listed = {entry["Key"] for page in pages for entry in page.get("Contents", [])} - {"table.csv"}
    if listed != held.keys():
        verdict.fail(f"keys at the end: {sorted(listed ^ held.keys())}")
    for key in sorted(listed & held.keys()):
        checker.check(key, checker.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read(), held[key], "GET at the end")
    uploads = checker.s3.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
    if len(uploads) > verdict.busy:
        verdict.fail(f"{len(uploads)} uploads are left open")
    checker.s3.close()

    after, left = settle(endpoint, before)
    for what in left:
        verdict.fail(f"left behind: {what}")
    grown = after.resident_mib() - (halfway or 0)
    if grown > args.growth:
        verdict.fail(f"memory grew by {grown:.0f} MiB in the second half")
    if peak > args.most:
        verdict.fail(f"memory reached {peak:.0f} MiB")
    print(f"memory {before.resident_mib():.0f} MiB before, {halfway or 0:.0f} halfway, {peak:.0f} at most, "
          f"{after.resident_mib():.0f} after; "
          f"open files {before['process_open_files']:.0f} and {after['process_open_files']:.0f}, "
          f"tasks {before['tasks']:.0f} and {after['tasks']:.0f}; scans took {after['scan_cpu_seconds_total']:.1f} s of CPU")
    return verdict


if __name__ == "__main__":
    sys.exit(main())
