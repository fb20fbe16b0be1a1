"""Date functions: DATE_ADD, DATE_DIFF, EXTRACT, TO_STRING, TO_TIMESTAMP, UTCNOW."""

from conformance.select.case import PARSE_ERROR, AnyOf, Err, Like, csv, group, values

NULL = None


def day(text):
    """A timestamp of day precision: the reference prints it without the T and calls both the same."""
    return AnyOf(text, text + "T")


ADD = values("functions/date/add", [
    ("DATE_ADD(year, 5, `2010-01-01T`)", day("2015-01-01")), ("DATE_ADD(month, 1, `2010T`)", "2010-02T"),
    ("DATE_ADD(month, 13, `2010T`)", "2011-02T"), ("DATE_ADD(day, -1, `2017-01-10T`)", day("2017-01-09")),
    ("DATE_ADD(hour, 1, `2017T`)", AnyOf("2017-01-01T01:00-00:00", "2017-01-01T01:00Z")),
    ("DATE_ADD(hour, 1, `2017-01-02T03:04Z`)", "2017-01-02T04:04Z"),
    ("DATE_ADD(minute, 1, `2017-01-02T03:04:05.006Z`)", "2017-01-02T03:05:05.006Z"),
    ("DATE_ADD(second, 1, `2017-01-02T03:04:05.006Z`)", "2017-01-02T03:04:06.006Z"),
    ("DATE_ADD(year, -1, `2017T`)", "2016T"), ("DATE_ADD(day, 1, `2016-02-28T`)", day("2016-02-29")),
    ("DATE_ADD(day, 1, `2017-02-28T`)", day("2017-03-01")), ("DATE_ADD(month, 1, `2017-01-31T`)", day("2017-02-28")),
    ("DATE_ADD(year, 1, `2016-02-29T`)", day("2017-02-28")), ("DATE_ADD(month, -1, `2017-01-15T`)", day("2016-12-15")),
    ("DATE_ADD(hour, 24, `2017-12-31T01:00Z`)", "2018-01-01T01:00Z"), ("DATE_ADD(minute, -61, `2017-01-01T00:30Z`)", "2016-12-31T23:29Z"),
    ("DATE_ADD(hour, 2, `2017-01-01T23:00+07:00`)", "2017-01-02T01:00+07:00"), ("DATE_ADD(DAY, 1, `2017-01-01T`)", day("2017-01-02")),
    ("DATE_ADD(day, 1, CAST('2017-01-01T10:00Z' AS TIMESTAMP))", "2017-01-02T10:00Z"), ("DATE_ADD(day, NULL, `2017-01-01T`)", NULL),
    ("DATE_ADD(day, 1, NULL)", NULL), ("DATE_ADD(day, 1 + 1, `2017-01-01T`)", day("2017-01-03")),
    ("DATE_ADD(century, 1, `2017-01-01T`)", Err("ParseExpectedDatePart", *PARSE_ERROR)), ("DATE_ADD(day, 1)", Err("*")),
    ("DATE_ADD(day, 1, 'x')", Err("*")), ("DATE_ADD(day, 'x', `2017-01-01T`)", Err("*")),
    ("DATE_ADD(year, 10000, `2017-01-01T`)", Err("*")),
])

DIFF = values("functions/date/diff", [
    ("DATE_DIFF(year, `2010-01-01T`, `2011-01-01T`)", 1),
    ("DATE_DIFF(month, `2010T`, `2010-05T`)", 4, {"silent": "the reference has this example under `year`, where 4 is a slip"}),
    ("DATE_DIFF(month, `2010T`, `2011T`)", 12), ("DATE_DIFF(month, `2011T`, `2010T`)", -12),
    ("DATE_DIFF(day, `2010-01-01T23:00Z`, `2010-01-02T01:00Z`)", 0), ("DATE_DIFF(day, `2010-01-01T`, `2010-01-11T`)", 10),
    ("DATE_DIFF(day, `2010-01-11T`, `2010-01-01T`)", -10), ("DATE_DIFF(hour, `2010-01-01T00:00Z`, `2010-01-02T01:30Z`)", 25),
    ("DATE_DIFF(minute, `2010-01-01T00:00Z`, `2010-01-01T01:30Z`)", 90), ("DATE_DIFF(second, `2010-01-01T00:00:00Z`, `2010-01-01T00:01:05Z`)", 65),
    ("DATE_DIFF(hour, `2010-01-01T00:00+01:00`, `2010-01-01T00:00Z`)", 1), ("DATE_DIFF(year, `2011T`, `2010T`)", -1),
    ("DATE_DIFF(year, `2010-12T`, `2011-01T`)", 0, {"silent": "whole years, as the example of days counts whole days"}),
    ("DATE_DIFF(month, `2010-01-31T`, `2010-02-28T`)", 0, {"silent": "whole months"}), ("DATE_DIFF(day, NULL, `2010T`)", NULL),
    ("DATE_DIFF(day, `2010T`)", Err("*")), ("DATE_DIFF(week, `2010T`, `2011T`)", Err("ParseExpectedDatePart", *PARSE_ERROR)),
])

EXTRACT = values("functions/date/extract", [
    ("EXTRACT(YEAR FROM `2010-01-01T`)", 2010), ("EXTRACT(MONTH FROM `2010T`)", 1), ("EXTRACT(MONTH FROM `2010-10T`)", 10),
    ("EXTRACT(HOUR FROM `2017-01-02T03:04:05+07:08`)", 3), ("EXTRACT(MINUTE FROM `2017-01-02T03:04:05+07:08`)", 4),
    ("EXTRACT(TIMEZONE_HOUR FROM `2017-01-02T03:04:05+07:08`)", 7), ("EXTRACT(TIMEZONE_MINUTE FROM `2017-01-02T03:04:05+07:08`)", 8),
    ("EXTRACT(SECOND FROM `2017-01-02T03:04:05Z`)", 5), ("EXTRACT(DAY FROM `2017-01-02T03:04:05Z`)", 2), ("EXTRACT(DAY FROM `2010T`)", 1),
    ("EXTRACT(HOUR FROM `2010-01-01T`)", 0), ("EXTRACT(TIMEZONE_HOUR FROM `2017-01-02T03:04:05-07:08`)", -7),
    ("EXTRACT(TIMEZONE_MINUTE FROM `2017-01-02T03:04:05-07:08`)", -8), ("EXTRACT(TIMEZONE_HOUR FROM `2017-01-02T03:04:05Z`)", 0),
    ("EXTRACT(year FROM CAST('2007-04-05T14:30Z' AS TIMESTAMP))", 2007), ("extract(month from TO_TIMESTAMP('2007-04-05T14:30Z'))", 4),
    ("EXTRACT(YEAR FROM NULL)", NULL), ("EXTRACT(YEAR `2010T`)", Err(*PARSE_ERROR)),
    ("EXTRACT(WEEKDAY FROM `2010T`)", Err("ParseExpectedDatePart", *PARSE_ERROR)), ("EXTRACT(YEAR FROM 'x')", Err("*")),
])

MOON = "`1969-07-20T20:18Z`"
TIME = "`2017-03-02T03:04:05.006Z`"

TO_STRING = values("functions/date/to_string", [
    (f"TO_STRING({MOON}, 'MMMM d, y')", "July 20, 1969"), (f"TO_STRING({MOON}, 'MMM d, yyyy')", "Jul 20, 1969"),
    (f"TO_STRING({MOON}, 'M-d-yy')", "7-20-69"), (f"TO_STRING({MOON}, 'MM-d-y')", "07-20-1969"),
    (f"TO_STRING({MOON}, 'MMMM d, y h:m a')", "July 20, 1969 8:18 PM"),
    (f"TO_STRING({MOON}, 'y-MM-dd''T''H:m:ssX')", "1969-07-20T20:18:00Z"),
    ("TO_STRING(`1969-07-20T20:18+08:00`, 'y-MM-dd''T''H:m:ssXXXX')", "1969-07-20T20:18:00+0800"),
    ("TO_STRING(`1969-07-20T20:18+08:00`, 'y-MM-dd''T''H:m:ssXXXXX')", "1969-07-20T20:18:00+08:00"),
    ("TO_STRING(`1969-07-20T20:18+08:00`, 'H X')", "20 +08"), ("TO_STRING(`1969-07-20T20:18+08:00`, 'H XX')", "20 +0800"),
    ("TO_STRING(`1969-07-20T20:18+08:00`, 'H XXX')", "20 +08:00"), (f"TO_STRING({MOON}, 'XXX')", "Z"),
    ("TO_STRING(`1969-07-20T20:18+08:00`, 'x')", "+08"), ("TO_STRING(`1969-07-20T20:18-08:30`, 'xxxx')", "-0830"),
    ("TO_STRING(`1969-07-20T20:18-08:30`, 'xxx')", "-08:30"), (f"TO_STRING({MOON}, 'xxxxx')", "+00:00"),
    (f"TO_STRING({TIME}, 'yyyy-MM-dd')", "2017-03-02"), (f"TO_STRING({TIME}, 'HH:mm:ss')", "03:04:05"), (f"TO_STRING({TIME}, 'h:m:s a')", "3:4:5 AM"),
    (f"TO_STRING({TIME}, 'hh a')", "03 AM"), (f"TO_STRING({TIME}, 'S')", "0"), (f"TO_STRING({TIME}, 'SSS')", "006"),
    (f"TO_STRING({TIME}, 'SSSSSS')", "006000"), (f"TO_STRING({TIME}, 'n')", "6000000"), (f"TO_STRING({TIME}, 'MMMMM')", "M"),
    (f"TO_STRING({TIME}, 'M/d/yy')", "3/2/17"), (f"TO_STRING({TIME}, 'MMM')", "Mar"), ("TO_STRING(`2017-03-02T12:00Z`, 'h a')", "12 PM"),
    ("TO_STRING(`2017-03-02T00:00Z`, 'h a')", "12 AM"), ("TO_STRING(`0099-03-02T`, 'yyyy')", "0099"), ("TO_STRING(`2017T`, 'y-MM-dd')", "2017-01-01"),
    (f"TO_STRING({TIME}, '''at'' H')", "at 3"), (f"TO_STRING({TIME}, '')", AnyOf("")), ("TO_STRING(NULL, 'y')", NULL),
    (f"TO_STRING({TIME}, NULL)", NULL), (f"TO_STRING({TIME})", Err("*")), ("TO_STRING('x', 'y')", Err("*")),
    (f"TO_STRING({TIME}, 'b')", Err("EvaluatorInvalidTimestampFormatPatternSymbol", "EvaluatorInvalidTimestampFormatPattern*")),
    (f"TO_STRING({TIME}, 'y ''open')", Err("EvaluatorUnterminatedTimestampFormatPatternToken", "EvaluatorInvalidTimestampFormatPattern*")),
])

TO_TIMESTAMP = values("functions/date/to_timestamp", [
    ("TO_TIMESTAMP('2007T')", "2007T"), ("TO_TIMESTAMP('2007-02-23T12:14:33.079-08:00')", "2007-02-23T12:14:33.079-08:00"),
    ("TO_TIMESTAMP('2007-02T')", "2007-02T"), ("TO_TIMESTAMP('2007-02-23')", day("2007-02-23")), ("TO_TIMESTAMP('2007-02-23T')", day("2007-02-23")),
    ("TO_TIMESTAMP('2007-02-23T12:14Z')", "2007-02-23T12:14Z"), ("TO_TIMESTAMP('2007-02-23T12:14:33Z')", "2007-02-23T12:14:33Z"),
    ("TO_TIMESTAMP('2007-02-23T12:14:33.123456Z')", "2007-02-23T12:14:33.123456Z"), ("TO_TIMESTAMP(NULL)", NULL),
    ("TO_TIMESTAMP('2007-02-23T12:14')", Err("ValueParseFailure", "CastFailed", "*")),
    ("TO_TIMESTAMP('2007-02-31T')", Err("ValueParseFailure", "CastFailed", "*")), ("TO_TIMESTAMP('soon')", Err("ValueParseFailure", "CastFailed", "*")),
    ("TO_TIMESTAMP('2007-02-23T24:00Z')", Err("ValueParseFailure", "CastFailed", "*")), ("TO_TIMESTAMP()", Err("*")), ("TO_TIMESTAMP(5)", Err("*")),
    ("EXTRACT(YEAR FROM TO_TIMESTAMP('2007T'))", 2007),
    ("TO_TIMESTAMP('July 20, 1969', 'MMMM d, y')", day("1969-07-20"), {"silent": "patterns for parsing are in the error codes only"}),
    ("TO_STRING(TO_TIMESTAMP('07-20-1969 20:18', 'MM-dd-y HH:mm'), 'y/M/d H')", "1969/7/20 20", {"silent": "as above"}),
    ("TO_TIMESTAMP('J', 'MMMMM')", Err("EvaluatorInvalidTimestampFormatPatternSymbolForParsing", "EvaluatorInvalidTimestampFormatPattern*"),
     {"silent": "as above"}),
    ("TO_TIMESTAMP('1969 1970', 'y y')", Err("EvaluatorTimestampFormatPatternDuplicateFields", "EvaluatorInvalidTimestampFormatPattern*"),
     {"silent": "as above"}),
    ("TO_TIMESTAMP('1969-01-01 8', 'y-MM-dd h')",
     Err("EvaluatorTimestampFormatPatternHourClockAmPmMismatch", "EvaluatorInvalidTimestampFormatPattern*"), {"silent": "as above"}),
])

UTCNOW = values("functions/date/utcnow", [
    ("UTCNOW()", Like(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")), ("UTCNOW() > `2020-01-01T`", True), ("UTCNOW() < `2100-01-01T`", True),
    ("EXTRACT(YEAR FROM UTCNOW()) >= 2024", True), ("UTCNOW() = UTCNOW()", True, {"silent": "one statement, one time"}),
    ("DATE_DIFF(day, UTCNOW(), DATE_ADD(day, 3, UTCNOW()))", 3), ("UTCNOW(1)", Err("*")),
])

LOG = csv("t,v\n2020-01-31T10:00Z,a\n2020-02-15T23:30-02:00,b\n2021-02-01T,c\n", "USE")

COLUMNS = group("functions/date/columns", LOG, [
    ("compare", "SELECT v FROM S3Object WHERE CAST(t AS TIMESTAMP) > `2020-02-01T`", ["b", "c"]),
    ("compare with the offset", "SELECT v FROM S3Object WHERE TO_TIMESTAMP(t) >= `2020-02-16T01:30Z`", ["b", "c"]),
    ("EXTRACT in WHERE", "SELECT v FROM S3Object WHERE EXTRACT(MONTH FROM CAST(t AS TIMESTAMP)) = 2", ["b", "c"]),
    ("EXTRACT in the list", "SELECT EXTRACT(YEAR FROM TO_TIMESTAMP(t)) FROM S3Object", ["2020", "2020", "2021"]),
    ("TO_STRING in the list", "SELECT TO_STRING(TO_TIMESTAMP(t), 'd MMM y') FROM S3Object", ["31 Jan 2020", "15 Feb 2020", "1 Feb 2021"]),
    ("DATE_ADD in WHERE", "SELECT v FROM S3Object WHERE DATE_ADD(month, 12, CAST(t AS TIMESTAMP)) >= `2021-02-01T`", ["b", "c"]),
    ("DATE_DIFF in the list", "SELECT DATE_DIFF(day, CAST(t AS TIMESTAMP), `2021-02-01T00:00Z`) FROM S3Object", ["366", "350", "0"]),
    ("precision and offset are kept", "SELECT CAST(t AS TIMESTAMP) FROM S3Object LIMIT 2", ["2020-01-31T10:00Z", "2020-02-15T23:30-02:00"]),
    ("a field that is no timestamp", "SELECT TO_TIMESTAMP(v) FROM S3Object", Err("ValueParseFailure", "CastFailed", "*")),
])

CASES = ADD + DIFF + EXTRACT + TO_STRING + TO_TIMESTAMP + UTCNOW + COLUMNS
