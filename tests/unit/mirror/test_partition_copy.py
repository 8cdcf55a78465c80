"""The mirror's judgement: what is fetched, appended, counted and skipped, whatever fails in between."""

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.mirror import partition_copy
from headrace.mirror.partition_copy import Ends, GapKind, PartitionCopy, Phase, TailComparison
from tests.unit.mirror.world import Log, World, header


def ends(source: tuple[int, int], destination: tuple[int, int]) -> Ends:
    return Ends(source_start=source[0], source_end=source[1], destination_start=destination[0], destination_end=destination[1])


def resumed(
    source: tuple[int, int],
    destination: tuple[int, int],
    counted_to: int | None,
    comparison: TailComparison = TailComparison.SAME,
) -> PartitionCopy:
    return partition_copy.resumed(PartitionCopy(), ends(source, destination), comparison, counted_to=counted_to, now_ms=0)


def world_of(sizes: list[int]) -> World:
    world = World()
    for number, size in enumerate(sizes):
        world.source.append(size, number)
    return world


def test_copying_goes_on_where_the_destination_ends() -> None:
    copy = resumed((0, 900), (0, 400), counted_to=400)
    assert copy.phase is Phase.COPYING
    assert copy.fetch_offset == 400
    assert copy.lag_bytes == 500


def test_what_the_destination_holds_and_nobody_counted_is_fetched_again_and_only_counted() -> None:
    copy = resumed((0, 900), (0, 400), counted_to=100)
    assert copy.fetch_offset == 100
    plan = partition_copy.after_fetch(
        copy, [header(100, 200), header(300, 100), header(400, 70)], log_start_offset=0, high_watermark=900, now_ms=0
    )
    assert (plan.count_only, plan.append_end) == (2, 3)
    assert (plan.copy.counted_to, plan.copy.sent_to) == (400, 470)


def test_a_mirror_that_never_reported_counts_all_that_the_destination_holds() -> None:
    assert resumed((0, 900), (50, 400), counted_to=None).fetch_offset == 50


def test_a_copy_that_was_deleted_is_counted_from_its_beginning_whatever_was_reported_of_the_one_before() -> None:
    """Fault: of a topic created again and copied again nothing was reported below the offset where the earlier one's reports
    ended.
    """
    assert resumed((0, 900), (0, 0), counted_to=400, comparison=TailComparison.UNKNOWN).counted_to == 0
    assert resumed((70, 900), (0, 0), counted_to=400, comparison=TailComparison.UNKNOWN).skip_to == 70
    assert resumed((0, 900), (400, 400), counted_to=400, comparison=TailComparison.UNKNOWN).counted_to == 400
    assert resumed((0, 900), (0, 300), counted_to=400).counted_to == 400  # its tail was lost in a crash: it is counted already


def test_a_source_that_ends_before_the_destination_is_an_error_and_nothing_is_fetched() -> None:
    copy = resumed((0, 300), (0, 400), counted_to=400)
    assert copy.phase is Phase.SOURCE_BEHIND
    assert "lost its tail" in (copy.trouble or "")
    assert not partition_copy.is_due_to_fetch(copy, 1_000_000)
    assert not partition_copy.is_due_to_resume(copy, partition_copy.RECHECK_MS - 1)
    assert partition_copy.is_due_to_resume(copy, partition_copy.RECHECK_MS)


def test_another_batch_at_the_compared_tail_is_an_error() -> None:
    copy = resumed((0, 900), (0, 400), counted_to=400, comparison=TailComparison.DIFFERENT)
    assert copy.phase is Phase.DIVERGED


def test_no_advice_begins_with_deleting_the_copy() -> None:
    """Fault: after live had lost its tail, the advice was to delete the only copy of acknowledged records."""
    behind = resumed((0, 300), (0, 400), counted_to=400).trouble or ""
    other = resumed((0, 900), (0, 400), counted_to=400, comparison=TailComparison.DIFFERENT).trouble or ""
    assert "keep the copy" in behind
    assert "delete" not in behind
    assert 0 < other.find("keep the copy") < other.find("delete")


def test_a_batch_across_the_destinations_end_is_an_error() -> None:
    copy = resumed((0, 900), (0, 400), counted_to=300)
    straddling = partition_copy.after_fetch(copy, [header(300, 200)], log_start_offset=0, high_watermark=900, now_ms=0)
    assert straddling.copy.phase is Phase.DIVERGED
    begins_before = partition_copy.after_fetch(
        resumed((0, 900), (0, 400), 400), [header(350, 200)], log_start_offset=0, high_watermark=900, now_ms=0
    )
    assert begins_before.copy.phase is Phase.DIVERGED
    assert begins_before.append_end == straddling.append_end == 0


def test_what_expired_before_it_was_copied_is_a_gap_with_a_name_and_the_append_says_so() -> None:
    copy = resumed((700, 900), (0, 400), counted_to=400)
    assert copy.phase is Phase.SKIPPING
    copy, gap = partition_copy.skipped(copy)
    assert gap is not None
    assert (gap.kind, gap.from_offset, gap.to_offset) == (GapKind.EXPIRED, 400, 700)
    assert (copy.fetch_offset, copy.passed_over) == (700, 300)
    plan = partition_copy.after_fetch(
        copy, [header(700, 100), header(800, 100)], log_start_offset=700, high_watermark=900, now_ms=0
    )
    assert (plan.append_end, plan.conditional_start) == (2, 700)


def test_what_expired_after_it_was_copied_is_only_a_gap_in_the_count() -> None:
    copy = resumed((300, 900), (0, 400), counted_to=100)
    assert copy.phase is Phase.SKIPPING
    copy, gap = partition_copy.skipped(copy)
    assert gap is None
    assert (copy.fetch_offset, copy.passed_over) == (300, 0)


def test_a_source_that_starts_inside_of_a_batch_is_copied_from_where_that_batch_begins() -> None:
    copy, gap = partition_copy.skipped(resumed((750, 900), (0, 400), counted_to=400))
    assert gap is not None
    plan = partition_copy.after_fetch(
        copy, [header(700, 100), header(800, 100)], log_start_offset=750, high_watermark=900, now_ms=0
    )
    assert (plan.append_end, plan.conditional_start, plan.copy.sent_to) == (2, 700, 900)
    # What the destination holds already is only counted, the rest of that batch's records.
    copy, gap = partition_copy.skipped(resumed((150, 900), (0, 400), counted_to=100))
    assert gap is None
    plan = partition_copy.after_fetch(
        copy, [header(100, 200), header(300, 100)], log_start_offset=150, high_watermark=900, now_ms=0
    )
    assert (plan.count_only, plan.append_end, plan.copy.counted_to) == (2, 2, 400)


def test_a_gap_in_the_source_is_believed_at_the_third_look() -> None:
    copy = resumed((0, 900), (0, 400), counted_to=400)
    for look in range(partition_copy.LOOKS_AT_A_GAP):
        assert partition_copy.is_due_to_fetch(copy, 10_000 * (look + 1))
        plan = partition_copy.after_fetch(
            copy, [header(600, 100)], log_start_offset=0, high_watermark=900, now_ms=10_000 * (look + 1)
        )
        copy = plan.copy
        is_last = look == partition_copy.LOOKS_AT_A_GAP - 1
        assert (plan.append_end == 1) == is_last
    assert plan.gap is not None
    assert (plan.gap.kind, plan.gap.from_offset, plan.gap.to_offset) == (GapKind.UNREADABLE, 400, 600)
    assert plan.conditional_start == 600
    assert copy.passed_over == 200


def test_a_gap_that_closes_again_is_forgotten() -> None:
    copy = resumed((0, 900), (0, 400), counted_to=400)
    copy = partition_copy.after_fetch(copy, [header(600, 100)], log_start_offset=0, high_watermark=900, now_ms=0).copy
    plan = partition_copy.after_fetch(copy, [header(400, 200)], log_start_offset=0, high_watermark=900, now_ms=9_000)
    assert plan.gap is None
    assert plan.append_end == 1
    assert plan.copy.looks_at_gap == 0


def test_batches_behind_a_gap_inside_one_answer_wait_for_their_own_look() -> None:
    copy = resumed((0, 900), (0, 400), counted_to=400)
    plan = partition_copy.after_fetch(
        copy, [header(400, 100), header(700, 100)], log_start_offset=0, high_watermark=900, now_ms=0
    )
    assert (plan.append_end, plan.copy.sent_to) == (1, 500)


def test_one_append_is_bounded_but_a_large_batch_goes_alone() -> None:
    half = partition_copy.MOST_APPEND_BYTES // 2
    headers = [header(index * half, half) for index in range(4)]
    copy = resumed((0, 4 * half), (0, 0), counted_to=0)
    assert partition_copy.after_fetch(copy, headers, log_start_offset=0, high_watermark=4 * half, now_ms=0).append_end == 2
    giant = [header(0, 5 * half), header(5 * half, 10)]
    assert partition_copy.after_fetch(copy, giant, log_start_offset=0, high_watermark=6 * half, now_ms=0).append_end == 1


def test_waits_double_up_to_two_seconds_and_progress_begins_them_anew() -> None:
    copy, waits = resumed((0, 900), (0, 400), counted_to=400), []
    for _ in range(9):
        copy = partition_copy.troubled(copy, "no answer", 0)
        waits.append(copy.not_before_ms)
    assert waits == [50, 100, 200, 400, 800, 1_600, 2_000, 2_000, 2_000]
    assert partition_copy.acknowledged(copy, 500).attempt == 0
    assert partition_copy.acknowledged(copy, 500).trouble is None


def test_an_offset_beyond_the_source_makes_both_ends_be_asked_again() -> None:
    copy = partition_copy.out_of_range(resumed((0, 900), (0, 400), counted_to=400), 0, 0)
    assert copy.phase is Phase.RESUMING


def test_a_destination_that_lost_what_was_not_on_disk_is_filled_again_even_when_nothing_new_comes() -> None:
    copy = resumed((0, 400), (0, 400), counted_to=400)
    assert partition_copy.destination_seen(copy, 400, 0) == copy
    assert partition_copy.destination_seen(copy, 500, 0) == copy
    lost = partition_copy.destination_seen(copy, 300, 0)
    assert lost.phase is Phase.RESUMING
    again = partition_copy.resumed(lost, ends((0, 400), (0, 300)), TailComparison.SAME, counted_to=400, now_ms=0)
    assert again.fetch_offset == 300


def test_a_partition_is_copied_and_counted_once() -> None:
    world = world_of([100, 70, 300, 61, 5])
    for _ in range(10):
        world.turn(most=2)
    assert world.destination.batches == world.source.batches
    world.reporter.publish()
    assert world.reporter.told == world.source.batches


def test_a_destination_begins_where_an_old_source_begins() -> None:
    world = world_of([100, 70, 300, 61])
    world.source.expire(2)
    for _ in range(10):
        world.turn()
    assert world.destination.batches == world.source.batches
    assert world.destination.start == 170


def test_a_regrown_source_is_refused_and_its_destination_untouched() -> None:
    world = world_of([100, 100, 100])
    for _ in range(5):
        world.turn()
    kept = list(world.destination.batches)
    world.crash()
    world.source = Log()
    for crc in (0, 1, 77, 78, 79):
        world.source.append(100, crc)
    for _ in range(5):
        world.turn()
        assert world.copy.phase is Phase.DIVERGED
    assert world.destination.batches == kept


EVENTS = st.lists(
    st.sampled_from(
        [
            "turn",
            "turn",
            "turn",
            "answer lost",
            "request lost",
            "crash",
            "publish",
            "produce",
            "late arrival",
            "spoil",
            "power cut",
        ]
    ),
    max_size=60,
)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=12), EVENTS, st.randoms(use_true_random=False), st.integers(1, 5))
@example(
    [1], ["turn", "publish", "power cut", "crash"], random.Random(0), 1
)  # An emptied copy is reported again, and counts once.
@example([1], ["turn", "publish", "power cut"], random.Random(0), 1)
@settings(max_examples=200, deadline=None)
def test_whatever_is_lost_late_or_killed_each_batch_arrives_and_counts_once(sizes, events, rng, most) -> None:  # type: ignore[no-untyped-def]
    world = world_of(sizes)
    for event in events:
        match event:
            case "turn":
                world.turn(most=most)
            case "answer lost" | "request lost":
                world.turn(most=most, fate=lambda event=event: event)  # type: ignore[misc]
            case "crash":
                world.crash()
            case "publish":
                world.reporter.publish()
            case "produce":
                world.source.append(rng.randrange(1, 400), len(world.source.batches))
            case "late arrival":
                if world.late:
                    world.deliver(*rng.choice(world.late))
            case "power cut":
                world.destination.lose_last()
            case "spoil":
                ahead = [one.position for one in world.source.batches if one.position >= world.destination.end]
                if ahead:
                    world.source.unreadable.add(rng.choice(ahead))
    for _ in range(6 * len(world.source.batches) + 20):
        world.turn(most=most)
    world.reporter.publish()
    readable = [one for one in world.source.batches if one.position not in world.source.unreadable]
    # An unreadable end of the log is skipped once something readable follows it.
    assert [one for one in world.destination.batches if one in readable] == readable
    assert len(world.destination.batches) == len(set(world.destination.batches))
    told = [one for one in world.reporter.told if one in readable]
    assert told == readable
    assert world.copy.phase is Phase.COPYING


@given(st.lists(st.integers(1, 400), min_size=2, max_size=12), st.data())
@settings(max_examples=100, deadline=None)
def test_retention_that_overtakes_the_mirror_costs_only_what_expired(sizes, data) -> None:  # type: ignore[no-untyped-def]
    world = world_of(sizes)
    everything = list(world.source.batches)
    for _ in range(data.draw(st.integers(0, 4))):
        world.turn(most=1)
    if data.draw(st.booleans()):
        world.reporter.publish()
    if data.draw(st.booleans()):
        world.crash()
    world.source.expire(data.draw(st.integers(0, len(sizes) - 1)))
    copied_before = list(world.destination.batches)
    for _ in range(40):
        world.turn()
    world.reporter.publish()
    expected = copied_before + [one for one in world.source.batches if one not in copied_before]
    assert world.destination.batches == expected
    lost = [one for one in everything if one not in expected]
    assert sum(gap.to_offset - gap.from_offset for gap in world.gaps if gap.kind is GapKind.EXPIRED) == sum(
        one.size_bytes for one in lost
    )
