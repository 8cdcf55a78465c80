"""A share of what `python -m tests.kafka.kills` carries out by the hundred: `kill -9` of mirror, source, destination."""

import uuid
from pathlib import Path

import pytest

from tests.kafka.copying import Cluster
from tests.kafka.kills import PAIRS, rounds
from tests.support.broker import BrokerProcess
from tests.support.kafka import KafkaProcess

pytestmark = pytest.mark.whole

ROUNDS = 4


@pytest.mark.parametrize("pair", PAIRS)
def test_nothing_is_lost_or_doubled_whatever_is_killed(pair: str, tmp_path: Path, zookeeper_address: str) -> None:
    ends: list[Cluster] = []
    try:
        for number, kind in enumerate(pair.split("-")):
            folder = tmp_path / f"{number}-{kind}"
            chroot = f"{zookeeper_address}/kills-{uuid.uuid4().hex[:8]}"
            ends.append(KafkaProcess(folder) if kind == "kafka" else BrokerProcess(folder, chroot))
            ends[-1].start()
        killed = rounds(tmp_path, ends[0], ends[1], ROUNDS, seed=3)
        assert killed.pop("rounds") == ROUNDS
        assert sum(killed.values()) >= ROUNDS
    finally:
        for one in ends:
            one.kill()
