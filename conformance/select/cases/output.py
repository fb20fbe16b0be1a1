"""OutputSerialization: CSV and JSON with all their options; NULL, MISSING and nested values on the way out."""

from conformance.select.case import CSV_OUT, JSON_OUT, Err, csv, group, lines


def out(**options):
    return {"CSV": options}


TABLE = csv('1,"a,b"\n2,"say ""hi"""\n3,\n', "NONE")
ALL = "SELECT * FROM S3Object"

CSV_OPTIONS = group("output/csv", TABLE, [
    ("default", ALL, b'1,"a,b"\n2,"say ""hi"""\n3,\n'),
    ("ASNEEDED", ALL, b'1,"a,b"\n2,"say ""hi"""\n3,\n', {"output": out(QuoteFields="ASNEEDED")}),
    ("ALWAYS", ALL, b'"1","a,b"\n"2","say ""hi"""\n"3",""\n', {"output": out(QuoteFields="ALWAYS")}),
    ("an unknown QuoteFields", ALL, Err("InvalidQuoteFields"), {"output": out(QuoteFields="SOMETIMES")}),
    ("a pipe between fields", ALL, b'1|a,b\n2|"say ""hi"""\n3|\n', {"output": out(FieldDelimiter="|")}),
    ("a tab between fields", "SELECT _1, _1 FROM S3Object LIMIT 1", b"1\t1\n", {"output": out(FieldDelimiter="\t")}),
    ("two characters between fields", "SELECT _1, _1 FROM S3Object LIMIT 1", b"1::1\n", {"output": out(FieldDelimiter="::"), "silent": "the API takes a text"}),
    ("CRLF between records", "SELECT _1 FROM S3Object", b"1\r\n2\r\n3\r\n", {"output": out(RecordDelimiter="\r\n")}),
    ("a semicolon between records", "SELECT _1 FROM S3Object", b"1;2;3;", {"output": out(RecordDelimiter=";")}),
    ("a word between records", "SELECT _1 FROM S3Object", b"1END2END3END", {"output": out(RecordDelimiter="END")}),
    ("a field with the record delimiter is quoted", "SELECT 'x;y' FROM S3Object LIMIT 1", b'"x;y";', {"output": out(RecordDelimiter=";")}),
    ("another quote", ALL, b"1,'a,b'\n2,say \"hi\"\n3,\n", {"output": out(QuoteCharacter="'")}),
    ("another quote doubled", "SELECT 'it''s, so' FROM S3Object LIMIT 1", b"'it''s, so'\n", {"output": out(QuoteCharacter="'")}),
    ("another escape", ALL, b'1,"a,b"\n2,"say \\"hi\\""\n3,\n', {"output": out(QuoteEscapeCharacter="\\")}),
    ("a newline inside is quoted", ALL, b'"a\nb",c\n', {"input": csv('"a\nb",c\n', AllowQuotedRecordDelimiter=True)}),
    ("everything at once", ALL, b"'1';'a,b'|'2';'say \"hi\"'|'3';''|",
     {"output": out(QuoteFields="ALWAYS", FieldDelimiter=";", RecordDelimiter="|", QuoteCharacter="'")}),
    ("NULL is empty", "SELECT _1, NULL, _1 FROM S3Object LIMIT 1", b"1,,1\n"),
    ("NULL is empty with ALWAYS", "SELECT _1, NULL FROM S3Object LIMIT 1", (lambda rows: None if rows in (b'"1",""\n', b'"1",\n') else "expected an empty field"),
     {"output": out(QuoteFields="ALWAYS")}),
    ("booleans", "SELECT TRUE, 1 = 2 FROM S3Object LIMIT 1", b"true,false\n"),
    ("integers", "SELECT CAST(_1 AS INT) FROM S3Object", b"1\n2\n3\n"),
    ("text that looks like a number stays", ALL, b"007,1.50,+5\n", {"input": csv("007,1.50,+5\n")}),
    ("an empty only field is a record", "SELECT _2 FROM S3Object WHERE _1 = '3'", (lambda rows: None if rows in (b"\n", b'""\n') else "expected one empty record")),
    ("text beyond ASCII", ALL, "é,日本\n".encode(), {"input": csv("é,日本\n")}),
    ("leading spaces", ALL, (lambda rows: None if rows in (b" a ,b\n", b'" a ",b\n') else "expected the spaces"), {"input": csv(" a ,b\n")}),
])

NESTED = lines('{"a":{"b":[1,"x",null]},"c":"t","d":null,"e":true,"f":1.50}\n')

JSON_OPTIONS = group("output/json", TABLE, [
    ("default", "SELECT _1 FROM S3Object", b'{"_1":"1"}\n{"_1":"2"}\n{"_1":"3"}\n', {"output": JSON_OUT}),
    ("another delimiter", "SELECT _1 FROM S3Object", b'{"_1":"1"};{"_1":"2"};{"_1":"3"};', {"output": {"JSON": {"RecordDelimiter": ";"}}}),
    ("a comma between records", "SELECT _1 FROM S3Object LIMIT 2", b'{"_1":"1"},{"_1":"2"},', {"output": {"JSON": {"RecordDelimiter": ","}}}),
    ("CRLF between records", "SELECT _1 FROM S3Object LIMIT 1", b'{"_1":"1"}\r\n', {"output": {"JSON": {"RecordDelimiter": "\r\n"}}}),
    ("text is escaped", "SELECT _2 FROM S3Object", [{"_2": "a,b"}, {"_2": 'say "hi"'}, {"_2": ""}], {"output": JSON_OUT}),
    ("types", "SELECT CAST(_1 AS INT) AS i, CAST(_1 AS FLOAT) AS f, _1 AS s, TRUE AS b, NULL AS n FROM S3Object LIMIT 1",
     [{"i": 1, "f": 1.0, "s": "1", "b": True, "n": None}], {"output": JSON_OUT}),
    ("NULL is null, MISSING is left out", "SELECT s.d, s.zzz, s.c FROM S3Object s", [{"d": None, "c": "t"}], {"input": NESTED}),
    ("a record of only MISSING", "SELECT s.zzz FROM S3Object s", ["{}"], {"input": NESTED}),
    ("nested", "SELECT s.a, s.c FROM S3Object s", ['{"a":{"b":[1,"x",null]},"c":"t"}'], {"input": NESTED}),
    ("star of JSON", "SELECT * FROM S3Object s", ['{"a":{"b":[1,"x",null]},"c":"t","d":null,"e":true,"f":1.50}'], {"input": NESTED}),
    ("two names alike", "SELECT _1 AS x, _2 AS x FROM S3Object LIMIT 1", lambda rows: None if rows.count(b":") == 2 else "expected both values",
     {"output": JSON_OUT, "silent": "both are kept"}),
    ("a name that needs escapes", 'SELECT _1 AS "a\\b" FROM S3Object LIMIT 1', [{"a\\b": "1"}], {"output": JSON_OUT}),
    ("control characters", "SELECT _1 FROM S3Object", [{"_1": "a\tb\u0001"}], {"input": csv("a\tb\u0001,x\n"), "output": JSON_OUT}),
    ("text beyond ASCII", ALL, [{"_1": "é", "_2": "😀"}], {"input": csv("é,😀\n"), "output": JSON_OUT}),
])

NESTED_CSV = group("output/nested as csv", NESTED, [
    ("scalars beside", "SELECT s.c, s.e, s.f, s.d FROM S3Object s", b"t,true,1.50,\n", {"output": CSV_OUT}),
    ("star of flat records", "SELECT * FROM S3Object s", ["1,x", "2,y"], {"input": lines('{"a":1,"b":"x"}\n{"a":2,"b":"y"}\n'), "output": CSV_OUT}),
    ("a text that needs quotes", "SELECT s.a FROM S3Object s", b'"x,y"\n', {"input": lines('{"a":"x,y"}\n'), "output": CSV_OUT}),
])

CASES = CSV_OPTIONS + JSON_OPTIONS + NESTED_CSV
