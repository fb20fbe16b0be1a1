"""CPU: what a request makes the node compute ends with its client, and no parser takes more than its input's worth."""

import bz2
import gzip
import signal
import subprocess
import time

from conformance.attacks import parquet
from conformance.attacks.case import attack
from conformance.attacks.node import MALLORY
from conformance.attacks.peer import Peer

CSV, JSON, PARQUET = "<CSV/>", "<JSON><Type>LINES</Type></JSON>", "<Parquet/>"
EXTENSIONS = {"x-pushdowndb-select-extensions": "on"}

# What the node may still use in a second after its clients have left: its own housekeeping.
IDLE_SHARE = 0.25


def at_rest(world):
    """Half a second after its clients have gone the node computes nothing any more."""
    time.sleep(0.5)
    before, start = world.node.cpu_seconds(), time.monotonic()
    time.sleep(1.5)
    used, took = world.node.cpu_seconds() - before, time.monotonic() - start
    assert used < IDLE_SHARE * took, f"{used:.2f} s of CPU in the {took:.1f} s after the clients had left"
    active = world.node.metric("scans_active")
    assert active == 0, f"{active:.0f} scans still hold their places"


def selects(world, sql, source, data, times=4, extensions=False):
    """Selects of Mallory that keep the cores busy, whose clients leave; the victim works meanwhile and at once after."""
    world.root.put("mallory", "data", data() if callable(data) else data)
    headers = EXTENSIONS if extensions else {}
    open_ones = [world.mallory.begin_select("mallory", "data", sql, source, headers=headers) for _ in range(times)]
    time.sleep(0.3)
    world.meanwhile(1.0)
    for exchange in open_ones:
        exchange.close()
    at_rest(world)
    world.check_victim()


LONG = b"a" * 1_000_000 + b"\n"
WILD = "%" + "_a" * 10_000 + "b%"
MANY = "%" + "a%_" * 6_000 + "b"
LETTERS = "".join(chr(0x4E00 + n) for n in range(20_000))


def json_lines(value: bytes, times=1):
    return b'{"a":"%s"}\n' % value * times


def like_cases():
    text = LONG.strip()
    column = parquet.Column("a", b"", 1, 0)
    content = parquet.frame([len(text).to_bytes(4, "little"), (b"a", len(text))])
    column.pages, column.uncompressed = parquet.data_page(content, len(text) + 4, 1), len(text) + 4
    yield "csv", f"SELECT COUNT(*) FROM S3Object s WHERE s._1 LIKE '{WILD}'", CSV, LONG * 4
    yield "csv, many", f"SELECT COUNT(*) FROM S3Object s WHERE s._1 LIKE '{MANY}'", CSV, LONG * 4
    yield "json", f"SELECT COUNT(*) FROM S3Object s WHERE s.a LIKE '{WILD}'", JSON, json_lines(text, 4)
    yield "parquet", f"SELECT COUNT(*) FROM S3Object s WHERE s.a LIKE '{WILD}'", PARQUET, parquet.file([column], 1)
    yield "not like, escape", f"SELECT COUNT(*) FROM S3Object s WHERE s._1 NOT LIKE '{WILD}' ESCAPE '!'", CSV, LONG * 4
    yield "in the list", f"SELECT s._1 LIKE '{WILD}' FROM S3Object s", CSV, LONG * 4


@attack("3", *like_cases())
def like(world, sql, source, data):
    """Patterns of 20 KB with `_` and `%` on records of a megabyte."""
    selects(world, sql, source, data)


WIDE = "ß".encode() * 400_000 + b"\n"
FUNCTIONS = [
    ("trim", f"SELECT COUNT(*) FROM S3Object s WHERE TRIM(BOTH '{LETTERS}' FROM s._1) = 'x'", CSV, lambda: (LETTERS[-1] * 340_000 + "\n").encode() * 20),
    ("trim from the end", f"SELECT COUNT(*) FROM S3Object s WHERE TRIM(TRAILING '{LETTERS}' FROM s._1) = 'x'", CSV, lambda: (LETTERS[-1] * 340_000 + "\n").encode() * 20),
    ("upper", "SELECT COUNT(*) FROM S3Object s WHERE UPPER(s._1) = 'x'", CSV, lambda: WIDE * 100),
    ("upper of upper", f"SELECT COUNT(*) FROM S3Object s WHERE {'UPPER(LOWER(' * 30}s._1{'))' * 30} = 'x'", CSV, lambda: ("ß" * 500 + "\n").encode() * 40_000),
    ("length", f"SELECT {'+'.join(['CHAR_LENGTH(s._1)'] * 200)} FROM S3Object s", CSV, lambda: WIDE * 60),
    ("substring", f"SELECT {' || '.join(f'SUBSTRING(s._1 FROM {n} FOR 1)' for n in range(399_000, 399_300))} FROM S3Object s", CSV, lambda: WIDE * 20),
    ("in", f"SELECT COUNT(*) FROM S3Object s WHERE s._1 || 'x' IN ({','.join(repr(str(n)) for n in range(20_000))})", CSV, lambda: b"%s\n" % (b"1" * 90) * 400_000),
    ("case", f"SELECT CASE {' '.join(f'WHEN s._1 LIKE {chr(39)}%{n}%z{chr(39)} THEN {n}' for n in range(4_000))} ELSE 0 END FROM S3Object s", CSV, lambda: b"1234567890\n" * 1_000_000),
    ("and", f"SELECT COUNT(*) FROM S3Object s WHERE {' AND '.join(f's._1 <> {chr(39)}{n}{chr(39)}' for n in range(8_000))}", CSV, lambda: b"aaaaaaaaaa\n" * 2_000_000),
    ("dates", f"SELECT COUNT(*) FROM S3Object s WHERE {' OR '.join(['TO_STRING(TO_TIMESTAMP(s._1), ' + chr(39) + 'yyyy-MM-dd' + chr(39) + ') = ' + chr(39) + 'x' + chr(39)] * 100)}", CSV, lambda: b"2020-01-01T00:00:00Z\n" * 500_000),
    ("json paths", f"SELECT {', '.join(f's.a.b.c.k{n}' for n in range(500))} FROM S3Object s", JSON, lambda: b'{"a":{"b":{"c":{%s}}}}\n' % b",".join(b'"k%d":%d' % (n, n) for n in range(1000)) * 2_000),
    ("json depth", "SELECT COUNT(*) FROM S3Object s WHERE s.a.a.a.a = 1", JSON, lambda: (b'{"a":' * 60 + b"1" + b"}" * 60 + b"\n") * 120_000),
]


@attack("found since", *FUNCTIONS)
def functions(world, sql, source, data):
    """Functions over long and many records."""
    selects(world, sql, source, data)


@attack("24", ("csv", CSV), ("json", JSON))
def blank_lines(world, source):
    """64 MB of nothing but line ends."""
    selects(world, "SELECT COUNT(*) FROM S3Object s", source, lambda: b"\n" * (64 << 20))


BOMBS = [("gzip", "GZIP", lambda: gzip.compress(b"\n" * (128 << 20), 1)), ("bzip2", "BZIP2", lambda: bz2.compress(b"a" * (8 << 20)) * 60)]


@attack("24", *BOMBS)
def bombs(world, name, data):
    """Compressed objects that are a thousand times as large decompressed."""
    selects(world, "SELECT COUNT(*) FROM S3Object s WHERE s._1 LIKE '%b%'", f"<CompressionType>{name}</CompressionType><CSV/>", data)


@attack("extension")
def sorts(world):
    """ORDER BY of long keys over many records."""
    rows = b"".join(b"%d,%s\n" % (n * 7919 % 1_000_003, b"k" * 100) for n in range(300_000))
    selects(world, "SELECT * FROM S3Object s ORDER BY s._2, s._1 LIMIT 100000", CSV, rows, extensions=True)


@attack("found since", ("like", f"s._1 LIKE '{WILD}'"), seconds=40)
def a_fragment_whose_engine_was_killed(world, _):
    """An engine sends a fragment that takes long and is killed with SIGKILL."""
    world.root.put("mallory", "long.csv", LONG * 8)
    environment = {
        "AWS_ENDPOINT_URL": world.node.endpoint, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": MALLORY.id, "AWS_SECRET_ACCESS_KEY": MALLORY.secret,
    }
    sql = (
        "CREATE EXTERNAL TABLE t (a VARCHAR) STORED AS CSV LOCATION 's3://mallory/long.csv' OPTIONS ('format.has_header' 'false');"
        f"SELECT count(*) FROM t WHERE a LIKE '{WILD}'"
    )
    script = world.node.folder / "long.sql"
    script.write_text(sql, encoding="utf-8")
    command = [world.node.binary, "--set", "pushdown.level=fragment", "--set", "pushdown.filter=storage", "-f", str(script)]
    before = world.node.cpu_seconds()
    engines = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    time.sleep(1.5)
    ran = world.node.cpu_seconds() - before
    assert all(engine.poll() is None for engine in engines) or ran < 1, [engine.communicate() for engine in engines if engine.poll() is not None]
    world.meanwhile(0.5)
    for engine in engines:
        engine.send_signal(signal.SIGKILL)
        engine.communicate()
    at_rest(world)


def chunked_form(world, content_type, body, size):
    """A form sent in chunks of a few bytes."""
    exchange = world.keep(Peer(world.node).begin("POST", "/victim", {"content-type": content_type, "transfer-encoding": "chunked"}))
    pieces = [b"%x\r\n%s\r\n" % (len(part), part) for part in (body[at : at + size] for at in range(0, len(body), size))]
    exchange.try_to_send(b"".join(pieces) + b"0\r\n\r\n")
    return exchange


FORMS = [("boundary of 201", "b" * 201), ("boundary of 70", "b" * 70), ("no boundary", None), ("boundary of dashes", "-" * 69), ("a long one in quotes", '"' + "b" * 300 + '"')]


@attack("7", *FORMS)
def forms_in_small_pieces(world, boundary):
    """An anonymous form of 0.9 MB in pieces of two bytes: parsing it takes a fraction of a second."""
    kind = "multipart/form-data" + (f"; boundary={boundary}" if boundary else "")
    mark = "--" + (boundary or "b").strip('"')
    head = f'{mark}\r\nContent-Disposition: form-data; name="key"\r\n\r\nx\r\n{mark}\r\nContent-Disposition: form-data; name="a"\r\n\r\n'.encode()
    body = head + (f"\r\n{mark}"[:-1]).encode() * (875_000 // (len(mark) + 1))
    before = world.node.cpu_seconds()
    exchange = chunked_form(world, kind, body, 2)
    exchange.stream.settimeout(6)
    world.check_victim()
    exchange.answer(8)
    used = world.node.cpu_seconds() - before
    assert used < 3, f"{used:.1f} s of CPU for 0.9 MB of a form"


@attack("7")
def a_form_of_many_fields(world):
    """A form whose head is nothing but small fields."""
    field = b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\n\r\n'
    before = world.node.cpu_seconds()
    exchange = chunked_form(world, "multipart/form-data; boundary=b", field * 20_000, 16)
    exchange.answer(8)
    used = world.node.cpu_seconds() - before
    assert used < 3, f"{used:.1f} s of CPU for a megabyte of a form"


DOCUMENTS = [("nested", b"<a>" * 300_000), ("entities", b"&lt;" * 900_000), ("attributes", b"<a " + b'x="" ' * 700_000), ("keys", b"<Object><Key>k</Key></Object>" * 120_000)]


@attack("7", *DOCUMENTS)
def documents(world, inner):
    """Signed documents of megabytes are read in a time that grows with their length alone."""
    body = b"<Delete>" + inner
    before = world.node.cpu_seconds()
    answer = world.mallory.send("POST", "mallory", query=[("delete", "")], body=body[: 4 << 20])
    used = world.node.cpu_seconds() - before
    assert answer.status >= 400 and used < 2, (answer.status, used)
