"""The registry's HTTP server with a constant answer: what the server alone costs. Prints its port, ends with its input."""

import sys

from starlette.types import Receive, Scope, Send

from headrace.runtime.web_server import WebServer, bound

BODY = b'{"schema": "{\\"type\\":\\"record\\",\\"name\\":\\"Event\\",\\"fields\\":[{\\"name\\":\\"f1\\",\\"type\\":\\"int\\"}]}"}'
HEADERS = [(b"content-type", b"application/vnd.schemaregistry.v1+json"), (b"content-length", str(len(BODY)).encode())]


async def constant(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})


def main() -> None:
    listener = bound("127.0.0.1", 0)
    server = WebServer(constant, listener, name="yardstick")
    server.start()
    print(listener.getsockname()[1], flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
