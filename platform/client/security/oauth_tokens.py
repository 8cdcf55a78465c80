"""Tokens of the client credentials grant (RFC 6749, section 4.4), kept until most of their life is over.

A client that cannot get a new one uses the old one to its end. The endpoint is asked at most once at a time, and after a failure
not before a pause that doubles. No redirect is followed: the secret goes to the address in the settings and nowhere else.
"""

import base64
import binascii
import json
import re
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from ...runtime.backoff import Backoff
from ...runtime.http_call import HttpAddress, HttpAnswerTooLong, NoHttpAnswer
from ...runtime.logs import get_library_logger
from ..errors import AuthenticationFailed, ClientError, TokenUnavailable
from .secret_value import Secret
from .settings import OAuthSettings
from .tls_files import BadCertificates, authorities_context

log = get_library_logger(__name__)

TIMEOUT_MS = 10_000
LARGEST_ANSWER_BYTES = 64 << 10
RENEWED_AFTER = 0.8
"""The part of a token's life after which another is asked for; Kafka's `sasl.login.refresh.window.factor`."""
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 1_000, 60_000
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""RFC 6750, section 2.1. Anything else would break the message to the broker."""


class OAuthTokens:
    """The tokens of one client. Any thread may call."""

    def __init__(
        self,
        settings: OAuthSettings,
        *,
        monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._settings = settings
        self._monotonic_ms = monotonic_ms
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._token: Secret | None = None
        self._renew_at_ms = 0
        self._ends_at_ms = 0
        self._failed: ClientError | None = None
        self._asks_again_at_ms = 0
        self._failures = 0
        self._pause = Backoff(first_ms=_FIRST_PAUSE_MS, longest_ms=_LONGEST_PAUSE_MS)

    def token(self) -> Secret:
        """Return a token that is still good. Raises `TokenUnavailable`, and `AuthenticationFailed` when the endpoint refuses."""
        with self._lock:
            now_ms = self._monotonic_ms()
            if self._token is not None and now_ms < self._renew_at_ms:
                return self._token
            is_good = self._token is not None and now_ms < self._ends_at_ms
            if now_ms >= self._asks_again_at_ms:
                try:
                    return self._renew(now_ms)
                except ClientError as error:
                    self._failed = error
                    self._asks_again_at_ms = now_ms + self._pause.wait_ms(self._failures)
                    self._failures += 1
                    if is_good:
                        log.warning("token_not_renewed", reason=str(error), good_for_ms=self._ends_at_ms - now_ms)
            if is_good:
                assert self._token is not None
                return self._token
            assert self._failed is not None
            raise self._failed

    def _renew(self, now_ms: int) -> Secret:
        answer = self._ask()
        text = answer.get("access_token")
        if not isinstance(text, str) or not _TOKEN.fullmatch(text):
            raise TokenUnavailable(self._settings.token_url, "its answer has no access_token")
        life_ms = _life_ms(answer.get("expires_in"), text, self._now_ms())
        self._token = Secret(text)
        self._ends_at_ms = now_ms + life_ms
        self._renew_at_ms = now_ms + int(life_ms * RENEWED_AFTER)
        self._failed, self._failures, self._asks_again_at_ms = None, 0, 0
        return self._token

    def _ask(self) -> dict[str, Any]:
        settings = self._settings
        status, content = self._post()
        try:
            answer = json.loads(content)
        except ValueError:
            answer = None
        words = answer if isinstance(answer, dict) else {}
        if status == 200 and words:
            return words
        said = ": ".join(str(words[name])[:200] for name in ("error", "error_description") if words.get(name))
        said = said.replace(settings.client_secret.reveal(), "***")
        reason = f"it answered HTTP {status}" + (f" ({said})" if said else "")
        if 400 <= status < 500 and status not in (408, 429):
            raise AuthenticationFailed(settings.token_url, f"client id {settings.client_id!r}", reason)
        raise TokenUnavailable(settings.token_url, reason)

    def _post(self) -> tuple[int, bytes]:
        """Return status and content of the endpoint's answer. Raises `TokenUnavailable`."""
        settings = self._settings
        address = HttpAddress(settings.token_url)
        try:
            tls = authorities_context(settings.ca_file) if address.is_tls else None
        except BadCertificates as error:
            raise TokenUnavailable(settings.token_url, f"https.ca.location: {error}") from None
        form = {"grant_type": "client_credentials", **({"scope": settings.scope} if settings.scope else {})}
        headers = {
            "Authorization": f"Basic {self._basic()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        body = urlencode(form).encode()
        try:
            answer = address.call("POST", None, body, headers, within_ms=TIMEOUT_MS, most_bytes=LARGEST_ANSWER_BYTES, tls=tls)
        except (NoHttpAnswer, HttpAnswerTooLong) as error:
            raise TokenUnavailable(settings.token_url, str(error)) from None
        return answer.status, answer.body

    def _basic(self) -> str:
        pair = (self._settings.client_id, self._settings.client_secret.reveal())
        words = [quote(word, safe="") for word in pair] if self._settings.is_urlencoded else pair
        return base64.b64encode(":".join(words).encode()).decode()


def _life_ms(expires_in: object, token: str, now_ms: int) -> int:
    """Return how long the token is good: as the endpoint says, else as the token itself says (JWT, `exp`), else not at all: then
    each login asks for its own.
    """
    if isinstance(expires_in, str) and expires_in.isascii() and expires_in.isdigit():
        expires_in = int(expires_in)
    if isinstance(expires_in, int | float) and not isinstance(expires_in, bool) and 0 <= expires_in < 1e9:
        return int(expires_in * 1000)
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return max(0, int(claims["exp"]) * 1000 - now_ms)
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
        return 0
