"""Gateways: whoever writes a served folder, and whoever answers behind a gateway, is a stranger too."""

import contextlib
import ctypes
import hashlib
import os
import socket
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from conformance.attacks.case import attack
from conformance.attacks.node import ROOT, Node
from conformance.attacks.peer import Peer, path_of
from conformance.attacks.world import succeed, together

OUTSIDE = b"what lies outside of the folder"
LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def folder(world):
    """A gateway over a folder, and a file beside that folder."""
    served, outside = world.node.folder / "served", world.node.folder / "outside"
    served.mkdir()
    outside.mkdir()
    (outside / "secret").write_bytes(OUTSIDE)
    (served / "well").write_bytes(b"well")
    with gateway(world, ["--gateway", str(served), "--bucket", "served"]) as peer:
        yield served, outside, peer


@contextlib.contextmanager
def gateway(world, backing, more=()):
    home = world.node.folder / "gateway"
    home.mkdir(exist_ok=True)
    with Node(world.node.binary, home, backing, [*world.node.more, *more]) as node:
        yield Peer(node, ROOT)
        if node.is_alive():
            node.stop()


def works(peer):
    def attempt(timeout):
        answer = peer.get("served", "well", timeout=timeout)
        return None if answer.body == b"well" else f"{answer.status}"

    succeed("a GET through the gateway", attempt)


@attack("12", ("fifo", "fifo"), ("socket", "socket"), ("fifo behind a link", "link"))
def what_is_no_file(world, kind):
    """600 reads of a FIFO in the folder whose clients leave; SIGTERM ends the node."""
    with folder(world) as (served, _, peer):
        if kind == "socket":
            socket.socket(socket.AF_UNIX).bind(str(served / "odd"))
        else:
            os.mkfifo(served / ("real" if kind == "link" else "odd"))
            if kind == "link":
                (served / "odd").symlink_to("real")
        path = path_of("served", "odd")

        def ask(_):
            for method in ("GET", "HEAD", "GET"):
                with peer.begin(method, path, peer.signed(method, path), timeout=0.3) as exchange, contextlib.suppress(OSError):
                    exchange.stream.recv(1)

        threads = threading.Thread(target=lambda: together(50, lambda n: [ask(n) for _ in range(4)]))
        threads.start()
        works(peer)
        threads.join()
        works(peer)
        answer = peer.get("served", "odd", timeout=3)
        assert 400 <= answer.status < 500, answer.status
        peer.send("PUT", "served", "odd", body=b"written", timeout=3)
        error, _ = peer.select("served", "odd", "SELECT * FROM S3Object", timeout=3)
        assert error is None or error in ("NoSuchKey", "AccessDenied", "404"), error
        assert peer.node.status("Threads") < 100, f"{peer.node.status('Threads')} threads"


def exchange(one, other):
    """Exchanges two names at once, as renameat2 with RENAME_EXCHANGE does."""
    here = -100  # AT_FDCWD
    LIBC.renameat2(here, os.fsencode(one), here, os.fsencode(other), 2)


def race(world, method, seconds=6.0):
    """Exchanges a folder for a link to a folder outside, again and again, while requests name a file in it."""
    with folder(world) as (served, outside, peer):
        inner, link = served / "d", served.parent / "link"
        inner.mkdir()
        inside = os.open(inner, os.O_PATH)
        (inner / "secret").write_bytes(b"inside")
        link.symlink_to(outside, target_is_directory=True)
        done = threading.Event()

        def swap():
            while not done.is_set():
                exchange(inner, link)

        swapper = threading.Thread(target=swap)
        swapper.start()
        seen = []
        path = path_of("served", "d/secret")
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end and OUTSIDE not in seen:
                body = b"written from inside" if method == "PUT" else b""
                # What was deleted is there again for the next request, whatever the folder is called now.
                if method == "DELETE":
                    os.close(os.open("secret", os.O_CREAT | os.O_WRONLY, dir_fd=inside))
                answer = peer.plain(method, path, peer.signed(method, path, payload=hashlib.sha256(body).hexdigest()), body)
                seen = [answer.body]
                if (outside / "secret").exists() is False or (outside / "secret").read_bytes() != OUTSIDE:
                    break
        finally:
            done.set()
            swapper.join()
            os.close(inside)
        assert OUTSIDE not in seen, "a file outside of the folder was read"
        assert (outside / "secret").exists(), "a file outside of the folder was deleted"
        assert (outside / "secret").read_bytes() == OUTSIDE, "a file outside of the folder was written"
        assert sorted(path.name for path in outside.iterdir()) == ["secret"], "something was made outside of the folder"
        works(peer)


@attack("26", ("read", "GET"), ("write", "PUT"), ("delete", "DELETE"))
def links_swapped_in(world, method):
    """Whoever may write in the folder swaps a link in between the look and the use."""
    race(world, method)


@attack("11", ("time set back", "utime"), ("within a tick", "at once"))
def a_file_rewritten_in_place(world, how):
    """The same size and the same time of change, other bytes: answers are those of the bytes that are there."""
    with folder(world) as (served, _, peer):
        file = served / "rows.csv"
        texts = [b"a\n" + b"%d\n" % number * 200_000 for number in (111, 999)]
        for n in range(5):
            before = file.stat() if file.exists() else None
            with open(file, "r+b" if before else "wb") as stream:
                stream.write(texts[n % 2])
            if before and how == "utime":
                os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
            wanted = 200_000 if n % 2 else 0
            for level in ("fragment", "select"):
                assert count(peer, level) == wanted, f"rewritten {n} times: {count(peer, level)} instead of {wanted} at {level}"


def count(peer, level):
    """Rows above 500 as a fresh engine finds them through the gateway."""
    environment = {
        "AWS_ENDPOINT_URL": peer.node.endpoint, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": ROOT.id, "AWS_SECRET_ACCESS_KEY": ROOT.secret,
    }
    sql = "SELECT count(*) AS n FROM 's3://served/rows.csv' WHERE a > 500"
    command = [peer.node.binary, "--set", f"pushdown.level={level}", "--format", "csv", "-c", sql]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[1])


class Upstream(BaseHTTPRequestHandler):
    """A server behind a gateway that does what it is told to by `behaviour`."""

    behaviour = None
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        type(self).behaviour(self)

    do_HEAD = do_PROPFIND = do_PUT = do_DELETE = do_GET

    def log_message(self, *_):
        pass

    def give(self, status, body=b"", headers=(), length=None):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextlib.contextmanager
def server(behaviour):
    handler = type("Handler", (Upstream,), {"behaviour": behaviour})
    made = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    try:
        yield made.server_address[1]
    finally:
        made.shutdown()
        made.server_close()


SECRET = b"METADATA-CREDENTIALS"
DATED = (("ETag", '"e"'), ("Last-Modified", "Fri, 20 Nov 2026 10:00:00 GMT"))


@attack("14", *[(str(status), status) for status in (301, 302, 303, 307, 308)])
def redirects_of_an_upstream(world, status):
    """The server behind a gateway answers with a redirect to another origin: it is not followed."""
    asked = []

    def inside(handler):
        asked.append(handler.path)
        handler.give(200, SECRET, DATED)

    with server(inside) as secret_port:
        def redirect(handler):
            handler.give(status, headers=[("Location", f"http://127.0.0.1:{secret_port}/latest/meta-data")])

        with server(redirect) as port, gateway(world, ["--gateway", f"http://127.0.0.1:{port}/"], ["--bucket", "served"]) as peer:
            answer = peer.get("served", "x", timeout=20)
            assert SECRET not in answer.body and answer.status >= 400, (answer.status, answer.body)
            assert not asked, f"the other origin was asked for {asked}"


@attack("14", ("shorter", -5), ("longer", 5))
def upstream_bodies_of_another_length(world, more):
    """A body of another length than the server said at first is an error, not the object."""
    body = b"0123456789" * 100

    def behaviour(handler):
        if handler.command == "HEAD":
            handler.give(200, length=len(body), headers=DATED)
        else:
            handler.give(200, body[:more] if more < 0 else body + b"x" * more, DATED)

    with server(behaviour) as port, gateway(world, ["--gateway", f"http://127.0.0.1:{port}/"], ["--bucket", "served"]) as peer:
        path = path_of("served", "x")
        with peer.begin("GET", path, peer.signed("GET", path)) as exchange:
            answer = exchange.answer()
        whole = answer.status == 200 and len(answer.body) == int(answer.headers.get("content-length", -1))
        assert not whole or answer.body == body, f"{len(answer.body)} bytes were given as the object of {len(body)}"
        error, _ = peer.select("served", "x", "SELECT COUNT(*) FROM S3Object")
        assert error, "a Select took them for the object"


@attack("14", seconds=60)
def an_upstream_that_stands_still(world):
    """A server that answers nothing: other requests go on, and the node ends when it is told to."""
    def silent(handler):
        time.sleep(8)

    with server(silent) as port, gateway(world, ["--gateway", f"http://127.0.0.1:{port}/"], ["--bucket", "served", "--shutdown-timeout", "1"]) as peer:
        path = path_of("served", "x")
        for _ in range(100):
            world.keep(peer.begin("GET", path, peer.signed("GET", path)))
        assert peer.plain("GET", "/healthz", timeout=2).status == 200
        world.close()
