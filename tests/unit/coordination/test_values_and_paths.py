"""Names that may be steps of a path, and values that may stand in a node."""

import pytest

from headrace.coordination import paths
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


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\x00b", "a\nb", "x" * 250, "\u200b"])
def test_a_group_name_that_would_bend_the_path_is_refused(name: str) -> None:
    with pytest.raises(InvalidName) as caught:
        paths.consumer(name, "c")
    assert caught.value.kind == "group"


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
