"""The collector and an audit topic that was lost with its disk: what is there now is read from its start, and told."""

from collections.abc import Iterator

import pytest

from headrace.audit.service.checkpoints.checkpointer import Checkpointer
from headrace.audit.service.ingest.collector import Collector
from headrace.runtime.layout import AUDIT_TOPIC
from headrace.wire.batch.record_batch import BatchBuilder
from tests.support.audit_parts import Service
from tests.support.scripted_broker import Partition, ScriptedBroker
from tests.unit.audit.service.checkpoints.topic_in_memory import TopicInMemory


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    made = ScriptedBroker({AUDIT_TOPIC: 1})
    yield made
    made.close()


def collector(broker: ScriptedBroker, service: Service) -> Collector:
    checkpointer = Checkpointer(service.ledger, TopicInMemory(), service.clock)
    return Collector(broker.address, service.ledger, service.clock, checkpointer, fetch_wait_ms=10)


def say(broker: ScriptedBroker, *words: bytes) -> None:
    for one in words:
        builder = BatchBuilder()
        builder.append(1_000, None, one)
        broker.store(AUDIT_TOPIC, 0, builder.build())


def heard(service: Service) -> tuple[int, int, dict[int, int]]:
    """Return messages that are no reports, losses of the topic, and where it is read next."""
    hearing = service.ledger.hearing()
    return hearing["malformed_reports"], hearing["reports_lost"], service.ledger.collector_positions()


def test_a_topic_that_was_lost_and_has_outgrown_what_was_read_of_it_is_read_from_its_start(
    broker: ScriptedBroker, service: Service
) -> None:
    """Fault: the audit continued at its old offset, and what the new topic held before it was skipped without a word."""
    say(broker, b"one", b"two")
    first = collector(broker, service)
    first._read_once()
    assert heard(service) == (2, 0, {0: 2})
    first._cluster.close()
    broker.topics[AUDIT_TOPIC] = [Partition()]
    say(broker, b"a", b"b", b"c")
    again = collector(broker, service)
    again._read_once()
    again._cluster.close()
    assert heard(service) == (5, 1, {0: 3})


def test_a_topic_that_is_the_same_is_read_on(broker: ScriptedBroker, service: Service) -> None:
    say(broker, b"one", b"two")
    first = collector(broker, service)
    first._read_once()
    first._cluster.close()
    say(broker, b"three")
    again = collector(broker, service)
    again._read_once()
    again._cluster.close()
    assert heard(service) == (3, 0, {0: 3})


def test_live_is_looked_at_once_more_a_deadline_after_a_loss(broker: ScriptedBroker, service: Service) -> None:
    """Who announced itself in the lost part may write for the first time after the loss was noticed."""
    broker.topics["clicks"] = [Partition()]
    say(broker, b"one", b"two")
    first = collector(broker, service)
    first._read_once()
    first._cluster.close()
    broker.topics[AUDIT_TOPIC] = [Partition()]
    say(broker, b"a", b"b", b"c")
    again = collector(broker, service)
    again._read_once()
    assert service.ledger.topic_facts("clicks").unheard == {}, "live was empty"
    builder = BatchBuilder()
    builder.append(1_000, None, b"late")
    broker.store("clicks", 0, builder.build())
    service.clock.advance(service.settings.default_deadline_ms)
    again._read_once()
    assert service.ledger.topic_facts("clicks").unheard == {}, "not yet"
    service.clock.advance(1)
    for _ in range(2):
        again._read_once()
    again._cluster.close()
    (reach,) = service.ledger.topic_facts("clicks").unheard.values()
    assert reach[0] == 0 < reach[1]
