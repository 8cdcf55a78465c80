"""HTTP services: the loopback is open, other addresses want a token or certificates, and health stays open."""

import base64
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from headrace.runtime.http_access import BearerToken, HttpAccess, Unprotected
from headrace.runtime.monitoring.http_server import HttpServer, Page
from headrace.runtime.web_server import WebServer, bound
from tests.support.certificates import Authority

TOKEN = "a-token-of-some-length"
PATHS = {"/secret": 401, "/healthz": 200, "/readyz": 200}


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@contextmanager
def _serving(access: HttpAccess, *, is_for_browsers: bool = False) -> Iterator[int]:
    app = Starlette(routes=[Route(path, lambda request: PlainTextResponse("ok")) for path in PATHS])
    listener = bound("127.0.0.1", 0)
    server = WebServer(app, listener, name="test", access=access, is_for_browsers=is_for_browsers)
    server.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.stop()


def basic(words: str) -> str:
    return f"Basic {base64.b64encode(words.encode()).decode()}"


def test_a_service_with_pages_takes_the_token_as_a_password_and_others_do_not(token_file: Path) -> None:
    with _serving(HttpAccess(token_file=token_file), is_for_browsers=True) as port:
        for given, status in (
            (basic(f"ana:{TOKEN}"), 200),
            (basic(f":{TOKEN}"), 200),
            (f"Bearer {TOKEN}", 200),
            (basic(f"{TOKEN}:"), 401),
            (basic(TOKEN), 401),
            (basic("ana:"), 401),
            ("Basic", 401),
            ("Basic §", 401),
            (f"Basic {TOKEN}", 401),
            (f"Digest {TOKEN}", 401),
            (None, 401),
        ):
            assert _status(port, "/secret", None if given is None else given.encode().decode("latin-1")) == status, given
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/secret", timeout=10)
        assert refused.value.headers["WWW-Authenticate"].startswith('Basic realm="headrace"')
        assert b"in a browser, log in with any name" in refused.value.read()
    with _serving(HttpAccess(token_file=token_file)) as port:
        assert _status(port, "/secret", basic(f"ana:{TOKEN}")) == 401


@contextmanager
def _monitored(token_file: Path) -> Iterator[int]:
    server = HttpServer("127.0.0.1", 0, {path: lambda: Page(200, "text/plain", b"ok") for path in PATHS}, token_file=token_file)
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


def _status(port: int, path: str, authorization: str | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers={} if authorization is None else {"Authorization": authorization})
        return connection.getresponse().status
    finally:
        connection.close()


def _https_status(port: int, context: ssl.SSLContext) -> int:
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    try:
        connection.request("GET", "/secret")
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("kind", ["web server", "broker's pages"])
def test_a_page_wants_the_token_and_health_does_not(token_file: Path, kind: str) -> None:
    serving = _serving(HttpAccess(token_file=token_file)) if kind == "web server" else _monitored(token_file)
    with serving as port:
        assert {path: _status(port, path) for path in PATHS} == PATHS
        assert _status(port, "/secret", f"Bearer {TOKEN}") == 200
        for wrong in (f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer", "", "Bearer \xe9"):
            assert _status(port, "/secret", wrong) == 401, wrong
        token_file.write_text("another-token-of-some-length\n")
        assert _status(port, "/secret", f"Bearer {TOKEN}") == 401
        assert _status(port, "/secret", "Bearer another-token-of-some-length") == 200


def test_a_service_with_mtls_serves_only_who_has_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("service", hosts=("127.0.0.1",))
    own = authority.issue("client")
    with _serving(HttpAccess(certificate=certificate, key=key, client_authorities=authority.file)) as port:
        context = ssl.create_default_context(cafile=str(authority.file))
        with pytest.raises((OSError, http.client.HTTPException)):
            _https_status(port, context)
        context.load_cert_chain(*own)
        assert _https_status(port, context) == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "headrace.example"])
def test_other_machines_are_not_served_without_authentication(host: str, token_file: Path) -> None:
    with pytest.raises(Unprotected, match="--token-file"):
        HttpAccess().check(host, how="--token-file")
    HttpAccess(token_file=token_file).check(host, how="--token-file")


def test_the_server_itself_refuses_what_was_bound_to_all_addresses() -> None:
    listener = bound("0.0.0.0", 0)
    with pytest.raises(Unprotected):
        WebServer(Starlette(), listener, name="test")
    listener.close()


@pytest.mark.parametrize("content", ["", "short\n", "with a blank in the token\n", "\x00" * 40])
def test_a_file_without_a_token_protects_nothing_and_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    with pytest.raises(Unprotected, match="openssl rand"):
        BearerToken(path)
    with pytest.raises(Unprotected, match="cannot be read"):
        BearerToken(tmp_path / "none")


def test_a_token_file_that_vanishes_lets_nobody_else_in(token_file: Path) -> None:
    token = BearerToken(token_file)
    token_file.unlink()
    assert token.admits(f"Bearer {TOKEN}")
    assert not token.admits("Bearer ")
