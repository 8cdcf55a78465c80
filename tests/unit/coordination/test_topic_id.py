"""Ids of topics: the same for the same node, another for every other."""

import base64

from headrace.coordination.topic_id import topic_id


def test_an_id_is_the_same_whenever_it_is_asked_for_and_another_for_each_node() -> None:
    made = {
        (name, zxid, created_ms): topic_id(name, created_zxid=zxid, created_ms=created_ms)
        for name in ("clicks", "views")
        for zxid in (1, 2, 0x1_0000_0001)
        for created_ms in (1_800_000_000_000, 1_800_000_000_001)
    }
    assert len(set(made.values())) == len(made)
    for (name, zxid, created_ms), one in made.items():
        assert topic_id(name, created_zxid=zxid, created_ms=created_ms) == one


def test_no_id_reads_as_a_flag_on_a_command_line_nor_is_one_of_kafkas_own() -> None:
    ids = [topic_id("clicks", created_zxid=zxid, created_ms=0) for zxid in range(2_000)]
    assert not any(base64.urlsafe_b64encode(one.bytes).startswith((b"-", b"_")) for one in ids)
    assert min(one.int for one in ids) > 1
