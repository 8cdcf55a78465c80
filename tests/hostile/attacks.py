"""The attacks, each on one service, each bounded by a time. An attack returns what it saw, in a few words."""

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from headrace.client.admin import create_topic
from headrace.client.connection.cluster import Cluster

SILENT = 513
TOPICS_AT_MOST = 10_000
POSTS = 45


@dataclass(frozen=True, slots=True)
class Target:
    """A service, and the broker behind it."""

    port: int
    bootstrap: str


Attack = Callable[[Target, float], str]
"""Attacks until the time (monotonic) is over."""


def ask(target: Target, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """Return status and body; 0 where the server ended the connection."""
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=60)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (ConnectionError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def head_without_end(target: Target, until: float) -> str:
    """Header lines, then one header's value, for as long as the server takes them."""
    sent = rounds = 0
    while time.monotonic() < until:
        with socket.create_connection(("127.0.0.1", target.port), timeout=20) as client, suppress(ConnectionError, TimeoutError):
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + (b"" if rounds % 2 else b"X: "))
            more = b"X-Line: some value\r\n" * 5_000 if rounds % 2 else b"x" * 100_000
            for _ in range(200):
                client.sendall(more)
                sent += len(more)
        rounds += 1
    return f"{rounds} heads, {sent / rounds / 1000:.0f} kB of each left the client"


def silent_connections(target: Target, until: float) -> str:
    """Connections that say nothing, or half a request, and stay."""
    halves = (b"", b"GET / HT", b"POST /subjects/a/versions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\nhalf")
    held: list[socket.socket] = []
    made = 0
    try:
        while time.monotonic() < until:
            while len(held) < SILENT:
                client = socket.create_connection(("127.0.0.1", target.port), timeout=20)
                client.sendall(halves[made % len(halves)])
                client.setblocking(False)
                held.append(client)
                made += 1
            time.sleep(0.1)
            held = [one for one in held if not _is_over(one)]
    finally:
        for one in held:
            one.close()
    return f"{SILENT} at a time, {made} in all"


def _is_over(client: socket.socket) -> bool:
    try:
        if client.recv(1_000):
            return False
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    client.close()
    return True


def topic_flood(target: Target, until: float) -> str:
    """One client that makes topics, while the audit's answers are asked for and left."""
    cluster, made, begun = Cluster(target.bootstrap), 0, time.monotonic()
    try:
        while time.monotonic() < until and made < TOPICS_AT_MOST:
            create_topic(cluster, f"flood-{int(begun)}-{made}", 1)
            made += 1
            if made % 20 == 0:
                with socket.create_connection(("127.0.0.1", target.port), timeout=20) as left:
                    left.sendall(b"GET /api/overview HTTP/1.1\r\nHost: localhost\r\n\r\n")
    finally:
        cluster.close()
    return f"{made} topics"


def costly_schemas(target: Target, until: float) -> str:
    """Schemas of duplicate names, many fields and nested defaults, many at once, and one that is asked for resolved."""
    fields = [{"name": f"f{number}", "type": "int"} for number in range(2_000)]
    texts = [
        json.dumps({"type": "record", "name": "wide", "fields": fields}),
        '{"type":"int",' + ",".join(f'"k{number}":1' for number in range(5_000)) + ',"k0":2}',
        json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": _TWO_WAYS, "default": _nested(50)}]}),
    ]
    answers = 0
    with ThreadPoolExecutor(POSTS) as pool:
        while time.monotonic() < until:
            posts = [
                pool.submit(ask, target, "POST", f"/subjects/cost{number}/versions", _schema(texts[number % len(texts)]))
                for number in range(POSTS)
            ]
            answers += sum(one.result()[0] > 0 for one in posts)
            ask(target, "GET", "/subjects/cost0/versions/1?format=resolved")
    return f"{answers} posts of {max(map(len, texts)) // 1000} kB at most"


_INNER = {"type": "record", "name": "B", "fields": [{"name": "x", "type": ["A", "B", "null"]}]}
_TWO_WAYS = [{"type": "record", "name": "A", "fields": [{"name": "x", "type": ["A", _INNER, "null"]}]}]


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"x": value}
    return value


def _schema(text: str) -> bytes:
    return json.dumps({"schema": text}).encode()


def foreign_pages(target: Target, until: float) -> str:
    """What a browser sends for a page of another origin, and under a name that was bound to our address."""
    body, taken, rounds = _schema('"string"'), 0, 0
    while time.monotonic() < until:
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null", "Content_Type": "text/plain"},
            {"Sec_Fetch_Site": "cross-site", "Content_Type": "application/json"},
            {"Host": "evil.example", "Content_Type": "application/json"},
        ):
            for method, path in (
                ("POST", "/subjects/evil/versions"),
                ("DELETE", "/config"),
                ("POST", "/api/recount?tier=live&topic=clicks"),
            ):
                taken += ask(target, method, path, body, **headers)[0] in (200, 202)
                rounds += 1
    return f"{taken} of {rounds} requests were taken"


def numbers_without_end(target: Target, until: float) -> str:
    """Defaults that no double holds, integers beyond 64 bits, far dates."""
    faults = rounds = 0
    poison = '{"type":"record","name":"r","fields":[{"name":"a","type":"double","default":1e999}]}'
    paths = (
        f"/api/completeness?from_ms={'9' * 30}",
        f"/api/completeness?topic=clicks&newest=5&before={1 << 64}",
        f"/api/window?topic=clicks&start=-{1 << 70}",
    )
    while time.monotonic() < until:
        for method, path, body in (
            ("POST", "/subjects/poison/versions", _schema(poison)),
            *(("GET", path, None) for path in paths),
        ):
            faults += ask(target, method, path, body)[0] >= 500
            rounds += 1
    return f"{faults} of {rounds} answers were 5xx"


def aborted_posts(target: Target, until: float) -> str:
    """Posts that end in the middle, and those whose lengths differ."""
    rounds = 0
    for lengths in _alternating(b"Content-Length: 100", b"Content-Length: 4\r\nContent-Length: 100"):
        if time.monotonic() >= until:
            break
        with socket.create_connection(("127.0.0.1", target.port), timeout=20) as client:
            client.sendall(b"POST /subjects/a/versions HTTP/1.1\r\nHost: localhost\r\n" + lengths + b"\r\n\r\nhalf")
        rounds += 1
    return f"{rounds} posts"


def _alternating(*words: bytes) -> Iterator[bytes]:
    while True:
        yield from words


ATTACKS: tuple[tuple[str, str, Attack], ...] = (
    ("head without end", "registry", head_without_end),
    ("head without end", "audit", head_without_end),
    ("silent and half-open connections", "registry", silent_connections),
    ("silent and half-open connections", "audit", silent_connections),
    ("topic flood, pages left", "audit", topic_flood),
    ("costly schemas, 45 at once", "registry", costly_schemas),
    ("pages of another origin", "registry", foreign_pages),
    ("pages of another origin", "audit", foreign_pages),
    ("numbers without end", "registry", numbers_without_end),
    ("numbers without end", "audit", numbers_without_end),
    ("aborted posts", "registry", aborted_posts),
)
"""What is done, to which service."""
