"""One JSON call to the registry over HTTP, and the error that a failure becomes. Knows nothing of schemas or caches."""

import json
from typing import Any

from ...runtime import http_credentials
from ...runtime.http_call import HttpAddress, HttpAnswerTooLong, NoHttpAnswer
from ..errors import IncompatibleSchema, InvalidSchema, RegistryError, RegistryUnavailable

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class RegistryAddress:
    """A registry's address: `http://host:port/prefix` or https. Each call opens its own connection and is bounded in time."""

    def __init__(self, url: str, timeout_ms: int) -> None:
        try:
            self._address = HttpAddress(url)
        except ValueError:
            raise RegistryError(f"{url!r} is not a registry's address: give http://host:port") from None
        self.url = url.rstrip("/")
        self._timeout_ms = timeout_ms

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the JSON of a 2xx response.

        Raises `RegistryUnavailable` if there is no response or a 5xx one, else the error of the registry's code.
        """
        headers = {"Accept": f"{MEDIA_TYPE}, application/json;q=0.9", **http_credentials.headers("REGISTRY")}
        tls = http_credentials.tls_context("REGISTRY") if self._address.is_tls else None
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = MEDIA_TYPE
        asked = f"{method} {self.url}{path}"
        try:
            answer = self._address.call(method, path, data, headers, within_ms=self._timeout_ms, tls=tls)
        except NoHttpAnswer as error:
            raise RegistryUnavailable(
                f"{asked}: no answer ({error}): is the registry running there? `headrace status` shows it"
            ) from error
        except HttpAnswerTooLong as error:
            raise RegistryError(f"{asked}: {error}: ask for less") from error
        if answer.status == 401:
            raise RegistryError(
                f"{asked}: the registry wants a bearer token: name its file in HEADRACE_REGISTRY_TOKEN_FILE", error_code=401
            )
        try:
            words = json.loads(answer.body) if answer.body else None
        except ValueError as error:
            if answer.status >= 500:
                raise RegistryUnavailable(f"{asked}: status {answer.status}", error_code=answer.status) from error
            raise RegistryError(f"{asked}: status {answer.status} and no JSON: is this address a schema registry's?") from error
        if answer.is_success:
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
