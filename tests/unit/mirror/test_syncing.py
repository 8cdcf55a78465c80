"""Which settings are copied, and where a group's offset leads by the ledger: against a walk over single records."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.client.topic_admin import TopicSettingInForce
from headrace.mirror.engine import Engine
from headrace.mirror.syncing.topic_settings import EXCLUDE, Wanted, wanted
from headrace.mirror.syncing.translation import in_entry
from headrace.mirror.topics.naming import patterns
from headrace.wire.mirror_ledger import CopiedBatch, LedgerEntry


def setting(name: str, value: str | None, source: str = "topic") -> TopicSettingInForce:
    return TopicSettingInForce(name=name, value=value, source=source)


def asked(source: list[TopicSettingInForce], destination: list[TopicSettingInForce], engine: Engine) -> Wanted:
    return wanted(source, destination, destination_engine=engine, exclude=patterns(EXCLUDE))


def test_own_settings_that_differ_are_copied_and_what_the_destination_does_not_know_is_named() -> None:
    source = [
        setting("retention.bytes", "1000"),
        setting("segment.bytes", "5", source="broker"),
        setting("flush.ms", "7"),
        setting("headrace.special", "1"),
        setting("min.insync.replicas", "2"),
        setting("secret", None),
    ]
    there = [setting("retention.bytes", "-1", "default"), setting("flush.ms", "7"), setting("min.insync.replicas", "1")]
    assert asked(source, there, Engine.HEADRACE) == Wanted({"retention.bytes": "1000"}, ["headrace.special"], [])


def test_towards_kafka_what_a_copy_needs_stays_and_is_named() -> None:
    source = [setting("retention.ms", "1000"), setting("cleanup.policy", "compact"), setting("retention.bytes", "9")]
    there = [setting("retention.ms", "-1"), setting("cleanup.policy", "delete"), setting("retention.bytes", "-1", "default")]
    assert asked(source, there, Engine.KAFKA) == Wanted({"retention.bytes": "9"}, [], ["retention.ms", "cleanup.policy"])
    assert asked(source, there, Engine.HEADRACE).to_set["retention.ms"] == "1000"


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.booleans()), min_size=1, max_size=6), st.integers(0, 40))
def test_an_offset_leads_to_the_first_record_that_is_not_before_it(shapes: list[tuple[int, int, bool]], offset: int) -> None:
    batches, records, source, destination = [], [], 0, 100
    for count, hole, has_deltas in shapes:
        deltas = tuple(range(0, count * 2, 2)) if has_deltas else None
        batches.append(CopiedBatch(source, (deltas[-1] if deltas else count - 1) + 1, count, destination, 0, deltas))
        records += [(source + (deltas[index] if deltas else index), destination + index) for index in range(count)]
        source, destination = batches[-1].source_next + hole, destination + count + hole
    entry = LedgerEntry(topic="t", partition=0, destination_topic="t", from_offset=0, to_offset=source, batches=tuple(batches))
    expected = next((there for here, there in records if here >= offset), None)
    assert in_entry(entry, offset) == expected
