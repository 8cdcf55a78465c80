"""What of a fetch is copied, counted, left out or told, where offsets are dense."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.mirror.partition_copy import LOOKS_AT_A_GAP, GapKind, PartitionCopy, Phase
from headrace.mirror.restamped.plan import Plan, SourceRules, after_fetch
from headrace.wire.batch.record_batch import BatchHeader

DENSE = SourceRules(is_dense=True)
COMPACTED = SourceRules(is_dense=True, is_compacted=True)


def header(base: int, count: int = 10) -> BatchHeader:
    return BatchHeader(base, 500, 0, base, 0, count - 1, 0, 0, -1, -1, -1, count)


def copy_at(copied_to: int, counted_to: int | None = None, **other: int) -> PartitionCopy:
    counted = copied_to if counted_to is None else counted_to
    return PartitionCopy(phase=Phase.COPYING, copied_to=copied_to, sent_to=copied_to, counted_to=counted, **other)


def plan(
    copy: PartitionCopy,
    headers: list[BatchHeader],
    *,
    data: list[bool] | None = None,
    rules: SourceRules = DENSE,
    refused: dict[int, str] | None = None,
    start: int = 0,
) -> Plan:
    are_data = [True] * len(headers) if data is None else data
    return after_fetch(
        copy, headers, are_data, rules=rules, log_start_offset=start, source_end=1_000, refused=refused or {}, now_ms=0
    )


def test_batches_that_follow_are_one_portion() -> None:
    found = plan(copy_at(20), [header(20), header(30)])
    assert (found.copied, found.to_offset, found.count_only, found.gap) == ((0, 1), 40, 0, None)


def test_markers_and_aborted_batches_move_the_position_and_are_not_copied() -> None:
    found = plan(copy_at(0), [header(0), header(10, 1), header(11)], data=[False, False, True])
    assert (found.copied, found.to_offset) == ((2,), 21)
    only_markers = plan(copy_at(0), [header(0, 1)], data=[False])
    assert (only_markers.copied, only_markers.to_offset) == ((), 1)


def test_what_the_ledger_has_and_nobody_counted_is_only_counted() -> None:
    found = plan(copy_at(20, counted_to=0), [header(0), header(10), header(20)])
    assert (found.count_only, found.copied, found.to_offset) == (2, (2,), 30)
    assert found.copy.counted_to == 20


def test_a_batch_that_the_destination_refuses_ends_its_portion() -> None:
    found = plan(copy_at(0), [header(0), header(10), header(20)], refused={10: "too large"})
    assert (found.copied, found.refused, found.to_offset) == ((0,), (1,), 20)


def test_holes_of_a_compacted_topic_are_no_gap() -> None:
    found = plan(copy_at(0), [header(5), header(40)], rules=COMPACTED)
    assert (found.copied, found.to_offset, found.gap) == ((0, 1), 50, None)


def test_a_hole_elsewhere_is_a_gap_once_it_was_seen_several_times() -> None:
    copy = copy_at(0)
    for _ in range(LOOKS_AT_A_GAP - 1):
        found = plan(copy, [header(5)])
        assert found.to_offset == 0
        assert found.gap is None
        copy = found.copy
    found = plan(copy, [header(5)])
    assert found.gap is not None
    assert (found.gap.kind, found.gap.from_offset, found.gap.to_offset) == (GapKind.UNREADABLE, 0, 5)
    assert (found.copied, found.to_offset) == ((0,), 15)


def test_a_hole_behind_the_first_batch_ends_the_portion_in_front_of_it() -> None:
    found = plan(copy_at(0), [header(0), header(50)])
    assert (found.copied, found.to_offset, found.gap) == ((0,), 10, None)


def test_a_hole_below_the_logs_start_is_retention() -> None:
    found = plan(copy_at(0, looks_at_gap=LOOKS_AT_A_GAP - 1), [header(30)], start=30)
    assert (found.copy.phase, found.copy.skip_to, found.to_offset) == (Phase.SKIPPING, 30, 0)


def test_a_batch_across_the_ledgers_end_is_another_log() -> None:
    assert plan(copy_at(5, counted_to=0), [header(0)]).copy.phase is Phase.DIVERGED


@given(counts=st.lists(st.integers(1, 9), min_size=1, max_size=30), data=st.data())
def test_portions_one_after_another_name_every_batch_once(counts: list[int], data: st.DataObject) -> None:
    headers, base = [], 0
    for count in counts:
        headers.append(header(base, count))
        base += count
    refused = {one.base_offset: "no" for one in headers if data.draw(st.booleans())}
    copy, copied, left_out = copy_at(0), list[int](), list[int]()
    for _ in range(2 * len(headers) + 1):
        rest = [one for one in headers if one.next_offset > copy.fetch_offset]
        if not rest:
            break
        some = rest[: data.draw(st.integers(1, len(rest)))]
        found = plan(copy, some, refused=refused)
        copied += [some[index].base_offset for index in found.copied]
        left_out += [some[index].base_offset for index in found.refused]
        copy = copy_at(found.to_offset)
    assert copied == [one.base_offset for one in headers if one.base_offset not in refused]
    assert left_out == sorted(refused)
