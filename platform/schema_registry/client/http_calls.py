"""One JSON call to the registry over HTTP, and the error that a failure becomes. Knows nothing of schemas or caches."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from ...runtime import http_credentials
from ..errors import IncompatibleSchema, InvalidSchema, RegistryError, RegistryUnavailable

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
ANSWER_LIMIT_BYTES = 16 * 1024 * 1024
"""The longest response that is read; a longer one is refused rather than held in memory."""


class RegistryAddress:
    """A registry's address: `http://host:port/prefix` or https. Each call opens its own connection and is bounded in time."""

    def __init__(self, url: str, timeout_ms: int) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise RegistryError(f"{url!r} is not a registry's address: give http://host:port")
        self.url = url.rstrip("/")
        self._is_tls = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port or (443 if self._is_tls else 80)
        self._prefix = parts.path.rstrip("/")
        self._timeout_ms = timeout_ms

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the JSON of a 2xx response.

        Raises `RegistryUnavailable` if there is no response or a 5xx one, else the error of the registry's code.
        """
        within_s = self._timeout_ms / 1000
        headers = {"Accept": f"{MEDIA_TYPE}, application/json;q=0.9", "Connection": "close"}
        headers |= http_credentials.headers("REGISTRY")
        if self._is_tls:
            context = http_credentials.tls_context("REGISTRY")
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=within_s, context=context
            )
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=within_s)
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = MEDIA_TYPE
        asked = f"{method} {self.url}{path}"
        try:
            connection.request(method, self._prefix + path, data, headers)
            answer = connection.getresponse()
            raw = answer.read(ANSWER_LIMIT_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            why = str(error) or type(error).__name__
            raise RegistryUnavailable(
                f"{asked}: no answer ({why}): is the registry running there? `headrace status` tells"
            ) from error
        finally:
            connection.close()
        if len(raw) > ANSWER_LIMIT_BYTES:
            raise RegistryError(f"{asked}: the answer is longer than {ANSWER_LIMIT_BYTES} bytes: ask for less")
        if answer.status == 401:
            raise RegistryError(
                f"{asked}: the registry wants a bearer token: name its file in HEADRACE_REGISTRY_TOKEN_FILE", error_code=401
            )
        try:
            words = json.loads(raw) if raw else None
        except ValueError as error:
            if answer.status >= 500:
                raise RegistryUnavailable(f"{asked}: status {answer.status}", error_code=answer.status) from error
            raise RegistryError(f"{asked}: status {answer.status} and no JSON: is this address a schema registry's?") from error
        if 200 <= answer.status < 300:
            return words
        raise _refusal(asked, answer.status, words)


def _refusal(asked: str, status: int, words: Any) -> RegistryError:
    error_words = words if isinstance(words, dict) else {}
    code, message = error_words.get("error_code"), error_words.get("message")
    code = code if isinstance(code, int) else status
    text = f"{asked}: {message or 'refused without a reason'} (error {code})"
    if status >= 500 or status == 429:
        return RegistryUnavailable(text, error_code=code)
    if status == 409:
        return IncompatibleSchema(text, error_code=code)
    if code == 42201:
        return InvalidSchema(text)
    return RegistryError(text, error_code=code)
