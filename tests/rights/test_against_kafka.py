"""A share of `make test-rights`: our decisions about rights beside those of Kafka's own authorizer."""

import time

import pytest

from bench.harness.unavailable import Unavailable
from tests.support.access_worlds import world

from .kafka import Oracle


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    try:
        return Oracle(tmp_path_factory.mktemp("oracle"))
    except Unavailable as error:
        pytest.skip(f"wants Kafka's authorizer: {error}")


def test_decisions_are_kafkas(oracle: Oracle) -> None:
    start = time.time_ns() % 1_000_000_000
    print(f"python -m tests.rights --from {start} --questions 20000")
    assert list(oracle.differences([world(seed) for seed in range(start, start + 500)])) == []


def test_a_wrong_decision_is_found(oracle: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.broker.rights.authorizer._GRANTED_BY", {})
    assert list(oracle.differences([world(seed) for seed in range(500)])) != []
