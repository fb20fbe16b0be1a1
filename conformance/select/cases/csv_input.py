"""CSV objects: headers, delimiters, quotes, comments, and what people really store."""

from conformance.select.case import JSON_OUT, AnyOf, Err, csv, group

ALL = "SELECT * FROM S3Object"
# A record whose only field is empty; quotes tell it from a blank line.
EMPTY = AnyOf("", '""')

HEADER = group("csv/header", csv("a,b\n1,2\n3,4\n"), [
    ("NONE", ALL, ["a,b", "1,2", "3,4"]),
    ("USE", ALL, ["1,2", "3,4"], {"input": csv("a,b\n1,2\n3,4\n", "USE")}),
    ("IGNORE", ALL, ["1,2", "3,4"], {"input": csv("a,b\n1,2\n3,4\n", "IGNORE")}),
    ("an unknown value", ALL, Err("InvalidFileHeaderInfo"), {"input": csv("a,b\n", "maybe")}),
    ("names in quotes", "SELECT \"a b\" FROM S3Object", ["1"], {"input": csv('"a b",c\n1,2\n', "USE")}),
    ("a name with a delimiter", 'SELECT "a,b" FROM S3Object', ["1"], {"input": csv('"a,b",c\n1,2\n', "USE")}),
    ("a name twice is ambiguous", "SELECT a FROM S3Object", Err("AmbiguousFieldName"), {"input": csv("a,a\n1,2\n", "USE")}),
    ("a name twice, by place", "SELECT _1, _2 FROM S3Object", ["1,2"], {"input": csv("a,a\n1,2\n", "USE")}),
    ("a byte order mark", "SELECT a FROM S3Object", ["1"], {"input": csv("\ufeffa,b\n1,2\n", "USE"), "silent": "a BOM is no part of the text"}),
    ("a byte order mark without header", "SELECT _1 FROM S3Object", ["1"], {"input": csv("\ufeff1,2\n"), "silent": "as above"}),
    ("header only, USE", "SELECT a FROM S3Object", [], {"input": csv("a,b\n", "USE")}),
    ("header only without newline, USE", "SELECT a FROM S3Object", [], {"input": csv("a,b", "USE")}),
    ("header only, IGNORE", ALL, [], {"input": csv("a,b\n", "IGNORE")}),
    ("header only, counted", "SELECT COUNT(*) FROM S3Object", ["0"], {"input": csv("a,b\n", "USE")}),
    ("header only, counted as a record", "SELECT COUNT(*) FROM S3Object", ["1"], {"input": csv("a,b\n")}),
    ("empty object, NONE", ALL, [], {"input": csv("")}),
    ("empty object, USE", ALL, [], {"input": csv("", "USE")}),
    ("empty object, IGNORE", ALL, [], {"input": csv("", "IGNORE")}),
    ("empty object, counted", "SELECT COUNT(*) FROM S3Object", ["0"], {"input": csv("", "USE")}),
    ("CRLF after the header", "SELECT b FROM S3Object", ["2"], {"input": csv("a,b\r\n1,2\r\n", "USE")}),
    ("a comment before the header", "SELECT a FROM S3Object", ["1"], {"input": csv("# made today\na,b\n1,2\n", "USE")}),
])

DELIMITERS = group("csv/delimiters", csv("1,2\n3,4\n"), [
    ("default", ALL, ["1,2", "3,4"]),
    ("no newline at the end", ALL, ["1,2", "3,4"], {"input": csv("1,2\n3,4")}),
    ("CRLF", ALL, ["1,2", "3,4"], {"input": csv("1,2\r\n3,4\r\n")}),
    ("CRLF without the last", ALL, ["1,2", "3,4"], {"input": csv("1,2\r\n3,4")}),
    ("CRLF and LF mixed", "SELECT _2 FROM S3Object", ["2", "4", "6"], {"input": csv("1,2\r\n3,4\n5,6\r\n")}),
    ("CRLF named", "SELECT _2 FROM S3Object", ["2", "4"], {"input": csv("1,2\r\n3,4\r\n", RecordDelimiter="\r\n")}),
    ("a tab", "SELECT _2, _1 FROM S3Object", ["2,1", "4,3"], {"input": csv("1\t2\n3\t4\n", FieldDelimiter="\t")}),
    ("a pipe", "SELECT _2 FROM S3Object", ["2", "4"], {"input": csv("1|2\n3|4\n", FieldDelimiter="|")}),
    ("a semicolon", "SELECT _2 FROM S3Object", ["2", "4"], {"input": csv("1;2\n3;4\n", FieldDelimiter=";")}),
    ("a space", "SELECT _2 FROM S3Object", ["2", "4"], {"input": csv("1 2\n3 4\n", FieldDelimiter=" ")}),
    ("a caret", "SELECT _2 FROM S3Object", ["2", "4"], {"input": csv("1^2\n3^4\n", FieldDelimiter="^")}),
    ("a comma as record delimiter", "SELECT _1 FROM S3Object", ["1", "2", "3"], {"input": csv("1,2,3", FieldDelimiter=";", RecordDelimiter=",")}),
    ("a semicolon as record delimiter", ALL, ["1,2", "3,4"], {"input": csv("1,2;3,4;", RecordDelimiter=";")}),
    ("a pipe as record delimiter", "SELECT _2 FROM S3Object", ["2", "4"], {"input": csv("1,2|3,4|", RecordDelimiter="|")}),
    ("two characters between records", "SELECT _2 FROM S3Object", ["2", "4"], {"input": csv("1,2@@3,4@@", RecordDelimiter="@@"),
     "silent": "the API says a single character or more"}),
    ("empty fields", ALL, ["1,,3", ",,", ",x,"], {"input": csv("1,,3\n,,\n,x,\n")}),
    ("spaces are kept", "SELECT _2 FROM S3Object", [" 2 "], {"input": csv("1, 2 \n")}),
    ("blank lines", "SELECT _1 FROM S3Object", ["1", "2"], {"input": csv("1\n\n2\n\n"), "silent": "blank lines hold no record"}),
    ("a blank line of CRLF", "SELECT _1 FROM S3Object", ["1", "2"], {"input": csv("1\r\n\r\n2\r\n"), "silent": "as above"}),
    ("one column", ALL, ["a", "b"], {"input": csv("a\nb\n")}),
    ("many columns", "SELECT _1, _500 FROM S3Object", ["0,499"], {"input": csv(",".join(map(str, range(500))) + "\n")}),
    ("a field delimiter that is the record delimiter", "SELECT _2 FROM S3Object", Err("*"), {"input": csv("1,2\n", FieldDelimiter="\n")}),
])

QUOTES = group("csv/quotes", csv('a,"b,c",d\n'), [
    ("a delimiter inside", "SELECT _2 FROM S3Object", ['"b,c"']),
    ("a delimiter inside, the next field", "SELECT _3 FROM S3Object", ["d"]),
    ("doubled quotes", "SELECT _1 AS v FROM S3Object", [{"v": 'say "hi"'}], {"input": csv('"say ""hi""",x\n'), "output": JSON_OUT}),
    ("only doubled quotes", "SELECT _1 AS v FROM S3Object", [{"v": '"'}], {"input": csv('"""",x\n'), "output": JSON_OUT}),
    ("an empty field in quotes", "SELECT _1 AS v FROM S3Object", [{"v": ""}], {"input": csv('"",x\n'), "output": JSON_OUT}),
    ("all fields", ALL, ["a,b"], {"input": csv('"a","b"\n')}),
    ("another quote", "SELECT _2 FROM S3Object", ['"b,c"'], {"input": csv("a,'b,c',d\n", QuoteCharacter="'")}),
    ("another quote, and \" is text", "SELECT _1 AS v FROM S3Object", [{"v": 'a"b'}], {"input": csv("'a\"b',x\n", QuoteCharacter="'"), "output": JSON_OUT}),
    ("an escape character", "SELECT _1 AS v FROM S3Object", [{"v": 'a"b'}], {"input": csv('"a\\"b",x\n', QuoteEscapeCharacter="\\"), "output": JSON_OUT}),
    ("an escape character before the delimiter", "SELECT _2 FROM S3Object", ["x"], {"input": csv('"a\\",b",x\n', QuoteEscapeCharacter="\\")}),
    ("the quote as its own escape", "SELECT _1 AS v FROM S3Object", [{"v": 'a"b'}], {"input": csv('"a""b",x\n', QuoteEscapeCharacter='"'), "output": JSON_OUT}),
    ("a newline inside", "SELECT _1 AS v, _2 AS w FROM S3Object", [{"v": "a\nb", "w": "x"}, {"v": "c", "w": "y"}],
     {"input": csv('"a\nb",x\nc,y\n', AllowQuotedRecordDelimiter=True), "output": JSON_OUT}),
    ("a CRLF inside", "SELECT _1 AS v FROM S3Object", [{"v": "a\r\nb"}], {"input": csv('"a\r\nb",x\r\n', AllowQuotedRecordDelimiter=True), "output": JSON_OUT}),
    ("newlines inside are counted as none", "SELECT COUNT(*) FROM S3Object", ["2"], {"input": csv('"a\n\n\nb",x\nc,y\n', AllowQuotedRecordDelimiter=True)}),
    ("a newline inside a header", 'SELECT s."a\nb" AS v FROM S3Object s', [{"v": "1"}],
     {"input": csv('"a\nb",c\n1,2\n', "USE", AllowQuotedRecordDelimiter=True), "output": JSON_OUT}),
    ("a newline inside that is not allowed", ALL, Err("CSVEscapingRecordDelimiter", "CSVUnescapedQuote", "CSVParsingError"), {"input": csv('"a\nb",x\nc,y\n')}),
    ("an open quote", ALL, Err("CSVUnescapedQuote", "CSVParsingError", "CSVEscapingRecordDelimiter"), {"input": csv('a,"b\nc,d\n')}),
    ("an open quote with newlines allowed", ALL, Err("CSVUnescapedQuote", "CSVParsingError"), {"input": csv('a,"b\nc,d\n', AllowQuotedRecordDelimiter=True)}),
    ("a quote inside an unquoted field", "SELECT _1 AS v, _2 AS w FROM S3Object", [{"v": 'a"b', "w": "c"}],
     {"input": csv('a"b,c\n'), "output": JSON_OUT, "silent": "a quote opens a field only at its start"}),
    ("quotes switched off", "SELECT _1 AS v, _2 AS w FROM S3Object", [{"v": '"a', "w": 'b"'}],
     {"input": csv('"a,b"\n', QuoteCharacter=""), "output": JSON_OUT, "silent": "an empty character means none"}),
    ("quoted newlines at block edges", "SELECT COUNT(*), SUM(CAST(_1 AS INT)) FROM S3Object", ["9000,40495500"],
     {"input": csv("".join(f'{n},"line {n}\nof {"x" * (n % 97)}\n""q"" end",z\n' for n in range(9000)), AllowQuotedRecordDelimiter=True)}),
    ("quoted delimiters at block edges", "SELECT COUNT(*), SUM(CAST(_3 AS INT)) FROM S3Object", ["20000,199990000"],
     {"input": csv("".join(f'"a,{"y" * (n % 61)}","""",{n}\n' for n in range(20000)))}),
])

COMMENTS = group("csv/comments", csv("#c\n1,2\n#3,4\n5,6\n"), [
    ("the default is #", "SELECT _1 FROM S3Object", ["1", "5"]),
    ("another character", "SELECT _1 FROM S3Object", ["#c", "1"], {"input": csv("#c,\n%x\n1,2\n", Comments="%")}),
    ("in the middle of a line it is text", "SELECT _1 FROM S3Object", ["1#2"], {"input": csv("1#2,3\n")}),
    ("at the end of the object", "SELECT _1 FROM S3Object", ["1"], {"input": csv("1\n#end")}),
    ("comments are not counted", "SELECT COUNT(*) FROM S3Object", ["2"]),
    ("comments with an open quote", "SELECT _1 FROM S3Object", ["1"], {"input": csv('#"open\n1\n')}),
    ("in quotes it is text", "SELECT _1 FROM S3Object", ["#1"], {"input": csv('"#1",2\n'), "silent": "the character must be the line's first"}),
])

RAGGED = group("csv/ragged", csv("1,2,3\n4\n5,6,7,8\n"), [
    ("as they are", ALL, ["1,2,3", "4", "5,6,7,8"], {"silent": "star returns every row as-is"}),
    ("a field that is not there", "SELECT _2 FROM S3Object", ["2", EMPTY, "6"], {"silent": "MISSING is empty in CSV"}),
    ("a field that only one has", "SELECT _4 FROM S3Object", [EMPTY, EMPTY, "8"], {"silent": "as above"}),
    ("a field that is not there is MISSING", "SELECT _1 FROM S3Object WHERE _2 IS MISSING", ["4"], {"silent": "as above"}),
    ("a field that is not there in JSON", "SELECT _1, _2 FROM S3Object", [{"_1": "1", "_2": "2"}, {"_1": "4"}, {"_1": "5", "_2": "6"}],
     {"output": JSON_OUT, "silent": "as above"}),
    ("longer than the header", "SELECT a, _3 FROM S3Object", ["1,", "3,5"], {"input": csv("a,b\n1,2\n3,4,5\n", "USE"), "silent": "as above"}),
    ("shorter than the header", "SELECT a, b FROM S3Object", ["1,2", "3,"], {"input": csv("a,b\n1,2\n3\n", "USE"), "silent": "as above"}),
    ("counted", "SELECT COUNT(*) FROM S3Object", ["3"]),
])

HOSTILE = group("csv/hostile", csv("1,2\n"), [
    ("not UTF-8", "SELECT _2 FROM S3Object", Err("InvalidTextEncoding"), {"input": csv(b"1,\xff\xfe\n")}),
    ("not UTF-8 in a header", "SELECT _1 FROM S3Object", Err("InvalidTextEncoding"), {"input": csv(b"\xff\xfe,b\n1,2\n", "USE")}),
    ("UTF-8 cut at the end", "SELECT _2 FROM S3Object", Err("InvalidTextEncoding"), {"input": csv(b"1,\xe6\x97")}),
    ("a zero byte", "SELECT _2 AS v FROM S3Object", [{"v": "a\0b"}], {"input": csv("1,a\0b\n"), "output": JSON_OUT, "silent": "a character like others"}),
    ("a large field", "SELECT CHAR_LENGTH(_2) FROM S3Object", ["900000"], {"input": csv(f"1,{'x' * 900_000}\n")}),
    ("a large field returned", "SELECT _1 FROM S3Object", ["x" * 900_000], {"input": csv("x" * 900_000 + "\n")}),
    ("a record over 1 MB", "SELECT CHAR_LENGTH(_2) FROM S3Object", Err("OverMaxRecordSize"), {"input": csv(f"1,{'x' * 1_200_000}\n2,y\n")}),
    ("a record over 1 MB without end", "SELECT _1 FROM S3Object", Err("OverMaxRecordSize"), {"input": csv("x" * 3_000_000)}),
    ("a record over 1 MB in quotes", "SELECT _1 FROM S3Object", Err("OverMaxRecordSize", "CSVUnescapedQuote"),
     {"input": csv('"' + "x\n" * 1_500_000 + '"\n', AllowQuotedRecordDelimiter=True)}),
    ("good records before one over 1 MB", "SELECT _1 FROM S3Object LIMIT 1", ["1"], {"input": csv(f"1,2\n{'x' * 3_000_000}\n")}),
    ("only commas", "SELECT COUNT(*) FROM S3Object", ["1"], {"input": csv("," * 2000 + "\n")}),
    ("only quotes", "SELECT COUNT(*) FROM S3Object", Err("CSV*"), {"input": csv('"' * 1001)}),
    ("Parquet read as CSV", "SELECT * FROM S3Object", Err("InvalidTextEncoding", "CSV*"), {"input": csv(b"PAR1" + bytes(range(256)) * 8 + b"PAR1")}),
    ("text beyond ASCII", "SELECT _1, _2 FROM S3Object WHERE _2 = '日本'", ["é,日本"], {"input": csv("é,日本\nx,y\n")}),
    ("text beyond ASCII at block edges", "SELECT COUNT(*) FROM S3Object WHERE _2 = '日本語'", ["30000"],
     {"input": csv("".join(f"{n},日本語,{'é' * (n % 13)}\n" for n in range(30000)))}),
    ("many short records", "SELECT COUNT(*), MAX(CAST(_1 AS INT)) FROM S3Object", ["300000,299999"], {"input": csv("".join(f"{n}\n" for n in range(300_000)))}),
    ("WHERE over all rows", "SELECT _1 FROM S3Object WHERE _1 = '299998'", ["299998"], {"input": csv("".join(f"{n}\n" for n in range(300_000)))}),
])

CASES = HEADER + DELIMITERS + QUOTES + COMMENTS + RAGGED + HOSTILE
