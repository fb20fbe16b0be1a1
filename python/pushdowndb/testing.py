"""A storage node for tests: a real one, in this process.

with pushdowndb.testing.node() as node:
    node.put("s3://sales/2026.csv", "item,price\\nbook,12.50\\n")
    con = node.connect()
    con.sql("SELECT sum(price) FROM 's3://sales/2026.csv'").fetchall()
"""

from __future__ import annotations

import os
from typing import Any

from ._pushdowndb import RawNode
from .connection import Connection, connect


class Node:
    """A storage node on a free port of this machine."""

    def __init__(self, raw: RawNode) -> None:
        self._raw = raw
        self._own: Connection | None = None

    @property
    def endpoint(self) -> str:
        """The address of the node, for any client of S3."""
        return self._raw.endpoint

    @property
    def access_key_id(self) -> str:
        """The id of a key with all rights."""
        return self._raw.access_key_id

    @property
    def secret_access_key(self) -> str:
        """The secret of the key."""
        return self._raw.secret_access_key

    def connect(self, **options: Any) -> Connection:
        """Opens a session that uses the node; ``options`` are those of `pushdowndb.connect`."""
        return connect(
            self.endpoint,
            region="us-east-1",
            access_key_id=self.access_key_id,
            secret_access_key=self.secret_access_key,
            **options,
        )

    def put(self, address: str, data: bytes | str) -> None:
        """Writes an object; its bucket is created if it does not exist."""
        if self._own is None:
            self._own = self.connect()
        self._own.create_bucket(address)
        self._own._raw.put(address, data.encode() if isinstance(data, str) else data)

    def stop(self) -> None:
        """Stops the node. Its objects are deleted, unless it has a folder of the caller's."""
        if self._own is not None:
            self._own.close()
            self._own = None
        self._raw.stop()

    def __enter__(self) -> Node:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def node(folder: str | os.PathLike[str] | None = None) -> Node:
    """Starts a node that keeps its objects in ``folder``, or in one that is deleted with it."""
    return Node(RawNode(folder))
