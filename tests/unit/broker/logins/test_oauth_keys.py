"""The keys of tokens over HTTP: what an issuer's server, or one that poses as it, may answer."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from joserfc import jwk

from headrace.broker.logins.oauth_keys import LARGEST_BYTES, NOT_AGAIN_WITHIN_MS, Keys, KeysUnavailable, fetch
from headrace.broker.settings.login_settings import OAuthSettings, url_fault

DOCUMENT = json.dumps({"keys": [jwk.ECKey.generate_key("P-256", {"kid": "one"}).as_dict(private=False)]}).encode()


class Issuer:
    """Answers GET with what the test says."""

    def __init__(self) -> None:
        self.status, self.body, self.headers = 200, DOCUMENT, dict[str, str]()
        self.asked: list[str] = []
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                self.send_response(issuer.status)
                for name, value in issuer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(issuer.body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/jwks?x=1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.close()


def settings(url: str, refresh_ms: int = 60_000) -> OAuthSettings:
    return OAuthSettings(
        jwks_url=url, jwks_ca=None, issuer="i", audience="a", algorithms=("ES256",), skew_ms=0, refresh_ms=refresh_ms
    )


def keys_at(issuer: Issuer, clock: Callable[[], int]) -> Keys:
    return Keys(settings(issuer.url), monotonic_ms=clock)


def test_keys_are_fetched_once_and_again_after_their_time(issuer: Issuer) -> None:
    now_ms = 0
    keys = keys_at(issuer, lambda: now_ms)
    assert set(keys.present()) == {"one"}
    assert set(keys.present()) == {"one"}
    assert issuer.asked == ["/jwks?x=1"]
    now_ms = 60_000
    keys.present()
    assert len(issuer.asked) == 2


def test_an_unknown_key_makes_the_broker_ask_again_but_not_for_each_token(issuer: Issuer) -> None:
    now_ms = 0
    keys = keys_at(issuer, lambda: now_ms)
    for _ in range(100):
        keys.present(again=True)
    assert len(issuer.asked) == 1
    now_ms = NOT_AGAIN_WITHIN_MS
    for _ in range(100):
        keys.present(again=True)
    assert len(issuer.asked) == 2


def test_keys_that_were_fetched_are_used_while_the_issuer_is_away(issuer: Issuer) -> None:
    now_ms = 0
    keys = keys_at(issuer, lambda: now_ms)
    keys.present()
    issuer.status, now_ms = 503, 60_000
    assert set(keys.present()) == {"one"}


def test_without_keys_no_token_is_taken(issuer: Issuer) -> None:
    issuer.status = 500
    with pytest.raises(KeysUnavailable):
        keys_at(issuer, lambda: 0).present()


def test_a_redirect_is_not_followed(issuer: Issuer) -> None:
    other = Issuer()
    try:
        issuer.status, issuer.headers = 302, {"Location": other.url}
        with pytest.raises(ValueError, match="redirects are not followed"):
            fetch(settings(issuer.url))
        assert other.asked == []
    finally:
        other.close()


@pytest.mark.parametrize("length", [None, LARGEST_BYTES * 4])
def test_a_huge_document_is_not_read_to_its_end(issuer: Issuer, length: int | None) -> None:
    issuer.body = b" " * (LARGEST_BYTES * 4)
    issuer.headers = {} if length is None else {"Content-Length": str(length)}
    with pytest.raises(ValueError, match="larger than"):
        fetch(settings(issuer.url))


def test_a_proxy_of_the_environment_is_not_used(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert fetch(settings(issuer.url)) == DOCUMENT


@pytest.mark.parametrize("url", ["http://issuer.test/jwks", "ftp://issuer.test", "file:///etc/passwd", "https://", "jwks", ""])
def test_keys_come_over_https_or_from_the_loopback(url: str) -> None:
    assert url_fault(url) is not None


@pytest.mark.parametrize("url", ["https://issuer.test/jwks", "http://127.0.0.1:8080/jwks", "http://localhost/jwks"])
def test_addresses_that_are_taken(url: str) -> None:
    assert url_fault(url) is None
