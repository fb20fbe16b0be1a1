#!/usr/bin/env python3
"""The 99 queries of TPC-DS on ours beside DuckDB, which makes the data and knows the queries.

    pip install duckdb==1.5.5 duckdb-extension-tpcds==1.5.5
    python3 conformance/answers/tpcds.py --binary target/release/pushdowndb --scale 0.1

Prints a line for each query that does not plan, fails, takes too long or gives other rows. Exit status 1 if one does that
`tpcds_gaps.txt` does not list by its number; a listed one that is right is said, for that may depend on the scale.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])

from conformance.answers import compare, engines  # noqa: E402
from conformance.harness.report import known_gaps  # noqa: E402

HERE = Path(__file__).resolve().parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, help="the program pushdowndb")
    parser.add_argument("--scale", type=float, default=0.1, help="how many gigabytes of text the data would be")
    parser.add_argument("--queries", metavar="N,N-N", help="only these")
    parser.add_argument("--seconds", type=int, default=120, help="how long a query may take")
    parser.add_argument("--memory", default="8G", help="what ours may hold, as pushdown.memory")
    parser.add_argument("--folder", type=Path, help="where the data is kept, and found the next time")
    parser.add_argument("--json", type=Path, help="write what came of each query there")
    parser.add_argument("--no-gaps", action="store_true", help="ignore the list of known gaps")
    args = parser.parse_args()
    try:
        duck = connection()
    except (ImportError, FileNotFoundError) as error:
        print(f"SKIPPED tpcds: duckdb or duckdb-extension-tpcds is missing: {error}", flush=True)
        return 0
    gaps = {} if args.no_gaps else known_gaps(HERE / "tpcds_gaps.txt")
    with tempfile.TemporaryDirectory(prefix="answers-tpcds-") as temporary:
        folder = args.folder or Path(temporary)
        tables = data(duck, folder, args.scale)
        results = [result for result in run(args, duck, folder, tables)]
    wrong = report(results, gaps, everything=not args.queries)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 1 if wrong else 0


def connection():
    """DuckDB with the extension that the package brings."""
    import duckdb
    import duckdb_extension_tpcds

    found = sorted(Path(duckdb_extension_tpcds.__file__).parent.rglob("tpcds.duckdb_extension"))
    if not found:
        raise FileNotFoundError("no tpcds.duckdb_extension in the package")
    duck = duckdb.connect()
    duck.execute(f"LOAD '{found[0]}'")
    return duck


def data(duck, folder: Path, scale: float) -> list[str]:
    """Tables in DuckDB as views of Parquet files in the folder, which are written if they are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / f"scale-{scale}"
    if not done.exists():
        start = time.monotonic()
        duck.execute(f"CALL dsdgen(sf = {scale})")
        for (table,) in duck.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            duck.execute(f"COPY {table} TO '{folder}/{table}.parquet' (FORMAT parquet)")
            duck.execute(f"DROP TABLE {table}")
        done.touch()
        print(f"tpcds: data at scale {scale} in {time.monotonic() - start:.0f} s", flush=True)
    tables = sorted(path.stem for path in folder.glob("*.parquet"))
    for table in tables:
        duck.execute(f"CREATE VIEW {table} AS SELECT * FROM '{folder}/{table}.parquet'")
    # As in PostgreSQL; the queries of the standard say nothing.
    duck.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    return tables


def chosen(text: str | None) -> set[int]:
    if not text:
        return set(range(1, 100))
    numbers: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def run(args, duck, folder, tables):
    """What came of each query: its number, `outcome` and why."""
    declared = folder / "tables.sql"
    declared.write_text(
        "".join(f"CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION '{folder}/{table}.parquet';\n" for table in tables), encoding="utf-8"
    )
    for number, query in duck.execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY 1").fetchall():
        if number not in chosen(args.queries):
            continue
        start = time.monotonic()
        result = duck.execute(query.rstrip().rstrip(";"))
        expected = engines.Answer(result.fetchall(), kinds=[engines.kind_of(str(column[1])) for column in result.description])
        theirs = time.monotonic() - start
        start = time.monotonic()
        outcome, why = one(args, declared, query, expected)
        yield say({
            "query": number, "outcome": outcome, "why": why, "rows": len(expected.rows), "seconds": round(time.monotonic() - start, 2), "duckdb_seconds": round(theirs, 2),
        })


def say(result: dict) -> dict:
    if result["outcome"] != "right":
        print(f"tpcds: q{result['query']:02} {result['outcome']}: {result['why']}", flush=True)
    return result


def one(args, declared: Path, query: str, expected) -> tuple[str, str]:
    """The query on ours, compared."""
    command = [args.binary, "--format", "json", "--set", f"pushdown.memory={args.memory}", "--set", f"pushdown.query_timeout_s={args.seconds}"]
    with tempfile.NamedTemporaryFile("w", suffix=".sql", encoding="utf-8") as script:
        script.write(query.rstrip().rstrip(";") + ";\n")
        script.flush()
        try:
            done = subprocess.run([*command, "-f", str(declared), "-f", script.name], capture_output=True, timeout=args.seconds + 30)
        except subprocess.TimeoutExpired:
            return "too long", f"more than {args.seconds} s"
    if done.returncode:
        said = " ".join(done.stderr.decode(errors="replace").split())
        kind = "does not plan" if done.returncode in (2, 7) else "fails"
        return kind, re.sub(r"^error: \S+\.sql:\d+: ", "", said)[:400]
    likes = compare.likes(expected)
    ours = compare.ours(engines.Answer(engines.read_json(done.stdout.decode())), likes, "json")
    theirs = compare.theirs(expected, "json")
    return ("right", "") if compare.same_rows(ours, theirs) else differs(ours, theirs)


def differs(ours, theirs) -> tuple[str, str]:
    """Rows that only one has. A LIMIT that cuts ties gives either side rows of its own: see to it by hand."""
    only_ours = [row for row in ours if not any(compare.same_row(row, other) for other in theirs)]
    only_theirs = [row for row in theirs if not any(compare.same_row(row, other) for other in ours)]
    sample = f"only ours {list(map(str, only_ours[0]))}" if only_ours else ""
    sample += f" only DuckDB {list(map(str, only_theirs[0]))}" if only_theirs else ""
    return "differs", f"{len(ours)} rows and {len(theirs)}, {len(only_ours)} only ours, {len(only_theirs)} only DuckDB's {sample}"


def report(results, gaps, everything) -> int:
    """Prints the sum; how many queries went wrong that are not listed."""
    wrong = 0
    for result in results:
        name = f"q{result['query']:02}"
        listed = gaps.pop(name, None)
        if result["outcome"] == "right" and listed:
            print(f"tpcds: {name} is listed as a gap and right", flush=True)
        elif result["outcome"] != "right" and not listed:
            wrong += 1
            print(f"tpcds: FAILED {name}: {result['outcome']}", flush=True)
    if everything and gaps:
        raise SystemExit(f"tpcds_gaps.txt lists what there is not: {list(gaps)}")
    counts = {outcome: sum(result["outcome"] == outcome for result in results) for outcome in sorted({result["outcome"] for result in results})}
    seconds = sum(result["seconds"] for result in results)
    print(f"tpcds: {counts}, ours {seconds:.0f} s, DuckDB {sum(result['duckdb_seconds'] for result in results):.0f} s, {wrong} failed")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
