"""What a Spark task of a load does: reads a split and writes its rows as files. The rows never leave its process; Spark brings
the task to its machine, repeats it where that dies, and carries its answer back.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ..source.offset_ranges import OffsetRange
from ..source.split_source import SplitSource
from ..source.task_reports import TaskReport
from .hour_writer import HourWriter

ANSWER = "answer"
"""The one column of a task's answer."""
ANSWER_TYPE = f"{ANSWER} string"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitDone:
    """A split's answer."""

    report: TaskReport
    files: tuple[str, ...]
    """Paths; those of an attempt that was repeated are named by nobody."""

    def as_json(self) -> str:
        return json.dumps({"report": self.report.as_json(), "files": self.files})

    @classmethod
    def of_json(cls, text: str) -> "SplitDone":
        words = json.loads(text)
        return cls(report=TaskReport.of_json(words["report"]), files=tuple(words["files"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTask:
    """Called by Spark with numbers of splits; goes to the executors as it is."""

    source: SplitSource
    target: pa.Schema
    splits: Sequence[OffsetRange]
    folder: str
    hours: frozenset[int] | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({ANSWER: [self.run(self.splits[number]).as_json()]})

    def run(self, split: OffsetRange) -> SplitDone:
        """Read one split to its end and write its files."""
        reports: list[TaskReport] = []
        files = HourWriter(Path(self.folder), self.target, name=f"part-{split.partition}-{split.from_offset}", hours=self.hours)
        try:
            for rows in self.source.rows(split, self.target, on_report=reports.append, wants_digest=True):
                files.add(rows)
            written = files.finish()
        except BaseException:
            files.abandon()
            raise
        (report,) = reports
        return SplitDone(report=report, files=tuple(map(str, written)))
