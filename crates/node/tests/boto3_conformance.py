"""A node through the AWS SDK for Python: everyday operations, S3 Select, error codes.

Runs under pytest and on its own. The node is told by the environment: PUSHDOWNDB_ENDPOINT, the usual AWS_*
keys, and PUSHDOWNDB_PARQUET, a table of 1000 rows that the Rust tests write.
"""

import bz2
import csv
import gzip
import io
import json
import os
import sys
import traceback
import uuid

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

s3 = boto3.client(
    "s3",
    # Signature version 2, the SDK's default for signed URLs, is refused.
    endpoint_url=os.environ["PUSHDOWNDB_ENDPOINT"],
    region_name="us-east-1",
    config=Config(signature_version="s3v4", s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
)
BUCKET = f"boto3-{uuid.uuid4().hex[:12]}"
s3.create_bucket(Bucket=BUCKET)

PEOPLE = "id,name,age\n1,Ann,30\n2,Bob,\n3,\"Carl, Jr.\",41\n4,Dora,5\n"


def put(key, body, **more):
    body = body.encode() if isinstance(body, str) else body
    return s3.put_object(Bucket=BUCKET, Key=key, Body=body, **more)


def code(call, **arguments):
    """The code and status of the error that a call must fail with."""
    try:
        answer = call(**arguments)
        if "Payload" in answer:
            list(answer["Payload"])
    except ClientError as error:
        # An error frame in an answer that has begun has no status of its own.
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return error.response["Error"]["Code"], status
    raise AssertionError(f"{call} did not fail")


def select(key, sql, source=None, sink=None, **more):
    """The text of the rows; the stream must end properly and bill what it returned."""
    answer = s3.select_object_content(
        Bucket=BUCKET,
        Key=key,
        Expression=sql,
        ExpressionType="SQL",
        InputSerialization=source or {"CSV": {"FileHeaderInfo": "USE"}},
        OutputSerialization=sink or {"CSV": {}},
        **more,
    )
    rows, stats, ended = b"", None, False
    for event in answer["Payload"]:
        assert not ended
        rows += event.get("Records", {}).get("Payload", b"")
        stats = event.get("Stats", {}).get("Details", stats)
        ended = "End" in event
    assert ended and stats["BytesReturned"] == len(rows), stats
    select.stats = stats
    return rows.decode()


def test_objects():
    etag = put("k", "hello", ContentType="text/plain", Metadata={"a": "b"})["ETag"]
    assert etag == '"5d41402abc4b2a76b9719d911017c592"'
    got = s3.get_object(Bucket=BUCKET, Key="k")
    assert (got["Body"].read(), got["ContentType"], got["Metadata"]) == (b"hello", "text/plain", {"a": "b"})
    assert got["ResponseMetadata"]["HTTPHeaders"]["server"].startswith("pushdowndb/")
    part = s3.get_object(Bucket=BUCKET, Key="k", Range="bytes=1-3")
    assert (part["Body"].read(), part["ContentRange"]) == (b"ell", "bytes 1-3/5")
    assert part["ResponseMetadata"]["HTTPStatusCode"] == 206
    head = s3.head_object(Bucket=BUCKET, Key="k", ChecksumMode="ENABLED")
    assert head["ContentLength"] == 5 and head["ETag"] == etag and head["ChecksumCRC32"]
    s3.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "k"})
    replaced = {"MetadataDirective": "REPLACE", "Metadata": {"c": "d"}}
    s3.copy_object(Bucket=BUCKET, Key="copy", CopySource={"Bucket": BUCKET, "Key": "copy"}, **replaced)
    assert s3.head_object(Bucket=BUCKET, Key="copy")["Metadata"] == {"c": "d"}
    s3.delete_object(Bucket=BUCKET, Key="k")
    s3.delete_object(Bucket=BUCKET, Key="k")
    assert code(s3.get_object, Bucket=BUCKET, Key="k") == ("NoSuchKey", 404)
    url = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": "copy"})
    from urllib.request import urlopen

    assert urlopen(url).read() == b"hello"


def test_checksums():
    for algorithm in ["CRC32", "CRC32C", "SHA1", "SHA256", "CRC64NVME"]:
        try:
            answer = put("sum", "abc" * 1000, ChecksumAlgorithm=algorithm)
        except Exception as error:  # Some need an optional library on the client's side.
            if "MissingDependency" in type(error).__name__:
                continue
            raise
        got = s3.get_object(Bucket=BUCKET, Key="sum", ChecksumMode="ENABLED")
        assert got[f"Checksum{algorithm}"] == answer[f"Checksum{algorithm}"]
        assert got["Body"].read() == b"abc" * 1000
    assert code(put, key="sum", body="x", ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==") == ("BadDigest", 400)
    assert code(put, key="sum", body="x", ChecksumSHA256="A" * 43 + "=") == ("BadDigest", 400)
    assert s3.head_object(Bucket=BUCKET, Key="sum")["ContentLength"] == 3000


def test_conditions():
    etag = put("cond", "1")["ETag"]
    assert code(put, key="cond", body="2", IfNoneMatch="*") == ("PreconditionFailed", 412)
    assert code(put, key="cond", body="2", IfMatch='"0"') == ("PreconditionFailed", 412)
    put("cond", "2", IfMatch=etag)
    assert code(s3.get_object, Bucket=BUCKET, Key="cond", IfMatch=etag) == ("PreconditionFailed", 412)
    now = s3.head_object(Bucket=BUCKET, Key="cond")
    assert code(s3.get_object, Bucket=BUCKET, Key="cond", IfNoneMatch=now["ETag"])[1] == 304
    assert code(s3.get_object, Bucket=BUCKET, Key="cond", IfModifiedSince=now["LastModified"])[1] == 304


def test_listing():
    keys = sorted(["l/a b", "l/a+b", "l/a/1", "l/a/2", "l/b", "l/ü&<", "l/z/z/z"], key=str.encode)
    for key in keys:
        put(key, key)
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix="l/", PaginationConfig={"PageSize": 2})
    assert [entry["Key"] for page in pages for entry in page["Contents"]] == keys
    for name in ["list_objects_v2", "list_objects"]:
        pages = s3.get_paginator(name).paginate(
            Bucket=BUCKET, Prefix="l/", Delimiter="/", PaginationConfig={"PageSize": 2}
        )
        found = [e.get("Key", e.get("Prefix")) for p in pages for e in p.get("Contents", []) + p.get("CommonPrefixes", [])]
        assert sorted(found) == sorted(["l/a b", "l/a+b", "l/a/", "l/b", "l/ü&<", "l/z/"]), (name, found)
    after = s3.list_objects_v2(Bucket=BUCKET, Prefix="l/", StartAfter="l/b")
    assert [entry["Key"] for entry in after["Contents"]] == ["l/z/z/z", "l/ü&<"]
    answer = s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in keys + ["l/none"]]})
    assert len(answer["Deleted"]) == len(keys) + 1 and "Errors" not in answer
    assert s3.list_objects_v2(Bucket=BUCKET, Prefix="l/")["KeyCount"] == 0


def test_multipart():
    body = os.urandom(12 << 20)
    config = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20)
    s3.upload_fileobj(io.BytesIO(body), BUCKET, "parts", Config=config)
    head = s3.head_object(Bucket=BUCKET, Key="parts")
    assert head["ETag"].endswith('-3"') and head["ContentLength"] == len(body)
    out = io.BytesIO()
    s3.download_fileobj(BUCKET, "parts", out, Config=config)
    assert out.getvalue() == body
    second = s3.get_object(Bucket=BUCKET, Key="parts", PartNumber=2)
    assert second["PartsCount"] == 3 and second["Body"].read() == body[5 << 20 : 10 << 20]
    s3.copy({"Bucket": BUCKET, "Key": "parts"}, BUCKET, "parts-copy", Config=config)
    assert s3.get_object(Bucket=BUCKET, Key="parts-copy")["Body"].read() == body

    upload = s3.create_multipart_upload(Bucket=BUCKET, Key="open")["UploadId"]
    here = {"Bucket": BUCKET, "Key": "open", "UploadId": upload}
    etags = [s3.upload_part(**here, PartNumber=n, Body=b"x" * n)["ETag"] for n in (1, 2)]
    listed = s3.list_parts(**here)["Parts"]
    assert [(part["PartNumber"], part["Size"], part["ETag"]) for part in listed] == [(1, 1, etags[0]), (2, 2, etags[1])]
    assert upload in [u["UploadId"] for u in s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]]

    def complete(parts):
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in parts]
        return code(s3.complete_multipart_upload, **here, MultipartUpload={"Parts": parts})

    assert complete([(1, etags[0]), (2, etags[1])]) == ("EntityTooSmall", 400)
    assert complete([(2, etags[1]), (1, etags[0])]) == ("InvalidPartOrder", 400)
    assert complete([(1, etags[1])]) == ("InvalidPart", 400)
    s3.complete_multipart_upload(**here, MultipartUpload={"Parts": [{"PartNumber": 2, "ETag": etags[1]}]})
    assert s3.get_object(Bucket=BUCKET, Key="open")["Body"].read() == b"xx"
    assert code(s3.abort_multipart_upload, **here) == ("NoSuchUpload", 404)


def test_buckets_and_errors():
    assert BUCKET in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    s3.head_bucket(Bucket=BUCKET)
    assert s3.get_bucket_location(Bucket=BUCKET)["LocationConstraint"] in (None, "")
    assert code(s3.create_bucket, Bucket=BUCKET)[0] == "BucketAlreadyOwnedByYou"
    put("k", "x")
    assert code(s3.delete_bucket, Bucket=BUCKET) == ("BucketNotEmpty", 409)
    assert code(s3.list_objects_v2, Bucket="no-such-bucket") == ("NoSuchBucket", 404)
    assert code(s3.put_object, Bucket="no-such-bucket", Key="k", Body=b"x") == ("NoSuchBucket", 404)
    assert code(s3.head_object, Bucket=BUCKET, Key="no-such-key") == ("404", 404)
    assert code(s3.get_object, Bucket=BUCKET, Key="k", Range="bytes=5-") == ("InvalidRange", 416)
    assert code(s3.get_object_retention, Bucket=BUCKET, Key="k") == ("NotImplemented", 501)
    assert code(put, key="k", body="x", ServerSideEncryption="AES256") == ("NotImplemented", 501)
    assert code(put, key="k", body="x", Metadata={"m": "x" * 3000})[0] == "MetadataTooLarge"
    assert s3.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"x"
    other = f"{BUCKET}-2"
    s3.create_bucket(Bucket=other)
    s3.delete_bucket(Bucket=other)
    assert code(s3.delete_bucket, Bucket=other) == ("NoSuchBucket", 404)


def test_select_csv():
    put("people.csv", PEOPLE)
    assert select("people.csv", "SELECT * FROM S3Object") == PEOPLE.split("\n", 1)[1]
    assert select.stats["BytesScanned"] == len(PEOPLE)
    assert select("people.csv", "SELECT s.name FROM S3Object s WHERE CAST(s.id AS INT) > 2") == '"Carl, Jr."\nDora\n'
    assert select("people.csv", "SELECT name FROM S3Object WHERE age = '' LIMIT 1") == "Bob\n"
    assert select("people.csv", "SELECT COUNT(*), SUM(CAST(id AS INT)) FROM S3Object WHERE name LIKE '%a%'") == "2,7\n"
    assert select("people.csv", "SELECT MAX(CAST(id AS INT)) FROM S3Object WHERE id = 'none'").strip('"\n') == ""
    assert select("people.csv", "SELECT s._2 FROM S3Object s", {"CSV": {"FileHeaderInfo": "IGNORE"}}).startswith("Ann")
    assert select("people.csv", "SELECT _2 FROM S3Object LIMIT 1", {"CSV": {}}) == "name\n"
    sink = {"CSV": {"QuoteFields": "ALWAYS", "FieldDelimiter": "|", "RecordDelimiter": ";"}}
    assert select("people.csv", "SELECT id, name FROM S3Object LIMIT 1", sink=sink) == '"1"|"Ann";'
    rows = select("people.csv", "SELECT id, name FROM S3Object", sink={"JSON": {}})
    assert json.loads(rows.splitlines()[2]) == {"id": "3", "name": "Carl, Jr."}
    odd = {"CSV": {"FileHeaderInfo": "USE", "FieldDelimiter": ";", "RecordDelimiter": "|", "QuoteCharacter": "'"}}
    put("odd.csv", "a;b|1;'x|y'|# no row;2|3;z|")
    odd["CSV"]["AllowQuotedRecordDelimiter"] = True
    assert select("odd.csv", "SELECT b FROM S3Object", odd) == "x|y\nz\n"
    for name, packed in [("GZIP", gzip.compress(PEOPLE.encode())), ("BZIP2", bz2.compress(PEOPLE.encode()))]:
        put("packed", packed)
        source = {"CSV": {"FileHeaderInfo": "USE"}, "CompressionType": name}
        assert select("packed", "SELECT COUNT(*) FROM S3Object", source) == "4\n"
        assert select.stats["BytesScanned"] == len(packed)
    put("empty.csv", "")
    assert select("empty.csv", "SELECT name FROM S3Object WHERE age = '1'") == ""
    assert select("empty.csv", "SELECT COUNT(*) FROM S3Object") == "0\n"
    put("header.csv", "a,b\n")
    assert select("header.csv", "SELECT a FROM S3Object") == ""


def test_select_many_rows_in_frames():
    lines = [f"{i},{'x' * (i % 50)},{i * 7 % 1000}" for i in range(200_000)]
    put("many.csv", "id,text,n\n" + "\n".join(lines) + "\n")
    rows = list(csv.reader(io.StringIO(select("many.csv", "SELECT n, id FROM S3Object", RequestProgress={"Enabled": True}))))
    assert len(rows) == 200_000 and rows[-1] == [str(199_999 * 7 % 1000), "199999"]
    size = s3.head_object(Bucket=BUCKET, Key="many.csv")["ContentLength"]
    total, cuts = 0, [0, 1, 5, 1000, 77_777, size // 2, size - 3, size]
    for start, end in zip(cuts, cuts[1:]):
        part = select("many.csv", "SELECT COUNT(*) FROM S3Object", ScanRange={"Start": start, "End": end - 1})
        total += int(part)
    assert total == 200_000, total
    last = select("many.csv", "SELECT id FROM S3Object", ScanRange={"End": 130})
    assert last.split() == ["199998", "199999"], last
    # A client that walks away in the middle does no harm.
    answer = s3.select_object_content(
        Bucket=BUCKET, Key="many.csv", Expression="SELECT * FROM S3Object", ExpressionType="SQL",
        InputSerialization={"CSV": {}}, OutputSerialization={"CSV": {}},
    )
    next(iter(answer["Payload"]))
    answer["Payload"].close()


def test_select_json():
    records = [{"a": 1, "b": {"c": ["x", "y"]}, "d": None}, {"a": 17.5, "b": {"c": []}}, {"a": "text"}]
    put("lines.json", "".join(json.dumps(record) + "\n" for record in records))
    source, sink = {"JSON": {"Type": "LINES"}}, {"JSON": {}}

    def rows(sql, source=source):
        return [json.loads(line) for line in select("lines.json", sql, source, sink).splitlines()]

    assert rows("SELECT * FROM S3Object") == records
    assert rows("SELECT s.a FROM S3Object s") == [{"a": 1}, {"a": 17.5}, {"a": "text"}]
    assert rows("SELECT s.b.c[1] AS second FROM S3Object s LIMIT 1") == [{"second": "y"}]
    assert rows("SELECT COUNT(*) AS n FROM S3Object s WHERE s.a > 1") == [{"n": 1}]
    assert rows("SELECT s.a FROM S3Object s WHERE s.a = 'text'", {"JSON": {"Type": "DOCUMENT"}}) == [{"a": "text"}]
    assert select("lines.json", "SELECT s.a, s.b.c FROM S3Object s LIMIT 1", source) == '1,"[""x"", ""y""]"\n'
    assert select("lines.json", "SELECT * FROM S3Object s WHERE s.a = 'text'", source) == "text\n"


def test_select_parquet():
    with open(os.environ["PUSHDOWNDB_PARQUET"], "rb") as file:
        put("table.parquet", file.read())
    source, sink = {"Parquet": {}}, {"JSON": {}}
    assert select("table.parquet", "SELECT COUNT(*), SUM(price) FROM S3Object", source) == "1000,504495.00\n"
    row = select("table.parquet", "SELECT * FROM S3Object WHERE id = 11", source)
    assert row == "11,name 11,11.11,1992-01-13,3.6666666666666665\n", row
    nulls = select("table.parquet", "SELECT id, name FROM S3Object WHERE name IS NULL LIMIT 2", source, sink)
    assert [json.loads(line) for line in nulls.splitlines()] == [{"id": 0, "name": None}, {"id": 10, "name": None}]
    size = s3.head_object(Bucket=BUCKET, Key="table.parquet")["ContentLength"]
    halves = [{"Start": 0, "End": size // 2}, {"Start": size // 2 + 1, "End": size}]
    counts = [int(select("table.parquet", "SELECT COUNT(*) FROM S3Object", source, ScanRange=half)) for half in halves]
    assert sum(counts) == 1000 and min(counts) > 0, counts


def test_select_errors():
    put("people.csv", PEOPLE)

    def fails(sql, key="people.csv", source=None, sink=None, **more):
        return code(lambda: list(select(key, sql, source, sink, **more)))[0]

    assert fails("SELECT * FROM S3Object", key="none") == "NoSuchKey"
    assert fails("SELEKT 1").startswith("Parse")
    assert fails("SELECT nope FROM S3Object") == "EvaluatorBindingDoesNotExist"
    assert fails("SELECT a.id FROM S3Object a JOIN S3Object b") == "MultipleDataSourcesUnsupported"
    assert fails("SELECT 1" + " " * (256 * 1024)) == "ExpressionTooLong"
    assert fails("SELECT * FROM S3Object", source={"CSV": {"FileHeaderInfo": "MAYBE"}}) == "InvalidFileHeaderInfo"
    assert fails("SELECT * FROM S3Object", source={"CSV": {}, "CompressionType": "LZO"}) == "InvalidCompressionFormat"
    assert fails("SELECT * FROM S3Object", source={"JSON": {"Type": "XML"}}) == "InvalidJsonType"
    assert fails("SELECT * FROM S3Object", source={"CompressionType": "NONE"}) == "InvalidDataSource"
    ranged = {"CSV": {}, "CompressionType": "GZIP"}
    assert fails("SELECT * FROM S3Object", source=ranged, ScanRange={"Start": 0, "End": 9}) == "UnsupportedScanRangeInput"
    assert fails("SELECT * FROM S3Object", ScanRange={"Start": 9, "End": 5}) == "InvalidScanRange"
    assert fails("SELECT * FROM S3Object", source={"Parquet": {}}) == "ParquetParsingError"
    # The answer has begun; the error comes as a frame.
    frame = code(
        s3.select_object_content, Bucket=BUCKET, Key="people.csv", Expression="SELECT CAST(name AS INT) FROM S3Object",
        ExpressionType="SQL", InputSerialization={"CSV": {"FileHeaderInfo": "USE"}}, OutputSerialization={"CSV": {}},
    )
    assert frame == ("CastFailed", None)
    packed = gzip.compress(PEOPLE.encode() * 1000)
    put("cut.gz", packed[: len(packed) // 2])
    source = {"CSV": {"FileHeaderInfo": "USE"}, "CompressionType": "GZIP"}
    assert fails("SELECT COUNT(*) FROM S3Object", key="cut.gz", source=source) == "TruncatedInput"
    with open(os.environ["PUSHDOWNDB_PARQUET"], "rb") as file:
        put("cut.parquet", file.read()[:-100])
    assert fails("SELECT * FROM S3Object", key="cut.parquet", source={"Parquet": {}}) == "ParquetParsingError"
    put("bad.json", '{"a":1}\n{"a":\n')
    assert fails("SELECT s.a FROM S3Object s", key="bad.json", source={"JSON": {"Type": "LINES"}}) == "JSONParsingError"


def test_select_of_one_version():
    etag = put("people.csv", PEOPLE)["ETag"]
    # S3 has no If-Match here; engines that pin a version send it to this node.
    for wanted, expected in [(etag, None), ('"0"', "PreconditionFailed")]:
        pinned = boto3.client("s3", endpoint_url=os.environ["PUSHDOWNDB_ENDPOINT"], region_name="us-east-1")
        name = "before-call.s3.SelectObjectContent"
        pinned.meta.events.register(name, lambda params, **_: params["headers"].update({"If-Match": wanted}))
        arguments = {
            "Bucket": BUCKET, "Key": "people.csv", "Expression": "SELECT * FROM S3Object", "ExpressionType": "SQL",
            "InputSerialization": {"CSV": {}}, "OutputSerialization": {"CSV": {}},
        }
        if expected:
            assert code(pinned.select_object_content, **arguments) == (expected, 412)
        else:
            assert any("End" in event for event in pinned.select_object_content(**arguments)["Payload"])


if __name__ == "__main__":
    failed = 0
    for name, test in [(name, test) for name, test in globals().items() if name.startswith("test_")]:
        try:
            test()
            print(f"ok {name}")
        except Exception:
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}")
    sys.exit(1 if failed else 0)
