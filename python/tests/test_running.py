"""Errors, interruption, threads, asyncio, processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import ROWS, declared

import pushdowndb
from pushdowndb import errors
from pushdowndb.testing import Node

# It ends only if it is stopped.
ENDLESS = "SELECT count(*) FROM range(1000000000) AS a, range(1000000000) AS b WHERE a.value + b.value < 0"


def test_errors_have_kinds(node: Node, tmp_path: object) -> None:
    con = declared(node, "auto")
    for sql, kind, told in [
        ("SELEKT 1", errors.InvalidError, "SELEKT"),
        ("SELECT missing FROM sales", errors.InvalidError, "missing"),
        ("SELECT * FROM 's3://shop/none/'", errors.NotFoundError, "none"),
        ("SELECT * FROM 's3://nobucket/x.csv'", errors.NotFoundError, "nobucket"),
        ("SELECT 1; SELECT 'open", errors.InvalidError, "Unterminated"),
    ]:
        with pytest.raises(kind, match=told) as raised:
            con.sql(sql).fetchall()
        assert isinstance(raised.value, errors.ProgrammingError)
    limited = declared(node, "none")
    limited.set("pushdown.max_bytes", 1000)
    with pytest.raises(errors.LimitError, match="max_bytes"):
        limited.sql("SELECT * FROM sales").fetchall()
    denied = pushdowndb.connect(node.endpoint, region="us-east-1", access_key_id="no", secret_access_key="no")
    with pytest.raises(errors.DeniedError, match="AWS_ACCESS_KEY_ID"):
        denied.sql("SELECT * FROM 's3://shop/sales.csv'").fetchall()
    held = pushdowndb.connect(allow_read=[str(tmp_path)])
    with pytest.raises(errors.DeniedError):
        held.sql("SELECT * FROM '/etc/hosts'").fetchall()
    gone = pushdowndb.connect(
        "http://127.0.0.1:9", access_key_id="k", secret_access_key="s", settings={"pushdown.retries": 0}
    )
    with pytest.raises(errors.UnavailableError):
        gone.sql("SELECT * FROM 's3://b/x.csv'").fetchall()
    con.close()
    con.close()
    with pytest.raises(errors.InvalidError, match="closed"):
        con.sql("SELECT 1")
    with pytest.raises(errors.InvalidError, match="pushdown.nonsense"):
        pushdowndb.connect(settings={"pushdown.nonsense": 1})


def test_an_error_in_the_middle_of_the_rows_is_raised(node: Node, con: pushdowndb.Connection) -> None:
    node.put("s3://shop/late.csv", "n\n" + "1\n" * 400_000 + "oops\n")
    con.sql(
        "CREATE EXTERNAL TABLE late (n INT) STORED AS CSV LOCATION 's3://shop/late.csv' "
        "OPTIONS ('format.has_header' 'true')"
    )
    for read in (lambda r: r.fetchall(), lambda r: r.arrow(), lambda r: r.collect(), list):
        with pytest.raises(errors.Error, match="oops"):
            read(con.sql("SELECT n FROM late"))
    import pyarrow

    with pytest.raises(pyarrow.ArrowException, match="oops"):
        pyarrow.table(con.sql("SELECT n FROM late"))


INTERRUPTED = f"""
import pyarrow, pushdowndb
con = pushdowndb.connect()
relation = con.sql({ENDLESS!r})
print("running", flush=True)
try:
    {{read}}
except KeyboardInterrupt:
    print("interrupted", con.sql("SELECT 6 * 7").fetchall(), flush=True)
"""


@pytest.mark.parametrize("read", ["relation.fetchall()", "relation.df()", "relation.execute().fetchone()"])
def test_ctrl_c_stops_a_query(read: str) -> None:
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED.format(read=read)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "running\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == "interrupted [(42,)]\n"
    # What was stopped does not keep the process.
    assert child.wait(30) == 0


def test_threads_run_side_by_side(con: pushdowndb.Connection) -> None:
    result = con.execute(ENDLESS)
    read: list[object] = []
    reader = threading.Thread(target=lambda: read.append(result.fetchall()))
    reader.start()
    # This thread has the GIL, and the session, while the other one waits.
    assert con.sql("SELECT count(*) FROM sales").fetchall() == [(ROWS,)]
    assert reader.is_alive()
    result.cancel()
    reader.join(30)
    assert not reader.is_alive()

    answers: list[list[tuple[object, ...]]] = []

    def ask(number: int) -> None:
        for _ in range(5):
            answers.append(con.sql("SELECT id FROM sales WHERE id = ?", [number]).fetchall())

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(answers) == [[(number,)] for number in range(8) for _ in range(5)]


def test_asyncio(con: pushdowndb.Connection) -> None:
    async def several() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        ticker = asyncio.create_task(tick())
        tables = await asyncio.gather(*(con.sql_async("SELECT count(*) FROM sales WHERE id < ?", [n]) for n in (1, 2)))
        assert [table.fetchall() for table in tables] == [[(1,)], [(2,)]] and ticks > 0
        assert tables[0].stats.bytes > 0
        relation = con.sql("SELECT 1 AS n")
        assert (await relation.collect_async()).fetchall() == [(1,)]
        with pytest.raises(errors.InvalidError, match="missing"):
            await con.sql_async("SELECT missing FROM sales")
        endless = asyncio.create_task(con.sql_async(ENDLESS))
        await asyncio.sleep(0.2)
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(con.sql_async(ENDLESS), 0.2)
        ticker.cancel()

    asyncio.run(several())


def test_progress_is_told(
    con: pushdowndb.Connection, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pushdowndb import _display

    monkeypatch.setattr(_display, "PATIENCE_S", 0.0)
    con.progress = True
    result = con.execute(ENDLESS)
    stop = threading.Timer(0.5, result.cancel)
    stop.start()
    result.fetchall()
    shown = capsys.readouterr().err
    assert "%" in shown and shown.endswith("\r\x1b[K")
    con.progress = False
    con.sql("SELECT 1").fetchall()
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_is_told_so() -> None:
    code = """
import os, pushdowndb
pushdowndb.sql("SELECT 1").fetchall()
child = os.fork()
if child == 0:
    try:
        pushdowndb.sql("SELECT 1").fetchall()
    except pushdowndb.BugError as error:
        os._exit(7 if "forked" in str(error) else 8)
    os._exit(9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "7\n", ran.stderr


def test_the_command_is_the_program() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pushdowndb", "--format", "csv", "-c", "SELECT 1 AS a"], capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout) == (0, "a\n1\n"), ran.stderr
    ran = subprocess.run(
        [sys.executable, "-m", "pushdowndb", "-c", "SELECT * FROM 'none.csv'"], capture_output=True, text=True
    )
    assert ran.returncode == 3, ran.stderr
    ran = subprocess.run([sys.executable, "-m", "pushdowndb", "--version"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, f"pushdowndb {pushdowndb.__version__}\n")
