"""Statements as awaitables."""

from __future__ import annotations

import asyncio

from ._pushdowndb import RawQuery, RawTable


async def finished(query: RawQuery) -> RawTable:
    """Runs a query to its end on other threads. Cancelling the task stops the query."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[RawTable] = loop.create_future()

    def settle(table: RawTable | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        elif table is not None:
            future.set_result(table)

    def done(table: RawTable | None, error: BaseException | None) -> None:
        loop.call_soon_threadsafe(settle, table, error)

    task = query.collect_async(done)
    try:
        return await future
    finally:
        task.cancel()
