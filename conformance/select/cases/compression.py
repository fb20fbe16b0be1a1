"""GZIP and BZIP2 over CSV and JSON, and what is not what it claims to be."""

import bz2
import gzip

from conformance.select.case import CSV_OUT, Err, Input, csv, group, lines

ROWS = "".join(f"{n},text {n}\n" for n in range(5000))
COUNT = "SELECT COUNT(*), SUM(CAST(_1 AS INT)) FROM S3Object"
RIGHT = ["5000,12497500"]
GZIP, BZIP2 = gzip.compress(ROWS.encode()), bz2.compress(ROWS.encode())


def raw(data, kind):
    return csv(data, compression=kind, pack=False)


def halves(pack):
    return pack(ROWS[:20000].encode()) + pack(ROWS[20000:].encode())


CASES = group("compression", csv(ROWS), [
    ("NONE named", COUNT, RIGHT, {"input": csv(ROWS, compression="NONE")}),
    ("GZIP", COUNT, RIGHT, {"input": csv(ROWS, compression="GZIP")}),
    ("BZIP2", COUNT, RIGHT, {"input": csv(ROWS, compression="BZIP2")}),
    ("GZIP of JSON", "SELECT SUM(s.a) AS v FROM S3Object s", [{"v": 6}], {"input": lines('{"a":1}\n{"a":2}\n{"a":3}\n', compression="GZIP")}),
    ("BZIP2 of JSON", "SELECT SUM(s.a) AS v FROM S3Object s", [{"v": 6}], {"input": lines('{"a":1}\n{"a":2}\n{"a":3}\n', compression="BZIP2")}),
    ("GZIP with a header", "SELECT b FROM S3Object", ["2"], {"input": csv("a,b\n1,2\n", "USE", compression="GZIP")}),
    ("GZIP of several members", COUNT, RIGHT, {"input": raw(halves(gzip.compress), "GZIP")}),
    ("BZIP2 of several streams", COUNT, RIGHT, {"input": raw(halves(bz2.compress), "BZIP2")}),
    ("GZIP of nothing", "SELECT COUNT(*) FROM S3Object", ["0"], {"input": csv("", compression="GZIP")}),
    ("BZIP2 of nothing", "SELECT COUNT(*) FROM S3Object", ["0"], {"input": csv("", compression="BZIP2")}),
    ("LIMIT", "SELECT _1 FROM S3Object LIMIT 2", ["0", "1"], {"input": csv(ROWS, compression="GZIP")}),
    ("a bomb", "SELECT COUNT(*) FROM S3Object", ["5000000"], {"input": csv("a,b,c,d\n" * 5_000_000, compression="GZIP")}),
    ("a bomb without newlines", "SELECT _1 FROM S3Object", Err("OverMaxRecordSize"), {"input": csv("a" * 30_000_000, compression="GZIP")}),
    ("GZIP cut in half", COUNT, Err("TruncatedInput"), {"input": raw(GZIP[: len(GZIP) // 2], "GZIP")}),
    ("GZIP without its last byte", COUNT, Err("TruncatedInput"), {"input": raw(GZIP[:-1], "GZIP")}),
    ("BZIP2 cut in half", COUNT, Err("TruncatedInput"), {"input": raw(BZIP2[: len(BZIP2) // 2], "BZIP2")}),
    ("GZIP cut in its header", COUNT, Err("TruncatedInput", "InvalidCompressionFormat"), {"input": raw(GZIP[:5], "GZIP")}),
    ("GZIP with a wrong checksum", COUNT, Err("TruncatedInput", "InvalidCompressionFormat"), {"input": raw(GZIP[:-8] + b"\0\0\0\0" + GZIP[-4:], "GZIP")}),
    ("GZIP that is damaged", COUNT, Err("TruncatedInput", "InvalidCompressionFormat"),
     {"input": raw(GZIP[:2000] + bytes(byte ^ 0x55 for byte in GZIP[2000:2100]) + GZIP[2100:], "GZIP")}),
    ("plain text called GZIP", COUNT, Err("InvalidCompressionFormat", "TruncatedInput"), {"input": raw(ROWS.encode(), "GZIP")}),
    ("plain text called BZIP2", COUNT, Err("InvalidCompressionFormat", "TruncatedInput"), {"input": raw(ROWS.encode(), "BZIP2")}),
    ("BZIP2 called GZIP", COUNT, Err("InvalidCompressionFormat", "TruncatedInput"), {"input": raw(BZIP2, "GZIP")}),
    ("GZIP read as plain text", "SELECT _1 FROM S3Object", Err("*"), {"input": csv(GZIP)}),
    ("an unknown kind", COUNT, Err("InvalidCompressionFormat", "InvalidRequestParameter"),
     {"input": Input(ROWS.encode(), {"CSV": {}, "CompressionType": "LZO"}, CSV_OUT)}),
])
