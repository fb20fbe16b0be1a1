"""Collects the tests of `test_*.py`."""

import importlib
import pkgutil

from conformance import s3
from conformance.s3.context import TESTS, Context


def suite(server, limited=None):
    """All tests as `(name, function)`. With `None` for the server only the names are of use."""
    for module in sorted(pkgutil.iter_modules(s3.__path__), key=lambda found: found.name):
        if module.name.startswith("test_"):
            importlib.import_module(f"{s3.__name__}.{module.name}")
    names = [name for name, _ in TESTS]
    assert len(names) == len(set(names)), [name for name in names if names.count(name) > 1]
    context = Context(server, limited) if server else None
    for name, run in TESTS:
        yield name, lambda run=run: run(context)
    if context:
        context.close()
