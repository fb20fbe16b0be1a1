"""Ports and start of the servers that scripts measure or check."""

import socket
import sys
import time
import urllib.error
import urllib.request


def free_port():
    """A port of this machine on which nothing listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(url, seconds=30):
    """Waits until a server answers, and ends the program if it does not in time."""
    end = time.time() + seconds
    while time.time() < end:
        try:
            urllib.request.urlopen(url, timeout=2)
            return
        except urllib.error.HTTPError:
            return  # it answers, if only to refuse us
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{url} did not answer within {seconds} s")
