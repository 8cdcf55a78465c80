"""A loopback HTTP server with the answers that a test gives it, for tests of the registry's client."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class RegistryDouble:
    """Answers what `answers` holds for 'METHOD path', and notes what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.bodies: list[Any] = []
        self.answers: dict[str, tuple[int, Any]] = {}
        double = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                asked = f"{self.command} {self.path}"
                double.asked.append(asked)
                length = int(self.headers.get("Content-Length", 0))
                double.bodies.append(json.loads(self.rfile.read(length)) if length else None)
                status, words = double.answers.get(asked, (404, {"error_code": 40403, "message": "Schema not found"}))
                body = words if isinstance(words, bytes) else json.dumps(words).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_PUT = _answer

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
