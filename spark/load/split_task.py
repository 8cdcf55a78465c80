"""What a Spark task of a load does: reads splits and writes their rows as files. The rows never leave its process; Spark brings
the task to its machine, repeats it where that dies, and carries its answer back.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..source.offset_ranges import OffsetRange
from ..source.split_source import SplitSource
from ..source.task_reports import TaskReport
from ..warehouse.store import StorePath, below
from .hour_writer import HourWriter

ANSWER = "answer"
"""The one column of a task's answer."""
ANSWER_TYPE = f"{ANSWER} string"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsDone:
    """A task's answer."""

    reports: tuple[TaskReport, ...]
    """One for each split."""
    files: tuple[str, ...]
    """Paths inside the folder; those of an attempt that was repeated are named by nobody."""

    def as_json(self) -> str:
        return json.dumps({"reports": [one.as_json() for one in self.reports], "files": self.files})

    @classmethod
    def of_json(cls, text: str) -> "SplitsDone":
        words = json.loads(text)
        return cls(reports=tuple(map(TaskReport.of_json, words["reports"])), files=tuple(words["files"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTask:
    """Called by Spark with numbers of tasks; goes to the executors as it is."""

    source: SplitSource
    target: pa.Schema
    groups: Sequence[Sequence[OffsetRange]]
    """The splits of each task."""
    folder: StorePath
    """Of the warehouse: a task writes there directly."""
    hours: frozenset[int] | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({ANSWER: [self.run(self.groups[number]).as_json()]})

    def run(self, splits: Sequence[OffsetRange]) -> SplitsDone:
        """Read the splits to their ends and write their files."""
        reports: list[TaskReport] = []
        name = f"part-{splits[0].partition}-{splits[0].from_offset}"
        writer = HourWriter(self.folder, self.target, name=name, hours=self.hours)
        try:
            for split in splits:
                for rows in self.source.rows(split, self.target, on_report=reports.append, wants_digest=True):
                    writer.add(rows)
            files = writer.finish()
        except BaseException:
            writer.abandon()
            raise
        return SplitsDone(reports=tuple(reports), files=tuple(below(path, self.folder) for path in files))
