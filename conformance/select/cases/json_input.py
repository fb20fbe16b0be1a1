"""JSON objects: LINES and DOCUMENT, FROM paths, nested access, types of values, broken text."""

from conformance.select.case import CSV_OUT, PARSE_ERROR, Err, Num, csv, document, group, lines

RULES = lines(
    '{ "Rules": [ {"id": "1"}, {"expr": "y > x"}, {"id": "2", "expr": "z = DEBUG"} ]}\n'
    '{ "created": "June 27", "modified": "July 6" }\n'
)
DIRS = (
    '{ "created": "936864000", "dir_name": "important_docs", "files": [ { "name": "." }, { "name": ".." }, { "name": ".aws" }, '
    '{ "name": "downloads" } ], "owner": "Amazon S3" }\n'
    '{ "created": "936864000", "dir_name": "other_docs", "files": [ { "name": "." }, { "name": ".." }, { "name": "my stuff" }, '
    '{ "name": "backup" } ], "owner": "User" }\n'
)
SUSAN = document(
    '{"name": "Susan Smith",\n"org": "engineering",\n"projects":\n    [\n     {"project_name":"project1", "completed":false},\n'
    '     {"project_name":"project2", "completed":true}\n    ]\n}\n'
)
BOOKS = document('{"books": [{"title": "A", "price": 5}, {"title": "B", "price": 7.5}, {"title": "C"}], "shop": {"x": {"n": 1}, "y": {"n": 2}}}')

PATHS = group("json/from", RULES, [
    ("documented: a path with a wildcard", "SELECT id FROM S3Object[*].Rules[*].id", ['{"id":"1"}', "{}", '{"id":"2"}', "{}"]),
    ("documented: without MISSING", "SELECT id FROM S3Object[*].Rules[*].id WHERE id IS NOT MISSING", ['{"id":"1"}', '{"id":"2"}']),
    ("documented: nested values", "SELECT d.dir_name, d.files FROM S3Object[*] d",
     ['{"dir_name":"important_docs","files":[{"name":"."},{"name":".."},{"name":".aws"},{"name":"downloads"}]}',
      '{"dir_name":"other_docs","files":[{"name":"."},{"name":".."},{"name":"my stuff"},{"name":"backup"}]}'], {"input": lines(DIRS)}),
    ("documented: nested values of a document", "SELECT d.dir_name, d.files FROM S3Object[*] d LIMIT 1",
     ['{"dir_name":"important_docs","files":[{"name":"."},{"name":".."},{"name":".aws"},{"name":"downloads"}]}'], {"input": document(DIRS)}),
    ("documented: _1 is the row", "SELECT _1.dir_name, _1.owner FROM S3Object[*]",
     ['{"dir_name":"important_docs","owner":"Amazon S3"}', '{"dir_name":"other_docs","owner":"User"}'], {"input": lines(DIRS)}),
    ("documented: prices of books", "SELECT price FROM S3Object[*].books[*].price", ['{"price":5}', '{"price":7.5}', "{}"], {"input": BOOKS}),
    ("documented: _1.price of books", "SELECT _1.price FROM S3Object[*].books[*]", ['{"price":5}', '{"price":7.5}', "{}"], {"input": BOOKS}),
    ("documented: a name of a nested document", "Select s.name from S3Object s", ['{"name":"Susan Smith"}'], {"input": SUSAN}),
    ("documented: an element of a list", "Select s.projects[0].project_name from S3Object s", ['{"project_name":"project1"}'], {"input": SUSAN}),
    ("an alias for a path", "SELECT b.title, b.price FROM S3Object[*].books[*] b", ['{"title":"A","price":5}', '{"title":"B","price":7.5}', '{"title":"C"}'],
     {"input": BOOKS}),
    ("AS alias for a path", "SELECT b.title FROM S3Object[*].books[*] AS b WHERE b.price > 6", ['{"title":"B"}'], {"input": BOOKS}),
    ("an index", "SELECT b.title FROM S3Object[*].books[1] b", ['{"title":"B"}'], {"input": BOOKS}),
    ("a name in brackets", "SELECT b.title FROM S3Object[*]['books'][0] b", ['{"title":"A"}'], {"input": BOOKS}),
    ("a wildcard over an object", "SELECT v.n FROM S3Object[*].shop.* v", ['{"n":1}', '{"n":2}'], {"input": BOOKS}),
    ("a nested object", "SELECT v.n FROM S3Object[*].shop.x v", ['{"n":1}'], {"input": BOOKS}),
    ("an aggregate over a path", "SELECT SUM(b.price) AS total, COUNT(b.price) AS n FROM S3Object[*].books[*] b", ['{"total":12.5,"n":2}'], {"input": BOOKS}),
    ("LIMIT over a path", "SELECT b.title FROM S3Object[*].books[*] b LIMIT 2", ['{"title":"A"}', '{"title":"B"}'], {"input": BOOKS}),
    ("star over a path", "SELECT * FROM S3Object[*].books[*] b", ['{"title":"A","price":5}', '{"title":"B","price":7.5}', '{"title":"C"}'], {"input": BOOKS}),
    ("an index beyond the list", "SELECT b.title FROM S3Object[*].books[9] b", ["{}"], {"input": BOOKS}),
    ("names of a path in any case", "SELECT b.title FROM S3Object[*].BOOKS[0] b", ['{"title":"A"}'], {"input": BOOKS}),
    ("S3Object means S3Object[*]", "SELECT s.created FROM S3Object s WHERE s.created IS NOT MISSING", ['{"created":"June 27"}']),
    ("a path without wildcard", "SELECT * FROM S3Object.Rules", Err("*")),
    ("elements of a list of numbers", "SELECT _1 AS v FROM S3Object[*].a[*]", ['{"v":1}', '{"v":2}'], {"input": lines('{"a":[1,2]}\n')}),
    ("a path into lines", "SELECT v.x FROM S3Object[*].a[*] v", ['{"x":1}', '{"x":2}', '{"x":3}'],
     {"input": lines('{"a":[{"x":1},{"x":2}]}\n{"a":[{"x":3}]}\n')}),
    ("nested wildcards", "SELECT v.y FROM S3Object[*].a[*].b[*] v", ['{"y":1}', '{"y":2}', '{"y":3}'],
     {"input": lines('{"a":[{"b":[{"y":1},{"y":2}]},{"b":[{"y":3}]}]}\n')}),
    ("a path is for JSON only", "SELECT * FROM S3Object[*].a", Err("*"), {"input": csv("a\n1\n", "USE")}),
])

TYPES = lines(
    '{"i":1,"f":1.5,"t":"x","b":true,"n":null,"o":{"p":{"q":"deep"}},"l":[10,[20,21],{"m":30}]}\n'
)

ACCESS = group("json/access", TYPES, [
    ("a number", "SELECT s.i FROM S3Object s", ['{"i":1}']),
    ("a fraction", "SELECT s.f FROM S3Object s", ['{"f":1.5}']),
    ("a text", "SELECT s.t FROM S3Object s", ['{"t":"x"}']),
    ("a boolean", "SELECT s.b FROM S3Object s", ['{"b":true}']),
    ("null", "SELECT s.n FROM S3Object s", ['{"n":null}']),
    ("an attribute that is missing", "SELECT s.zzz FROM S3Object s", ["{}"]),
    ("an attribute that is missing beside one that is not", "SELECT s.i, s.zzz FROM S3Object s", ['{"i":1}']),
    ("an object", "SELECT s.o FROM S3Object s", ['{"o":{"p":{"q":"deep"}}}']),
    ("a list", "SELECT s.l FROM S3Object s", ['{"l":[10,[20,21],{"m":30}]}']),
    ("deep", "SELECT s.o.p.q FROM S3Object s", ['{"q":"deep"}']),
    ("deep in quotes", 'SELECT s."o"."p"."q" FROM S3Object s', ['{"q":"deep"}']),
    ("deep without alias", "SELECT o.p.q FROM S3Object", ['{"q":"deep"}']),
    ("an element", "SELECT s.l[0] AS v FROM S3Object s", ['{"v":10}']),
    ("an element of an element", "SELECT s.l[1][1] AS v FROM S3Object s", ['{"v":21}']),
    ("an attribute of an element", "SELECT s.l[2].m FROM S3Object s", ['{"m":30}']),
    ("an element beyond", "SELECT s.l[7] AS v FROM S3Object s", ["{}"]),
    ("an attribute of a number", "SELECT s.i.x AS v FROM S3Object s", ["{}"], {"silent": "what is not there is MISSING"}),
    ("an element of an object", "SELECT s.o[0] AS v FROM S3Object s", ["{}"], {"silent": "as above"}),
    ("an attribute in brackets", "SELECT s.o['p'].q FROM S3Object s", ['{"q":"deep"}']),
    ("star", "SELECT * FROM S3Object s", ['{"i":1,"f":1.5,"t":"x","b":true,"n":null,"o":{"p":{"q":"deep"}},"l":[10,[20,21],{"m":30}]}']),
    ("star with an alias", "SELECT s.* FROM S3Object s", ['{"i":1,"f":1.5,"t":"x","b":true,"n":null,"o":{"p":{"q":"deep"}},"l":[10,[20,21],{"m":30}]}']),
    ("an alias", "SELECT s.o.p.q AS name FROM S3Object s", ['{"name":"deep"}']),
    ("an expression", "SELECT s.i + 1 AS v, s.t || 'y' AS w FROM S3Object s", ['{"v":2,"w":"xy"}']),
    ("scalars as CSV", "SELECT s.i, s.f, s.t, s.b, s.n, s.zzz FROM S3Object s", ["1,1.5,x,true,,"], {"output": CSV_OUT}),
    ("a negative index", "SELECT s.l[-1] FROM S3Object s", Err("*")),
    ("an open bracket", "SELECT s.l[0 FROM S3Object s", Err(*PARSE_ERROR)),
    ("a wildcard in the list", "SELECT s.l[*] FROM S3Object s", Err("*"), {"silent": "the codes speak of it, the reference does not show it"}),
])

MIXED = lines('{"a":1}\n{"a":"1"}\n{"a":1.0}\n{"a":true}\n{"a":null}\n{"b":0}\n{"a":"x"}\n{"a":25}\n{"a":[1]}\n')

TYPED = group("json/types", MIXED, [
    ("casts to INT go by kind", "SELECT CAST(s.a AS INT) AS v FROM S3Object s", ['{"v":5}', '{"v":-2}', '{"v":100}', '{"v":1}', '{"v":7}', '{"v":null}'],
     {"input": lines('{"a":5.0}\n{"a":-2.9}\n{"a":1e2}\n{"a":true}\n{"a":"7"}\n{"a":null}\n')}),
    ("casts to BOOL go by kind", "SELECT CAST(s.a AS BOOL) AS v FROM S3Object s", ['{"v":true}', '{"v":false}', '{"v":true}', '{"v":false}'],
     {"input": lines('{"a":5}\n{"a":0.0}\n{"a":"true"}\n{"a":false}\n')}),
    ("a text that is no INT", "SELECT CAST(s.a AS INT) AS v FROM S3Object s", Err("CastFailed"), {"input": lines('{"a":"5.0"}\n')}),
    ("a number equals numbers", "SELECT s.a FROM S3Object s WHERE s.a = 25", ['{"a":25}']),
    ("a text equals texts", "SELECT s.a FROM S3Object s WHERE s.a = 'x'", ['{"a":"x"}']),
    ("TRUE equals true", "SELECT s.a FROM S3Object s WHERE s.a = TRUE", ['{"a":true}']),
    ("order by numbers", "SELECT s.a FROM S3Object s WHERE s.a > 24", ['{"a":25}']),
    ("9 is less than 10", "SELECT s.a FROM S3Object s WHERE s.a < 10", ['{"a":9}'], {"input": lines('{"a":9}\n{"a":10}\n{"a":100}\n')}),
    ("negative numbers", "SELECT s.a FROM S3Object s WHERE s.a < 0", ['{"a":-5}'], {"input": lines('{"a":-5}\n{"a":5}\n')}),
    ("exponents", "SELECT s.a FROM S3Object s WHERE s.a > 999", ['{"a":1e3}'], {"input": lines('{"a":1e3}\n{"a":5}\n')}),
    ("big integers are exact", "SELECT s.a FROM S3Object s WHERE s.a = 9007199254740993", ['{"a":9007199254740993}'],
     {"input": lines('{"a":9007199254740993}\n{"a":9007199254740992}\n')}),
    ("numbers are returned as they are", "SELECT s.a FROM S3Object s", b"1.50\n12345678901234567890.123456789\n100\n",
     {"input": lines('{"a":1.50}\n{"a":12345678901234567890.123456789}\n{"a":100}\n'), "output": CSV_OUT, "silent": "decimals keep their digits"}),
    ("sum of fractions is exact", "SELECT SUM(s.a) FROM S3Object s", Num(["0.6"]), {"input": lines('{"a":0.1}\n{"a":0.2}\n{"a":0.3}\n'), "output": CSV_OUT}),
    ("two attributes", "SELECT s.a FROM S3Object s WHERE s.a = s.b", ['{"a":1}', '{"a":"x"}'],
     {"input": lines('{"a":1,"b":1}\n{"a":1,"b":2}\n{"a":"x","b":"x"}\n')}),
    ("CAST of texts", "SELECT CAST(s.a AS INT) + 1 AS v FROM S3Object s", ['{"v":6}'], {"input": lines('{"a":"5"}\n')}),
    ("CAST of a number to STRING", "SELECT CAST(s.a AS STRING) AS v FROM S3Object s", ['{"v":"5"}'], {"input": lines('{"a":5}\n')}),
    ("IN with numbers", "SELECT s.a FROM S3Object s WHERE s.a IN (25, 26)", ['{"a":25}']),
    ("BETWEEN with numbers", "SELECT s.a FROM S3Object s WHERE s.a BETWEEN 20 AND 30", ['{"a":25}']),
    ("LIKE with texts", "SELECT s.a FROM S3Object s WHERE s.a LIKE 'x%'", ['{"a":"x"}']),
    ("a boolean is a condition", "SELECT s.id FROM S3Object s WHERE s.ok", ['{"id":1}'], {"input": lines('{"id":1,"ok":true}\n{"id":2,"ok":false}\n{"id":3}\n')}),
    ("NOT of a boolean", "SELECT s.id FROM S3Object s WHERE NOT s.ok", ['{"id":2}'], {"input": lines('{"id":1,"ok":true}\n{"id":2,"ok":false}\n{"id":3}\n')}),
    ("a condition over MISSING is not true", "SELECT COUNT(*) AS v FROM S3Object s WHERE s.zzz = 1", ['{"v":0}']),
    ("nor its negation", "SELECT COUNT(*) AS v FROM S3Object s WHERE NOT (s.zzz = 1)", ['{"v":0}']),
    ("dates in texts", "SELECT s.t FROM S3Object s WHERE CAST(s.t AS TIMESTAMP) > `2020-01-01T`", ['{"t":"2021-05-05T"}'],
     {"input": lines('{"t":"2019-05-05T"}\n{"t":"2021-05-05T"}\n')}),
])

TEXT = group("json/text", lines('{"a":1}\n'), [
    ("escapes", "SELECT s.a FROM S3Object s", [{"a": 'q"b\\s/t\tn\nu\u00e9'}], {"input": lines(r'{"a":"q\"b\\s\/t\tn\nu\u00e9"}' + "\n")}),
    ("surrogate pairs", "SELECT s.a FROM S3Object s", [{"a": "😀"}], {"input": lines(r'{"a":"\ud83d\ude00"}' + "\n")}),
    ("escapes in WHERE", "SELECT s.a FROM S3Object s WHERE s.a = 'é'", [{"a": "é"}], {"input": lines(r'{"a":"\u00e9"}' + "\n")}),
    ("escapes in names", "SELECT s.é FROM S3Object s", [{"é": 1}], {"input": lines(r'{"\u00e9":1}' + "\n")}),
    ("text beyond ASCII", "SELECT s.a FROM S3Object s", [{"a": "日本語"}], {"input": lines('{"a":"日本語"}\n')}),
    ("control characters are escaped on the way out", "SELECT s.a FROM S3Object s", [{"a": "x\ny\tz\u0001"}], {"input": lines(r'{"a":"x\ny\tz\u0001"}' + "\n")}),
    ("an empty name", 'SELECT s."" AS v FROM S3Object s', ['{"v":1}'], {"input": lines('{"":1}\n'), "silent": "a name is a name"}),
    ("spaces anywhere", "SELECT s.a FROM S3Object s", [{"a": 1}], {"input": lines(' { "a" : 1 } \n')}),
    ("an empty object", "SELECT * FROM S3Object s", ["{}"], {"input": lines("{}\n")}),
    ("no newline at the end", "SELECT s.a FROM S3Object s", [{"a": 1}, {"a": 2}], {"input": lines('{"a":1}\n{"a":2}')}),
    ("CRLF", "SELECT s.a FROM S3Object s", [{"a": 1}, {"a": 2}], {"input": lines('{"a":1}\r\n{"a":2}\r\n')}),
    ("blank lines", "SELECT s.a FROM S3Object s", [{"a": 1}, {"a": 2}], {"input": lines('{"a":1}\n\n{"a":2}\n\n'), "silent": "blank lines hold no record"}),
    ("nothing at all", "SELECT s.a FROM S3Object s", [], {"input": lines("")}),
    ("nothing but blanks", "SELECT s.a FROM S3Object s", [], {"input": lines("\n\n")}),
    ("nothing at all, counted", "SELECT COUNT(*) AS n FROM S3Object s", [{"n": 0}], {"input": lines("")}),
    ("nothing at all in a document", "SELECT s.a FROM S3Object s", [], {"input": document("")}),
    ("a document over lines", "SELECT s.a, s.b FROM S3Object s", [{"a": 1, "b": 2}], {"input": document('{\n"a": 1,\n"b":\n2\n}\n')}),
    ("several documents", "SELECT s.a FROM S3Object s", [{"a": 1}, {"a": 2}, {"a": 3}], {"input": document('{"a":1}{"a":2}\n\n{"a"\n:3}')}),
    ("a list of records", "SELECT s.a FROM S3Object[*][*] s", [{"a": 1}, {"a": 2}], {"input": document('[{"a":1},{"a":2}]')}),
    ("a list is one root-level value", "SELECT COUNT(*) AS n FROM S3Object[*] s", [{"n": 1}], {"input": document('[{"a":1},{"a":2}]')}),
    ("a list is one root-level value, starred", "SELECT * FROM S3Object s", [{"_1": [{"a": 1}, {"a": 2}]}],
     {"input": document('[{"a":1},{"a":2}]'), "silent": "a value without a name is _1"}),
    ("documented: the second element of a list is alias[1]", "SELECT s[1].a FROM S3Object s", [{"a": 2}], {"input": document('[{"a":1},{"a":2}]')}),
    ("the second element of a line", "SELECT s[1] AS v FROM S3Object s", [{"v": 20}, {"v": 40}], {"input": lines("[10,20]\n[30,40]\n")}),
    ("numbers as records", "SELECT _1 AS v FROM S3Object[*]", [{"v": 1}, {"v": 2}], {"input": lines("1\n2\n"), "silent": "a value is a record"}),
    ("many records", "SELECT COUNT(*) AS n, SUM(s.a) AS t FROM S3Object s", [{"n": 20000, "t": 199990000}],
     {"input": lines("".join(f'{{"a":{n},"pad":"{"x" * (n % 40)}"}}\n' for n in range(20000)))}),
    ("many records of a document's list", "SELECT COUNT(*) AS n, SUM(s.a) AS t FROM S3Object[*].r[*] s", [{"n": 20000, "t": 199990000}],
     {"input": document('{"r":[' + ",\n".join(f'{{"a":{n},"pad":"{"x" * (n % 40)}"}}' for n in range(20000)) + "]}")}),
    ("deeply nested", "SELECT s.a" + ".a" * 50 + " AS v FROM S3Object s", [{"v": 1}], {"input": lines('{"a":' * 51 + "1" + "}" * 51 + "\n")}),
    ("a duplicate name", "SELECT COUNT(*) AS n FROM S3Object s", [{"n": 1}], {"input": lines('{"a":1,"a":2}\n'), "silent": "not refused"}),
])

BROKEN = group("json/broken", lines(""), [
    (title, "SELECT s.a FROM S3Object s", Err("JSONParsingError", "InvalidTextEncoding"), {"input": made})
    for title, made in [
        ("an open object", lines('{"a":1\n')), ("an open text", lines('{"a":"x\n')), ("an open list", lines('{"a":[1,2\n')),
        ("a missing value", lines('{"a":}\n')), ("a missing comma", lines('{"a":1 "b":2}\n')), ("single quotes", lines("{'a':1}\n")),
        ("a name without quotes", lines("{a:1}\n")), ("a comma too many", lines('{"a":1,}\n')), ("no JSON at all", lines("hello\n")),
        ("a wrong literal", lines('{"a":nope}\n')), ("a wrong number", lines('{"a":1.2.3}\n')), ("a wrong escape", lines(r'{"a":"\x"}' + "\n")),
        ("after good records", lines('{"a":1}\n{"a":2}\n{"a":\n')), ("a closing brace too many", lines('{"a":1}}\n')),
        ("not UTF-8", lines(b'{"a":"\xff\xfe"}\n')), ("an open document", document('{"a":1')), ("a document that is none", document("hello")),
        ("two values on a line", lines('{"a":1}{"a":2}x\n')), ("CSV", lines("a,b\n1,2\n")), ("a document cut off", document('{"a":[1,2,{"b":')),
        ("too deep", lines('{"a":' * 100_000 + "1" + "}" * 100_000 + "\n")),
    ]
])
CASES = PATHS + ACCESS + TYPED + TEXT + BROKEN
