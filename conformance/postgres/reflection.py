#!/usr/bin/env python3
"""Clients that ask an SQL server for its tables before they query them: SQLAlchemy, pandas, ibis.

usage: reflection.py HOST:PORT FOLDER [CASE…]

FOLDER is one that the server's SQL may read; `ibis_tpch` takes the folder of TPC-H's queries instead. Some cases need
a table that the server declares: sales (day DATE, item VARCHAR, price DECIMAL(10,2)) with two rows. A client that is
not installed is shown as SKIPPED.
"""

import datetime as dt
import decimal
import json
from pathlib import Path

from cases import FOLDER, HOST, PORT, URL, run

D = decimal.Decimal
ROWS = [(dt.date(2024, 1, 1), "book", D("12.50")), (dt.date(2024, 1, 2), "pen", D("1.20"))]


def sqlalchemy_all():
    import sqlalchemy as sa
    path = f"{FOLDER}/numbers.csv"
    with open(path, "w") as file:
        file.write("id,name,price\n1,a,1.50\n2,b,2.25\n3,,\n")
    engine = sa.create_engine(f"postgresql+psycopg://{URL}")
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE VIEW numbers AS SELECT * FROM '{path}'"))
        inspector = sa.inspect(connection)
        assert "numbers" in inspector.get_view_names(), inspector.get_view_names()
        columns = [column["name"] for column in inspector.get_columns("numbers")]
        assert columns == ["id", "name", "price"], columns
        numbers = sa.table("numbers", sa.column("id"), sa.column("name"), sa.column("price"))
        connection.execute(sa.text("CREATE VIEW typed AS SELECT CAST(1.5 AS DECIMAL(10,2)) AS d, 'x' AS t, [1] AS l"))
        types = [str(column["type"]) for column in inspector.get_columns("typed")]
        assert types == ["NUMERIC(10, 2)", "TEXT", "ARRAY"], types
        assert inspector.has_table("numbers") and not inspector.has_table("missing")
        for nothing in ("foreign_keys", "unique_constraints", "check_constraints"):
            assert getattr(inspector, f"get_{nothing}")("numbers") == [], nothing
        assert inspector.get_pk_constraint("numbers")["constrained_columns"] == []
        rows = connection.execute(sa.select(numbers.c.id, numbers.c.name).where(numbers.c.price > 2)).all()
        assert rows == [(2, "b")], rows
        import pandas
        frame = pandas.read_sql(sa.text("SELECT id, name FROM numbers WHERE id < :most ORDER BY id"), connection, params={"most": 3})
        assert frame["id"].tolist() == [1, 2] and frame["name"].tolist() == ["a", "b"], frame
    engine.dispose()


def sqlalchemy_reflects():
    import pandas
    import sqlalchemy as sa
    engine = sa.create_engine(f"postgresql+psycopg://{URL}")
    inspector = sa.inspect(engine)
    assert inspector.get_table_names() == ["sales"], "and no table of information_schema"
    for nothing in ("indexes", "foreign_keys", "unique_constraints", "check_constraints"):
        assert getattr(inspector, f"get_{nothing}")("sales") == [], nothing
        assert getattr(inspector, f"get_multi_{nothing}")() == {(None, "sales"): []}, nothing
    assert inspector.get_pk_constraint("sales")["constrained_columns"] == []
    assert inspector.get_table_comment("sales") == {"text": None}
    assert inspector.get_table_options("sales") == {}
    assert inspector.get_sequence_names() == inspector.get_enums() == inspector.get_domains() == []
    assert not inspector.has_index("sales", "none")
    try:
        inspector.get_columns("missing")
        raise AssertionError("there is no such table")
    except sa.exc.NoSuchTableError:
        pass
    everything = sa.MetaData()
    everything.reflect(engine)
    assert [str(column.type) for column in everything.tables["sales"].columns] == ["DATE", "TEXT", "NUMERIC(10, 2)"]
    sales = sa.Table("sales", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        assert connection.execute(sa.select(sales).order_by(sales.c.day)).all() == ROWS
        assert connection.execute(sa.select(sa.func.sum(sales.c.price)).where(sales.c.item == "pen")).scalar() == D("1.20")
        connection.execute(sa.text("CREATE VIEW dear AS SELECT item FROM sales WHERE price > 2"))
        inspector = sa.inspect(connection)
        assert inspector.get_view_names() == ["dear"]
        definition = inspector.get_view_definition("dear")
        assert connection.execute(sa.text(definition.rstrip(";"))).all() == [("book",)], definition
    frame = pandas.read_sql_table("sales", engine)
    assert frame["price"].tolist() == [12.5, 1.2] and frame["item"].tolist() == ["book", "pen"], frame
    # Tables in memory take rows, and are their session's own; those of objects take none.
    with engine.connect() as connection:
        made = pandas.DataFrame({"a": [1, 2], "b": ["x", None]})
        assert made.to_sql("made", connection, index=False) in (-1, 2)
        assert pandas.read_sql("made", connection)["a"].tolist() == [1, 2]
        try:
            made.rename(columns={"b": "item"})[["item"]].to_sql("sales", connection, if_exists="append", index=False)
            raise AssertionError("rows were added to a file")
        except Exception as error:  # noqa: BLE001: pandas has its own for those of SQLAlchemy
            assert "INSERT INTO adds an object to a folder" in str(error), error
    with engine.connect() as connection:
        try:
            made.to_sql("indexed", connection)
            raise AssertionError("there are no indexes of tables in memory")
        except sa.exc.DBAPIError as error:
            assert error.orig.sqlstate == "0A000" and "index" in str(error), error
    engine.dispose()


def ibis_all():
    import ibis
    connection = ibis.postgres.connect(host=HOST, port=int(PORT), user="tester", password="", database="pushdowndb")
    assert connection.list_tables() == ["sales"], connection.list_tables()
    assert connection.current_catalog == "pushdowndb" and "public" in connection.list_databases()
    sales = connection.table("sales")
    assert sales.schema() == ibis.schema({"day": "date", "item": "string", "price": "decimal(10, 2)"}), sales.schema()
    assert sales.order_by("day").to_pandas()["price"].tolist() == [D("12.50"), D("1.20")]
    dear = sales.filter(sales.price > 2).select("item", twice=sales.price * 2).to_pandas()
    assert dear["item"].tolist() == ["book"] and float(dear["twice"][0]) == 25.0, dear
    totals = sales.group_by("item").aggregate(n=sales.count(), total=sales.price.sum()).order_by("item").to_pyarrow()
    assert totals["n"].to_pylist() == [1, 1] and totals["total"].to_pylist() == [D("12.50"), D("1.20")], totals
    other = sales.view()
    joined = sales.join(other, [sales.day < other.day]).select(first=sales.item, second=other.item).to_pandas()
    assert joined.values.tolist() == [["book", "pen"]], joined
    months = sales.group_by(month=sales.day.truncate("M")).aggregate(n=sales.count()).to_pandas()
    assert months["n"].tolist() == [2], months
    assert connection.raw_sql("SELECT sum(price) FROM sales").fetchall() == [(D("13.70"),)]
    try:
        connection.table("missing")
        raise AssertionError("there is no such table")
    except ibis.common.exceptions.TableNotFound:
        pass


def ibis_tpch():
    """Prints the rows of each query, all values as text, as JSON."""
    import ibis
    connection = ibis.postgres.connect(host=HOST, port=int(PORT), user="tester", password="", database="pushdowndb")
    assert "lineitem" in connection.list_tables() and connection.table("lineitem").count().to_pandas() > 0
    queries = [Path(FOLDER, f"q{number:02}.sql").read_text() for number in range(1, 23)]
    rows = [connection.raw_sql(query).fetchall() for query in queries]
    text = [[["NULL" if value is None else str(value) for value in row] for row in answer] for answer in rows]
    print(json.dumps(text))


CASES = {name: case for name, case in list(globals().items()) if callable(case) and name.split("_")[0] in
         ("sqlalchemy", "ibis")}

if __name__ == "__main__":
    run(CASES)
