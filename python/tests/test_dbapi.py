"""DB-API 2.0 and SQLAlchemy, and what uses them."""

from __future__ import annotations

import datetime as dt
import decimal
from urllib.parse import quote_plus, urlsplit

import pandas
import pytest
import sqlalchemy
from conftest import DECLARE, ROWS
from sqlalchemy import orm

import pushdowndb
from pushdowndb import dbapi
from pushdowndb.testing import Node


@pytest.fixture()
def api(node: Node) -> dbapi.Connection:
    con = dbapi.connect(
        node.endpoint, region="us-east-1", access_key_id=node.access_key_id, secret_access_key=node.secret_access_key
    )
    con.execute(DECLARE)
    return con


def test_cursors(api: dbapi.Connection) -> None:
    cursor = api.cursor()
    cursor.execute("SELECT id, city, price FROM sales WHERE id >= ? ORDER BY id", (10,))
    assert cursor.description is not None
    assert [column[0] for column in cursor.description] == ["id", "city", "price"]
    assert [column[1] == dbapi.NUMBER for column in cursor.description] == [True, False, True]
    assert cursor.description[1][1] == dbapi.STRING
    assert cursor.fetchone() == (10, "city 10", decimal.Decimal("10.25"))
    cursor.arraysize = 2
    assert [row[0] for row in cursor.fetchmany()] == [11, 12]
    assert len(cursor.fetchall()) == ROWS - 13 and cursor.fetchone() is None
    assert cursor.stats.rows == ROWS - 10
    cursor.execute("CREATE TABLE written (a INT, b VARCHAR)")
    assert cursor.description is None
    with pytest.raises(dbapi.ProgrammingError):
        cursor.fetchone()
    cursor.executemany("INSERT INTO written VALUES (?, ?)", [(1, "x"), (2, "it's")])
    assert cursor.rowcount == 2
    assert list(cursor.execute("SELECT * FROM written ORDER BY a")) == [(1, "x"), (2, "it's")]
    cursor.execute("SELECT :a + :b", {"a": 1, "b": 2})
    assert cursor.fetchall() == [(3,)]
    api.commit()
    api.rollback()
    with pytest.raises(api.ProgrammingError):
        cursor.execute("SELECT nothing FROM nowhere")
    # Variables are no tables here.
    nowhere = pandas.DataFrame({"nothing": [1]})
    with pytest.raises(dbapi.ProgrammingError):
        cursor.execute("SELECT nothing FROM nowhere")
    del nowhere
    cursor.close()
    with pytest.raises(dbapi.InterfaceError):
        cursor.execute("SELECT 1")
    api.close()
    with pytest.raises(dbapi.InterfaceError):
        api.cursor()


def test_the_module_is_as_pep_249_says() -> None:
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    assert issubclass(dbapi.Error, Exception) and issubclass(dbapi.Warning, Exception)
    assert issubclass(dbapi.InterfaceError, dbapi.Error)
    for name in (
        "DataError",
        "OperationalError",
        "IntegrityError",
        "InternalError",
        "ProgrammingError",
        "NotSupportedError",
    ):
        assert issubclass(getattr(dbapi, name), dbapi.DatabaseError)
        assert getattr(dbapi.Connection, name) is getattr(dbapi, name)
    assert dbapi.Date(2026, 1, 2) == dt.date(2026, 1, 2) and dbapi.Binary(b"x") == b"x"
    assert dbapi.DATETIME == "TIMESTAMP WITH TIME ZONE" and dbapi.NUMBER == "DECIMAL(10,2)" and dbapi.ROWID != "INT"


@pytest.fixture()
def engine(node: Node) -> sqlalchemy.Engine:
    at = urlsplit(node.endpoint)
    keys = f"{quote_plus(node.access_key_id)}:{quote_plus(node.secret_access_key)}"
    engine = sqlalchemy.create_engine(
        f"pushdowndb://{keys}@{at.hostname}:{at.port}/?tls=false&region=us-east-1&pushdown.level=fragment",
        poolclass=sqlalchemy.pool.StaticPool,
    )
    with engine.connect() as con:
        con.exec_driver_sql(DECLARE)
    return engine


def test_sqlalchemy(engine: sqlalchemy.Engine) -> None:
    inspector = sqlalchemy.inspect(engine)
    assert inspector.get_table_names() == ["sales"] and inspector.has_table("sales")
    kinds = [(column["name"], str(column["type"]), column["nullable"]) for column in inspector.get_columns("sales")]
    assert kinds == [
        ("id", "BIGINT", False), ("city", "VARCHAR", True), ("price", "DECIMAL(10, 2)", True), ("note", "BIGINT", True),
    ]  # fmt: skip
    sales = sqlalchemy.Table("sales", sqlalchemy.MetaData(), autoload_with=engine)
    query = (
        sqlalchemy.select(sales.c.city, sqlalchemy.func.sum(sales.c.price).label("total"))
        .where(sales.c.city.in_(["city 1", "city 2"]), sales.c.id < 200)
        .group_by(sales.c.city)
        .order_by(sales.c.city)
        .limit(5)
    )
    with engine.connect() as con:
        assert [tuple(row) for row in con.execute(query)] == [
            ("city 1", decimal.Decimal("305.00")),
            ("city 2", decimal.Decimal("309.00")),
        ]
        assert con.execute(sqlalchemy.text("SELECT :a || 'x'"), {"a": "it's"}).scalar() == "it'sx"
        with pytest.raises(sqlalchemy.exc.ProgrammingError) as raised:
            con.execute(sqlalchemy.text("SELECT nothing FROM sales"))
        assert isinstance(raised.value.orig, pushdowndb.InvalidError)
    with orm.Session(engine) as session:
        assert session.scalar(sqlalchemy.select(sqlalchemy.func.count()).select_from(sales)) == ROWS
    with pytest.raises(sqlalchemy.exc.ArgumentError, match="nonsense"):
        sqlalchemy.create_engine("pushdowndb:///?nonsense=1").connect()


def test_pandas_reads_sql(engine: sqlalchemy.Engine, api: dbapi.Connection) -> None:
    query = "SELECT id, city FROM sales WHERE id < 3 ORDER BY id"
    expected = [[0, "city 0"], [1, "city 1"], [2, "city 2"]]
    assert pandas.read_sql(query, engine).values.tolist() == expected
    assert pandas.read_sql(sqlalchemy.text("SELECT :n AS n"), engine, params={"n": 5}).values.tolist() == [[5]]
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        assert pandas.read_sql(query, api).values.tolist() == expected
    assert pandas.read_sql_table("sales", engine, columns=["id"]).shape == (ROWS, 1)
    parts = pandas.read_sql("SELECT id FROM sales", engine, chunksize=6000)
    assert [len(part) for part in parts] == [6000, 6000, 6000, 2000]
