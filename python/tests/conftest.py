"""A node with data, and sessions that use it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pushdowndb
from pushdowndb.testing import Node
from pushdowndb.testing import node as start_node

LEVELS = ["none", "select", "fragment"]
ROWS = 20_000


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    with start_node() as started:
        lines = (f"{n},city {n % 50},{n % 1000}.25,{'' if n % 7 == 0 else n}" for n in range(ROWS))
        started.put("s3://shop/sales.csv", "id,city,price,note\n" + "\n".join(lines) + "\n")
        started.put("s3://shop/cities.csv", "city,country\n" + "".join(f"city {n},{n % 5}\n" for n in range(50)))
        yield started


DECLARE = """
CREATE EXTERNAL TABLE sales (id BIGINT NOT NULL, city VARCHAR, price DECIMAL(10,2), note BIGINT)
STORED AS CSV LOCATION 's3://shop/sales.csv' OPTIONS ('format.has_header' 'true')
"""


def declared(node: Node, level: str) -> pushdowndb.Connection:
    """A session at a level, with its table declared."""
    con = node.connect(settings={"pushdown.level": level})
    con.sql(DECLARE)
    return con


@pytest.fixture()
def con(node: Node) -> Iterator[pushdowndb.Connection]:
    with declared(node, "auto") as session:
        yield session
