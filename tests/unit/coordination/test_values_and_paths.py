"""Names that may be steps of a path, and values that may be in a node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coordination import paths
from headrace.coordination.committed_offset import CommittedOffset
from headrace.coordination.errors import InvalidName, UnreadableNode
from headrace.coordination.producer_ids import ProducerIdBlocks
from headrace.coordination.values import decimal, json_bytes, read_decimal, read_json


def test_paths_are_the_papers_under_todays_names() -> None:
    assert paths.broker(3) == "/brokers/ids/3"
    assert paths.topic("clicks") == "/brokers/topics/clicks"
    assert paths.consumer("g", "c") == "/consumers/g/ids/c"
    assert paths.owner("g", "clicks", 2) == "/consumers/g/owners/clicks/2"
    assert paths.offset("g", "clicks", 2) == "/consumers/g/offsets/clicks/2"
    assert paths.position("consumer:request-rate", "clicks", 0) == "/audit/positions/consumer:request-rate/clicks/0"


@pytest.mark.parametrize("name", ["", "x" * 250])
def test_a_group_name_of_no_or_too_many_characters_is_refused(name: str) -> None:
    with pytest.raises(InvalidName) as caught:
        paths.consumer(name, "c")
    assert caught.value.kind == "group"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\x00b", "a\nb", "x" * 250, "\u200b"])
def test_a_consumer_id_that_would_bend_the_path_is_refused(name: str) -> None:
    with pytest.raises(InvalidName) as caught:
        paths.consumer("g", name)
    assert caught.value.kind == "consumer id"


@pytest.mark.parametrize(
    ("group", "step"),
    [
        ("billing-2", "billing-2"),
        ("größe 7", "größe 7"),
        ("team/billing", "team%2Fbilling"),
        ("100%", "100%25"),
        ("a%2Fb", "a%252Fb"),
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("a\nb\x00", "a%0Ab%00"),
        ("\u200b\ufffd", "%E2%80%8B%EF%BF%BD"),
    ],
)
def test_any_text_is_a_group_and_one_step_and_comes_back(group: str, step: str) -> None:
    assert paths.group_step(group) == step
    assert paths.group_of(step) == group


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_no_two_groups_share_a_step(group: str) -> None:
    step = paths.group_step(group)
    assert paths.group_of(step) == group
    assert "/" not in step
    assert step not in (".", "..")


# -- committed offsets -------------------------------------


@pytest.mark.parametrize(
    ("committed", "data"),
    [
        (CommittedOffset(1234), b"1234"),
        (CommittedOffset(0, 3), b'0 {"leader_epoch":3}'),
        (CommittedOffset(5, 0, "on ☃"), b'5 {"leader_epoch":0,"metadata":"on \\u2603"}'),
    ],
)
def test_notes_stand_behind_the_offset_in_the_same_node(committed: CommittedOffset, data: bytes) -> None:
    assert committed.to_bytes() == data
    assert CommittedOffset.read("/x", data) == committed


@pytest.mark.parametrize("data", [b"", b"x", b"-1", b" {}", b"1 x", b'1 {"metadata":3}', b'1 {"leader_epoch":"3"}', b"1  2"])
def test_what_is_no_offset_with_notes_is_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableNode):
        CommittedOffset.read("/x", data)


@given(st.integers(0, 2**63 - 1), st.integers(-1, 2**31 - 1), st.text(st.characters(exclude_categories=["Cs"])))
def test_every_committed_offset_is_read_as_it_was_written(offset: int, leader_epoch: int, metadata: str) -> None:
    committed = CommittedOffset(offset, leader_epoch, metadata)
    assert CommittedOffset.read("/x", committed.to_bytes()) == committed


def test_negative_numbers_are_no_partitions_and_no_brokers() -> None:
    with pytest.raises(InvalidName):
        paths.offset("g", "t", -1)
    with pytest.raises(InvalidName):
        paths.broker(-1)


@pytest.mark.parametrize("data", [b"", b"-1", b"1.5", b"x", b"9" * 20, b" 1", b"9223372036854775808"])
def test_what_is_no_offset_is_an_error_that_names_the_node(data: bytes) -> None:
    with pytest.raises(UnreadableNode, match="/consumers/g"):
        read_decimal("/consumers/g", data)


def test_offsets_go_there_and_back_up_to_the_largest() -> None:
    for value in (0, 1, 2**63 - 1):
        assert read_decimal("/x", decimal(value)) == value
    with pytest.raises(ValueError):
        decimal(2**63)


def test_json_is_an_object_or_an_error() -> None:
    assert read_json("/x", json_bytes({"b": 1, "a": 2})) == {"a": 2, "b": 1}
    assert json_bytes({"b": 1, "a": 2}) == json_bytes({"a": 2, "b": 1})
    for data in (b"[1]", b"{", b"\xff"):
        with pytest.raises(UnreadableNode):
            read_json("/x", data)


def test_a_prefix_that_does_not_fit_is_refused() -> None:
    for prefix in (0, -1, 1 << 15):
        with pytest.raises(ValueError):
            ProducerIdBlocks(None, prefix=prefix)  # type: ignore[arg-type]
