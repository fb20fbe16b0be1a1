"""Requests that are wrong in themselves, and limits."""

from conformance.harness.server import between, failure
from conformance.select.case import CSV_OUT, Err, Input, csv, group

PEOPLE = csv("id,name\n1,Ann\n2,Bob\n", "USE")
ALL = "SELECT * FROM S3Object"


def reads(serialization):
    return {"input": Input(PEOPLE.data, serialization, CSV_OUT)}


LIMITS = group("requests/limits", PEOPLE, [
    ("an expression of 256 KB", "SELECT id FROM S3Object WHERE id = '1'" + " " * (262_144 - 38), ["1"]),
    ("an expression over 256 KB", "SELECT id FROM S3Object WHERE id = '1'" + " " * 262_144, Err("ExpressionTooLong")),
    ("an expression over 256 KB in a text", "SELECT id FROM S3Object WHERE id = '" + "x" * 262_144 + "'", Err("ExpressionTooLong")),
    ("an expression that is deep", "SELECT id FROM S3Object WHERE " + "(" * 20_000 + "id = '1'" + ")" * 20_000, Err("*"), {"silent": "a stack has an end"}),
    ("an expression of many NOTs", "SELECT id FROM S3Object WHERE " + "NOT " * 50_000 + "id = '1'", Err("*"), {"silent": "as above"}),
    ("many terms", "SELECT id FROM S3Object WHERE " + " OR ".join(f"id = '{n}'" for n in range(1, 9000)), ["1", "2"]),
    ("many columns", "SELECT " + ", ".join(["id"] * 1000) + " FROM S3Object LIMIT 1", [",".join(["1"] * 1000)]),
])

WRONG = group("requests/wrong", PEOPLE, [
    ("ExpressionType", ALL, Err("InvalidExpressionType"), {"request": {"ExpressionType": "XPATH"}}),
    ("FileHeaderInfo", ALL, Err("InvalidFileHeaderInfo"), reads({"CSV": {"FileHeaderInfo": "FIRST"}})),
    ("JSON type", ALL, Err("InvalidJsonType"), reads({"JSON": {"Type": "XML"}})),
    ("CompressionType", ALL, Err("InvalidCompressionFormat", "InvalidRequestParameter"), reads({"CSV": {}, "CompressionType": "ZIP"})),
    ("no input format", ALL, Err("InvalidDataSource", "MissingRequiredParameter", "InvalidRequestParameter"), reads({"CompressionType": "NONE"})),
    ("two input formats", ALL, Err("ObjectSerializationConflict", "MultipleDataSourcesUnsupported"), reads({"CSV": {}, "JSON": {"Type": "LINES"}})),
    ("CSV and Parquet", ALL, Err("ObjectSerializationConflict", "MultipleDataSourcesUnsupported"), reads({"CSV": {}, "Parquet": {}})),
    ("two output formats", ALL, Err("ObjectSerializationConflict"), {"output": {"CSV": {}, "JSON": {}}}),
    ("no output format", ALL, Err("MissingRequiredParameter", "InvalidRequestParameter", "InvalidDataSource", "ObjectSerializationConflict"),
     {"request": {"OutputSerialization": {}}}),
    ("QuoteFields", ALL, Err("InvalidQuoteFields"), {"output": {"CSV": {"QuoteFields": "NEVER"}}}),
    ("a quote that is long", ALL, Err("InvalidRequestParameter", "*"), reads({"CSV": {"QuoteCharacter": "quote"}})),
    ("no such key", ALL, Err("NoSuchKey", status=404), {"request": {"Key": "no/such/key"}}),
    ("no such bucket", ALL, Err("NoSuchBucket", status=404), {"request": {"Bucket": "no-such-bucket-anywhere"}}),
    ("JSON input read as CSV is text", "SELECT _1 FROM S3Object", ["{}"], {"input": csv("{}\n")}),
])

BODY = (
    '<SelectObjectContentRequest xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{}</SelectObjectContentRequest>'
)
EXPRESSION = "<Expression>SELECT * FROM S3Object</Expression>"
TYPE = "<ExpressionType>SQL</ExpressionType>"
INPUT = "<InputSerialization><CSV/></InputSerialization>"
OUTPUT = "<OutputSerialization><CSV/></OutputSerialization>"


def body(title, xml, *codes, status=400, query="select&select-type=2"):
    """A request whose body boto3 would not send."""

    def test(session):
        key = session.put(PEOPLE.data)
        answer = session.server.send("POST", session.server.path(session.bucket, key, query), body=xml.encode())
        if codes:
            assert answer.status == status and answer.code in codes, f"{answer.status} {answer.code}, expected {status} {' or '.join(codes)}"
        else:
            assert answer.status == 200, f"{answer.status} {answer.code}: {between(answer.body, b'<Message>', b'</Message>').decode()}"

    return (f"requests/body/{title}", test)


MISSING = ("MissingRequiredParameter", "MalformedXML")
BODIES = [
    body("as boto3 sends it", BODY.format(EXPRESSION + TYPE + INPUT + OUTPUT)),
    body("another order", BODY.format(OUTPUT + INPUT + TYPE + EXPRESSION)),
    body("no name space", BODY.format(EXPRESSION + TYPE + INPUT + OUTPUT).replace(' xmlns="http://s3.amazonaws.com/doc/2006-03-01/"', "")),
    body("with a declaration", '<?xml version="1.0" encoding="UTF-8"?>\n' + BODY.format(EXPRESSION + TYPE + INPUT + OUTPUT)),
    body("white space between", BODY.format("\n  ".join(["", EXPRESSION, TYPE, INPUT, OUTPUT, ""]))),
    body("no Expression", BODY.format(TYPE + INPUT + OUTPUT), *MISSING),
    body("no ExpressionType", BODY.format(EXPRESSION + INPUT + OUTPUT), *MISSING, "InvalidExpressionType"),
    body("no InputSerialization", BODY.format(EXPRESSION + TYPE + OUTPUT), *MISSING, "InvalidDataSource"),
    body("no OutputSerialization", BODY.format(EXPRESSION + TYPE + INPUT), *MISSING),
    body("nothing", "", "EmptyRequestBody", "MissingRequestBodyError", *MISSING),
    body("no XML", "SELECT * FROM S3Object", "MalformedXML"),
    body("XML that is cut off", BODY.format(EXPRESSION)[:-12], "MalformedXML"),
    body("a number that is none", BODY.format(EXPRESSION + TYPE + INPUT + OUTPUT + "<ScanRange><Start>x</Start></ScanRange>"), "MalformedXML",
         "InvalidScanRange", "InvalidRequestParameter"),
    body("a boolean that is none", BODY.format(EXPRESSION + TYPE + INPUT + OUTPUT + "<RequestProgress><Enabled>maybe</Enabled></RequestProgress>"),
         "MalformedXML", "InvalidRequestParameter"),
    body("entities are decoded", BODY.format(EXPRESSION.replace("*", "_1 &lt; 'b' AND _1 &gt; &apos;a&apos;") + TYPE + INPUT + OUTPUT)),
]


def anonymous(session):
    key = session.put(PEOPLE.data)
    answer = session.server.plain("POST", session.server.path(session.bucket, key, "select&select-type=2"), body=BODY.format(EXPRESSION).encode())
    assert (answer.status, answer.code) == (403, "AccessDenied"), (answer.status, answer.code)


def wrong_secret(session):
    client = session.server.client(secret_key="wrong")
    found = failure(client.select_object_content, Bucket=session.bucket, Key=session.put(PEOPLE.data), Expression=ALL, ExpressionType="SQL",
                    InputSerialization={"CSV": {}}, OutputSerialization={"CSV": {}})
    assert found == ("SignatureDoesNotMatch", 403), found


ACCESS = [("requests/access/anonymous", anonymous), ("requests/access/wrong secret", wrong_secret)]

CASES = LIMITS + WRONG + BODIES + ACCESS
