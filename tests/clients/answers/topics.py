"""Sequences about topics: Metadata, CreateTopics, CreatePartitions, DeleteTopics."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from tests.clients.answers.sequence import Step, about
from tests.clients.answers.side import CREATE_TOPICS, METADATA, Side

DELETE_TOPICS, CREATE_PARTITIONS = 20, 37
BAD_NAMES = ("", ".", "..", "a b", "a/b", "é", "x" * 250, "a\x00b")


def wanted(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    """Return one topic of a CreateTopics request."""
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, "assignments": [], "configs": []} | more


def created(*topics: dict[str, Any], validate_only: bool = False, timeout_ms: int = 10_000) -> dict[str, Any]:
    """Return a CreateTopics request."""
    return {"topics": topics, "timeout_ms": timeout_ms, "validate_only": validate_only}


def placed(**brokers: list[int]) -> list[dict[str, Any]]:
    """Return assignments by hand: p0=[1], p1=[1]."""
    return [{"partition_index": int(name[1:]), "broker_ids": ids} for name, ids in brokers.items()]


@about(METADATA)
def metadata(side: Side, version: int, own: str) -> Iterator[Step]:
    side.make(f"{own}-three", 3)

    def of(*names: str, may_create: bool = False) -> Any:
        topics = [{"name": name, "topic_id": None} for name in names]
        message = {"topics": topics, "allow_auto_topic_creation": may_create}
        return side.ask(METADATA, version, message | dict.fromkeys(_OPERATIONS, False))

    yield "one known", of(f"{own}-three")
    if version >= 4:
        yield "unknown, not to be made", of(f"{own}-nothing")
        yield "one twice", of(f"{own}-three", f"{own}-three")
    if version >= 1:
        yield "no topics", of()
    yield "invalid names", of(*BAD_NAMES)
    yield "invalid names that may be made", of(*BAD_NAMES, may_create=True)
    if version >= 8:
        message = {"topics": [{"name": f"{own}-three", "topic_id": None}], "allow_auto_topic_creation": False}
        yield "with operations", side.ask(METADATA, version, message | dict.fromkeys(_OPERATIONS, True))
    if version >= 12:
        nobodys = {"topics": [{"name": None, "topic_id": UUID(int=7)}], "allow_auto_topic_creation": False}
        yield "by an id nobody has", side.ask(METADATA, version, nobodys | dict.fromkeys(_OPERATIONS, False))
    made = side.until(lambda: of(f"{own}-new", may_create=True), lambda seen: seen.get(f"topics[{own}-new].error_code") == "none")
    yield "made on first use", made


_OPERATIONS = ("include_cluster_authorized_operations", "include_topic_authorized_operations")


@about(CREATE_TOPICS)
def create_topics(side: Side, version: int, own: str) -> Iterator[Step]:
    def ask(*topics: dict[str, Any], **words: Any) -> Any:
        return side.ask(CREATE_TOPICS, version, created(*topics, **words))

    yield "none", ask()
    yield "one", ask(wanted(f"{own}-one", 2))
    yield "it exists", ask(wanted(f"{own}-one", 2))
    yield "it exists, only validated", ask(wanted(f"{own}-one", 2), validate_only=True)
    yield "only validated", ask(wanted(f"{own}-not", 2), validate_only=True)
    yield "validated and then made", ask(wanted(f"{own}-not", 2))
    yield "bad names", ask(*(wanted(name) for name in BAD_NAMES))
    yield "bad names, only validated", ask(*(wanted(name) for name in BAD_NAMES), validate_only=True)
    yield "collides no more with itself", ask(wanted(f"{own}.a_b"), wanted(f"{own}_a.b"))
    yield "collides", ask(wanted(f"{own}_a_b"))
    yield "named twice", ask(wanted(f"{own}-twice"), wanted(f"{own}-twice"))
    yield "named twice, beside another", ask(wanted(f"{own}-twice"), wanted(f"{own}-once"), wanted(f"{own}-twice", 3))
    for partitions in (0, -1, -2, 10_001, 2**31 - 1):
        yield f"{partitions} partitions", ask(wanted(f"{own}-p{partitions}", partitions), validate_only=True)
    for replicas in (0, -1, -2, 2, 32767):
        yield f"{replicas} replicas", ask(wanted(f"{own}-r{replicas}", 1, replicas), validate_only=True)
    yield "both by default", ask(wanted(f"{own}-default", -1, -1))
    for name, topic in {
        "placed": wanted(f"{own}-placed", -1, -1, assignments=placed(p0=[1], p1=[1])),
        "placed, with numbers": wanted(f"{own}-placed2", 2, 1, assignments=placed(p0=[1], p1=[1])),
        "placed, with partitions": wanted(f"{own}-placed2", 2, -1, assignments=placed(p0=[1], p1=[1])),
        "placed, with replicas": wanted(f"{own}-placed2", -1, 1, assignments=placed(p0=[1], p1=[1])),
        "placed with a hole": wanted(f"{own}-placed3", -1, -1, assignments=placed(p0=[1], p2=[1])),
        "placed from 1": wanted(f"{own}-placed3", -1, -1, assignments=placed(p1=[1])),
        "placed below 0": wanted(f"{own}-placed3", -1, -1, assignments=[{"partition_index": -1, "broker_ids": [1]}]),
        "placed twice": wanted(f"{own}-placed4", -1, -1, assignments=placed(p0=[1]) + placed(p0=[1])),
        "placed on nobody": wanted(f"{own}-placed5", -1, -1, assignments=placed(p0=[])),
        "placed on a stranger": wanted(f"{own}-placed6", -1, -1, assignments=placed(p0=[77])),
        "placed below no broker": wanted(f"{own}-placed6", -1, -1, assignments=placed(p0=[-1])),
        "placed on one twice": wanted(f"{own}-placed7", -1, -1, assignments=placed(p0=[1, 1])),
        "placed unevenly": wanted(f"{own}-placed8", -1, -1, assignments=placed(p0=[1], p1=[1, 77])),
    }.items():
        yield name, ask(topic)
    for name, key, value in (
        ("setting", "retention.ms", "1000"),
        ("setting with spaces", "retention.ms", " 1000 "),
        ("setting with a plus", "retention.ms", "+1000"),
        ("setting out of range", "retention.ms", "-2"),
        ("setting not a number", "retention.ms", "soon"),
        ("setting empty", "retention.ms", ""),
        ("setting null", "retention.ms", None),
        ("setting too long", "retention.ms", "9" * 30),
        ("segment too small", "segment.bytes", "13"),
        ("segment of 14", "segment.bytes", "14"),
        ("segment of 1 MiB", "segment.bytes", "1048576"),
        ("segment.ms 0", "segment.ms", "0"),
        ("flush.messages 0", "flush.messages", "0"),
        ("flush.messages 1", "flush.messages", "1"),
        ("flush.ms 0", "flush.ms", "0"),
        ("flush.ms below 0", "flush.ms", "-1"),
        ("max.message.bytes 0", "max.message.bytes", "0"),
        ("max.message.bytes 60", "max.message.bytes", "60"),
        ("max.message.bytes below 0", "max.message.bytes", "-1"),
        ("policy", "cleanup.policy", "delete"),
        ("policy twice", "cleanup.policy", "delete,delete"),
        ("policy unknown", "cleanup.policy", "burn"),
        ("policy empty", "cleanup.policy", ""),
        ("compaction", "cleanup.policy", "compact"),
        ("time type", "message.timestamp.type", "LogAppendTime"),
        ("time type in lower case", "message.timestamp.type", "logappendtime"),
        ("boolean in capitals", "preallocate", "FALSE"),
        ("boolean that is none", "preallocate", "no"),
        ("compression", "compression.type", "producer"),
        ("compression unknown", "compression.type", "rar"),
        ("replicas in sync 1", "min.insync.replicas", "1"),
        ("replicas in sync 0", "min.insync.replicas", "0"),
        ("unknown setting", "no.such", "1"),
        ("nameless setting", "", "1"),
    ):
        yield name, ask(wanted(f"{own}-s", configs=[{"name": key, "value": value}]), validate_only=True)
    twice = [{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]
    yield "setting twice", ask(wanted(f"{own}-s", configs=twice), validate_only=True)
    yield "time over", ask(wanted(f"{own}-late"), timeout_ms=-1)
    yield "several faults", ask(wanted("a b", 0, 9, configs=[{"name": "no.such", "value": "1"}]))
    faulty = [{"name": "no.such", "value": "1"}]
    yield "partitions and setting", ask(wanted(f"{own}-f", 0, configs=faulty), wanted(f"{own}-g", 1, 9, configs=faulty))
    yield "too many together", ask(*(wanted(f"{own}-many{at}", 4_000) for at in range(3)), validate_only=True)


@about(CREATE_PARTITIONS)
def create_partitions(side: Side, version: int, own: str) -> Iterator[Step]:
    side.make(f"{own}-a", 2)
    side.make(f"{own}-b", 1)

    def topic(name: str, count: int, places: list[list[int]] | None = None) -> dict[str, Any]:
        return {"name": name, "count": count, "assignments": None if places is None else [{"broker_ids": one} for one in places]}

    def ask(*topics: dict[str, Any], validate_only: bool = False, timeout_ms: int = 10_000) -> Any:
        message = {"topics": topics, "timeout_ms": timeout_ms, "validate_only": validate_only}
        return side.ask(CREATE_PARTITIONS, version, message)

    yield "none", ask()
    yield "unknown", ask(topic(f"{own}-nothing", 3))
    yield "bad names", ask(*(topic(name, 3) for name in BAD_NAMES))
    for count in (2, 1, 0, -1, 10_001, 2**31 - 1):
        yield f"to {count}", ask(topic(f"{own}-a", count), validate_only=True)
    yield "only validated", ask(topic(f"{own}-a", 3), validate_only=True)
    yield "one more", ask(topic(f"{own}-a", 3))
    yield "named twice", ask(topic(f"{own}-a", 4), topic(f"{own}-a", 5), topic(f"{own}-b", 2))
    yield "placed", ask(topic(f"{own}-b", 4, [[1], [1]]))
    for name, places in {
        "placed, too few": [[1]],
        "placed, too many": [[1], [1], [1]],
        "placed, none": [],
        "placed on a stranger": [[1], [77]],
        "placed on nobody": [[1], []],
        "placed on one twice": [[1, 1], [1]],
        "placed on two": [[1, 77], [1]],
    }.items():
        yield name, ask(topic(f"{own}-b", 6, places))


@about(DELETE_TOPICS)
def delete_topics(side: Side, version: int, own: str) -> Iterator[Step]:
    for name in ("a", "b", "c"):
        side.make(f"{own}-{name}")

    def ask(*names: str, timeout_ms: int = 10_000) -> Any:
        topics = [{"name": name, "topic_id": None} for name in names]
        return side.ask(DELETE_TOPICS, version, {"topic_names": names, "topics": topics, "timeout_ms": timeout_ms})

    yield "none", ask()
    yield "unknown", ask(f"{own}-nothing")
    yield "bad names", ask(*BAD_NAMES)
    yield "one", ask(f"{own}-a")
    yield "it is gone", ask(f"{own}-a")
    yield "named twice", ask(f"{own}-b", f"{own}-b")
    if version >= 6:
        nobodys = {"name": None, "topic_id": UUID(int=7)}
        yield "by an id nobody has", side.ask(DELETE_TOPICS, version, {"topics": [nobodys], "timeout_ms": 10_000})
    yield "known and unknown", ask(f"{own}-c", f"{own}-nothing")
    gone = {"topics": [{"name": f"{own}-c", "topic_id": None}], "allow_auto_topic_creation": False}
    yield (
        "what is seen then",
        side.until(lambda: side.ask(METADATA, 5, gone), lambda seen: "none" not in seen[f"topics[{own}-c].error_code"]),
    )
