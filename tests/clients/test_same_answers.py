"""The same requests to Apache Kafka 4.3.1 and to our server, in every version that both serve. The responses are equal, field by
field, except for the differences in `answers.chosen`, each with its reason.

Kafka's jars are the bench's own (`make bench` downloads them once with Maven).
"""

import re
import uuid
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import NamedTuple

import pytest

from bench.peers.kafka import Kafka
from headrace.wire.messages import produce
from tests.clients.answers import cluster, records, settings, topics
from tests.clients.answers.chosen import CHOSEN, EVERYWHERE
from tests.clients.answers.plain import ITEM, Difference, differences
from tests.clients.answers.sequence import SEQUENCES, Sequence
from tests.clients.answers.side import Side
from tests.support.broker import BrokerProcess

assert all((topics, settings, records, cluster)), "importing them enters their sequences"

LOWEST_WRITTEN = {produce.API_KEY: produce.MIN_VERSION}
"""The lowest tested version of APIs that advertise versions without messages in this suite."""


class Pair(NamedTuple):
    """Both servers."""

    kafka: Side
    ours: Side


@pytest.fixture(scope="module")
def pair(zookeeper_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both with default settings, but a topic has one partition, and Kafka deletes no records by their event time."""
    chroot = f"{zookeeper_address}/same-{uuid.uuid4().hex[:8]}"
    kafka = Kafka(tmp_path_factory.mktemp("kafka"))
    kafka._settings |= {"log.retention.check.interval.ms": "86400000"}
    kafka.start()
    try:
        with BrokerProcess(tmp_path_factory.mktemp("ours"), chroot, settings={"num.partitions": 1}) as ours:
            yield Pair(Side("Kafka", kafka.port), Side("ours", ours.port))
    finally:
        kafka.stop()


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence.name)
def test_answers_are_kafkas_but_for_those_chosen_otherwise(pair: Pair, sequence: Sequence) -> None:
    chosen = {**EVERYWHERE, **CHOSEN.get(sequence.name, {})}
    unused = set(CHOSEN.get(sequence.name, {}))
    unexpected: dict[str, list[int]] = {}
    for version in common_versions(pair, sequence.api_key):
        for step, found in found_in(pair, sequence, version):
            matching = {pattern for pattern in chosen if fnmatchcase(f"{step} | {field(found)}", pattern)}
            unused -= matching
            if not matching:
                told = f"{step} | {found.path}: Kafka {found.theirs!r}, ours {found.ours!r}"
                unexpected.setdefault(told, []).append(version)
    assert not unexpected, "\n".join(f"{told} (versions {versions})" for told, versions in unexpected.items())
    assert not unused, f"no longer different, to be taken out of answers/chosen.py: {sorted(unused)}"


def common_versions(pair: Pair, api_key: int) -> range:
    ranges = [side.versions()[api_key] for side in pair]
    return range(max(LOWEST_WRITTEN.get(api_key, 0), *(low for low, _ in ranges)), min(high for _, high in ranges) + 1)


def found_in(pair: Pair, sequence: Sequence, version: int) -> Iterator[tuple[str, Difference]]:
    own = f"t{uuid.uuid4().hex[:8]}"
    for theirs, ours in zip_longest(*(sequence.ask(side, version, own) for side in pair)):
        assert theirs[0] == ours[0]
        for found in differences(theirs[1], ours[1]):
            yield theirs[0], found._replace(path=found.path.replace(own, "*"))


def field(found: Difference) -> str:
    """Return a path without the names of items, marked if only one side has the item."""
    return re.sub(r"\[[^]]*\]", "", found.path) + (":item" if ITEM in (found.theirs, found.ours) else "")
