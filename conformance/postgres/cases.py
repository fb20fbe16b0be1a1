"""What the scripts of clients share: the server's address, a folder, and how their cases are run."""

import importlib
import sys
import time

HOST, PORT = sys.argv[1].rsplit(":", 1)
FOLDER = sys.argv[2]
DSN = f"host={HOST} port={PORT} user=tester dbname=pushdowndb"
URL = f"tester@{HOST}:{PORT}/pushdowndb"

# The modules of cases that are not named by them.
MODULES = {"adbc": "adbc_driver_postgresql", "duckdb": "duckdb_extension_postgres_scanner"}


def run(cases):
    """Runs the cases that the command line names, or all. One whose module is not installed is shown as SKIPPED."""
    for name in sys.argv[3:] or list(cases):
        module = MODULES.get(name.split("_")[0], name.split("_")[0])
        try:
            importlib.import_module(module)
        except ImportError:
            print(f"SKIPPED: {module} is not installed: {name}")
            continue
        began = time.monotonic()
        cases[name]()
        print(f"{name}: ok, {time.monotonic() - began:.1f} s", flush=True)
