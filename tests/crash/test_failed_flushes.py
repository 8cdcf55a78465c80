"""A failed flush, a restart of the broker on the same system, and then a power cut.

The system reported once the pages that it could not write, and keeps them as if they were on disk. Everything that the broker
answers after its start must hold anyway, including retries that it takes for duplicates.
"""

from pathlib import Path

import pytest

from headrace.broker.log import FolderFault, flush_mark
from headrace.broker.log.tools.check import check
from tests.crash.recorded_disk import RecordedDisk
from tests.crash.story import Story, cut_everywhere

SEED = 20_261_121


def begun(disk: RecordedDisk, segment_bytes: int, checkpoint: bool) -> Story:
    """Return a log with one batch on disk and four that are not, with or without a checkpoint."""
    story = Story(disk, segment_bytes=segment_bytes, flush_on_roll=False)
    story.append(idempotent=True)
    story.flush()
    for _ in range(4):
        story.append(idempotent=True)
    if checkpoint:
        story.checkpoint()
    return story


def forget_marks(patch: pytest.MonkeyPatch) -> None:
    """The process is killed in the call that fails: it leaves no mark."""
    patch.setattr(flush_mark, "leave", lambda folder: None)


@pytest.mark.parametrize("is_killed_in_it", [False, True])
@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("segment_bytes", [250, 10_000])
def test_what_a_failed_flush_was_about_is_on_disk_when_the_next_start_says_so(
    disk: RecordedDisk,
    scratch: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_killed_in_it: bool,
    checkpoint: bool,
    segment_bytes: int,
) -> None:
    if is_killed_in_it:
        forget_marks(monkeypatch)
    with disk:
        story = begun(disk, segment_bytes, checkpoint)
        story.append(idempotent=True)
        story.flush_in_vain()
        story.die_and_open()
        story.append(idempotent=True)
        story.flush()
        story.close()
    assert cut_everywhere(story, scratch, seed=SEED) > 50


@pytest.mark.parametrize("takes_last", [False, True])
@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("segment_bytes", [250, 10_000])
def test_what_the_system_has_let_go_of_after_a_failed_flush_is_no_duplicate(
    disk: RecordedDisk, scratch: Path, takes_last: bool, checkpoint: bool, segment_bytes: int
) -> None:
    with disk:
        story = begun(disk, segment_bytes, checkpoint)
        story.flush_in_vain(takes_last=takes_last)
        disk.evict()
        story.die_and_open_on_what_is_left()
        story.append()
        story.flush()
    assert cut_everywhere(story, scratch, seed=SEED) > 30


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_log_that_waits_for_no_disk_at_its_start_does_after_a_failed_flush(
    disk: RecordedDisk, scratch: Path, checkpoint: bool
) -> None:
    with disk:
        story = Story(disk, segment_bytes=250, flush_on_roll=False, flush_at_open=False)
        story.append()
        story.flush()
        for number in range(6):
            story.append(idempotent=True)
            if checkpoint and number == 4:
                story.checkpoint()
        story.flush_in_vain()
        assert (story.folder / flush_mark.NAME).exists()
        assert [problem for problem in check(story.folder) if not problem.kind.is_harmless] == []
        story.die_and_open()
        assert not (story.folder / flush_mark.NAME).exists()
        assert story.log.flushed_offset == story.log.log_end_offset
        story.append()
        story.flush()
        story.close()
        story.open()
    assert cut_everywhere(story, scratch, seed=SEED) > 50


def test_a_start_whose_own_flush_fails_refuses_and_the_one_after_it_does_not_take_its_word(
    disk: RecordedDisk, scratch: Path
) -> None:
    with disk:
        story = Story(disk, segment_bytes=250, flush_on_roll=False)
        for number in range(5):
            story.append(idempotent=True)
            if number == 2:
                story.checkpoint()
        disk.failing_syncs = 1
        with pytest.raises(FolderFault, match="Input/output error"):
            story.die_and_open()
        story.die_and_open()
        story.append(idempotent=True)
        story.flush()
    assert cut_everywhere(story, scratch, seed=SEED) > 30


def test_a_log_that_was_made_without_waiting_for_the_disk_is_entered_by_the_first_start_that_waits(
    disk: RecordedDisk, scratch: Path
) -> None:
    with disk:
        story = Story(disk, flush_at_open=False)
        story.append()
        story.wait_for_the_disk_from_now_on()
        story.die_and_open()
        story.append()
        story.flush()
    assert cut_everywhere(story, scratch, seed=SEED) > 10
