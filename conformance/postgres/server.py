"""The SQL server under load or measured, in a process of its own."""

import re
import subprocess
import sys


def start(binary, *arguments, **options):
    """Starts `sql-server` with both protocols on free ports; returns the process and their addresses, `host:port`."""
    command = [binary, "sql-server", "--postgres", "127.0.0.1:0", "--flight", "127.0.0.1:0", *arguments, "--log", "error"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    found = {}
    while len(found) < 2:
        line = server.stdout.readline()
        if not line:
            sys.exit("the server did not start")
        if address := re.search(r"(postgres|grpc)://(\S+)", line):
            found[address[1]] = address[2]
    return server, found["postgres"], found["grpc"]
