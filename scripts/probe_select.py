#!/usr/bin/env python3
"""Probes the S3 Select of a server.

    AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… scripts/probe_select.py http://127.0.0.1:9000 [--parquet FILE]

Each probe sends one statement over a small object and compares the result with the expected rows.
The table it prints is the evidence for `Dialect` in crates/contract/src/capability.rs and
docs/decisions/0004-minio-capability.md. Needs boto3; writes to a bucket of its own and removes it.
"""

import argparse
import bz2
import gzip
import shutil
import subprocess
import sys

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

BUCKET = "probe-select"
NO_COMMENTS = "\ufdd0"

# key, price, date, text, flag, float; empty fields mean NULL in our tables.
CSV = '''k,p,d,t,b,f
1,0.05,1994-01-01,apple,true,0.5
2,0.06,1994-12-31,abcab,false,-0.0
3,,1995-01-01,,true,NaN
-4,123456789012.34,,"a,b",false,1e300
5,0.07,1994-06-15,"say ""hi""",true,
6,10.00,1994-06-16,öl,false,0.0
7,9.50,1994-06-17,9,true,-inf
8,7.00,1994-06-18,10,true,2.5
'''
JSON = """{"a":1,"n":17.00,"s":"x","big":9007199254740993,"z":null}
{"a":2,"n":0.05,"s":"","big":3}
{"a":null,"n":123456789.12,"s":null,"o":{"c":[10,20]}}
"""
ALL = ["1", "2", "3", "-4", "5", "6", "7", "8"]


def csv_input(**options):
    fields = {"FileHeaderInfo": "IGNORE", "Comments": NO_COMMENTS, **options}
    return {"CSV": fields, "CompressionType": "NONE"}


class Probe:
    def __init__(self, endpoint):
        self.s3 = boto3.client(
            "s3", endpoint_url=endpoint, region_name="us-east-1", config=Config(s3={"addressing_style": "path"})
        )
        self.rows = []

    def put(self, key, data):
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=data)

    def select(self, key, sql, source, output):
        answer = self.s3.select_object_content(
            Bucket=BUCKET, Key=key, ExpressionType="SQL", Expression=sql,
            InputSerialization=source, OutputSerialization=output,
        )
        parts, ended = [], False
        for event in answer["Payload"]:
            parts.append(event.get("Records", {}).get("Payload", b""))
            ended |= "End" in event
        return b"".join(parts).decode() + ("" if ended else "<no End frame>")

    def case(self, group, what, sql, expected, key="t.csv", source=None, output=None):
        """One probe: `expected` is the whole result, or the list of its lines."""
        if isinstance(expected, list):
            expected = "".join(line + "\n" for line in expected)
        try:
            got = self.select(key, sql, source or csv_input(), output or {"CSV": {}})
        except (ClientError, BotoCoreError) as error:
            got = "error: " + str(error)[:160].replace("\n", " ")
        except Exception as error:  # an error frame in the middle of the answer
            got = "error frame: " + str(error)[:160].replace("\n", " ")
        self.rows.append((group, what, sql, got == expected, got, expected))

    def where(self, group, condition, keys):
        self.case(group, condition, f"SELECT s._1 FROM S3Object s WHERE {condition}", keys)

    def report(self):
        group = None
        for section, what, _, right, got, expected in self.rows:
            if section != group:
                print(f"\n## {section}\n\n| probe | result |\n| --- | --- |")
                group = section
            shown = "as it should" if right else f"**{got!r}** instead of {expected!r}"
            print(f"| `{what}` | {shown} |".replace("||", "\\|\\|"))
        right = sum(row[3] for row in self.rows)
        print(f"\n{right} of {len(self.rows)} as they should.")


def probe_numbers(p):
    g = "numbers"
    p.where(g, "CAST(s._1 AS INT) < 3", ["1", "2", "-4"])
    p.where(g, "CAST(s._1 AS INT) = -4", ["-4"])
    p.where(g, "CAST(s._1 AS INT) != 1", ALL[1:])
    p.where(g, "CAST(s._1 AS INT) <> 1", ALL[1:])
    p.where(g, "s._2 != '' AND CAST(s._2 AS FLOAT) < 0.06", ["1"])
    p.where(g, "(s._2 != '' AND CAST(s._2 AS FLOAT) <= 0.06)", ["1", "2"])
    p.where(g, "s._2 != '' AND CAST(s._2 AS FLOAT) = 0.06", ["2"])
    p.where(g, "s._2 != '' AND CAST(s._2 AS FLOAT) = 123456789012.34", ["-4"])
    p.where(g, "s._2 != '' AND CAST(s._2 AS FLOAT) = 0.0600001", [])
    p.where(g, "s._2 != '' AND CAST(s._2 AS FLOAT) != 0.06", ["1", "-4", "5", "6", "7", "8"])
    p.where(g, "CAST(NULLIF(s._2, '') AS DECIMAL(15,2)) < 0.06", ["1"])
    p.where(g, "CAST(NULLIF(s._2, '') AS DECIMAL) < 0.06", ["1"])
    p.where(g, "CAST(NULLIF(s._2, '') AS FLOAT) < 0.06", ["1"])
    p.where(g, "NULLIF(s._2, '') IS NULL", ["3"])
    p.case(g, "NULLIF(s._2, '')", "SELECT NULLIF(s._2, 'x'), NULLIF('a', 'a') FROM S3Object s LIMIT 1", ["0.05,"])
    p.where(g, "s._6 != '' AND CAST(s._6 AS FLOAT) <= 0.0", ["2", "6", "7"])
    p.where(g, "s._6 != '' AND NOT (CAST(s._6 AS FLOAT) < 0.5)", ["1", "3", "-4", "8"])
    p.where(g, "s._6 != '' AND CAST(s._6 AS FLOAT) = CAST('0.5' AS FLOAT)", ["1"])
    p.where(g, "CAST(s._1 AS INT) = CAST('9007199254740993' AS INT)", [])
    big = "9007199254740992\n9007199254740993\n-9223372036854775808\n"
    p.put("big.csv", big.encode())
    for literal, expected in [
        ("9007199254740993", ["9007199254740993"]),
        ("CAST('9007199254740993' AS INT)", ["9007199254740993"]),
        ("CAST('-9223372036854775808' AS INT)", ["-9223372036854775808"]),
    ]:
        sql = f"SELECT s._1 FROM S3Object s WHERE CAST(s._1 AS INT) = {literal}"
        p.case(g, f"= {literal}", sql, expected, "big.csv", csv_input(FileHeaderInfo="NONE"))
    sql = "SELECT s._1 FROM S3Object s WHERE CAST(s._1 AS INT) IN (CAST('9007199254740993' AS INT))"
    p.case(g, "IN (2^53 + 1)", sql, ["9007199254740993"], "big.csv", csv_input(FileHeaderInfo="NONE"))


def probe_text(p):
    g = "text and dates"
    p.where(g, "s._4 = 'apple'", ["1"])
    p.where(g, "s._4 != 'apple'", ALL[1:])
    p.where(g, "s._4 = 'say \"hi\"'", ["5"])
    p.where(g, "s._4 = 'a,b'", ["-4"])
    p.where(g, "s._4 = ''", ["3"])
    p.where(g, "s._4 != '' AND s._4 < 'a'", ["7", "8"])
    p.where(g, "s._4 != '' AND s._4 < '9'", ["8"])
    p.where(g, "s._4 >= 'ö'", ["6"])
    p.where(g, "s._3 != '' AND s._3 < '1994-06-16'", ["1", "5"])
    p.where(g, "s._3 >= '1994-06-15' AND s._3 < '1995-01-01'", ["2", "5", "6", "7", "8"])
    p.where(g, "s._3 BETWEEN '1994-06-16' AND '1994-06-17'", ["6", "7"])
    p.where(g, "CAST(s._3 AS STRING) < CAST(s._4 AS STRING)", ["1", "2", "-4", "5", "6", "7"])
    p.where(g, "s._4 = s._1", [])
    p.put("same.csv", b"1.0,1.00\n10,9\na,a\n")
    none = csv_input(FileHeaderInfo="NONE")
    p.case(g, "text = text", "SELECT s._1 FROM S3Object s WHERE s._1 = s._2", ["a"], "same.csv", none)
    sql = "SELECT s._1 FROM S3Object s WHERE CAST(s._1 AS STRING) < CAST(s._2 AS STRING)"
    p.case(g, "CAST AS STRING < CAST AS STRING", sql, ["1.0", "10"], "same.csv", none)
    p.where(g, "s._4 || 'x' = 'applex'", ["1"])
    p.where(g, "CHAR_LENGTH(s._4) = 2", ["6", "8"])
    p.where(g, "UPPER(s._4) = 'ÖL'", ["6"])
    p.where(g, "SUBSTRING(s._4 FROM 2 FOR 2) = 'pp'", ["1"])
    p.where(g, "SUBSTRING(s._4 FROM 0 FOR 2) = 'a'", ["1", "2", "-4"])
    p.where(g, "CAST(s._5 AS BOOL)", ["1", "3", "5", "7", "8"])
    p.where(g, "NOT (CAST(s._5 AS BOOL))", ["2", "-4", "6"])
    p.where(g, "CAST(s._5 AS BOOL) = TRUE", ["1", "3", "5", "7", "8"])
    p.where(g, "TO_TIMESTAMP(s._3) > TO_TIMESTAMP('1995-01-01T')", [])


def probe_like(p):
    g = "LIKE"
    for pattern, keys in [
        ("apple", ["1"]), ("app%", ["1"]), ("%ple", ["1"]), ("%b%", ["2", "-4"]), ("a%b", ["2", "-4"]),
        ("a%c%b", ["2"]), ("%ab", ["2"]), ("_pple", ["1"]), ("ap_le%", ["1"]), ("_l", ["6"]), ("ö%", ["6"]),
        ("%a_", []), ("%_", ["1", "2", "-4", "5", "6", "7", "8"]), ("%a_c%", ["2"]), ("%b_ab", ["2"]), ("ö%x", []), ("%", ALL),
    ]:
        p.where(g, f"s._4 LIKE '{pattern}'", keys)
        rest = [key for key in ALL if key not in keys]
        p.where(g, f"NOT (s._4 LIKE '{pattern}')", rest)
    p.put("like.csv", b"ab1ab2\n50%\n5_\n5x\na\\b\n")
    none = csv_input(FileHeaderInfo="NONE")
    for condition, rows in [
        ("LIKE '%ab_'", ["ab1ab2"]), ("LIKE '%\\%' ESCAPE '\\'", ["50%"]), ("LIKE '5\\_' ESCAPE '\\'", ["5_"]),
        ("LIKE 'a\\b'", ["a\\b"]), ("LIKE 'a\\\\b' ESCAPE '\\'", ["a\\b"]), ("NOT LIKE '5%'", ["ab1ab2", "a\\b"]),
    ]:
        p.case(g, condition, f"SELECT s._1 FROM S3Object s WHERE s._1 {condition}", rows, "like.csv", none)


def probe_logic(p):
    g = "logic, NULL and lists"
    p.where(g, "NOT (s._1 = '1' OR s._1 = '2')", ALL[2:])
    p.where(g, "s._1 = '1' OR s._1 = '2' AND s._4 = 'x'", ["1"])
    p.where(g, "(s._1 = '1' OR s._1 = '2') AND s._4 != 'x'", ["1", "2"])
    p.where(g, "s._1 IN ('1', '5')", ["1", "5"])
    p.where(g, "s._1 IN ('1')", ["1"])
    p.where(g, "CAST(s._1 AS INT) IN (1, -4)", ["1", "-4"])
    p.where(g, "s._1 NOT IN ('1', '2')", ALL[2:])
    p.where(g, "NOT (s._1 IN ('1', '2'))", ALL[2:])
    p.where(g, "s._2 != '' AND CAST(s._2 AS FLOAT) IN (0.05, 7)", ["1", "8"])
    p.where(g, "CAST(s._1 AS INT) BETWEEN 2 AND 4", ["2", "3"])
    p.where(g, "CAST(s._1 AS INT) NOT BETWEEN 2 AND 4", ["1", "-4", "5", "6", "7", "8"])
    p.where(g, "NULL = NULL", [])
    p.where(g, "NOT (NULL = '1')", [])
    p.where(g, "s._1 = NULL", [])
    p.where(g, "TRUE", ALL)
    p.where(g, "FALSE", [])
    p.where(g, "s._9 IS NULL", ALL)
    p.where(g, "s._9 != 'x'", [])
    p.where(g, "CASE WHEN s._1 = '1' THEN TRUE ELSE FALSE END", ["1"])
    p.where(g, "s._1 = '1';", ["1"])
    p.where(g, "((((((((s._1 = '1'))))))))", ["1"])
    many = " OR ".join(f"s._1 = '{n}'" for n in range(10_000))
    p.case(g, "OR of 10,000", f"SELECT s._1 FROM S3Object s WHERE {many}", ["1", "2", "3", "5", "6", "7", "8"])


def probe_outputs(p):
    g = "outputs"
    p.case(g, "quotes where needed", "SELECT s._4 FROM S3Object s",
           ["apple", "abcab", "", '"a,b"', '"say ""hi"""', "öl", "9", "10"])
    p.case(g, "quotes always", "SELECT s._4 FROM S3Object s LIMIT 5",
           ['"apple"', '"abcab"', '""', '"a,b"', '"say ""hi"""'], output={"CSV": {"QuoteFields": "ALWAYS"}})
    p.case(g, "raw numbers", "SELECT s._2, s._1 FROM S3Object s", [
        "0.05,1", "0.06,2", ",3", "123456789012.34,-4", "0.07,5", "10.00,6", "9.50,7", "7.00,8"])
    p.case(g, "s.*", "SELECT s.* FROM S3Object s LIMIT 1", ["1,0.05,1994-01-01,apple,true,0.5"])
    p.case(g, "a constant", "SELECT 1 FROM S3Object s LIMIT 2", ["1", "1"])
    p.case(g, "LIMIT 0", "SELECT s._1 FROM S3Object s LIMIT 0", [])
    p.case(g, "LIMIT after WHERE", "SELECT s._1 FROM S3Object s WHERE s._5 = 'false' LIMIT 2", ["2", "-4"])
    g = "aggregates"
    p.case(g, "COUNT(*)", "SELECT COUNT(*) FROM S3Object s", ["8"])
    p.case(g, "COUNT(*) of none", "SELECT COUNT(*) FROM S3Object s WHERE s._1 = 'x'", ["0"])
    p.case(g, "COUNT(NULLIF)", "SELECT COUNT(NULLIF(s._2, '')) FROM S3Object s", ["7"])
    p.case(g, "MIN, MAX of INT", "SELECT MIN(CAST(s._1 AS INT)), MAX(CAST(s._1 AS INT)) FROM S3Object s", ["-4,8"])
    none = csv_input(FileHeaderInfo="NONE")
    p.case(g, "MAX beyond 2^53", "SELECT MAX(CAST(s._1 AS INT)) FROM S3Object s", ["9007199254740993"], "big.csv", none)
    p.case(g, "MIN of none", "SELECT MIN(CAST(s._1 AS INT)) FROM S3Object s WHERE s._1 = 'x'", [""])
    p.case(g, "SUM of INT", "SELECT SUM(CAST(s._1 AS INT)) FROM S3Object s", ["28"])
    p.put("million.csv", b"600000\n600000\n")
    p.case(g, "SUM of INT beyond 10^6", "SELECT SUM(CAST(s._1 AS INT)) FROM S3Object s", ["1200000"], "million.csv", none)
    p.case(g, "SUM of none", "SELECT SUM(CAST(s._1 AS INT)) FROM S3Object s WHERE s._1 = 'x'", [""])
    p.case(g, "MIN of text", "SELECT MIN(s._3) FROM S3Object s", ["1994-01-01"])


def probe_files(p):
    g = "files"
    whole = CSV.encode()
    sql = "SELECT COUNT(*) FROM S3Object s"
    for name, data in [("gzip", gzip.compress(whole)), ("bzip2", bz2.compress(whole)),
                       ("gzip of two members", gzip.compress(whole[:60]) + gzip.compress(whole[60:]))]:
        kind = "BZIP2" if name == "bzip2" else "GZIP"
        p.put("packed", data)
        p.case(g, name, sql, ["8"], "packed", {**csv_input(), "CompressionType": kind})
    if shutil.which("zstd"):
        frames = [subprocess.run(["zstd", "-c"], input=part, capture_output=True, check=True).stdout
                  for part in (whole[:60], whole[60:])]
        p.put("packed", b"".join(frames))
        p.case(g, "zstd of two frames", sql, ["8"], "packed", {**csv_input(), "CompressionType": "ZSTD"})
    p.put("crlf.csv", CSV.replace("\n", "\r\n").encode())
    p.case(g, "CRLF", "SELECT s._6 FROM S3Object s WHERE s._6 = '0.5'", ["0.5"], "crlf.csv")
    p.put("noend.csv", whole.rstrip())
    p.case(g, "no newline at the end", sql, ["8"], "noend.csv")
    p.put("hash.csv", b"k\n#1\n2\n")
    p.case(g, "'#' with Comments U+FDD0", "SELECT s._1 FROM S3Object s", ["#1", "2"], "hash.csv")
    p.case(g, "'#' without Comments", "SELECT s._1 FROM S3Object s", ["#1", "2"], "hash.csv",
           {"CSV": {"FileHeaderInfo": "IGNORE"}, "CompressionType": "NONE"})
    p.put("empty.csv", b"")
    p.case(g, "empty object", sql, ["0"], "empty.csv")
    p.put("header.csv", b"k,p\n")
    p.case(g, "header only", sql, ["0"], "header.csv")
    p.put("header-bare.csv", b"k,p")
    p.case(g, "header only, no newline", sql, ["0"], "header-bare.csv")
    p.put("lines.csv", b'k,t\n1,"a\nb"\n2,c\n')
    quoted = csv_input(AllowQuotedRecordDelimiter=True)
    p.case(g, "newline in quotes", "SELECT s._1 FROM S3Object s", ["1", "2"], "lines.csv", quoted)
    filler = b"k,t\n" + b'1,"a\nb"\n' * 60_000
    p.put("many-lines.csv", filler)
    p.case(g, "newlines in quotes, 480 KB", sql, ["60000"], "many-lines.csv", quoted)
    p.put("blank.csv", b"k\n1\n\n2\n")
    p.case(g, "blank lines of one column", "SELECT s._1 FROM S3Object s", ["1", "", "2"], "blank.csv")
    p.put("ragged.csv", b"k,t\n1,a\n2\n3,b,c\n")
    p.case(g, "short and long records", "SELECT s._1, s._2 FROM S3Object s", ["1,a", "2,", "3,b"], "ragged.csv")
    p.put("tab.csv", b"k\tt\n1\ta,b\n")
    p.case(g, "tabs", "SELECT s._2, s._1 FROM S3Object s", ['"a,b",1'], "tab.csv", csv_input(FieldDelimiter="\t"))
    p.put("pipe.csv", b"1|'x|y'|3\n")
    odd = csv_input(FieldDelimiter="|", QuoteCharacter="'", QuoteEscapeCharacter="'", FileHeaderInfo="NONE")
    p.case(g, "pipes and single quotes", "SELECT s._2, s._3 FROM S3Object s", ["x|y,3"], "pipe.csv", odd)
    p.put("quotes.csv", b'1,a"b,c\n')
    p.case(g, "a quote inside a bare field", "SELECT s._2 FROM S3Object s", ['"a""b"'], "quotes.csv",
           csv_input(FileHeaderInfo="NONE"))
    p.put("noquote.csv", b'1,"a,b"\n')
    p.case(g, "no quote character", "SELECT s._2, s._3 FROM S3Object s", ['"""a","b"""'], "noquote.csv",
           csv_input(FileHeaderInfo="NONE", QuoteCharacter=""))
    p.put("bom.csv", "\ufeffk,t\n1,a\n".encode())
    p.case(g, "BOM before a header", "SELECT s._1 FROM S3Object s", ["1"], "bom.csv")


def probe_json(p):
    g = "JSON lines"
    p.put("t.json", JSON.encode())
    source = {"JSON": {"Type": "LINES"}, "CompressionType": "NONE"}
    json = {"JSON": {"RecordDelimiter": "\n"}}

    def case(what, sql, expected, output=None):
        p.case(g, what, sql, expected, "t.json", source, output)

    case("fields as CSV", "SELECT s.\"a\", s.\"n\", s.\"s\", s.\"big\" FROM S3Object s",
         ["1,17.00,x,9007199254740993", "2,0.05,,3", ",123456789.12,,"])
    case("fields as JSON", "SELECT s.\"a\", s.\"n\", s.\"s\", s.\"big\" FROM S3Object s", [
        '{"a":1,"n":17.00,"s":"x","big":9007199254740993}', '{"a":2,"n":0.05,"s":"","big":3}',
        '{"a":null,"n":123456789.12,"s":null}'], json)
    case("whole records", "SELECT s.* FROM S3Object s", JSON.splitlines(), json)
    case("* records", "SELECT * FROM S3Object s", JSON.splitlines(), json)
    count = "SELECT COUNT(*) FROM S3Object s WHERE "
    case("s.a < 2", count + "s.a < 2", ["1"])
    case("guarded", count + "s.\"a\" IS NOT NULL AND s.\"a\" < 2", ["1"])
    case("guarded CAST INT", count + "(s.\"a\" IS NOT NULL AND CAST(s.\"a\" AS INT) < 2)", ["1"])
    case("guarded CAST FLOAT", count + "s.\"n\" IS NOT NULL AND CAST(s.\"n\" AS FLOAT) = 0.05", ["1"])
    case("2^53 + 1", count + "s.\"big\" IS NOT NULL AND CAST(s.\"big\" AS INT) = CAST('9007199254740993' AS INT)", ["1"])
    case("IS NULL", count + "s.z IS NULL", ["3"])
    case("IS MISSING", count + "s.z IS MISSING", ["2"])
    case("text = ''", count + "s.\"s\" IS NOT NULL AND s.\"s\" = ''", ["1"])
    case("LIKE", count + "s.\"s\" IS NOT NULL AND s.\"s\" LIKE 'x%'", ["1"])
    case("nested", "SELECT s.o.c[1] FROM S3Object s WHERE s.o IS NOT MISSING", ["20"])
    case("alias in quotes", "SELECT COUNT(*) AS 'n' FROM S3Object s", ['{"n":3}'], json)
    case("alias", "SELECT COUNT(*) AS \"n\" FROM S3Object s", ['{"n":3}'], json)


def probe_parquet(p, path):
    g = "Parquet (key BIGINT, price DECIMAL(15,2), shipped DATE, text VARCHAR)"
    with open(path, "rb") as file:
        p.put("t.parquet", file.read())
    source = {"Parquet": {}, "CompressionType": "NONE"}

    def case(what, sql, expected):
        p.case(g, what, sql, expected, "t.parquet", source)

    case("rows", "SELECT * FROM S3Object s", ["1,0.05,1994-01-01,apple", "2,12.34,1994-01-02,", "3,,,b"])
    case("key", "SELECT s.\"key\" FROM S3Object s WHERE s.\"key\" >= 2", ["2", "3"])
    case("price", "SELECT s.\"key\" FROM S3Object s WHERE s.\"price\" IS NOT NULL AND s.\"price\" < 1", ["1"])
    case("date", "SELECT s.\"key\" FROM S3Object s WHERE s.\"shipped\" IS NOT NULL AND "
         "CAST(s.\"shipped\" AS TIMESTAMP) < CAST('1994-01-02T' AS TIMESTAMP)", ["1"])
    case("text", "SELECT s.\"key\" FROM S3Object s WHERE s.\"text\" = 'b'", ["3"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("endpoint")
    parser.add_argument("--parquet", metavar="FILE", help="a file with the columns that probe_parquet names")
    arguments = parser.parse_args()
    probe = Probe(arguments.endpoint)
    probe.s3.create_bucket(Bucket=BUCKET)
    try:
        probe.put("t.csv", CSV.encode())
        for part in [probe_numbers, probe_text, probe_like, probe_logic, probe_outputs, probe_files, probe_json]:
            part(probe)
        if arguments.parquet:
            probe_parquet(probe, arguments.parquet)
        probe.report()
    finally:
        for item in probe.s3.list_objects_v2(Bucket=BUCKET).get("Contents", []):
            probe.s3.delete_object(Bucket=BUCKET, Key=item["Key"])
        probe.s3.delete_bucket(Bucket=BUCKET)


if __name__ == "__main__":
    sys.exit(main())
