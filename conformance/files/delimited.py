"""CSV files of every way of quoting and ending lines, as text, as declared types and with types that are inferred."""

import bz2
import gzip
import io
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pc

from conformance.files import readers
from conformance.files.case import Case

FIELDS = [
    "", "a", "b c", " a", "a ", "  ", "a,b", 'say "x"', '"', '""', "a\nb", "a\r\nb", "\n", "é", "日本", "😀", "'", "\\", "a\\", "\\n", "#", "# a", ";", "|", "\t",
    "NULL", "null", "NA", "nan", "N/A", "None", "\\N", "-", "0", "007", "+5", "-0", "1e5", "1.", ".5", "true", "2024-02-29", "x" * 5000, "\x00", "\x1f", "\ufeff", "\u2028", "\u0085", "\u00a0",
]
INTEGERS = ["0", "1", "-1", "42", "9223372036854775807", "-9223372036854775808", "1000000", "-0"]
DOUBLES = ["0.0", "-0.0", "1.5", "-1.5", "1e5", "1E-5", "1e+10", "1.7976931348623157e308", "5e-324", "1e-310", "0.1", "123456789.125", "1.", ".5", "-.5", "3", "0.30000000000000004", "9007199254740993.0", "1e22", "1e23", "4.35", "2.2250738585072011e-308", "179769313486231570e291"]
DECIMALS = ["0", "0.00", "1.5", "-1.50", "99999999.99", "-99999999.99", "0.01", ".5", "7"]
DATES = ["1970-01-01", "2024-02-29", "1999-12-31", "0001-01-01", "9999-12-31", "1582-10-15", "1900-03-01"]
TIMES = ["1970-01-01 00:00:00", "2024-02-29 23:59:59", "1999-12-31 12:00:00.5", "2024-02-29 23:59:59.123456", "1677-09-22 00:00:00", "2262-04-11 00:00:00", "1969-12-31 23:59:59.999999"]
TRUTHS = ["true", "false", "TRUE", "False"]
TYPED = {
    "i": ("BIGINT", pa.int64(), "Int64", INTEGERS),
    "x": ("DOUBLE", pa.float64(), "float64", DOUBLES),
    "d": ("DECIMAL(10, 2)", pa.decimal128(10, 2), None, DECIMALS),
    "day": ("DATE", pa.date32(), None, DATES),
    "at": ("TIMESTAMP", pa.timestamp("us"), None, TIMES),
    "ok": ("BOOLEAN", pa.bool_(), None, TRUTHS),
    "t": ("VARCHAR", pa.string(), "str", ["", "a", "b,c", 'q"q', " s ", "é", "2024", "x\ny"]),
}


def quoted(text: str, how: str, delimiter: str, quote='"', force=False) -> str:
    """A field as a writer puts it down."""
    must = force or any(mark in text for mark in (delimiter, quote, "\n", "\r"))
    if how == "all" or must or how == "empty" and text == "":
        return quote + text.replace(quote, quote * 2) + quote
    return text


def written(draw: random.Random, rows: list[list[str | None]], delimiter=",", end="\n", how="needed", last=True) -> str:
    """Rows as text; None is NULL, a field of nothing."""
    lines = []
    for row in rows:
        fields = ["" if field is None else quoted(field, how, delimiter, force=draw.random() < 0.05) for field in row]
        # A line of nothing is no record to anybody.
        lines.append('""' if fields == [""] else delimiter.join(fields))
    text = end.join(lines)
    return text + end if last and lines else text


def packed(draw: random.Random, text: str) -> tuple[str, bytes]:
    """A name of a file and its bytes, plain or compressed."""
    content = text.encode()
    kind = draw.choice(["csv"] * 5 + ["csv.gz", "csv.zst", "csv.bz2"])
    if kind == "csv.gz":
        return f"a.{kind}", gzip.compress(content, mtime=0)
    if kind == "csv.zst":
        return f"a.{kind}", pa.Codec("zstd").compress(content, asbytes=True)
    if kind == "csv.bz2":
        return f"a.{kind}", bz2.compress(content)
    return f"a.{kind}", content


def plain_bytes(folder: Path) -> bytes:
    path = next(iter(sorted(folder.glob("a.*"))))
    with pa.input_stream(str(path), compression="detect") as stream:
        return stream.read()


def by_arrow(columns: dict | None, delimiter=",", header=True):
    """pyarrow's reader; `columns` are types by names, none to infer them."""
    def read(folder: Path):
        names = None if header else list(columns or []) or None
        convert = pc.ConvertOptions(
            column_types=columns or None, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False,
            true_values=["true", "TRUE", "True"], false_values=["false", "FALSE", "False"],
        )
        parse = pc.ParseOptions(delimiter=delimiter, newlines_in_values=True)
        return pc.read_csv(pa.BufferReader(plain_bytes(folder)), pc.ReadOptions(column_names=names, autogenerate_column_names=not header and not names, block_size=1 << 24), parse, convert)

    return read


def by_pandas(columns: dict | None, delimiter=",", header=True):
    def read(folder: Path):
        import pandas

        kinds = {name: kind for name, kind in (columns or {}).items() if kind}
        frame = pandas.read_csv(
            io.BytesIO(plain_bytes(folder)), sep=delimiter, header=0 if header else None, names=None if header else list(columns or []) or None, dtype=kinds or None,
            keep_default_na=False, na_values=[""], encoding="utf-8", encoding_errors="strict", float_precision="round_trip", quotechar='"',
        )
        frame.columns = [str(name) for name in frame.columns]
        return pa.Table.from_pandas(frame, preserve_index=False)

    return read


def by_duck(columns: dict | None, delimiter=",", header=True):
    def read(folder: Path):
        # One that pyarrow has unpacked: DuckDB knows no bzip2.
        path = folder / "plain.txt"
        path.write_bytes(plain_bytes(folder))
        try:
            listed = ""
            if columns:
                listed = ", auto_detect=false, strict_mode=true, columns={" + ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items()) + "}"
            sql = f"SELECT * FROM read_csv('{path}', delim='{delimiter}', quote='\"', escape='\"', header={header}, allow_quoted_nulls=false, max_line_size=10000000{listed})"
            return readers.duck(sql)
        finally:
            path.unlink()

    return read


def texts(seed: int, number: int) -> Case:
    """Fields of all kinds as text, in a way of writing that is drawn."""
    draw = random.Random(f"texts {seed} {number}")
    width, rows = draw.choice([1, 2, 3, 5]), draw.choice([0, 1, 3, 30, 300])
    names = [f"c{n}" for n in range(width)]
    delimiter, end = draw.choice([",", ",", "\t", ";", "|"]), draw.choice(["\n", "\n", "\r\n"])
    how, last, header, mark = draw.choice(["needed", "all", "empty"]), draw.random() < 0.7, draw.random() < 0.8, draw.random() < 0.2
    values = FIELDS if draw.random() < 0.6 else draw.sample(FIELDS, 6)
    made = [[None if draw.random() < 0.1 else draw.choice(values) for _ in names] for _ in range(rows)]
    if header:
        made.insert(0, names)
    text = ("\ufeff" if mark else "") + written(draw, made, delimiter, end, how, last)
    name, content = packed(draw, text)
    declared = ", ".join(f"{one} VARCHAR" for one in names)
    shown = {"\t": "\\t"}.get(delimiter, delimiter)
    asked = {
        "pyarrow": by_arrow({one: pa.string() for one in names}, delimiter, header),
        "pandas": by_pandas(dict.fromkeys(names, "str"), delimiter, header),
        "DuckDB": by_duck(dict.fromkeys(names, "VARCHAR"), shown, header),
    }
    tab = "\t" if delimiter == "\t" else delimiter
    options = f"'has_header' '{str(header).lower()}', 'delimiter' '{tab}', 'newlines_in_values' 'true'"
    about = f"delimiter {delimiter!r}, end {end!r}, quotes {how}, header {header}, mark {mark}, last end {last}, {name}"
    return Case(f"csv-texts-{seed}-{number}", "CSV", {name: content}, asked, declared, options, about, loose={"pandas"})


def typed(seed: int, number: int, inferred: bool) -> Case:
    """Values of types, declared or inferred."""
    draw = random.Random(f"typed {seed} {number} {inferred}")
    names = draw.sample(sorted(TYPED), draw.randint(2, 5))
    rows = draw.choice([1, 5, 60])
    made = [["id", *names]]
    pools = {name: TYPED[name][3] if draw.random() < 0.7 else draw.sample(TYPED[name][3], 2) for name in names}
    for n in range(rows):
        made.append([str(n), *(None if draw.random() < 0.15 else draw.choice(pools[name]) for name in names)])
    end = draw.choice(["\n", "\r\n"])
    name, content = packed(draw, written(draw, made, end=end, how=draw.choice(["needed", "needed", "all"]), last=draw.random() < 0.8))
    types = {"id": ("BIGINT", pa.int64(), "Int64"), **{one: TYPED[one][:3] for one in names}}
    label = "inferred" if inferred else "typed"
    if inferred:
        asked = {"pyarrow": by_arrow(None), "pandas": by_pandas(None), "DuckDB": by_duck(None)}
        columns, options = "", ""
    else:
        asked = {
            "pyarrow": by_arrow({one: kinds[1] for one, kinds in types.items()}),
            "pandas": by_pandas({one: kinds[2] for one, kinds in types.items()}),
            "DuckDB": by_duck({one: kinds[0] for one, kinds in types.items()}),
        }
        columns = ", ".join(f"{one} {kinds[0]}" for one, kinds in types.items())
        options = "'newlines_in_values' 'true'"
    about = f"end {end!r}, {name}: {content[:200] if name == 'a.csv' else ''!r}"
    return Case(f"csv-{label}-{seed}-{number}", "CSV", {name: content}, asked, columns, options, about, filters=not inferred, loose={"pandas"})


# Texts that are odd, with the names of their columns.
ODD = {
    "header": "a,b\n",
    "header-open": "a,b",
    "empty-lines": "a,b\n\n1,2\n\n\n3,4\n\n",
    "empty-lines-crlf": "a,b\r\n\r\n1,2\r\n\r\n3,4\r\n",
    "one-column": "a\n1\n\n2\n",
    "quoted-empty": 'a,b\n"",\n,""\n"",""\n',
    "only-null": "a,b\n,\n,\n",
    "mark": "\ufeffa,b\n1,2\n",
    "mark-quoted": '\ufeff"a","b"\n1,2\n',
    "cr": "a,b\r1,2\r3,4\r",
    "mixed-ends": "a,b\n1,2\r\n3,4\n",
    "quoted-names": '"a","b ""c"""\n1,2\n',
    "names-with-blanks": "a , b\n1,2\n",
    "blanks": "a,b\n 1 , 2\n3, 4 \n",
    "quotes-inside": 'a,b\nx"y,2\nz,w"\n',
    "quotes-after": 'a,b\n"x"y,2\n',
    "trailing-delimiter": "a,b,\n1,2,\n",
    "short-row": "a,b,c\n1,2\n3,4,5\n",
    "long-row": "a,b\n1,2,3\n4,5\n",
    "open-quote": 'a,b\n1,"x\n2,y\n',
    "long-field": "a,b\n" + "x" * 300_000 + ",1\n2," + '"' + "y\n" * 50_000 + '"\n',
    "many-columns": ",".join(f"c{n}" for n in range(500)) + "\n" + ",".join(map(str, range(500))) + "\n",
    "zeros": "a,b\n007,0\n010,1\n",
    "plus": "a,b\n+5,+1.5\n-5,-1.5\n",
    "big": "a,b\n9223372036854775808,1\n1,2\n",
    "huge": "a,b\n123456789012345678901234567890,1\n1,2\n",
    "int-then-double": "a\n1\n2.5\n",
    "int-then-text": "a\n1\nx\n",
    "exponents": "a,b\n1e5,1E5\n-1.5e-3,2e+2\n",
    "special": "a,b\nNaN,1.5\ninf,2.5\n-inf,3.5\n",
    "dates": "a,b\n2024-01-01,2024-01-01 12:00:00\n2024-02-29,2024-02-29T23:59:59\n",
    "fractions": "a\n2024-01-01 12:00:00.1\n2024-01-01 12:00:00.123456\n",
    "nanos": "a\n2024-01-01 12:00:00.123456789\n2024-01-01 12:00:00.1\n",
    "zones": "a\n2024-01-01T12:00:00Z\n2024-01-01T12:00:00+02:00\n",
    "times": "a,b\n12:00:00,1\n23:59:59,2\n",
    "no-dates": "a,b\n2023-02-29,2024-13-01\n2024-01-01,2024-01-02\n",
    "truths": "a,b,c\ntrue,TRUE,True\nfalse,FALSE,False\n",
    "truths-other": "a,b,c\nt,yes,1\nf,no,0\n",
    "null-words": "a,b\nNULL,1\nx,2\n",
    "number-and-null-word": "a,b\nNA,1\n5,2\n",
    "semicolons": "a;b\n1,5;2\n1,7;3\n",
    "tabs": "a\tb\n1\t2\n",
    "pipes": "a|b\n1|2\n",
    "same-names": "a,a\n1,2\n",
    "names-by-case": "a,A\n1,2\n",
    "no-name": ",b\n0,2\n1,3\n",
    "unicode-names": "größe,名前\n1,x\n",
    "spaces-only": "a,b\n  ,1\n   ,2\n",
    "negative-zero": "a,b\n-0,-0.0\n0,0.0\n",
    "one-line": "1,2,3\n",
    "no-header": "1,x\n2,y\n",
    "tiny-double": "a\n4.9e-324\n2.2250738585072014e-308\n1e-400\n",
    "huge-double": "a\n1e308\n1.5\n",
    "double-digits": "a\n0.1234567890123456789\n12345678901234567890.5\n",
    "int-double-long": "a\n1.5\n9007199254740993\n",
}


# A value behind the first megabyte, from which columns are inferred.
ODD["late-long"] = "a,pad\n" + f"1.5,{'x' * 3000}\n" * 400 + "9007199254740993,\n"
ODD["late-zeros"] = "a,pad\n" + f"15,{'x' * 3000}\n" * 400 + "007,\n"
# What is told to the references, and found out by us.
DELIMITERS = {"semicolons": ";", "tabs": "\t", "pipes": "|"}
NAMELESS = ("one-line", "no-header")


def odd() -> list[Case]:
    """Each odd text with all that is about it inferred, and with columns of text."""
    found = []
    for name, text in ODD.items():
        files = {"a.csv": text.encode()}
        how = (None, DELIMITERS.get(name, ","), name not in NAMELESS)
        asked = {"pyarrow": by_arrow(*how), "pandas": by_pandas(*how), "DuckDB": by_duck(*how)}
        found.append(Case(f"csv-odd-{name}", "CSV", files, asked, "", "", repr(text[:200]), loose={"pandas"}, positional=True))
        header = text.lstrip("\ufeff").replace("\r", "\n").split("\n", maxsplit=1)[0]
        width = header.count(",") + 1
        names = [f"c{n}" for n in range(width)]
        body = {"pyarrow": lambda folder, names=names: as_text(folder, names)}
        body |= {"pandas": by_pandas_text(names), "DuckDB": by_duck(dict.fromkeys(names, "VARCHAR"))}
        columns = ", ".join(f"{one} VARCHAR" for one in names)
        options = "'has_header' 'true', 'newlines_in_values' 'true'"
        found.append(Case(f"csv-oddtext-{name}", "CSV", files, body, columns, options, repr(text[:200]), loose={"pandas"}, positional=True))
    return found


def as_text(folder: Path, names: list[str]) -> pa.Table:
    """All as text, under other names than those of the header."""
    convert = pc.ConvertOptions(column_types={one: pa.string() for one in names}, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
    how = pc.ReadOptions(column_names=names, skip_rows=1, block_size=1 << 24)
    return pc.read_csv(pa.BufferReader(plain_bytes(folder)), how, pc.ParseOptions(newlines_in_values=True), convert)


def by_pandas_text(names: list[str]):
    def read(folder: Path):
        import pandas

        frame = pandas.read_csv(io.BytesIO(plain_bytes(folder)), header=0, names=names, dtype="str", keep_default_na=False, na_values=[""], index_col=False)
        return pa.Table.from_pandas(frame, preserve_index=False)

    return read


def cases(seed: int, count: int) -> list[Case]:
    found = odd()
    found += [texts(seed, number) for number in range(count)]
    return found + [typed(seed, number, inferred=bool(number % 2)) for number in range(count)]
