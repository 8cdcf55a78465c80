"""Work that a killed process had begun and that its successor takes as done: it must hold after a later power cut."""

import os
import stat
from pathlib import Path

import pytest

from tests.crash.recorded_disk import RecordedDisk
from tests.crash.story import Story, cut_everywhere
from tests.support.small_logs import DAY_MS, NOW_MS

SEED = 20_261_121


class Killed(Exception):
    """The process ends here."""


def note_a_start_and_die(story: Story, offset: int) -> None:
    """Kill the process after the note has its name, and before the name is on disk."""

    sync = os.fsync

    def killed_at_a_folder(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise Killed
        sync(fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", killed_at_a_folder)
        with pytest.raises(Killed):
            story.advance_start(offset)


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("flush_at_open", [False, True])
def test_a_segment_that_was_begun_when_the_process_died_is_entered_before_anything_in_it_counts(
    disk: RecordedDisk, scratch: Path, checkpoint: bool, flush_at_open: bool
) -> None:
    with disk:
        story = Story(disk, segment_bytes=250, flush_on_roll=False, flush_at_open=flush_at_open)
        for _ in range(3):
            story.append(idempotent=True)
        story.flush()
        if checkpoint:
            story.checkpoint()
        assert story.log.expire_job(NOW_MS + 30 * DAY_MS) is not None, "it would run on another thread"
        story.die_and_open()
        story.append(idempotent=True)
        story.flush()
        story.append()
        story.flush()
    assert cut_everywhere(story, scratch, seed=SEED) > 20


@pytest.mark.parametrize("flush_at_open", [False, True])
def test_a_start_that_was_noted_when_the_process_died_is_durable_before_anybody_is_told(
    disk: RecordedDisk, scratch: Path, flush_at_open: bool
) -> None:
    with disk:
        story = Story(disk, segment_bytes=250, flush_on_roll=False, flush_at_open=flush_at_open)
        end = story.append().next_offset
        story.append()
        story.flush()
        story.checkpoint()
        note_a_start_and_die(story, end)
        story.die_and_open()
        assert story.log.log_start_offset == end
        story.advance_start(end)
        story.append()
        story.flush()
    assert cut_everywhere(story, scratch, seed=SEED) > 20


def test_a_start_whose_note_was_not_entered_is_not_taken_for_durable_when_it_is_asked_for_again(
    disk: RecordedDisk, scratch: Path
) -> None:
    with disk:
        story = Story(disk, segment_bytes=250, flush_on_roll=False)
        end = story.append().next_offset
        story.append()
        story.flush()
        note_a_start_and_die(story, end)
        story.advance_start(end)
        story.append()
        story.flush()
    assert cut_everywhere(story, scratch, seed=SEED) > 20
