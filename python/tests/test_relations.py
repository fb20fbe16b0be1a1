"""Relations: rows, levels, parameters, derived queries, tables of Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import datafusion
import pandas
import polars
import pyarrow
import pyarrow.compute
import pytest
from conftest import DECLARE, LEVELS, ROWS, declared

import pushdowndb
from pushdowndb.testing import Node

FILTERED = "SELECT id, city FROM sales WHERE id % 5000 = 17 ORDER BY id"


def test_rows_are_the_same_at_every_level_and_in_every_form(node: Node) -> None:
    expected = [(17, "city 17"), (5017, "city 17"), (10017, "city 17"), (15017, "city 17")]
    moved = {}
    for level in LEVELS:
        with declared(node, level) as con:
            relation = con.sql(FILTERED)
            assert relation.fetchall() == expected, level
            moved[level] = relation.stats.bytes
            assert relation.stats.requests > 0 and relation.stats.dollars > 0
            assert relation.arrow().to_pylist() == [{"id": n, "city": c} for n, c in expected]
            assert relation.df().values.tolist() == [list(row) for row in expected]
            assert relation.pl().rows() == expected
            assert pyarrow.table(relation).num_rows == 4
            assert polars.DataFrame(relation).rows() == expected
            assert list(relation) == expected
    assert moved["fragment"] < moved["none"] / 50, moved


def test_a_query_moves_the_bytes_that_the_command_moves(node: Node) -> None:
    keys = {
        "AWS_ENDPOINT_URL": node.endpoint, "AWS_ACCESS_KEY_ID": node.access_key_id,
        "AWS_SECRET_ACCESS_KEY": node.secret_access_key, "AWS_REGION": "us-east-1",
    }  # fmt: skip
    for level in LEVELS:
        with declared(node, level) as con:
            result = con.execute(FILTERED)
            rows = result.fetchall()
        command = [sys.executable, "-m", "pushdowndb", "--set", f"pushdown.level={level}", "--format", "csv"]
        command += ["--stats", "json", "-c", DECLARE + ";" + FILTERED]
        ran = subprocess.run(command, env={**os.environ, **keys}, capture_output=True, text=True, check=True)
        stats = json.loads(ran.stderr.strip().splitlines()[-1])
        assert len(ran.stdout.splitlines()) == len(rows) + 1
        assert stats["requests"] == result.stats["requests"], level
        # Heads of answers hold dates and ids of varying length.
        assert stats["bytes_network"] == pytest.approx(result.stats.bytes, rel=0.02), level


def test_relations_run_when_they_are_read(con: pushdowndb.Connection) -> None:
    relation = con.sql("SELECT id, price FROM sales WHERE id < 10")
    with pytest.raises(pushdowndb.InterfaceError, match="has not run"):
        _ = relation.stats
    assert relation.columns == ["id", "price"]
    assert relation.types == ["BIGINT", "DECIMAL(10,2)"]
    with pytest.raises(pushdowndb.InterfaceError):
        _ = relation.stats
    assert len(relation.collect()) == 10
    assert relation.stats.rows == 10


def test_columns_before_the_run_are_those_after_it(con: pushdowndb.Connection) -> None:
    for query in [
        "SELECT count(*), sum(price) AS total, 1 + 1, max(id) FROM sales",
        "SELECT city, count(*) FROM sales GROUP BY city",
        "SELECT * FROM sales",
    ]:
        relation = con.sql(query)
        assert list(zip(relation.columns, relation.types)) == relation.collect()._table.columns, query


def test_derived_relations_are_one_query(con: pushdowndb.Connection) -> None:
    sales = con.sql("SELECT * FROM sales")
    chosen = sales.filter("city = :city -- a comment", {"city": "city 3"}).project("id", "price * 2 AS double")
    assert chosen.filter("id < ?", [200]).order("id DESC").limit(2).fetchall() == [
        (153, pytest.approx(306.5)),
        (103, pytest.approx(206.5)),
    ]
    assert chosen.count() == ROWS // 50
    # The condition reached storage through two relations.
    pushed = sales.filter("id = 4711")
    assert pushed.fetchall()[0][0] == 4711
    assert pushed.stats.bytes < 20_000 and "storage" in pushed.explain() + pushed.explain(analyze=True)
    cities = con.sql("SELECT * FROM 's3://shop/cities.csv'")
    joined = sales.join(cities, ["city"]).aggregate("count(*) AS n", by="country").order("country")
    assert joined.fetchall() == [(n, ROWS // 5) for n in range(5)]
    assert sales.join(cities, "a.city = b.city AND b.country = 9", how="anti").count() == ROWS
    # Columns that both have get names of their own, so that more can be asked of the rows.
    doubled = sales.join(sales, "a.id = b.id AND a.price > 900")
    assert doubled.columns == ["id", "city", "price", "note", "id_1", "city_1", "price_1", "note_1"]
    assert doubled.filter("price_1 > 998").aggregate("count(*)").fetchone() == (ROWS // 1000 * 2,)
    assert sales.join(sales, ["id"], how="left").columns == [
        "id", "city", "price", "note", "city_1", "price_1", "note_1",
    ]  # fmt: skip
    by_name = con.sql("SELECT count(*) FROM chosen JOIN cities ON true WHERE country = 1")
    assert by_name.fetchone() == (ROWS // 50 * 10,)
    assert sales.union(sales).count() == 2 * ROWS and sales.project("city").distinct().count() == 50


def test_parameters_are_values_and_never_text(con: pushdowndb.Connection) -> None:
    evil = "x' OR 1=1; DROP TABLE sales --"
    assert con.sql("SELECT ? AS a, ? AS b", [evil, '"']).fetchall() == [(evil, '"')]
    assert con.sql("SELECT $2 AS x, $1 AS y, $2 AS z", [1, "a"]).fetchall() == [("a", 1, "a")]
    assert con.sql("SELECT :x || $y", {"x": "1", "y": "2", "unused": 3}).fetchall() == [("12",)]
    assert con.sql("SELECT count(*) FROM sales WHERE city = ?", [evil]).fetchall() == [(0,)]
    assert con.sql("SELECT id FROM sales ORDER BY id LIMIT ? OFFSET ?", [2, 5]).fetchall() == [(5,), (6,)]
    assert con.sql("SELECT id FROM sales WHERE id = ANY(?) ORDER BY id", [[3, 1]]).fetchall() == [(1,), (3,)]
    # A question mark in a string is no parameter.
    assert con.sql("SELECT '?' || ?", ["!"]).fetchall() == [("?!",)]
    for sql, params, told in [
        ("SELECT ?", [], "1 parameters, and 0 values"),
        ("SELECT ?", [1, 2], "1 parameters, and 2 values"),
        ("SELECT :a", {"b": 1}, ":a has no value"),
        ("SELECT ?, $1", [1], "cannot be mixed"),
        ("SELECT ?", [object()], "cannot be a parameter"),
        ("SELECT ?", [[1, "a"]], "several types"),
        ("SELECT ?", [10**80], "76 digits"),
    ]:
        with pytest.raises(pushdowndb.InvalidError, match=told):
            con.sql(sql, params)


def test_data_of_python_is_a_table(con: pushdowndb.Connection) -> None:
    data = {"n": [1, 2, None], "t": ["a", "b", "c"]}
    frame, lazy, arrow = pandas.DataFrame(data, index=[7, 8, 9]), polars.LazyFrame(data), pyarrow.table(data)
    sums = {
        name: con.sql(f"SELECT sum(n), max(t), count(*) FROM {name}").fetchall() for name in ("frame", "lazy", "arrow")
    }
    assert sums == {"frame": [(3.0, "c", 3)], "lazy": [(3, "c", 3)], "arrow": [(3, "c", 3)]}
    MixedCase = polars.DataFrame(data)
    assert con.sql("SELECT t FROM MixedCase WHERE n = 2").fetchall() == [("b",)]
    batch = arrow.to_batches()[0]
    assert con.sql("SELECT count(*) FROM batch").fetchall() == [(3,)]
    stream = pyarrow.RecordBatchReader.from_batches(arrow.schema, iter(arrow.to_batches()))
    assert con.sql("SELECT count(*) FROM stream").fetchall() == [(3,)]
    kept = con.sql("SELECT id FROM sales WHERE id < 3").collect()
    assert con.sql("SELECT count(*) FROM kept, frame").fetchall() == [(9,)]
    assert con.sql("SELECT sales.id FROM sales JOIN frame ON sales.id = frame.n ORDER BY 1").fetchall() == [(1,), (2,)]
    assert con.sql("SELECT * FROM table_of_rows").fetchall() == [(5,)]
    con.register("Held", arrow)
    del arrow
    assert con.sql("SELECT count(*) FROM held").fetchall() == [(3,)] and "held" in con.tables()
    con.unregister("held")
    with pytest.raises(pushdowndb.InvalidError, match="there is no table held"):
        con.sql("SELECT * FROM held").fetchall()
    number = 5
    with pytest.raises(pushdowndb.InvalidError, match="builtins.int, which exports no Arrow"):
        con.sql("SELECT * FROM number")
    del number, lazy, MixedCase, batch, stream, kept, frame


def test_relations_are_tables_of_datafusion(con: pushdowndb.Connection) -> None:
    context = datafusion.SessionContext()
    context.register_table("sales", con.sql("SELECT * FROM sales"))
    context.register_table("odd", con.sql("SELECT id AS \"A\"\"b\", note FROM sales"))
    for sql in [
        "SELECT city, count(*) AS n, sum(price) AS total FROM sales WHERE id % 3 = 1 AND id < 12000 GROUP BY city",
        "SELECT id, price FROM sales WHERE city IN ('city 3', 'city 4') AND NOT id BETWEEN 100 AND 19000",
        "SELECT count(*) AS n FROM sales WHERE note IS NULL OR city >= 'city 48' AND price <> 3.25",
        "SELECT * FROM sales WHERE id > 19997",
        "SELECT count(*) AS n FROM sales",
        "SELECT b.id, a.city FROM sales AS a JOIN sales AS b ON a.id = b.note WHERE b.id < 20",
    ]:
        expected = con.sql(sql).fetchall()
        found = context.sql(sql).to_arrow_table().to_pylist()
        assert sorted(map(repr, map(tuple, map(dict.values, found)))) == sorted(map(repr, expected)), sql
    found = context.sql('SELECT "A""b" FROM odd WHERE "A""b" < 3 AND note > 1').to_arrow_table()
    assert found.to_pylist() == [{'A"b': 2}]
    assert context.sql("SELECT id FROM sales LIMIT 3").to_arrow_table().num_rows == 3
    with pytest.raises(pushdowndb.InvalidError, match="two columns id"):
        context.register_table("twice", con.sql("SELECT id, id FROM sales"))


table_of_rows = pyarrow.table({"v": [5]})


def test_order_of_rows_of_a_data_frame_is_kept(con: pushdowndb.Connection) -> None:
    many = polars.DataFrame({"n": range(200_000)})
    assert con.sql("SELECT n FROM many").pl()["n"].is_sorted()
    del many


def test_ten_million_rows_stream_in_bounded_memory(con: pushdowndb.Connection) -> None:
    relation = con.sql("SELECT value AS n, value % 10 AS digit, CAST(value AS VARCHAR) AS text FROM range(10000000)")
    rows = total = largest = 0
    for batch in pyarrow.RecordBatchReader.from_stream(relation):
        rows += batch.num_rows
        total += pyarrow.compute.sum(batch["n"]).as_py()
        largest = max(largest, batch.nbytes)
    assert (rows, total) == (10_000_000, 9_999_999 * 5_000_000)
    assert largest < 4 << 20
    result = con.execute("SELECT value FROM range(10000000)")
    assert result.fetchmany(10_000)[-1] == (9_999,) and len(result.fetchmany(10_000)) == 10_000
    result.cancel()


def test_a_table_of_the_session_comes_before_a_variable(con: pushdowndb.Connection) -> None:
    sales = pyarrow.table({"id": [1]})
    assert con.sql("SELECT count(*) FROM sales").fetchall() == [(ROWS,)]
    del sales


def test_nested_queries_end_somewhere(con: pushdowndb.Connection) -> None:
    relation = con.sql("SELECT 1 AS n")
    for _ in range(30):
        relation = relation.filter("n > 0")
    assert relation.fetchall() == [(1,)]
    for _ in range(40):
        relation = relation.filter("n > 0")
    with pytest.raises(pushdowndb.UnsupportedError, match="nested"):
        relation.fetchall()


def test_other_statements_run_at_once(con: pushdowndb.Connection) -> None:
    con.sql("CREATE TABLE kept AS SELECT id FROM sales WHERE id < 5")
    assert con.sql("CREATE VIEW few AS SELECT * FROM kept; SELECT count(*) FROM few").fetchall() == [(5,)]
    con.set("pushdown.level", "none")
    assert con.settings["pushdown.level"] == "none"
    shown = con.sql("SHOW pushdown.level")
    assert shown.fetchall() == [("pushdown.level", "none")] and shown.fetchone() == ("pushdown.level", "none")
    assert shown.filter("value = 'none'").count() == 1
    assert con.describe("kept") == [("id", "BIGINT")]
    with pytest.raises(pushdowndb.InterfaceError, match="no name of a setting"):
        con.set("x = 1; --", 1)


def test_cursors_read_rows_once(con: pushdowndb.Connection) -> None:
    result = con.execute("SELECT id FROM sales ORDER BY id")
    assert result.fetchone() == (0,) and result.fetchmany(2) == [(1,), (2,)]
    assert len(result.fetchall()) == ROWS - 3 and result.fetchone() is None and result.fetchall() == []
    assert result.stats.rows == ROWS
    relation = con.sql("SELECT id FROM sales WHERE id < 3 ORDER BY id")
    assert [relation.fetchone() for _ in range(4)] == [(0,), (1,), (2,), None]
    assert relation.fetchone() == (0,)
    rest = con.execute("SELECT id FROM sales ORDER BY id")
    assert rest.fetchmany(10)[-1] == (9,) and rest.arrow().num_rows == ROWS - 10


def test_files_are_read_by_functions(con: pushdowndb.Connection, tmp_path: object) -> None:
    path = os.path.join(str(tmp_path), "a 'quoted'.csv")
    with open(path, "w") as file:
        file.write("a,b\n1,x\n2,y\n")
    assert con.table(path).fetchall() == [(1, "x"), (2, "y")]
    con.sql(f"COPY (SELECT * FROM sales WHERE id < 10) TO '{tmp_path}/few.parquet' STORED AS PARQUET")
    assert con.table(f"{tmp_path}/few.parquet").count() == 10
    copied = con.execute(f"COPY (SELECT * FROM sales WHERE id < 20) TO '{tmp_path}/more.parquet' STORED AS PARQUET")
    assert con.table(f"{tmp_path}/more.parquet").count() == 20
    assert copied.fetchall() == [(20,)] and copied.stats.bytes > 0


def test_what_is_shown(con: pushdowndb.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    relation = con.sql("SELECT id, 'a\x1b[31m' || city AS text FROM sales ORDER BY id")
    shown = repr(relation)
    assert shown.splitlines()[1:3] == ["│     id │ text             │", "│ BIGINT │ VARCHAR          │"]
    assert "\x1b" not in shown and "\\x1b[31m" in shown and shown.splitlines()[-2].startswith("│      … │")
    relation.show(1)
    assert capsys.readouterr().out.count("\n") == 7
    bundle = con.sql("SELECT '<b>&' AS \"<i>\"")._repr_mimebundle_()
    assert "<td>&lt;b&gt;&amp;</td>" in bundle["text/html"] and "&lt;i&gt;" in bundle["text/html"]
    profile = relation.limit(3).profile()
    assert profile.html.startswith("<!doctype html>") and "srcdoc" in profile._repr_html_()
    assert "network" in relation.explain(analyze=True)
