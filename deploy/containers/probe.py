#!/usr/bin/python3 -I
"""Exit 0 when an address answers, http://127.0.0.1:9094/healthz or tcp://127.0.0.1:2181, say; else say why and exit 1.

A page that is served over TLS is asked so. The certificate is not checked: it names the service, not the loopback.
"""

import http.client
import socket
import ssl
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit

TIMEOUT_S = 4


def ask(address: str) -> None:
    """Ask for a page."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    handlers = urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    urllib.request.build_opener(*handlers).open(address, timeout=TIMEOUT_S).close()


def main(address: str) -> int:
    """Ask once."""
    try:
        parts = urlsplit(address)
        if parts.scheme == "tcp":
            socket.create_connection((parts.hostname, parts.port), TIMEOUT_S).close()
        else:
            try:
                ask(address)
            except (http.client.HTTPException, ConnectionError):
                ask(f"https://{parts.netloc}{parts.path}")
    except (OSError, ValueError, http.client.HTTPException) as error:
        sys.stderr.write(f"{address}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
