"""Memory: what is claimed is not allocated, what arrives is counted. The runner holds the peak against the promise."""

import gzip
import time

from conformance.attacks import parquet
from conformance.attacks.case import attack
from conformance.attacks.peer import EMPTY, Peer, form_fields
from conformance.attacks.zstd import frame

from .cpu import CSV, EXTENSIONS, PARQUET
from .waiting import many_addresses, open_many

MIB = 1 << 20


def run_selects(world, times, sql, source, data, extensions=False, seconds=4.0):
    """Selects of one key at once. Each may be refused; none is a reason for more memory."""
    world.root.put("mallory", "data", data() if callable(data) else data)
    headers = EXTENSIONS if extensions else {}
    open_many(world, times, lambda n: Peer(world.node, world.mallory.key, many_addresses(n)).begin_select("mallory", "data", sql, source, headers=headers))
    world.meanwhile(seconds)


def all_of(names):
    """A condition that every row fulfils, so that each column is decoded."""
    return " AND ".join(f"s.{name} LIKE '%a%'" for name in names)


def lying(columns):
    names = [f"c{n}" for n in range(columns)]
    return parquet.file([parquet.plain_column(name, 3600, 131_068) for name in names], 3600, claimed=1000), names


@attack("5", ("6 columns", 6), ("16 columns", 16), ("64 columns", 64), seconds=60)
def pages_larger_than_the_footer_says(world, columns):
    """Columns of one page of 450 MB each, in a file of some hundred KB whose footer claims a kilobyte."""
    data, names = lying(columns)
    run_selects(world, 2, f"SELECT COUNT(*) FROM S3Object s WHERE {all_of(names)}", PARQUET, data)


@attack("5", ("1 at once", 1), ("6 at once", 6), seconds=60)
def an_honest_dictionary(world, times):
    """500 MB in one dictionary page, as large as the limit allows."""
    column = parquet.dictionary_column("a", 1000, 4000, 130_000)
    sql = "SELECT COUNT(*) FROM S3Object s WHERE s.a LIKE '%a%'"
    run_selects(world, times, sql, PARQUET, parquet.file([column], 1000))


@attack("found since", ("few and long", 700, 100_000, 5, 130_000), ("each row another", 700, 1000, 40, 16_000), ("2000 columns", 2000, 1000, 200, 1000), seconds=60)
def many_dictionaries(world, columns, rows, values, size):
    """As many dictionary columns as a file may have, all of them read at once."""
    data = parquet.file([parquet.dictionary_column(f"c{n}", rows, values, size) for n in range(columns)], rows)
    run_selects(world, 3, "SELECT * FROM S3Object s", PARQUET, data)


@attack("5", ("rows", 1 << 24, 1), ("columns", 1000, 4000), seconds=60)
def runs_of_nothing(world, rows, columns):
    """Many rows, or many columns, of which a few bytes say that they are all alike."""
    names = [f"c{n}" for n in range(columns)]
    data = parquet.file([parquet.dictionary_column(name, rows, 1, 1000) for name in names], rows)
    run_selects(world, 4, "SELECT * FROM S3Object s", PARQUET, data)


@attack("10", ("16", 16), ("64", 64))
def zstandard_windows(world, times):
    """Objects of some KB whose frames ask for a window of 128 MiB."""
    data = frame([(b"a", 100_000), b"\n"] * 3000, window_log=27)
    run_selects(world, times, "SELECT COUNT(*) FROM S3Object s WHERE s._1 <> 'x'", "<CompressionType>ZSTD</CompressionType><CSV/>", data)


@attack("10", ("gzip", "GZIP", lambda: gzip.compress(b"a" * (200 << 20), 1)), ("zstd", "ZSTD", frame([(b"a", 1 << 30)])))
def one_record_without_end(world, name, data):
    """A record that never ends, from an object of a few KB."""
    run_selects(world, 16, "SELECT COUNT(*) FROM S3Object s", f"<CompressionType>{name}</CompressionType><CSV/>", data, seconds=2)


@attack("10", seconds=60)
def groups(world):
    """16 GROUP BY with a million groups of long keys each."""
    rows = b"".join(b"%d%s\n" % (n, b"k" * 200) for n in range(400_000))
    run_selects(world, 16, "SELECT s._1, COUNT(*), MIN(s._1), MAX(s._1) FROM S3Object s GROUP BY s._1", CSV, rows, extensions=True, seconds=6)


@attack("found since", ("many rows", 300_000, 300, 300_000), ("long rows", 600, 900_000, 600), seconds=60)
def first_rows_of_an_order(world, rows, size, limit):
    """ORDER BY … LIMIT with a limit as large as the object."""
    data = b"".join(b"%d,%s\n" % (n * 7919 % 1_000_003, b"k" * size) for n in range(rows))
    sql = f"SELECT * FROM S3Object s ORDER BY s._1 LIMIT {limit}"
    run_selects(world, 16, sql, CSV, data, extensions=True, seconds=6)


@attack("10", ("concatenation", " || ".join(["s._1"] * 400)), ("nested", "REPEAT"))
def values_that_grow(world, sql):
    """A statement that makes a long value out of a short one, many times over."""
    inner = "s._1"
    if sql == "REPEAT":
        for _ in range(24):
            inner = f"UPPER({inner} || {inner})" if len(inner) < 60_000 else inner
        sql = inner
    run_selects(world, 16, f"SELECT COUNT(*) FROM S3Object s WHERE {sql} <> 'x'", CSV, b"%s\n" % (b"a" * 2000) * 20_000, seconds=4)


@attack("10", seconds=60)
def signed_chunks_that_do_not_end(world):
    """100 uploads whose signed chunk of 16 MiB lacks its last byte."""
    headers = {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": str(16 * MIB)}
    chunk = b"%x;chunk-signature=%s\r\n" % (16 * MIB, b"0" * 64) + bytes(16 * MIB - 1)

    def begin(n):
        peer = Peer(world.node, world.mallory.key, many_addresses(n))
        exchange = peer.half("PUT", "mallory", f"chunks-{n}", headers=headers, length=len(chunk) + 100, payload="STREAMING-AWS4-HMAC-SHA256-PAYLOAD", timeout=1.5)
        exchange.try_to_send(chunk)
        return exchange

    open_many(world, 100, begin)
    world.meanwhile(2)


@attack("10")
def anonymous_documents(world):
    """220 unsigned documents of 4 MiB that lack their last byte."""
    def begin(n):
        exchange = Peer(world.node, source=many_addresses(n)).begin(
            "PUT", "/victim?tagging", {"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg==", "content-length": str(4 * MIB)}, timeout=1.5
        )
        exchange.try_to_send(b" " * (4 * MIB - 1))
        return exchange

    open_many(world, 220, begin)
    world.meanwhile(2)


@attack("10", ("anonymous", False), ("of a key", True))
def form_files(world, is_signed):
    """64 upload forms of 16 MiB that lack their end."""
    fields = form_fields(world.mallory, "mallory", "file") if is_signed else [("key", "file")]
    head = b"".join(f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields)
    head += b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'

    def begin(n):
        headers = {"content-type": "multipart/form-data; boundary=b", "content-length": str(16 * MIB)}
        exchange = Peer(world.node, source=many_addresses(n)).begin("POST", "/mallory", headers, timeout=1)
        exchange.try_to_send(head + bytes(16 * MIB - len(head) - 100))
        return exchange

    open_many(world, 64, begin)
    world.meanwhile(2)


DOCUMENTS = [("delete", "POST", "", [("delete", "")], 4 * MIB), ("fragment", "POST", "", [("pushdowndb-fragment", "")], 32 * MIB), ("select", "POST", "data", [("select", ""), ("select-type", "2")], 4 * MIB)]


@attack("10", *DOCUMENTS, seconds=60)
def signed_documents(world, method, key, query, size):
    """Signed bodies that are read whole, as large as they may be, without their last byte: 128 of one key."""
    world.root.put("mallory", "data", b"1\n")

    def begin(n):
        peer = Peer(world.node, world.mallory.key, many_addresses(n))
        exchange = peer.half(method, "mallory", key, query, {"content-md5": "1B2M2Y8AsgTpgAmY7PhCfg=="}, length=size, payload=EMPTY, timeout=1.5)
        exchange.try_to_send(b" " * (size - 1))
        return exchange

    open_many(world, 128 if size <= 4 * MIB else 48, begin)
    world.meanwhile(2)


@attack("20")
def large_heads(world):
    """900 heads of 250 KB that never end."""
    from .waiting import half_head

    text = b"GET / HTTP/1.1\r\n" + b"".join(b"x-%d: %s\r\n" % (n, b"a" * 4000) for n in range(60))
    open_many(world, 900, lambda n: half_head(world, many_addresses(n), text))
    world.meanwhile(2)


@attack("found since", ("rows", "SELECT * FROM S3Object s"), ("long rows", f"SELECT {' || '.join(['s._1'] * 100)} FROM S3Object s"))
def answers_that_nobody_reads(world, sql):
    """80 Selects whose rows are as long as rows may be; nobody reads them."""
    run_selects(world, 80, sql, CSV, b"%s\n" % (b"a" * 9000) * 6_000)


@attack("20")
def uploads_that_nobody_ends(world):
    """256 PUTs of one key, each with 8 MiB of its body sent as fast as it goes and the last byte missing."""
    piece = bytes(8 * MIB - 1)

    def begin(n):
        exchange = Peer(world.node, world.mallory.key, many_addresses(n)).half("PUT", "mallory", f"u-{n}", length=8 * MIB, timeout=1.5)
        exchange.try_to_send(piece)
        return exchange

    open_many(world, 256, begin)
    world.meanwhile(2)


@attack("10", seconds=90)
def all_at_once(world):
    """One of each kind, together: the promise is for the whole node."""
    data, names = lying(16)
    world.root.put("mallory", "lies", data)
    world.root.put("mallory", "windows", frame([(b"b", 100_000), b"\n"] * 2000, window_log=27))
    world.root.put("mallory", "dictionary", parquet.file([parquet.dictionary_column("a", 1000, 4000, 130_000)], 1000))
    world.root.put("mallory", "rows", b"".join(b"%d%s\n" % (n, b"k" * 200) for n in range(200_000)))
    kinds = [
        ("lies", f"SELECT COUNT(*) FROM S3Object s WHERE {all_of(names)}", PARQUET),
        ("windows", "SELECT COUNT(*) FROM S3Object s WHERE s._1 <> 'x'", "<CompressionType>ZSTD</CompressionType><CSV/>"),
        ("dictionary", "SELECT COUNT(*) FROM S3Object s WHERE s.a LIKE '%a%'", PARQUET),
        ("rows", "SELECT s._1, COUNT(*) FROM S3Object s GROUP BY s._1", CSV),
        ("rows", "SELECT * FROM S3Object s ORDER BY s._1 LIMIT 200000", CSV),
    ]

    def begin(n):
        key, sql, source = kinds[n % len(kinds)]
        owner = (world.mallory, world.root)[n % 2]
        return Peer(world.node, owner.key, many_addresses(n)).begin_select("mallory", key, sql, source, headers=EXTENSIONS)

    open_many(world, 40, begin)
    headers = {"content-encoding": "aws-chunked", "x-amz-decoded-content-length": str(16 * MIB)}
    chunk = b"%x;chunk-signature=%s\r\n" % (16 * MIB, b"0" * 64) + bytes(8 * MIB)

    def upload(n):
        peer = Peer(world.node, world.mallory.key, many_addresses(n))
        exchange = peer.half("PUT", "mallory", f"c-{n}", headers=headers, length=len(chunk) * 3, payload="STREAMING-AWS4-HMAC-SHA256-PAYLOAD", timeout=1.5)
        exchange.try_to_send(chunk)
        return exchange

    open_many(world, 40, upload)
    time.sleep(0.5)
    world.meanwhile(6)
