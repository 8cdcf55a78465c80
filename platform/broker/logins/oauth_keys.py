"""The keys that sign tokens, fetched from the issuer. A worker's thread calls it, which waits for the network.

Redirects are not followed and proxies not used: only the address of the settings says which keys count. Keys that were fetched
once are used until others could be fetched."""

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from ...runtime.logs import get_logger
from ..settings.login_settings import OAuthSettings
from .oauth_token import Key, keys_of

log = get_logger(__name__)

WITHIN_MS = 5_000
LARGEST_BYTES = 256 * 1024
NOT_AGAIN_WITHIN_MS = 10_000
"""A token with a strange kid makes the broker fetch the keys again, at most this often."""


class KeysUnavailable(Exception):
    """There are no keys, and none could be fetched."""


class Keys:
    """One thread at a time calls it."""

    def __init__(
        self, settings: OAuthSettings, *, monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    ) -> None:
        self._settings = settings
        self._monotonic_ms = monotonic_ms
        self._keys: Mapping[str | None, Key] = {}
        self._fetched_ms: int | None = None
        self._tried_ms: int | None = None

    def present(self, *, again: bool = False) -> Mapping[str | None, Key]:
        """Return the keys by their id; `again`: those that were fetched lack one. Raises: KeysUnavailable."""
        now_ms = self._monotonic_ms()
        is_old = self._fetched_ms is None or now_ms - self._fetched_ms >= self._settings.refresh_ms
        may_try = self._tried_ms is None or now_ms - self._tried_ms >= NOT_AGAIN_WITHIN_MS
        if (is_old or again) and may_try:
            self._tried_ms = now_ms
            try:
                self._keys = keys_of(fetch(self._settings))
                self._fetched_ms = now_ms
            except (OSError, ValueError, http.client.HTTPException) as error:
                log.warning("token_keys_not_fetched", url=self._settings.jwks_url, why=f"{type(error).__name__}: {error}"[:300])
        if self._fetched_ms is None:
            raise KeysUnavailable(f"the keys of tokens could not be fetched from {self._settings.jwks_url}")
        return self._keys


def fetch(settings: OAuthSettings) -> bytes:
    """Return the document with the keys. Raises: OSError, ValueError, HTTPException."""
    parts = urlsplit(settings.jwks_url)
    deadline = time.monotonic() + WITHIN_MS / 1000
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=None if settings.jwks_ca is None else str(settings.jwks_ca))
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=WITHIN_MS / 1000, context=context
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=WITHIN_MS / 1000)
    try:
        connection.connect()
        raw: socket.socket = connection.sock
        connection.request(
            "GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), headers={"Accept": "application/json"}
        )
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"status {answer.status}; redirects are not followed")
        document = bytearray()
        while True:
            raw.settimeout(max(0.001, deadline - time.monotonic()))
            more = answer.read1(65_536)
            if not more:
                return bytes(document)
            document += more
            if len(document) > LARGEST_BYTES or time.monotonic() > deadline:
                raise ValueError(f"it is larger than {LARGEST_BYTES} bytes, or took longer than {WITHIN_MS} ms")
    finally:
        connection.close()
