"""SELECT list, FROM, WHERE, LIMIT, names and keywords: AWS's "SELECT command" and "Reserved keywords"."""

from conformance.select.case import CSV_OUT, JSON_OUT, PARSE_ERROR, AnyOf, Case, Err, csv, group, lines
from conformance.select.runner import check

PEOPLE = csv("id,Name,city\n1,Ann,Oslo\n2,Bob,Rome\n3,Cid,Oslo\n", "USE")
BARE = csv("1,Ann,Oslo\n2,Bob,Rome\n3,Cid,Oslo\n")
AMBIGUOUS = csv("NAME,name,CAST,two words\nA,b,c,d\n", "USE")
UPPER = csv("NAME,OTHER\nA,B\n", "USE")
ODD = csv('a b,c.d,"e""f",1st,größe,_x\n1,2,3,4,5,6\n', "USE")

LIST = group("statement/list", PEOPLE, [
    ("star", "SELECT * FROM S3Object", ["1,Ann,Oslo", "2,Bob,Rome", "3,Cid,Oslo"]),
    ("star of the alias", "SELECT s.* FROM S3Object s", ["1,Ann,Oslo", "2,Bob,Rome", "3,Cid,Oslo"]),
    ("one column", "SELECT id FROM S3Object", ["1", "2", "3"]),
    ("order of the list", "SELECT city, id FROM S3Object", ["Oslo,1", "Rome,2", "Oslo,3"]),
    ("a column twice", "SELECT id, id FROM S3Object", ["1,1", "2,2", "3,3"]),
    ("alias with AS", "SELECT id AS number FROM S3Object", ['{"number":"1"}', '{"number":"2"}', '{"number":"3"}'],
     {"output": JSON_OUT}),
    ("alias without AS", "SELECT id num FROM S3Object LIMIT 1", ['{"num":"1"}'], {"output": JSON_OUT}),
    ("quoted alias", 'SELECT id AS "Big Number" FROM S3Object LIMIT 1', ['{"Big Number":"1"}'], {"output": JSON_OUT}),
    ("two aliases", "SELECT id AS a, city AS b FROM S3Object LIMIT 1", ['{"a":"1","b":"Oslo"}'], {"output": JSON_OUT}),
    ("names in JSON are those of the header", "SELECT Name, city FROM S3Object LIMIT 1", ['{"Name":"Ann","city":"Oslo"}'],
     {"output": JSON_OUT}),
    ("star in JSON", "SELECT * FROM S3Object LIMIT 1", ['{"id":"1","Name":"Ann","city":"Oslo"}'], {"output": JSON_OUT}),
    ("an expression without alias is named by its place", "SELECT id, id || '!' FROM S3Object LIMIT 1",
     ['{"id":"1","_2":"1!"}'], {"output": JSON_OUT}),
    ("literal text", "SELECT 'x' FROM S3Object LIMIT 2", ["x", "x"]),
    ("literal number", "SELECT 5 FROM S3Object LIMIT 1", ["5"]),
    ("columns, a literal, an expression", "SELECT id, 'k', CAST(id AS INT) + 1 FROM S3Object", ["1,k,2", "2,k,3", "3,k,4"]),
    ("quotes as needed", "SELECT 'a,b', 'c' FROM S3Object LIMIT 1", ['"a,b",c']),
    ("keywords in any case", "sElEcT id fRoM s3oBjEcT wHeRe id = '2' lImIt 5", ["2"]),
    ("line breaks and tabs", "SELECT id\n\tFROM\r\n S3Object\nWHERE id = '2'", ["2"],
     {"silent": "a console note says queries have no line breaks; SQL takes any white space"}),
    ("a semicolon at the end", "SELECT id FROM S3Object;", ["1", "2", "3"]),
    ("a semicolon and spaces", "SELECT id FROM S3Object ;  ", ["1", "2", "3"]),
    ("star and a column", "SELECT *, id FROM S3Object", Err("ParseAsteriskIsNotAloneInSelectList", *PARSE_ERROR)),
    ("a column and star", "SELECT id, * FROM S3Object", Err("ParseAsteriskIsNotAloneInSelectList", *PARSE_ERROR)),
    ("nothing", "SELECT FROM S3Object", Err("ParseEmptySelect", *PARSE_ERROR)),
    ("a comma too many", "SELECT id, FROM S3Object", Err(*PARSE_ERROR)),
    ("a comma too few", "SELECT id city Name FROM S3Object", Err(*PARSE_ERROR)),
    ("DISTINCT", "SELECT DISTINCT city FROM S3Object", Err(*PARSE_ERROR)),
])

FROM = group("statement/from", PEOPLE, [
    ("alias", "SELECT p.id FROM S3Object p LIMIT 1", ["1"]),
    ("AS alias", "SELECT p.id FROM S3Object AS p LIMIT 1", ["1"]),
    ("the table's own name", "SELECT S3Object.id FROM S3Object LIMIT 1", ["1"]),
    ("the table's own name in another case", "SELECT s3object.id FROM S3OBJECT LIMIT 1", ["1"]),
    ("alias in another case", "SELECT P.id FROM S3Object p LIMIT 1", ["1"]),
    ("a wildcard is allowed without a path", "SELECT s.id FROM S3Object[*] s LIMIT 1", ["1"], {
        "silent": "documented for JSON; the wildcard without a path means the same for CSV"}),
    ("an alias that is not there", "SELECT x.id FROM S3Object s", Err("InvalidTableAlias", "*")),
    ("another table", "SELECT id FROM people", Err("*")),
    ("no FROM", "SELECT id", Err("ParseSelectMissingFrom", *PARSE_ERROR)),
    ("no FROM after star", "SELECT *", Err("ParseSelectMissingFrom", *PARSE_ERROR)),
    ("no table", "SELECT id FROM", Err(*PARSE_ERROR)),
    ("two tables", "SELECT a.id FROM S3Object a, S3Object b", Err("MultipleDataSourcesUnsupported", "*")),
    ("a join", "SELECT a.id FROM S3Object a JOIN S3Object b ON a.id = b.id",
     Err("MultipleDataSourcesUnsupported", "ParseMalformedJoin", *PARSE_ERROR)),
    ("a subquery in FROM", "SELECT id FROM (SELECT * FROM S3Object)", Err(*PARSE_ERROR)),
    ("a subquery in WHERE", "SELECT id FROM S3Object WHERE id = (SELECT id FROM S3Object)", Err(*PARSE_ERROR)),
    ("a path without the wildcard", "SELECT * FROM S3Object.path", Err("*"), {"input": lines('{"path":1}\n')}),
])

NAMES = group("statement/names", PEOPLE, [
    ("any case without quotes", "SELECT ID, NAME, CITY FROM S3Object LIMIT 1", ["1,Ann,Oslo"]),
    ("exact in quotes", 'SELECT "Name" FROM S3Object LIMIT 1', ["Ann"]),
    ("exact in quotes with alias", 'SELECT s."Name" FROM S3Object s LIMIT 1', ["Ann"]),
    ("documented: NAME as name", "SELECT s.name FROM S3Object s", ["A"], {"input": UPPER}),
    ("documented: NAME as \"name\"", 'SELECT s."name" FROM S3Object s', Err("MissingHeaderName"), {"input": UPPER}),
    ("documented: NAME and name as name", "SELECT s.name FROM S3Object s", Err("AmbiguousFieldName"), {"input": AMBIGUOUS}),
    ("documented: NAME and name as \"NAME\"", 'SELECT s."NAME" FROM S3Object s', ["A"], {"input": AMBIGUOUS}),
    ("documented: NAME and name as \"name\"", 'SELECT s."name" FROM S3Object s', ["b"], {"input": AMBIGUOUS}),
    ("ambiguous in WHERE", "SELECT s.\"NAME\" FROM S3Object s WHERE name = 'b'", Err("AmbiguousFieldName"), {"input": AMBIGUOUS}),
    ("documented: \"CAST\"", 'SELECT s."CAST" FROM S3Object s', ["c"], {"input": AMBIGUOUS}),
    ("documented: CAST", "SELECT s.CAST FROM S3Object s", Err(*PARSE_ERROR), {"input": AMBIGUOUS}),
    ("a name with a space", 'SELECT "two words" FROM S3Object', ["d"], {"input": AMBIGUOUS}),
    ("a name with a dot", 'SELECT "c.d" FROM S3Object', ["2"], {"input": ODD}),
    ("a name with a quote", 'SELECT "e""f" FROM S3Object', ["3"], {"input": ODD}),
    ("a name with a digit first", 'SELECT s."1st" FROM S3Object s', ["4"], {"input": ODD}),
    ("a name beyond ASCII", 'SELECT "größe" FROM S3Object', ["5"], {"input": ODD}),
    ("a name with an underscore first", "SELECT _x FROM S3Object", ["6"], {"input": ODD}),
    ("a column that is not there", "SELECT nothing FROM S3Object", Err("EvaluatorBindingDoesNotExist", "MissingHeaderName")),
    ("a column that is not there, in WHERE", "SELECT id FROM S3Object WHERE nothing = 'x'",
     Err("EvaluatorBindingDoesNotExist", "MissingHeaderName")),
    ("the first place", "SELECT _1 FROM S3Object", ["1", "2", "3"], {"input": BARE}),
    ("a place with alias", "SELECT s._2 FROM S3Object s", ["Ann", "Bob", "Cid"], {"input": BARE}),
    ("places in WHERE", "SELECT s._1 FROM S3Object s WHERE s._3 = 'Oslo' AND _2 <> 'Ann'", ["3"], {"input": BARE}),
    ("places beside headers", "SELECT _2, id FROM S3Object LIMIT 1", ["Ann,1"]),
    ("places of an ignored header", "SELECT _2 FROM S3Object", ["Ann", "Bob", "Cid"],
     {"input": PEOPLE.read_as(FileHeaderInfo="IGNORE")}),
    ("no names without a header", "SELECT id FROM S3Object", Err("*"), {"input": BARE}),
    ("no names of an ignored header", "SELECT id FROM S3Object", Err("*"), {"input": PEOPLE.read_as(FileHeaderInfo="IGNORE")}),
    ("place zero", "SELECT _0 FROM S3Object", Err("InvalidColumnIndex", "EvaluatorBindingDoesNotExist"), {"input": BARE}),
    ("names of places in JSON", "SELECT * FROM S3Object LIMIT 1", ['{"_1":"1","_2":"Ann","_3":"Oslo"}'],
     {"input": BARE, "output": JSON_OUT}),
    ("attribute names in any case", "SELECT s.Name FROM S3Object s", [AnyOf({"Name": "A"}, {"name": "A"})], {
        "input": lines('{"name":"A"}\n'), "silent": "the output is named as the statement or the record names it"}),
    ("attribute names exact", 'SELECT s."name" AS v FROM S3Object s', [{}], {
        "input": lines('{"NAME":"A"}\n'), "silent": "the documentation tells of headers; an attribute that is not there is MISSING"}),
    ("ambiguous attribute", "SELECT s.name FROM S3Object s", Err("AmbiguousFieldName"),
     {"input": lines('{"NAME":"A","name":"b"}\n')}),
    ("exact attribute", 'SELECT s."NAME" FROM S3Object s', [{"NAME": "A"}], {"input": lines('{"NAME":"A","name":"b"}\n')}),
])

WHERE = group("statement/where", PEOPLE, [
    ("true rows only", "SELECT id FROM S3Object WHERE city = 'Oslo'", ["1", "3"]),
    ("nothing found", "SELECT id FROM S3Object WHERE city = 'Bonn'", []),
    ("a column that is not selected", "SELECT Name FROM S3Object s WHERE s.id = '2'", ["Bob"]),
    ("TRUE", "SELECT id FROM S3Object WHERE TRUE", ["1", "2", "3"]),
    ("FALSE", "SELECT id FROM S3Object WHERE FALSE", []),
    ("NULL is not true", "SELECT id FROM S3Object WHERE NULL", []),
    ("a comparison with NULL is not true", "SELECT id FROM S3Object WHERE id = NULL", []),
    ("its negation is not true either", "SELECT id FROM S3Object WHERE NOT (id = NULL)", []),
    ("parentheses", "SELECT id FROM S3Object WHERE ((city = 'Oslo') AND (id = '1'))", ["1"]),
    ("no condition", "SELECT id FROM S3Object WHERE", Err(*PARSE_ERROR)),
    ("a text is no condition", "SELECT id FROM S3Object WHERE 'x'", Err("*")),
    ("a number is no condition", "SELECT id FROM S3Object WHERE 5", Err("*")),
    ("half a comparison", "SELECT id FROM S3Object WHERE id =", Err(*PARSE_ERROR)),
    ("an open parenthesis", "SELECT id FROM S3Object WHERE (id = '1'", Err(*PARSE_ERROR)),
    ("a parenthesis too many", "SELECT id FROM S3Object WHERE id = '1')", Err(*PARSE_ERROR)),
    ("an aggregate in WHERE", "SELECT id FROM S3Object WHERE COUNT(*) > 1", Err("*")),
])

LIMIT = group("statement/limit", PEOPLE, [
    ("one", "SELECT id FROM S3Object LIMIT 1", ["1"]),
    ("two", "SELECT id FROM S3Object LIMIT 2", ["1", "2"]),
    ("more than there are", "SELECT id FROM S3Object LIMIT 100", ["1", "2", "3"]),
    ("after WHERE", "SELECT id FROM S3Object WHERE city = 'Oslo' LIMIT 1", ["1"]),
    ("counts rows that passed", "SELECT id FROM S3Object WHERE id >= '2' LIMIT 2", ["2", "3"]),
    ("zero", "SELECT id FROM S3Object LIMIT 0", []),
    ("above an aggregate", "SELECT COUNT(*) FROM S3Object LIMIT 1", ["3"]),
    ("does not limit what an aggregate sees", "SELECT COUNT(*) FROM S3Object LIMIT 2", ["3"]),
    ("negative", "SELECT id FROM S3Object LIMIT -1", Err("EvaluatorNegativeLimit", *PARSE_ERROR)),
    ("a word", "SELECT id FROM S3Object LIMIT x", Err("*")),
    ("nothing", "SELECT id FROM S3Object LIMIT", Err(*PARSE_ERROR)),
    ("a fraction", "SELECT id FROM S3Object LIMIT 1.5", Err("*")),
    ("before WHERE", "SELECT id FROM S3Object LIMIT 1 WHERE id = '1'", Err(*PARSE_ERROR)),
    ("two numbers", "SELECT id FROM S3Object LIMIT 1 2", Err(*PARSE_ERROR)),
])

REFUSED = group("statement/refused", PEOPLE, [
    ("nothing at all", "", Err("*")),
    ("blanks", "   ", Err("*")),
    ("INSERT", "INSERT INTO S3Object VALUES (1)", Err("*")),
    ("UPDATE", "UPDATE S3Object SET id = 1", Err("*")),
    ("DELETE", "DELETE FROM S3Object", Err("*")),
    ("two statements", "SELECT id FROM S3Object; SELECT id FROM S3Object", Err(*PARSE_ERROR)),
    ("UNION", "SELECT id FROM S3Object UNION SELECT id FROM S3Object", Err(*PARSE_ERROR)),
    ("HAVING", "SELECT COUNT(*) FROM S3Object HAVING COUNT(*) > 1", Err(*PARSE_ERROR)),
    ("GROUP BY", "SELECT city, COUNT(*) FROM S3Object GROUP BY city", Err(*PARSE_ERROR)),
    ("ORDER BY", "SELECT id FROM S3Object ORDER BY id", Err(*PARSE_ERROR)),
    ("OFFSET", "SELECT id FROM S3Object LIMIT 1 OFFSET 1", Err(*PARSE_ERROR)),
    ("a misspelt keyword", "SELECT id FORM S3Object", Err(*PARSE_ERROR)),
    ("an open text", "SELECT id FROM S3Object WHERE id = 'x", Err(*PARSE_ERROR)),
    ("an open name", 'SELECT "id FROM S3Object', Err(*PARSE_ERROR)),
    ("a stray character", "SELECT id ? FROM S3Object", Err("LexerInvalidChar", *PARSE_ERROR)),
    ("a wrong operator", "SELECT id FROM S3Object WHERE id == '1'", Err(*PARSE_ERROR)),
    ("a function nobody has", "SELECT FROBNICATE(id) FROM S3Object", Err("UnsupportedFunction", "*")),
    ("an open Ion literal", "SELECT `2007T FROM S3Object", Err("LexerInvalidIONLiteral", *PARSE_ERROR)),
    ("a wrong Ion literal", "SELECT `20x7T` FROM S3Object", Err("LexerInvalidIONLiteral", "ValueParseFailure", "*")),
])

KEYWORDS = """
absolute action add all allocate alter and any are as asc assertion at authorization avg bag begin between bit bit_length
blob bool boolean both by cascade cascaded case cast catalog char char_length character character_length check clob close
coalesce collate collation column commit connect connection constraint constraints continue convert corresponding count
create cross current current_date current_time current_timestamp current_user cursor date day deallocate dec decimal
declare default deferrable deferred delete desc describe descriptor diagnostics disconnect distinct domain double drop
else end escape except exception exec execute exists external extract false fetch first float for foreign found from
full get global go goto grant group having hour identity immediate in indicator initially inner input insensitive insert
int integer intersect interval into is isolation join key language last leading left level like limit list local lower
match max min minute missing module month names national natural nchar next no not null nullif numeric octet_length of on
only open option or order outer output overlaps pad partial pivot position precision prepare preserve primary prior
privileges procedure public read real references relative restrict revoke right rollback rows schema scroll second
section select session session_user set sexp size smallint some space sql sqlcode sqlerror sqlstate string struct
substring sum symbol system_user table temporary then time timestamp timezone_hour timezone_minute to trailing
transaction translate translation trim true tuple union unique unknown unpivot update upper usage user using value values
varchar varying view when whenever where with work write year zone
""".split()

SOME = ["select", "from", "where", "and", "case", "cast", "date", "count", "true", "null", "missing", "like", "timestamp",
        "user", "value", "year", "end", "in", "is", "string"]


def keyword_input(word):
    return csv(f"{word.upper()},b\nx,y\n", "USE")


WORDS = [
    case
    for word in SOME
    for case in group(f"statement/keywords/{word}", keyword_input(word), [
        ("in quotes is a name", f'SELECT s."{word.upper()}" FROM S3Object s', ["x"]),
        ("without quotes is refused", f"SELECT s.{word} FROM S3Object s", Err(*PARSE_ERROR)),
    ])
]


def every_keyword(sql, expected):
    """A check of all reserved keywords; names those that fail."""

    def test(session):
        wrong = []
        for word in KEYWORDS:
            if word in SOME:
                continue
            try:
                check(session, Case(word, sql.format(word=word, upper=word.upper()), expected, keyword_input(word), CSV_OUT))
            except AssertionError:
                wrong.append(word)
        assert not wrong, f"{len(wrong)} of {len(KEYWORDS)}: {' '.join(wrong)}"

    return test


EVERY = [
    ("statement/keywords/all in quotes are names", every_keyword('SELECT s."{upper}" FROM S3Object s', ["x"])),
    ("statement/keywords/all without quotes are refused", every_keyword("SELECT s.{word} FROM S3Object s", Err(*PARSE_ERROR))),
]

CASES = LIST + FROM + NAMES + WHERE + LIMIT + REFUSED + WORDS + EVERY
