"""What administrators ask of the cluster, while clients work: topics, moves, elections, deletions, recoveries."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from headrace.wire.errors import ErrorCode

from .clients import PARTITIONS, Connections, Unanswered
from .cluster import REPLICAS, TOPIC, Cluster
from .history import Deletion, History
from .scheduler import Process, SimulatedThread

CREATE_TOPICS, DELETE_TOPICS, DELETE_RECORDS, ELECT_LEADERS, ALTER_REASSIGNMENTS = 19, 20, 21, 43, 45
PREFERRED, UNCLEAN = 0, 1
WITHIN_MS = 2_000


class Administrator:
    """Each question has a thread of its own. What is not answered is not asked again."""

    def __init__(self, cluster: Cluster, process: Process, history: History) -> None:
        self._cluster, self._process, self._history = cluster, process, history

    def _ask(self, what: str, question: Callable[[Connections], object]) -> None:
        def ask() -> None:
            try:
                answer = question(Connections(self._cluster, self._process))
            except Unanswered:
                answer = "no answer"
            self._cluster.sim.note(what, answer)

        SimulatedThread(self._process, ask, what).start()

    def move(self, partition: int, size: int) -> None:
        """Move a partition to other brokers, or end a move."""
        chance = random.Random(size)
        count = 2 if chance.random() < 0.2 else REPLICAS
        wanted = None if chance.random() < 0.15 else chance.sample(self._cluster.brokers, count)
        topics = [{"name": TOPIC, "partitions": [{"partition_index": partition, "replicas": wanted}]}]

        def question(connections: Connections) -> object:
            message = {"timeout_ms": WITHIN_MS, "topics": topics}
            answer = connections.ask(connections.any_broker(), ALTER_REASSIGNMENTS, 0, message)
            return [name_of(one.error_code) for topic in answer.responses for one in topic.partitions]

        self._ask(f"move {partition} to {wanted}:", question)

    def elect(self, kind: int) -> None:
        topics = [{"topic": TOPIC, "partitions": list(range(PARTITIONS))}]

        def question(connections: Connections) -> object:
            message = {"election_type": kind, "topic_partitions": topics, "timeout_ms": WITHIN_MS}
            answer = connections.ask(connections.any_broker(), ELECT_LEADERS, 2, message)
            return [name_of(one.error_code) for topic in answer.replica_election_results for one in topic.partition_result]

        self._ask("recover:" if kind == UNCLEAN else "elect:", question)

    def delete_records(self, partition: int, size: int) -> None:
        """Delete what is before an acknowledged record."""
        known = [one for one in self._history.acknowledged if one.partition == partition and one.base_offset >= 0]
        if not known:
            return
        offset = known[len(known) * size // 1_000].base_offset
        self._history.deletions.append(Deletion(partition, offset, is_answered=False))
        topics = [{"name": TOPIC, "partitions": [{"partition_index": partition, "offset": offset}]}]

        def question(connections: Connections) -> object:
            leader = connections.leader(partition)
            if leader is None:
                return "no leader"
            answer = connections.ask(leader, DELETE_RECORDS, 2, {"topics": topics, "timeout_ms": WITHIN_MS})
            code = answer.topics[0].partitions[0].error_code
            if not code:
                self._history.deletions.append(Deletion(partition, offset, is_answered=True))
            return name_of(code)

        self._ask(f"delete {partition} before {offset}:", question)


def name_of(code: int) -> str:
    return ErrorCode(code).name


def create_topic(connections: Connections, name: str, partitions: int, config: Mapping[str, str]) -> ErrorCode | None:
    """Create a topic with `REPLICAS` replicas of each partition. Return what was answered; None: nothing."""
    configs = [{"name": key, "value": value} for key, value in config.items()]
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": REPLICAS,
        "assignments": [],
        "configs": configs,
    }
    message = {"topics": [topic], "timeout_ms": WITHIN_MS, "validate_only": False}
    return _answered(connections, CREATE_TOPICS, 7, message, lambda answer: answer.topics[0].error_code)


def delete_topic(connections: Connections, name: str) -> ErrorCode | None:
    message = {"topic_names": [name], "timeout_ms": WITHIN_MS}
    return _answered(connections, DELETE_TOPICS, 5, message, lambda answer: answer.responses[0].error_code)


def _answered(
    connections: Connections, api_key: int, version: int, message: Mapping[str, Any], code_of: Callable[[Any], int]
) -> ErrorCode | None:
    try:
        return ErrorCode(code_of(connections.ask(connections.any_broker(), api_key, version, message)))
    except Unanswered:
        return None
