"""Random visits to a real broker in this process: none gets in without a password, sees a name, or disturbs the others."""

import logging
import os
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from headrace.broker.handlers.api_table import BETWEEN_BROKERS, TABLE
from headrace.runtime import failed_logins
from tests.support.login_broker import LoginBroker, authenticate, begin, log_in, stored
from tests.support.processes import eventually
from tests.support.raw_kafka import Closed, RawClient, batch

from .login_visits import ALICE, API_VERSIONS, AUTHENTICATE, HANDSHAKE, PASSWORD, PLANTED, State, Visit

VISITS = int(os.environ.get("VISITS", "600"))
"""Of each broker. `make fuzz VISITS=100000` is a long run."""
FIRST = int(os.environ.get("SEED", "0"))
PARTIES = 4


@pytest.fixture(scope="module", params=[0, 60_000], ids=["sessions without end", "sessions that end"])
def broker(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[LoginBroker]:
    settings = {"connection_failed_authentication_delay_ms": 0, "connections_max_reauth_ms": request.param}
    with (
        pytest.MonkeyPatch.context() as patch,
        LoginBroker(tmp_path_factory.mktemp("visited"), topics={PLANTED[0]: 1}, **settings) as serving,
    ):
        # Altered messages name alice, too. The limit, which has a test of its own, would keep her out.
        patch.setattr(failed_logins, "MOST_FAILURES", 1 << 40)
        for user in ("bob", PLANTED[2]):
            serving.user_registry.users[user] = stored(f"never given: {user}", "SCRAM-SHA-256", "SCRAM-SHA-512")
        serving.on_loop(serving.users.load)
        yield serving


def test_no_random_visit_gets_in_without_the_password_or_disturbs_the_others(
    broker: LoginBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    ends: Counter[State] = Counter()
    faults: list[str] = []

    def party(first: int) -> None:
        for seed in range(first, FIRST + VISITS, PARTIES):
            visit = Visit(broker.port, seed)
            try:
                ends[visit.take_place()] += 1
            except Exception as error:
                faults.append(f"seed {seed}: {type(error).__name__}: {error}; {visit.moves}")

    with broker.client() as honest:
        assert log_in(honest, ALICE, PASSWORD).error_code == 0
        parties = [threading.Thread(target=party, args=(FIRST + number,)) for number in range(PARTIES)]
        for one in parties:
            one.start()
        while any(one.is_alive() for one in parties):
            assert honest.produce(PLANTED[0], batch(b"honest")).error_code == 0
            parties[0].join(0.02)
        assert not faults, faults[:3]
        assert honest.produce(PLANTED[0], batch(b"honest")).error_code == 0
        eventually(lambda: len(broker.server._connections) == 1, within_ms=60_000, what="the visits' connections are gone")
    with broker.client() as another:
        assert log_in(another, ALICE, PASSWORD).error_code == 0, "logins are taken as before"
    ours = [record for record in caplog.records if record.getMessage().startswith(("loop_", "job_"))]
    assert not ours, (ours[0].getMessage(), ours[0].exc_info)
    if VISITS >= 600:
        assert {State.INSIDE, State.REFUSED, State.OUTSIDE, State.CLOSED} <= ends.keys(), ends


EVERY = [(key, version) for key, api in {**TABLE, **BETWEEN_BROKERS}.items() for version in range(api.lowest, api.highest + 1)]


@pytest.mark.parametrize("phase", ["outside", "under way", "refused"])
def test_every_version_of_every_api_is_closed_without_a_login(broker: LoginBroker, phase: str) -> None:
    allowed = {"outside": (HANDSHAKE, API_VERSIONS), "under way": (AUTHENTICATE,), "refused": ()}[phase]
    answered = []
    for key, version in EVERY:
        if key in allowed:
            continue
        with broker.client() as client:
            if phase != "outside":
                assert begin(client, "PLAIN").error_code == 0
            if phase == "refused":
                assert authenticate(client, b"nonsense").error_code
            if _is_answered(client, key, version):
                answered.append((key, version))
    assert not answered


def _is_answered(client: RawClient, key: int, version: int) -> bool:
    try:
        client.request(key, version, bytes(40))
    except (Closed, ConnectionError):
        return False
    return True
