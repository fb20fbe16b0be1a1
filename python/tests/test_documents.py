"""The examples of docs/python.md run, in their order."""

from __future__ import annotations

import os
import pathlib
import re

import pytest


def test_examples_run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = pathlib.Path(os.environ["PUSHDOWNDB_DOCS"], "python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 10
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)  # noqa: S102
