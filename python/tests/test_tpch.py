"""The queries of TPC-H through the package, beside DuckDB over the same objects."""

from __future__ import annotations

import math
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pytest

import pushdowndb
from pushdowndb.testing import Node

QUERIES = pathlib.Path(os.environ["PUSHDOWNDB_DOCS"]).parent / "sql" / "tpch"
TABLES = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"]


@pytest.fixture(scope="module")
def generated(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """The tables as objects of the node, and as files of which DuckDB has views."""
    folder = tmp_path_factory.mktemp("tpch")
    keys = {"AWS_ACCESS_KEY_ID": node.access_key_id, "AWS_SECRET_ACCESS_KEY": node.secret_access_key}
    place = {"AWS_ENDPOINT_URL": node.endpoint, "AWS_REGION": "us-east-1"}
    generate = [sys.executable, "-m", "pushdowndb", "generate", "tpch", "--scale", "0.01", "--format", "parquet"]
    for to in ([f"{folder}/"], ["s3://tpch/", "--create-bucket"]):
        subprocess.run([*generate, "--to", *to], env={**os.environ, **keys, **place}, check=True, capture_output=True)
    with duckdb.connect() as other:
        for table in TABLES:
            other.execute(f"CREATE VIEW {table} AS SELECT * FROM '{folder}/{table}/*.parquet'")
        yield other


def comparable(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows in an order of their own, with all fractions as floats."""
    plain = [tuple(float(value) if isinstance(value, Decimal) else value for value in row) for row in rows]
    return sorted(plain, key=lambda row: [f"{value:.3f}" if isinstance(value, float) else str(value) for value in row])


def same(ours: Any, theirs: Any) -> bool:
    """True if two values are equal. Averages of decimals have six places in ours."""
    if isinstance(ours, float) or isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-6)
    return bool(ours == theirs)


@pytest.mark.parametrize("level", ["none", "fragment"])
def test_tpch(node: Node, generated: duckdb.DuckDBPyConnection, level: str) -> None:
    with node.connect(settings={"pushdown.level": level}) as con:
        for table in TABLES:
            con.sql(f"CREATE EXTERNAL TABLE {table} STORED AS PARQUET LOCATION 's3://tpch/{table}/'")
        for number in range(1, 23):
            query = (QUERIES / f"q{number:02}.sql").read_text()
            relation = con.sql(query)
            got, wanted = comparable(relation.fetchall()), comparable(generated.execute(query).fetchall())
            assert len(got) == len(wanted), number
            for ours, theirs in zip(got, wanted):
                assert all(map(same, ours, theirs)), (number, ours, theirs)
            table = relation.arrow()
            assert comparable(list(zip(*(column.to_pylist() for column in table.columns)))) == got, number
