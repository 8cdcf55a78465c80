"""DescribeUserScramCredentials, key 50, version 0, AlterUserScramCredentials, key 51, version 0 (KIP-554): users and passwords.

`kafka-configs.sh --entity-type users` and `headrace user` use them. A broker gets a password salted and hashed, never itself. All
users of one request are changed one after the other; an answer comes when each is in ZooKeeper and used by this broker. Other
brokers see it in ZooKeeper."""

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from typing import Any

from ...coordination.errors import InvalidName
from ...wire.errors import ErrorCode
from ...wire.messages import control
from ..event_loop.response_generators import ResponseGenerator
from ..logins.scram_credential import (
    HASHES,
    LEAST_ITERATIONS,
    LEAST_SALT_BYTES,
    MECHANISMS,
    MOST_ITERATIONS,
    MOST_SALT_BYTES,
    NUMBERS,
    ScramCredential,
)
from ..logins.users import Config, Credentials, TooManyUsers
from .broker import Broker, required
from .fan_in import STILL_UNDER_WAY, FanIn
from .request import Request

DESCRIBE_KEY, ALTER_KEY = 50, 51
MOST_CHANGED = 1_000
"""Users in one request."""

Outcome = tuple[ErrorCode, str | None]
Changes = dict[str, str | None]
"""By mechanism the credential's text, or None: it is removed."""


def describe(broker: Broker, request: Request) -> ResponseGenerator:
    """Return mechanisms and iterations of each user of the request, of all when it names none."""
    decoded = yield from control.decode_in_steps(DESCRIBE_KEY, request.version, request.body)
    users = broker.users.all
    named = Counter(str(one.name) for one in decoded.users or ())
    results = (
        (_described(user, users.get(user), times) for user, times in named.items())
        if named
        else (_described(user, credentials, 1) for user, credentials in sorted(users.items()))
    )
    message = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "error_message": None, "results": results}
    return (yield from control.encode_in_steps(DESCRIBE_KEY, request.version, message))


def _described(user: str, credentials: Credentials | None, times: int) -> dict[str, Any]:
    error, why = ErrorCode.NONE, None
    if times > 1:
        error, why = ErrorCode.DUPLICATE_RESOURCE, "named twice in the request"
    elif credentials is None:
        error, why = ErrorCode.RESOURCE_NOT_FOUND, f"there is no user {user!r} with SCRAM credentials"
    shown = credentials if credentials is not None and not error else {}
    infos = [{"mechanism": NUMBERS[name], "iterations": one.iterations} for name, one in shown.items()]
    return {"user": user, "error_code": error, "error_message": why, "credential_infos": infos}


def alter(broker: Broker, request: Request) -> ResponseGenerator:
    """Return the outcome for each user of the request."""
    version = request.version
    decoded = yield from control.decode_in_steps(ALTER_KEY, version, request.body)
    deletions, upsertions = required(decoded.deletions), required(decoded.upsertions)
    named = Counter((str(one.name), int(one.mechanism)) for one in (*deletions, *upsertions))
    wanted: dict[str, Changes] = {}
    results: dict[str, Outcome] = {}
    for one in (*deletions, *upsertions):
        yield
        user = str(one.name)
        refused = _refusal(broker, one, named)
        if refused is None and len(wanted) >= MOST_CHANGED and user not in wanted:
            refused = ErrorCode.INVALID_REQUEST, f"one request changes at most {MOST_CHANGED} users: change this one in another"
        if refused is not None:
            results.setdefault(user, refused)
            continue
        wanted.setdefault(user, {})[MECHANISMS[int(one.mechanism)]] = _text(one)
    changes = {user: changed for user, changed in wanted.items() if user not in results}
    if not changes:
        return (yield from _answer(version, results))
    fan_in = FanIn[str, Outcome](
        broker,
        changes,
        timeout_ms=0,
        overdue=lambda user: (ErrorCode.REQUEST_TIMED_OUT, STILL_UNDER_WAY),
        answer=lambda changed: _answer(version, {**results, **changed}),
    )

    def begin(user: str) -> None:
        def done(error: Exception | None) -> None:
            fan_in.put(user, _outcome(error))

        broker.users.change(user, lambda present: _changed(present, changes[user]), done)

    return fan_in.start(begin)


def _refusal(broker: Broker, one: Any, named: Mapping[tuple[str, int], int]) -> Outcome | None:
    user, number = str(one.name), int(one.mechanism)
    if named[user, number] > 1:
        return ErrorCode.DUPLICATE_RESOURCE, "a mechanism is changed twice for one user"
    if not user:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "the user's name is empty"
    mechanism = MECHANISMS.get(number)
    if mechanism is None:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{number} is not a mechanism: {', '.join(HASHES)} are {tuple(MECHANISMS)}"
    if not hasattr(one, "iterations"):
        if mechanism not in broker.users.of(user):
            return ErrorCode.RESOURCE_NOT_FOUND, f"user {user!r} has no {mechanism} credential"
        return None
    if not LEAST_ITERATIONS <= int(one.iterations) <= MOST_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"{one.iterations} iterations: from {LEAST_ITERATIONS} to {MOST_ITERATIONS}"
    if not LEAST_SALT_BYTES <= len(one.salt) <= MOST_SALT_BYTES or not one.salted_password:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"a salt has {LEAST_SALT_BYTES} to {MOST_SALT_BYTES} bytes"
    return None


def _text(one: Any) -> str | None:
    if not hasattr(one, "iterations"):
        return None
    salted = bytes(one.salted_password)
    return ScramCredential.of_salted(MECHANISMS[int(one.mechanism)], salted, bytes(one.salt), int(one.iterations)).to_text()


def _changed(present: Config, changes: Changes) -> Config:
    kept = {name: value for name, value in present.items() if changes.get(name, value) is not None}
    return kept | {name: text for name, text in changes.items() if text is not None}


def _outcome(error: Exception | None) -> Outcome:
    match error:
        case None:
            return ErrorCode.NONE, None
        case InvalidName():
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, str(error)
        case TooManyUsers():
            return ErrorCode.POLICY_VIOLATION, str(error)
    return ErrorCode.REQUEST_TIMED_OUT, f"ZooKeeper did not take it: {error}"


def _answer(version: int, results: Mapping[str, Outcome]) -> Generator[None, None, bytes]:
    answers: Iterable[dict[str, Any]] = (
        {"user": user, "error_code": error, "error_message": message} for user, (error, message) in results.items()
    )
    return control.encode_in_steps(ALTER_KEY, version, {"throttle_time_ms": 0, "results": answers})
