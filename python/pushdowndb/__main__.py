"""The command ``pushdowndb``: the shell, scripts, and a storage node."""

from __future__ import annotations

import signal
import sys

from . import _pushdowndb


def main() -> int:
    """Runs the command with the arguments of this process, and returns its exit code."""
    # The program has handlers of its own.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _pushdowndb.main(["pushdowndb", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
