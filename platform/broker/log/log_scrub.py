"""The verification of a log after its start: one segment after the other, those without a sidecar first."""

from .errors import LogError
from .jobs.log_job import LogJob
from .jobs.segment_scrub import ScrubJob, SegmentScrub
from .log_name import LogName
from .segment.bad_range import BadRange
from .segment.segment import Segment
from .segments import Segments


class LogScrub:
    """Verifies one segment at a time."""

    __slots__ = ("_name", "_scrub", "_segments", "_unreadable")

    def __init__(self, name: LogName, segments: Segments) -> None:
        self._name = name
        self._segments = segments
        self._scrub: SegmentScrub | None = None
        self._unreadable: set[Segment] = set()

    def job(self) -> ScrubJob | None:
        """Return what verifies the next part, None when everything is verified that can be read."""
        if self._scrub is None:
            left = [segment for segment in self._segments.unverified if segment not in self._unreadable]
            if not left:
                return None
            self._scrub = SegmentScrub(left[0])
        return LogJob(self._scrub, done=self._done, failed=self._failed)

    def _done(self, scrub: SegmentScrub) -> list[BadRange]:
        """Return the damage that was found and was not known."""
        if scrub is not self._scrub:
            return []  # The segment was repaired meanwhile: what was found may be whole again.
        found = scrub.segment.verified(scrub)
        if scrub.is_finished:
            self._scrub = None
        return found

    def begin_again(self, segment: Segment) -> None:
        """The segment was repaired: verify it again from where it is verified."""
        if self._scrub is not None and self._scrub.segment is segment:
            self._scrub = None

    def _failed(self, scrub: SegmentScrub, error: OSError) -> LogError:
        """The segment cannot be read: it is left to its readers."""
        self._unreadable.add(scrub.segment)
        self._scrub = None
        return self._name.fault(error)
