"""What a Spark task of a load does: reads splits and writes their rows as files. The rows never leave its process; Spark brings
the task to its machine, repeats it where that dies, and carries its answers back.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ..source.offset_ranges import OffsetRange
from ..source.split_source import SplitSource
from ..source.task_reports import TaskReport
from ..warehouse.store import StorePath, below
from .hour_writer import FileCheck, HourWriter

ANSWER = "answer"
"""The one column of a task's answers."""
ANSWER_TYPE = f"{ANSWER} string"
MOST_WORDS = 2_000
"""The most characters of a fault that is sent to the driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitsDone:
    """What became of one group of a topic's splits."""

    topic: str = ""
    reports: tuple[TaskReport, ...]
    """One for each split."""
    files: tuple[str, ...]
    """Paths inside the folder; files of a repeated attempt are not named."""
    checks: tuple[FileCheck, ...] = ()
    """Of these files."""
    fault: str = ""
    """Why the group could not be read and written; empty: it was."""

    def as_json(self) -> str:
        words = {
            "topic": self.topic,
            "reports": [one.as_json() for one in self.reports],
            "files": self.files,
            "checks": self.checks,
            "fault": self.fault,
        }
        return json.dumps(words)

    @classmethod
    def of_json(cls, text: str) -> "SplitsDone":
        words = json.loads(text)
        return cls(
            topic=words["topic"],
            reports=tuple(map(TaskReport.of_json, words["reports"])),
            files=tuple(words["files"]),
            checks=tuple(FileCheck(*one) for one in words["checks"]),
            fault=words["fault"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTask:
    """The splits of one topic; goes to the executors as it is."""

    source: SplitSource
    target: pa.Schema
    groups: Sequence[Sequence[OffsetRange]]
    """Splits that are read by the same task, one after another."""
    folder: StorePath
    """Of the warehouse: a task writes there directly."""
    hours: frozenset[int] | None

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
        return SplitsDone(
            topic=self.source.topic,
            reports=tuple(reports),
            files=tuple(below(path, self.folder) for path in files),
            checks=tuple(writer.checks[path] for path in files),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsTask:
    """Called by Spark with numbers of tasks: groups of one topic, or of many, whose splits share a Spark job."""

    topics: Sequence[SplitTask]
    shares: Sequence[Sequence[tuple[int, int]]]
    """For each task the groups that it reads: which of `topics`, and which of its groups."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for topic, group in self.shares[number]:
                    yield pa.RecordBatch.from_pydict({ANSWER: [self.run(topic, group).as_json()]})

    def run(self, topic: int, group: int) -> SplitsDone:
        """Read one group. Where several topics share the job, a topic's fault is its answer, and the others continue; a job of
        one topic fails by it, so that Spark repeats the task if it may.
        """
        task = self.topics[topic]
        try:
            return task.run(task.groups[group])
        except Exception as error:  # whatever a topic's records, schemas or files make of it
            if len(self.topics) == 1:
                raise
            words = f"{type(error).__name__}: {error}"[:MOST_WORDS]
            return SplitsDone(topic=task.source.topic, reports=(), files=(), fault=words)
