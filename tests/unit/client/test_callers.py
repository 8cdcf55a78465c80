"""Callers of an HTTP service log in with what they show: a user's password, or a bearer token. A real HTTP server before a real
broker with logins and access rules; the clock of the service is the test's.
"""

import base64
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from headrace.broker.logins.login import Login
from headrace.broker.rights.rule import CLUSTER_NAME, Operation, Pattern, Permission, Resource, Rule
from headrace.client.callers import LONGEST_AGE_MS, MOST_CALLERS, READ, Callers
from headrace.client.connection.connection import Connection
from headrace.client.topic_logins import TopicLogins
from headrace.runtime.failed_logins import MOST_FAILURES, WINDOW_MS
from headrace.runtime.http_access import NotAdmitted
from headrace.runtime.serving.guard import CALLER, LOGIN_THREADS
from headrace.runtime.web_server import WebServer, bound
from tests.support.login_broker import ALL, LoginBroker, stored
from tests.support.processes import eventually
from tests.support.token_endpoint import AUDIENCE, ISSUER, TokenEndpoint

TOPIC, OTHER = "clicks", "orders"
PATHS = ("/topic", "/topics", "/cluster", "/healthz")
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class HandClock:
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.at_ms = 1_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms

    def sleep(self, for_ms: int) -> None:
        self.at_ms += for_ms


class Held(Callers):
    """Counts the logins that are under way at once, and holds them."""

    under_way = most = 0

    def __init__(self, bootstrap: str, clock: HandClock) -> None:
        super().__init__(bootstrap, clock=clock)
        self.may_end = threading.Event()

    def _logged_in(self, shown: Any) -> Connection:
        with self._lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        try:
            self.may_end.wait(60)
            return super()._logged_in(shown)
        finally:
            with self._lock:
                self.under_way -= 1


@pytest.fixture(scope="module")
def endpoint() -> Iterator[TokenEndpoint]:
    found = TokenEndpoint({})
    yield found
    found.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, endpoint: TokenEndpoint) -> Iterator[LoginBroker]:
    settings = {
        "sasl_enabled_mechanisms": f"{ALL},OAUTHBEARER",
        "sasl_oauthbearer_jwks_endpoint_url": endpoint.jwks_url,
        "sasl_oauthbearer_expected_issuer": ISSUER,
        "sasl_oauthbearer_expected_audience": AUDIENCE,
        "sasl_oauthbearer_clock_skew_seconds": 0,
        "connection_failed_authentication_delay_ms": 0,
        "authorizer_class_name": AUTHORIZER,
    }
    with LoginBroker(tmp_path_factory.mktemp("broker"), topics={TOPIC: 1, OTHER: 1}, **settings) as serving:
        serving.user_registry.users["dave"] = stored("secret", "SCRAM-SHA-512")
        serving.on_loop(serving.users.load)
        serving.set_rules(
            [
                _rule("User:ann", Operation.READ, Resource.TOPIC, TOPIC),
                _rule("User:alice", Operation.READ, Resource.TOPIC, TOPIC),
                _rule("User:root", Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME),
            ]
        )
        yield serving


@pytest.fixture
def clock(broker: LoginBroker) -> HandClock:
    broker.wall_ms = int(time.time() * 1_000)
    return HandClock()


@pytest.fixture
def callers(broker: LoginBroker, clock: HandClock) -> Iterator[Callers]:
    found = Callers(f"127.0.0.1:{broker.port}", clock=clock)
    yield found
    found.close()


@pytest.fixture
def service(callers: Callers) -> Iterator[int]:
    with _served(callers) as port:
        yield port


def test_a_bearer_token_is_a_caller_with_the_rights_of_its_subject(service: int, endpoint: TokenEndpoint) -> None:
    ann, root = (f"Bearer {endpoint.token_for(name, life_s=600)}" for name in ("ann", "root"))
    assert _get(service, f"/topic?topic={TOPIC}", ann) == (200, "ann")
    assert _get(service, f"/topic?topic={OTHER}", ann)[0] == 403
    assert _get(service, "/cluster", ann)[0] == 403
    assert _get(service, "/topics", ann) == (200, "ann")
    assert _get(service, "/cluster", root) == (200, "root")
    assert _get(service, f"/topic?topic={TOPIC}", ann.replace("Bearer", "bEaReR")) == (200, "ann")


def test_what_is_no_token_of_the_issuer_is_not_admitted(service: int, endpoint: TokenEndpoint) -> None:
    good = endpoint.token_for("ann", life_s=600)
    header, claims, signature = good.split(".")
    stranger = TokenEndpoint({})
    try:
        forged = stranger.token_for("ann", life_s=600)
    finally:
        stranger.close()
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    for shown in (
        "Bearer",
        "Bearer ",
        "Bearer x",
        f"Bearer {good}x",
        f"Bearer {forged}",
        f"Bearer {header}.{claims}.",
        f"Bearer {unsigned}.{claims}.",
        f"Bearer {header}.{_subject(claims, 'root')}.{signature}",
        f"Bearer {endpoint.token_for('ann', life_s=-1)}",
        f"Bearer {'A' * 20_000}",
        f"Token {good}",
        f"Basic {good}",
        None,
    ):
        status, words = _get(service, "/topics", shown)
        assert (status, "login is not accepted" in words) == (401, True), shown
    assert _get(service, "/healthz", None)[0] == 200, "health wants no login"


def test_an_expired_token_is_out_when_its_login_is_no_longer_remembered(
    service: int, broker: LoginBroker, clock: HandClock, endpoint: TokenEndpoint
) -> None:
    ann = f"Bearer {endpoint.token_for('ann', life_s=600)}"
    assert _get(service, "/topics", ann)[0] == 200
    broker.wall_ms += 601_000
    assert _get(service, "/topics", ann)[0] == 200, "remembered for a second"
    clock.at_ms += LONGEST_AGE_MS
    assert _get(service, "/topics", ann)[0] == 401


def test_an_address_that_failed_too_often_as_a_user_is_kept_out_for_a_time_and_no_other_is(
    service: int, callers: Callers, broker: LoginBroker, clock: HandClock
) -> None:
    accepted = broker.server.accepted_count
    for number in range(MOST_FAILURES):
        assert _get(service, "/topics", _basic("dave", f"guess {number}"))[0] == 401
    assert broker.server.accepted_count == accepted + MOST_FAILURES
    assert _get(service, "/topics", _basic("dave", "secret"))[0] == 401, "the right password, too"
    assert broker.server.accepted_count == accepted + MOST_FAILURES, "the broker was not asked"
    assert _get(service, "/topics", _basic("alice", "secret"))[0] == 200
    _forget_failures(broker)
    with callers.admitted(_basic("dave", "secret"), "10.0.0.9") as caller:
        assert caller.name == "dave", "from another address"
    clock.at_ms += WINDOW_MS
    assert _get(service, "/topics", _basic("dave", "secret"))[0] == 200


def test_at_most_64_callers_are_remembered_and_those_in_use_end_first(
    callers: Callers, broker: LoginBroker, endpoint: TokenEndpoint
) -> None:
    shown = [f"Bearer {endpoint.token_for(f'u{number}', life_s=600)}" for number in range(MOST_CALLERS + 6)]
    eventually(lambda: not broker.server._connections, within_ms=60_000, what="the connections of other tests are gone")
    with ExitStack() as stack:
        inside = [stack.enter_context(callers.admitted(one, "127.0.0.1")) for one in shown]
        assert [one.name for one in inside] == [f"u{number}" for number in range(len(shown))]
        assert not any(one.may(READ, TOPIC) for one in inside), "each still has its connection"
    assert len(callers._callers) == MOST_CALLERS
    eventually(lambda: len(broker.server._connections) == MOST_CALLERS, within_ms=60_000, what="others are closed")
    accepted = broker.server.accepted_count
    with callers.admitted(shown[-1], "127.0.0.1"):
        assert broker.server.accepted_count == accepted, "the newest are remembered"
    with callers.admitted(shown[0], "127.0.0.1"):
        assert broker.server.accepted_count == accepted + 1, "the oldest has logged in again"


def test_a_broker_that_does_not_answer_holds_at_most_64_logins_and_no_health(clock: HandClock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        callers = Held(f"127.0.0.1:{taken.getsockname()[1]}", clock)
    statuses: list[int] = []
    with _served(callers) as port:

        def ask(number: int) -> None:
            statuses.append(_get(port, "/topics", _basic(f"u{number}", "secret"))[0])

        asking = [threading.Thread(target=ask, args=(number,)) for number in range(LOGIN_THREADS + 20)]
        for one in asking:
            one.start()
        eventually(lambda: callers.under_way == LOGIN_THREADS, within_ms=60_000, what="as many logins as there may be")
        assert _get(port, "/healthz", None)[0] == 200
        callers.may_end.set()
        for one in asking:
            one.join(60)
    assert statuses == [503] * len(asking)
    assert callers.most == LOGIN_THREADS


def test_a_failed_login_says_the_same_for_users_that_exist_and_for_others(service: int) -> None:
    answers = {_get(service, "/topics", _basic(user, "wrong")) for user in ("alice", "nobody", "é,=")}
    assert len(answers) == 1


def test_callers_that_show_the_wrong_kind_of_login_are_told_which_are_taken(service: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", service, timeout=60)
    connection.request("GET", "/topics", headers={"Authorization": "Digest abc"})
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("WWW-Authenticate")) == (401, 'Basic realm="headrace", charset="UTF-8"')
    connection.close()


def test_passwords_that_scram_forbids_are_not_admitted_and_break_nothing(callers: Callers) -> None:
    for password in ("\u0007", "a\u00a0\ufdd0", "\ud7ff\u202e"):
        with pytest.raises(NotAdmitted), callers.admitted(_basic("alice", password), "127.0.0.1"):
            raise AssertionError("it is admitted")


@contextmanager
def _served(callers: Callers) -> Iterator[int]:
    def who(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.scope[CALLER].name if CALLER in request.scope else "")

    app = Starlette(routes=[Route(path, who) for path in PATHS])
    logins = TopicLogins(callers, of_topic={"/topic"}, for_all={"/topics"})
    listener = bound("127.0.0.1", 0)
    server = WebServer(app, listener, name="test", logins=logins)
    server.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        server.stop()


def _get(port: int, path: str, authorization: str | None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={} if authorization is None else {"Authorization": authorization})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _subject(claims: str, subject: str) -> str:
    read = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    return base64.urlsafe_b64encode(json.dumps({**read, "sub": subject}).encode()).decode().rstrip("=")


def _forget_failures(broker: LoginBroker) -> None:
    """Make the broker forget what it counted: it sees the service's address, and has the same limit."""

    def forget() -> None:
        guard, *_ = [one.peer.guard for one in broker.server._connections.values() if isinstance(one.peer.guard, Login)]
        guard._shared.failures._counted.clear()

    with broker.client() as client:
        client.ask(18, 0, {})
        broker.on_loop(forget)


def _rule(principal: str, operation: Operation, resource: Resource, name: str) -> Rule:
    return Rule(resource, name, Pattern.LITERAL, principal, "*", operation, Permission.ALLOW)
