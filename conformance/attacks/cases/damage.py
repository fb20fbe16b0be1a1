"""Rot: bytes that changed on the disk are never given as the object."""

import re

from conformance.attacks.case import attack
from conformance.attacks.world import ROWS

DATA = b"".join(b"%d,%d\n" % (n, n % 10) for n in range(100_000))
QUERY = "SELECT SUM(CAST(s._2 AS INT)) FROM S3Object s"


def restarted(world, change):
    """Stops the node, has the disk change, starts it anew; false if it refuses to start, which is an answer too."""
    world.node.stop()
    change()
    try:
        world.node.start()
    except AssertionError as error:
        assert "damage" in str(error).lower() or "corrupt" in str(error).lower() or "checksum" in str(error).lower(), error
        return False
    return True


def largest_file(world):
    files = [path for path in (world.node.store / "data").rglob("*") if path.is_file()]
    return max(files, key=lambda path: path.stat().st_size)


def flip(path, at, bit=1):
    data = bytearray(path.read_bytes())
    data[at] ^= bit
    path.write_bytes(data)


@attack("6", ("first block", 10), ("middle", len(DATA) // 2), ("last byte", len(DATA) - 1))
def a_flipped_bit(world, at):
    """One bit of a data file: every way of reading is an error, and no copy makes it valid again."""
    world.root.put("mallory", "rotten", DATA)
    world.root.put("mallory", "whole", DATA)
    files = sorted((path for path in (world.node.store / "data").rglob("*") if path.is_file() and path.stat().st_size >= len(DATA)), key=lambda path: path.stat().st_mtime_ns)
    if not restarted(world, lambda: flip(files[0], at)):
        raise AssertionError("damage of one object keeps the node from starting")
    root = world.root
    assert root.get("mallory", "whole").body == DATA
    read = root.get("mallory", "rotten")
    assert read.status >= 500 or read.status == 0 or len(read.body) < len(DATA), f"a GET gave {read.status} and {len(read.body)} bytes"
    start = max(0, at - 100)
    ranged = root.get("mallory", "rotten", headers={"range": f"bytes={start}-{at + 100}"})
    assert ranged.status >= 500 or ranged.status == 0 or at - start >= len(ranged.body), f"a range gave {ranged.status}"
    error, rows = root.select("mallory", "rotten", QUERY)
    assert error is not None, f"a Select gave {rows}"
    for headers in ({}, {"x-amz-checksum-algorithm": "SHA256"}, {"x-amz-metadata-directive": "REPLACE", "x-amz-meta-a": "b"}):
        copied = root.send("PUT", "mallory", "copy", headers={"x-amz-copy-source": "/mallory/rotten", **headers})
        again = root.get("mallory", "copy")
        assert copied.status >= 400 or again.status != 200 or len(again.body) < len(DATA), f"a copy with {headers} is valid"
    upload = root.send("POST", "mallory", "parts", [("uploads", "")]).body.split(b"<UploadId>")[1].split(b"<")[0].decode()
    query = [("partNumber", "1"), ("uploadId", upload)]
    part = root.send("PUT", "mallory", "parts", query, headers={"x-amz-copy-source": "/mallory/rotten"})
    if part.status == 200 and b"<ETag>" in part.body:
        etag = part.body.split(b"<ETag>")[1].split(b"<")[0].decode()
        body = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>".encode()
        root.send("POST", "mallory", "parts", [("uploadId", upload)], body=body)
        again = root.get("mallory", "parts")
        assert again.status != 200 or len(again.body) < len(DATA), "a copied part made the damage valid"


@attack("6", ("cut short", "cut"), ("missing", "missing"), ("longer", "longer"))
def a_file_that_changed_its_length(world, what):
    """A data file that is missing, cut short, or longer; the log names bucket and key."""
    world.root.put("mallory", "rotten", DATA)
    file = largest_file(world)

    def change():
        if what == "missing":
            file.unlink()
        else:
            data = file.read_bytes()
            file.write_bytes(data[: len(data) // 2] if what == "cut" else data + b"1,1\n")

    if not restarted(world, change):
        raise AssertionError("damage of one object keeps the node from starting")
    read = world.root.get("mallory", "rotten")
    if what == "longer":
        assert read.status >= 500 or read.status == 0 or read.body == DATA, "other bytes were given as the object"
        return
    assert read.status >= 500 or read.status == 0 or len(read.body) < len(DATA), read.status
    error, _ = world.root.select("mallory", "rotten", QUERY)
    assert error is not None
    assert any("rotten" in str(record) for record in world.node.records()), "no line of the log names the object"


@attack("6", ("size", rb'"size":(\d+)'), ("etag", rb'"etag":"([0-9a-f]{32})'), ("any number", rb":(\d{4,})[,}]"))
def a_digit_of_the_index(world, pattern):
    """One digit of a record of the index: it is not believed."""
    world.root.put("mallory", "k", ROWS)
    etag = world.root.send("HEAD", "mallory", "k").headers["etag"]
    index = max((path for path in world.node.store.rglob("*redb*") if path.is_file()), key=lambda path: path.stat().st_size)

    def change():
        data = bytearray(index.read_bytes())
        for found in re.finditer(pattern, bytes(data)):
            at = found.start(1)
            data[at] = data[at] ^ 1
        index.write_bytes(data)

    if not restarted(world, change):
        # Only so that what follows has a node: a refusal that names the damage is what was wanted.
        world.node.store = world.node.store.parent / "other"
        world.node.backing = ["--store", str(world.node.store)]
        world.node.start()
        world.prepare()
        return
    answer = world.root.get("mallory", "k")
    right = answer.body == ROWS and answer.headers.get("etag") == etag
    assert answer.status >= 400 or answer.status == 0 or right, f"{answer.status} with {len(answer.body)} bytes, {answer.headers.get('etag')}"
    # The records of the victim are damaged too: that it is refused is right here.
    world.check_victim = lambda: None
