"""Time and places: peers that send nothing, send slowly, or read nothing, from one address, many, or with one key."""

import contextlib
import threading
import time

from conformance.attacks.case import attack
from conformance.attacks.peer import Exchange, Peer, form_fields, path_of
from conformance.attacks.world import ROWS, together

FORM_HEAD = b'--b\r\nContent-Disposition: form-data; name="key"\r\n\r\nx\r\n--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n'


def one_address(n):
    return "127.0.0.2"


def many_addresses(n):
    return f"127.0.1.{n % 64 + 1}"


def open_many(world, count, open_one):
    """`count` connections, opened by some threads. One that the node refuses is as good as closed."""
    def some(thread):
        for n in range(thread, count, 16):
            with contextlib.suppress(OSError):
                world.keep(open_one(n))

    together(16, some)


@contextlib.contextmanager
def trickle(world, piece=b"x", pause=0.25):
    """A byte on each open connection now and then, as long as the block runs."""
    done = threading.Event()

    def send():
        while not done.wait(pause):
            for exchange in list(world.open):
                with contextlib.suppress(OSError):
                    exchange.stream.setblocking(False)
                    exchange.stream.send(piece)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@attack("2", ("one address", one_address), ("many addresses", many_addresses))
def slow_forms(world, address):
    """256 anonymous upload forms, a byte at a time."""
    headers = {"content-type": "multipart/form-data; boundary=b", "content-length": "1000000"}

    def begin(n):
        exchange = Peer(world.node, source=address(n)).begin("POST", "/victim", headers)
        exchange.send(FORM_HEAD)
        return exchange

    open_many(world, 256, begin)
    with trickle(world):
        world.meanwhile(2.5)


DOCUMENTS = [("tagging", "PUT", "/victim?tagging"), ("cors", "PUT", "/victim?cors"), ("delete", "POST", "/victim?delete"), ("object", "PUT", "/victim/new")]


@attack("2", *DOCUMENTS)
def slow_anonymous_bodies(world, method, target):
    """256 unsigned requests with a body that comes slowly, from many addresses."""
    headers = {"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg==", "content-length": "100000"}
    open_many(world, 256, lambda n: Peer(world.node, source=many_addresses(n)).begin(method, target, headers))
    with trickle(world):
        world.meanwhile(2.5)


@attack("21", ("one address", one_address, 1100), ("many addresses", many_addresses, 900))
def half_heads(world, address, count):
    """Heads of requests that never end, more than the node has connections."""
    open_many(world, count, lambda n: half_head(world, address(n), b"GET / HTTP/1.1\r\nHost: x\r\n"))
    with trickle(world, b"a"):
        world.meanwhile(2.5)


def half_head(world, source, text):
    exchange = Exchange(Peer(world.node, source=source).connect())
    exchange.send(text)
    return exchange


@attack("21")
def silent_connections(world):
    """1,100 connections of one address on which nothing is sent."""
    open_many(world, 1100, lambda n: half_head(world, "127.0.0.2", b""))
    world.meanwhile(2.5)


@attack("found since", ("put", "PUT", "slow", []), ("part", "PUT", "slow", [("partNumber", "1"), ("uploadId", "UPLOAD")]), ("delete", "POST", "", [("delete", "")]), ("cors", "PUT", "", [("cors", "")]))
def slow_bodies_of_one_key(world, method, key, query):
    """256 signed bodies of one key that come a byte at a time, from many addresses."""
    if ("uploadId", "UPLOAD") in query:
        upload = world.mallory.send("POST", "mallory", key, [("uploads", "")]).body.split(b"<UploadId>")[1].split(b"<")[0].decode()
        query = [query[0], ("uploadId", upload)]
    headers = {} if key else {"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg=="}

    def begin(n):
        peer = Peer(world.node, world.mallory.key, many_addresses(n))
        return peer.half(method, "mallory", key and f"{key}-{n}" if "uploadId" not in dict(query) else key, query, headers, length=100_000)

    open_many(world, 256, begin)
    with trickle(world):
        world.meanwhile(2.5)


@attack("found since")
def slow_forms_of_one_key(world):
    """256 upload forms that a key allows, whose file comes slowly."""
    fields = form_fields(world.mallory, "mallory", "slow")
    head = b"".join(f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields)
    head += b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'

    def begin(n):
        exchange = Peer(world.node, source=many_addresses(n)).begin(
            "POST", "/mallory", {"content-type": "multipart/form-data; boundary=b", "content-length": "1000000"}
        )
        exchange.send(head)
        return exchange

    open_many(world, 256, begin)
    with trickle(world):
        world.meanwhile(2.5)


@attack("9", ("fragment", "POST", "", [("pushdowndb-fragment", "")]), ("select", "POST", "rows.csv", [("select", ""), ("select-type", "2")]))
def bodies_of_scans_that_do_not_come(world, method, key, query):
    """120 scans of a key that may read one bucket: the head, a byte, and no more for as long as it may take."""

    def begin(n):
        exchange = Peer(world.node, world.reader.key, many_addresses(n)).half(method, "victim", key, query, length=100_000)
        exchange.try_to_send(b"\n")
        return exchange

    open_many(world, 120, begin)
    world.meanwhile(2.5)


def large_rows(world):
    world.root.put("mallory", "wide.csv", ROWS * 60)


@attack("found since", ("csv", "SELECT * FROM S3Object", 80), ("aggregated late", "SELECT s._2 || s._2 || s._2 FROM S3Object s", 80))
def selects_that_nobody_reads(world, sql, count):
    """80 Selects of one key with long answers, none of which is read."""
    large_rows(world)
    open_many(world, count, lambda n: Peer(world.node, world.mallory.key, many_addresses(n)).begin_select("mallory", "wide.csv", sql))
    time.sleep(0.5)
    world.meanwhile(2.5)


@attack("found since", ("one address", one_address), ("many addresses", many_addresses))
def reads_that_nobody_reads(world, address):
    """300 GETs of one key whose answers are not read."""
    world.root.put("mallory", "large", b"x" * (8 << 20))
    path = path_of("mallory", "large")

    def begin(n):
        peer = Peer(world.node, world.mallory.key, address(n))
        return peer.begin("GET", path, peer.signed("GET", path))

    open_many(world, 300, begin)
    time.sleep(0.5)
    world.meanwhile(2.5)


@attack("15")
def copies_of_one_key(world):
    """200 copies at once that make the node read 16 MiB each for a checksum."""
    world.root.put("mallory", "large", b"x" * (16 << 20))

    def begin(n):
        headers = {"x-amz-copy-source": "/mallory/large", "x-amz-checksum-algorithm": "SHA256"}
        return Peer(world.node, world.mallory.key, many_addresses(n)).half("PUT", "mallory", f"copy-{n}", headers=headers, length=0)

    open_many(world, 200, begin)
    world.meanwhile(2.5)


@attack("2")
def readiness_tells_saturation(world):
    """While every request of an attacker's share is taken, /healthz stays well and /readyz is true to what the victim sees."""
    open_many(world, 256, lambda n: Peer(world.node, world.mallory.key, many_addresses(n)).half("PUT", "mallory", f"slow-{n}", length=100_000))
    time.sleep(0.3)
    assert world.anonymous.plain("GET", "/healthz", timeout=2).status == 200
    ready = world.anonymous.plain("GET", "/readyz", timeout=2).status
    with contextlib.suppress(AssertionError):
        world.check_victim()
        return
    assert ready == 503, "the node says that it is ready while requests are refused"
