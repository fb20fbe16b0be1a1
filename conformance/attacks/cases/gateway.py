"""Gateways: whoever writes a served folder, and whoever answers behind a gateway, is a stranger too."""

import contextlib
import hashlib
import os
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from conformance.attacks.case import attack
from conformance.attacks.node import ROOT, Node
from conformance.attacks.peer import Peer, path_of
from conformance.attacks.world import succeed, together

OUTSIDE = b"what lies outside of the folder"


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
        assert answer.status in (403, 404), answer.status
        peer.send("PUT", "served", "odd", body=b"written", timeout=3)
        error, _ = peer.select("served", "odd", "SELECT * FROM S3Object", timeout=3)
        assert error is None or error in ("NoSuchKey", "AccessDenied", "404"), error
        assert peer.node.status("Threads") < 100, f"{peer.node.status('Threads')} threads"


def race(world, method, seconds=6.0):
    """Exchanges a folder for a link to a folder outside, again and again, while requests name a file in it."""
    with folder(world) as (served, outside, peer):
        inner, link = served / "d", served.parent / "link"
        inner.mkdir()
        (inner / "secret").write_bytes(b"inside")
        link.symlink_to(outside, target_is_directory=True)
        done = threading.Event()

        def swap():
            other = served.parent / "put-aside"
            while not done.is_set():
                with contextlib.suppress(OSError):
                    os.rename(inner, other)
                    os.rename(link, inner)
                    os.rename(inner, link)
                    os.rename(other, inner)

        swapper = threading.Thread(target=swap)
        swapper.start()
        seen = []
        path = path_of("served", "d/secret")
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end and OUTSIDE not in seen:
                body = b"written from inside" if method == "PUT" else b""
                answer = peer.plain(method, path, peer.signed(method, path, payload=hashlib.sha256(body).hexdigest()), body)
                seen = [answer.body]
                if (outside / "secret").exists() is False or (outside / "secret").read_bytes() != OUTSIDE:
                    break
        finally:
            done.set()
            swapper.join()
        assert OUTSIDE not in seen, "a file outside of the folder was read"
        assert (outside / "secret").exists(), "a file outside of the folder was deleted"
        assert (outside / "secret").read_bytes() == OUTSIDE, "a file outside of the folder was written"
        assert sorted(path.name for path in outside.iterdir()) == ["secret"], "something was made outside of the folder"
        works(peer)


@attack("26", ("read", "GET"), ("write", "PUT"), ("delete", "DELETE"))
def links_swapped_in(world, method):
    """Whoever may write in the folder swaps a link in between the look and the use."""
    race(world, method)


@attack("11", ("utime", "utime"), ("at once", "at once"))
def a_file_rewritten_in_place(world, how):
    """The same size and the same time of change, other bytes: answers are those of the bytes that are there."""
    with folder(world) as (served, _, peer):
        file = served / "rows.csv"
        sql = "SELECT COUNT(*) FROM S3Object s WHERE CAST(s._1 AS INT) > 500"
        for n in range(6):
            low, high = b"1%02d\n" * 100, b"9%02d\n" * 100
            text = (low, high)[n % 2] % tuple(range(100))
            before = file.stat() if file.exists() else None
            with open(file, "r+b" if before else "wb") as stream:
                stream.write(text * 3000)
            if before and how == "utime":
                os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
            for _ in range(3):
                error, found = peer.select("served", "rows.csv", sql)
                assert (error, found) == (None, b"%d\n" % (300_000 if n % 2 else 0)), (n, error, found)


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
