"""A page of another origin, as an attacker serves it, and what its scripts can send to a service without asking it first."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

SIMPLE_REQUESTS = {
    "no type": "new Blob([body])",
    "text/plain": "body",
    "a form": "new URLSearchParams(body)",
    "multipart": "(() => { const form = new FormData(); form.append('a', body); return form; })()",
}
"""Bodies of `fetch(…, {mode: 'no-cors'})`: the browser sends each anywhere, and hides the answer."""


class _Handler(BaseHTTPRequestHandler):
    page: ClassVar[bytes] = b"<!doctype html><title>foreign</title><p>foreign</p>"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(self.page)))
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, format: str, *args: object) -> None:
        """No line a request."""


@contextmanager
def foreign_page() -> Iterator[int]:
    """Serve the page on the loopback and give its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join(10)


def attack(url: str, body: str) -> str:
    """Return the script that sends the body to the address in every simple way; its value: how many requests left the browser."""
    sends = ", ".join(
        f"(() => {{ const body = {body!r}; return fetch({url!r}, {{method: 'POST', mode: 'no-cors', body: {made}}}); }})()"
        for made in SIMPLE_REQUESTS.values()
    )
    return f"Promise.allSettled([{sends}]).then((all) => all.length)"
