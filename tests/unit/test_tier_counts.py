"""The count of a cluster that tests hold the platform to: it ends at the ends of the partitions, and nowhere else."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from tests.support import tier_counts
from tests.support.access_logs import WINDOW_MS


class Said:
    """What librdkafka returns from a poll: a record of the first window, or an error."""

    def __init__(self, code: int | None = None) -> None:
        self._code = code

    def error(self) -> KafkaError | None:
        return None if self._code is None else KafkaError(self._code)

    def timestamp(self) -> tuple[int, int]:
        return 1, WINDOW_MS - 1

    def partition(self) -> int:
        return 0


class Cluster:
    """A topic of one partition, as a consumer finds it."""

    said: tuple[Said, ...] = ()

    def __init__(self, settings: dict[str, Any]) -> None:
        self._left = list(self.said)

    def list_topics(self, topic: str, timeout: float) -> SimpleNamespace:
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: None})})

    def assign(self, partitions: object) -> None: ...

    def poll(self, timeout: float) -> Said | None:
        return self._left.pop(0) if self._left else None

    def close(self) -> None: ...


@pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError.UNKNOWN_TOPIC_OR_PART])
def test_an_error_of_a_broker_that_has_just_started_is_no_end(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Fault: it was taken for the end of a partition, and the records behind it were not counted."""
    monkeypatch.setattr(Cluster, "said", (Said(code), Said(), Said(), Said(KafkaError._PARTITION_EOF)))
    monkeypatch.setattr(tier_counts, "Consumer", Cluster)
    assert tier_counts.in_cluster("live:9092", "clicks") == {0: 2}


def test_errors_that_do_not_end_are_not_waited_for_beyond_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "said", (Said(KafkaError._TRANSPORT),))
    monkeypatch.setattr(tier_counts, "Consumer", Cluster)
    monkeypatch.setattr(tier_counts, "WITHIN_S", -1)
    with pytest.raises(AssertionError, match="live:9092"):
        tier_counts.in_cluster("live:9092", "clicks")
