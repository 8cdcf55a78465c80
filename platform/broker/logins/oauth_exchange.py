"""OAUTHBEARER, the server's side (RFC 7628 as Kafka speaks it: KIP-255, KIP-768). A worker checks the token.

After a token that is refused, the client gets a message that says so and sends one of its own; only that one's answer is the
refusal."""

import re
from collections.abc import Callable

from ..settings.login_settings import OAuthSettings
from .exchange import Accepted, Challenge, Refused, Step, Work
from .oauth_keys import Keys, KeysUnavailable
from .oauth_token import LONGEST_TOKEN, BadToken, Bearer, KeyUnknown, bearer_of, header_of, key_for

LONGEST_MESSAGE = LONGEST_TOKEN + 8_192
MOST_EXTENSIONS = 100
_FIRST = re.compile(r"n,(?:a=([^,\x01]*))?,\x01(.*)\x01\x01?", re.DOTALL)
_REFUSAL = b'{"status":"invalid_token"}'


class OAuthExchange:
    """One login."""

    def __init__(self, settings: OAuthSettings, keys: Keys, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._keys = keys
        self._now_ms = now_ms
        self._why: str | None = None
        """Why the token was refused, once it was."""
        self.user = ""

    def take(self, message: bytes) -> Step | Work:
        if self._why is not None:
            return Refused(why=self._why, user=self.user)
        if len(message) > LONGEST_MESSAGE:
            return Refused(why=f"a message of {len(message)} bytes")
        try:
            acts_as, token = _parsed(message)
        except ValueError as error:
            return Refused(why=str(error))

        def check() -> Step:
            try:
                bearer = self._bearer(token)
                if acts_as not in ("", bearer.user):
                    raise BadToken("the client wants to act as another user")
            except (BadToken, KeysUnavailable) as error:
                self._why = str(error)
                return Challenge(_REFUSAL)
            self.user = bearer.user
            return Accepted(user=bearer.user, expires_ms=bearer.expires_ms)

        return check

    def _bearer(self, token: str) -> Bearer:
        header = header_of(token, self._settings)
        try:
            key = key_for(header, self._keys.present())
        except KeyUnknown:
            key = key_for(header, self._keys.present(again=True))
        return bearer_of(token, header, key, self._settings, self._now_ms())


def _parsed(message: bytes) -> tuple[str, str]:
    """Return who the client acts as (empty: itself) and the token. Extensions are left aside. Raises: ValueError."""
    found = _FIRST.fullmatch(message.decode("ascii"))
    if found is None:
        raise ValueError("the first message is not n,[a=user],^Aauth=Bearer token^A")
    words = [one.partition("=") for one in found[2].split("\x01") if one]
    names = [name for name, _, _ in words]
    if len(names) > MOST_EXTENSIONS or len(set(names)) != len(names):
        raise ValueError("the first message has a name twice, or too many")
    kind, _, token = next((value for name, _, value in words if name == "auth"), "").partition(" ")
    if kind.lower() != "bearer" or not token:
        raise ValueError("the first message has no auth=Bearer token")
    return found[1] or "", token.strip()
