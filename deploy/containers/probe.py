#!/usr/bin/python3 -I
"""Exit 0 when an address answers, http://127.0.0.1:9094/healthz or tcp://127.0.0.1:2181, say; else say why and exit 1."""

import socket
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit

TIMEOUT_S = 4


def main(address: str) -> int:
    """Ask once."""
    try:
        parts = urlsplit(address)
        if parts.scheme == "tcp":
            socket.create_connection((parts.hostname, parts.port), TIMEOUT_S).close()
        else:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{address}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
