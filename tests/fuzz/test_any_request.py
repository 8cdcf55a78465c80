"""Requests with any values about rights, users and quotas: a broker answers them or closes the connection, and keeps only what it
can read again. Real handlers, loop and sockets; ZooKeeper is simulated.
"""

import logging
import os
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from headrace.broker.handlers.api_table import TABLE
from headrace.broker.logins.scram_credential import MECHANISMS, ScramCredential
from headrace.broker.quotas.limits import KEYS
from headrace.broker.rights import rule as rules
from tests.support.raw_kafka import Closed, batch
from tests.support.serving_broker import ServingBroker

from .any_request import any_body

REQUESTS = int(os.environ.get("REQUESTS", "1500"))
"""`make fuzz REQUESTS=100000` is a long run."""
FIRST = int(os.environ.get("SEED", "0"))
ADMIN = (29, 30, 31, 48, 49, 50, 51)
"""DescribeAcls, CreateAcls, DeleteAcls, and those of quotas and of SCRAM's credentials."""
BY_HAND = (0, 1)
"""Produce and Fetch, which `test_whole_broker.py` fuzzes."""
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
TOPIC = "clicks"


@pytest.fixture(scope="module", params=["everything", "nothing"])
def may(request: pytest.FixtureRequest) -> str:
    """Which rights the client has."""
    return str(request.param)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, may: str) -> Iterator[ServingBroker]:
    settings = {**AUTHORIZER, "super.users": "User:ANONYMOUS"} if may == "everything" else AUTHORIZER
    with ServingBroker(tmp_path_factory.mktemp("any"), topics={TOPIC: 1}, settings=settings) as serving:
        yield serving


def test_a_request_with_any_values_is_answered_or_ends_its_connection(
    broker: ServingBroker, may: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    keys = ADMIN if may == "everything" else tuple(key for key in TABLE if key not in BY_HAND)
    answered: Counter[int] = Counter()
    client = broker.client()
    for seed in range(FIRST, FIRST + REQUESTS):
        chance = random.Random(seed)
        key = chance.choice(keys)
        version = chance.randint(TABLE[key].served_from, TABLE[key].highest)
        body = any_body(chance, key, version)
        if body is None:
            continue
        try:
            client.request(key, version, body)
            answered[key] += 1
        except (Closed, ConnectionError):
            client.close()
            client = broker.client()
        faults = [record for record in caplog.records if record.getMessage().startswith(("loop_", "job_"))]
        assert not faults, (seed, TABLE[key].name, version, faults[0].getMessage(), faults[0].exc_info)
    client.close()
    assert set(ADMIN) <= answered.keys()
    _check_what_is_kept(broker)
    if may == "nothing":
        assert not broker.rules.rows
        assert not broker.user_registry.users
        assert not broker.quota_registry.configs
    with broker.client() as honest:
        wanted = 0 if may == "everything" else 29
        assert honest.produce(TOPIC, batch(b"after")).error_code == wanted


def _check_what_is_kept(broker: ServingBroker) -> None:
    """What is in ZooKeeper is what a broker that starts now can read, all of it."""
    kept = rules.read(broker.rules.rows)
    assert len(kept) == len(broker.rules.rows)
    for one in kept:
        kind, _, name = one.principal.partition(":")
        assert kind, one
        assert name, one
        assert one.name, one
        assert one.host, one
        assert min(one.resource, one.operation, one.permission) > 1, one
        assert one.pattern in (rules.Pattern.LITERAL, rules.Pattern.PREFIXED), one
    for config in broker.user_registry.users.values():
        for mechanism, text in config.items():
            assert mechanism in MECHANISMS.values()
            ScramCredential.of_text(mechanism, text)
    for config in broker.quota_registry.configs.values():
        assert not [name for name, value in config.items() if name not in KEYS or not 0 < float(value) < float("inf")]
    broker.on_loop(broker.users.load)
    broker.on_loop(broker.quotas.load)
