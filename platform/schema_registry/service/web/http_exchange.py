"""Shared by all endpoints: media types, the body's JSON, path and query values, and errors as the API's JSON.

The only place that knows HTTP statuses. It refuses, and never guesses: a path, query or body that is not UTF-8, a flag that is
neither true nor false, a number that is none.
"""

import functools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, unquote

from anyio import to_thread
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ....client.callers import DESCRIBE, Caller
from ....client.errors import ClientError
from ....runtime.clock import SystemClock
from ....runtime.http_call import HttpAnswer
from ....runtime.logs import get_logger
from ....runtime.rate_limited_log import RateLimitedLog
from ....runtime.serving.guard import CALLER
from ....runtime.serving.threads import Threads
from ...errors import InvalidSchema, RegistryError
from ...model.opaque import AVRO, SCHEMA_TYPES
from ...model.reference import Reference
from ..forwarding import FORWARDED, Forwarding, Sent
from ..mode_rules import ID_LIMIT
from .rights import may

_faults = RateLimitedLog(get_logger(__name__), SystemClock().monotonic_ms)

MEDIA_TYPES = ("application/vnd.schemaregistry.v1+json", "application/vnd.schemaregistry+json", "application/json")
"""The first one is used where the client accepts any."""
BODY_TYPES = (*MEDIA_TYPES, "application/octet-stream")
"""Accepted types of a body. Confluent's clients also send the last one, and mean JSON."""
BODY_LIMIT_BYTES = 4 * 1024 * 1024
HEAVY_BYTES = 64 * 1024
"""A longer body, and what is resolved, is worked on by `HEAVY_THREADS`, so that short requests do not wait behind it."""
HEAVY_THREADS = 2
WRITERS = 64
"""Threads of what is not a GET: they wait for the topic, for a leader, and for each other; reads have threads of their own."""
MOST_REFERENCES = 1_000

_NUMBER = re.compile(r"-?[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Answer:
    """An endpoint's response whose status is not 200."""

    words: Any
    status: int


class Exchange:
    """One request with its body already read: endpoints run on worker threads and may block."""

    def __init__(self, request: Request, body: bytes) -> None:
        self._request = request
        self._body = body
        self._words = _query(request.scope["query_string"])
        self._json: dict[str, Any] | None = None
        self.caller: Caller | None = request.scope.get(CALLER)
        """Who calls; None where callers do not log in."""

    def path(self, name: str) -> str:
        """Return a part of the path, decoded. Routes match the undecoded path, so that a subject may contain %2F."""
        try:
            return unquote(self._request.path_params[name], errors="strict")
        except UnicodeDecodeError as error:
            raise RegistryError(f"the {name} in the path is not UTF-8: {error}", error_code=400) from error

    def word(self, name: str) -> str | None:
        """Return a value of the query, or None. Of several the first one counts."""
        return next((value for key, value in self._words if key == name), None)

    def flag(self, name: str) -> bool:
        """Return whether the query says true. Raises 422 for a value that is neither true nor false."""
        word = self.word(name)
        if word is None or word.lower() in ("true", "false"):
            return word is not None and word.lower() == "true"
        raise RegistryError(f"{name}={word!r} is neither true nor false", error_code=422)

    def number(self, name: str, default: int, *, lowest: int = -ID_LIMIT - 1) -> int:
        """Return a whole number from the query. Raises 422 for anything else."""
        word = self.word(name)
        if word is None:
            return default
        number = int(word) if _NUMBER.fullmatch(word) else None
        if number is None or not lowest <= number <= ID_LIMIT:
            raise RegistryError(f"{name}={word[:40]!r} is not a whole number from {lowest} to {ID_LIMIT}", error_code=422)
        return number

    def page(self, rows: list[Any]) -> list[Any]:
        """Return the rows that `offset` and `limit` select; no limit, or a negative one, means all."""
        start, limit = self.number("offset", 0, lowest=0), self.number("limit", -1)
        return rows[start:] if limit < 0 else rows[start : start + limit]

    def json(self) -> dict[str, Any]:
        """Return the body's JSON object. Raises 400, 415."""
        if self._json is None:
            self._json = self._read_json()
        return self._json

    def _read_json(self) -> dict[str, Any]:
        sent = self._request.headers.get("content-type", MEDIA_TYPES[0]).split(";")[0].strip().lower()
        if sent not in BODY_TYPES:
            raise RegistryError(f"the body is {sent}: send {MEDIA_TYPES[0]} or application/json", error_code=415)
        try:
            words = json.loads(self._body.decode(), parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise RegistryError(f"the body is not JSON: {error}", error_code=400) from error
        if not isinstance(words, dict):
            raise RegistryError("the body is not a JSON object: send {...}", error_code=400)
        return words

    def schema(self) -> tuple[str, tuple[Reference, ...], str]:
        """Return the body's schema text, references and type. Raises `InvalidSchema`, 42210 for rule sets."""
        words = self.json()
        kind = words.get("schemaType")
        if kind not in (None, *SCHEMA_TYPES):
            raise InvalidSchema(f"schemaType {kind!r} is not kept here: {', '.join(SCHEMA_TYPES)} are")
        if words.get("ruleSet") is not None or words.get("metadata") is not None:
            raise RegistryError("rule sets and metadata are not kept here: leave them out", error_code=42210)
        text, listed = words.get("schema"), words.get("references")
        if not isinstance(text, str) or not text.strip():
            raise InvalidSchema('"schema" is missing or no text: give the schema as a JSON string')
        if listed is not None and not isinstance(listed, list):
            raise InvalidSchema('"references" is not a list of {"name", "subject", "version"}')
        references = tuple(listed or ())
        if len(references) > MOST_REFERENCES:
            raise InvalidSchema(f"a schema has at most {MOST_REFERENCES} references, not {len(references)}", error_code=42209)
        found = tuple(map(Reference.of, references))
        if self.caller is not None:
            # A resolved schema would show what it references.
            for one in {reference.subject for reference in found}:
                if not may(self.caller, DESCRIBE, one):
                    raise RegistryError(f"there is no right to read the referenced subject {one[:250]!r}", error_code=40301)
        return text, found, kind or AVRO

    def body_number(self, name: str) -> int | None:
        """Return a whole number of the body, or None if it is absent or null. Raises 400 for anything else."""
        value = self.json().get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and -1 <= value <= ID_LIMIT):
            return value
        raise RegistryError(f'"{name}" is {str(value)[:40]!r}: give a whole number from -1 to {ID_LIMIT}', error_code=400)


Endpoint = Callable[[Exchange], Any]


def answered(
    endpoint: Endpoint,
    heavy: Threads,
    writers: Threads | None = None,
    forwarding: Forwarding | None = None,
    *,
    is_quick: bool = False,
) -> Callable[[Request], Any]:
    """Return the endpoint as Starlette calls it: a bounded body, the work on a worker thread, every error a response.

    `heavy`: the threads for long schemas. `writers`: those for this endpoint; None: the loop's own. `is_quick`: the work is a
    look into a map, so it is done on the loop: a thread would cost more.
    """

    @functools.wraps(endpoint)
    async def handle(request: Request) -> Response:
        media_type = negotiated(request.headers.get("accept", ""))
        if media_type is None:
            accept = request.headers["accept"]
            return _json(
                406, {"error_code": 406, "message": f"{accept!r} is not spoken: {', '.join(MEDIA_TYPES)}"}, MEDIA_TYPES[2]
            )
        try:
            body = await _body(request)
            exchange = Exchange(request, body)
            is_heavy = len(body) > HEAVY_BYTES or exchange.word("format") is not None
            if is_quick and not is_heavy and exchange.caller is None:
                words = endpoint(exchange)
            else:
                act = partial(endpoint, exchange)
                if forwarding is not None:
                    act = partial(forwarding.answer, _as_sent(request, body), act)
                threads = heavy if is_heavy else writers
                words = await to_thread.run_sync(act, limiter=None if threads is None else threads.limiter())
        except ClientDisconnect:
            return Response(status_code=400)  # not our fault, and the client will not read it
        except RegistryError as error:
            return refusal(error, media_type)
        except ClientError as error:
            why = RegistryError(f"what the caller may do cannot be found out now: {error}", error_code=503)
            return refusal(why, media_type)
        except Exception as error:
            _faults.error("request_failed", method=request.method, path=request.url.path[:200], exc_info=True)
            return _json(500, {"error_code": 50001, "message": f"our own fault: {type(error).__name__}: see the log"}, media_type)
        if isinstance(words, HttpAnswer):
            return Response(words.body, status_code=words.status, media_type=words.media_type or "application/json")
        if isinstance(words, Answer):
            return _json(words.status, words.words, media_type)
        return _json(200, words, media_type)

    return handle


def refusal(error: RegistryError, media_type: str = MEDIA_TYPES[0]) -> Response:
    """Return the API's error body; the status is the code's first three digits."""
    code = error.error_code or 50001
    return _json(int(str(code)[:3]), {"error_code": code, "message": str(error)}, media_type)


def negotiated(accept: str) -> str | None:
    """Return the response's media type for an `Accept` header; None if none of ours is accepted."""
    if not accept.strip():
        return MEDIA_TYPES[0]
    best, best_weight = None, 0.0
    for part in accept.split(","):
        kind, *parameters = (word.strip().lower() for word in part.split(";"))
        try:
            weight = next((float(word[2:]) for word in parameters if word.startswith("q=")), 1.0)
        except ValueError:
            weight = 0.0
        spoken = next((ours for ours in MEDIA_TYPES if kind in (ours, "*/*", "application/*")), None)
        if spoken is not None and weight > best_weight:
            best, best_weight = spoken, weight
    return best


def _query(sent: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(sent.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError as error:
        raise RegistryError(
            f"the query cannot be read: {error}: send UTF-8, percent-encoded, 100 words at most", error_code=400
        ) from error


def _as_sent(request: Request, body: bytes) -> Sent:
    headers, query = request.headers, request.scope["query_string"]
    target = request.scope["path"] + (f"?{query.decode('latin-1')}" if query else "")
    return Sent(
        method=request.method,
        target=target,
        body=body,
        accept=headers.get("accept", ""),
        content_type=headers.get("content-type", MEDIA_TYPES[0]),
        authorization=headers.get("authorization"),
        is_forwarded=FORWARDED in headers,
    )


async def _body(request: Request) -> bytes:
    chunks: list[bytes] = []
    size_bytes = 0
    async for chunk in request.stream():
        size_bytes += len(chunk)
        if size_bytes > BODY_LIMIT_BYTES:
            raise RegistryError(f"the body is longer than {BODY_LIMIT_BYTES} bytes: split the schema", error_code=42209)
        chunks.append(chunk)
    return b"".join(chunks)


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


def _json(status: int, words: Any, media_type: str) -> Response:
    return Response(json.dumps(words), status_code=status, media_type=media_type)
