"""One topic's part of a write: its splits and columns, the Spark tasks that read them, and what their answers make together."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from ...runtime import logs
from ...schema_registry.client.registry_client import RegistryClient
from ..errors import LoadUnproven, TopicFailed
from ..source import task_reports
from ..source.columns import SYSTEM_COLUMNS
from ..source.log_density import bytes_per_offset
from ..source.offset_ranges import OffsetRange, packed, split_ranges
from ..source.split_source import SplitSource
from ..source.subject_schemas import event_columns, schemas_by_id, subject_schemas
from ..warehouse.store import StorePath, files_under, remove_folder
from .hour_writer import FileCheck
from .settings import LoadSettings
from .split_task import SplitsDone, SplitTask

log = logs.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What is in a folder now."""

    columns: pa.Schema
    """The event columns."""
    files: list[StorePath]
    checks: Mapping[StorePath, FileCheck] = field(default_factory=dict)
    """What the tasks say of the files that they wrote."""
    total: task_reports.Total
    """What the tasks read: of all hours."""


class Reading:
    """The ranges of one topic, and the folder that their rows go to."""

    def __init__(
        self,
        settings: LoadSettings,
        columns: pa.Schema,
        ranges: Sequence[OffsetRange],
        folder: StorePath,
        *,
        hours: Collection[int] | None = None,
        density: int | None = None,
    ) -> None:
        """`columns`: the table's event columns, to which those of the topic's schemas are added. `hours`: rows of others are read
        and not written. `density`: bytes of an offset; None: the cluster is asked. Raises RegistryError, ClientError.
        """
        self.topic = settings.topic
        self.folder = folder
        self._settings = settings
        self._hours = None if hours is None else frozenset(hours)
        self._registry = RegistryClient(settings.registry_url)
        self._columns = event_columns(columns, subject_schemas(self._registry, self.topic).values())
        density = density or bytes_per_offset(settings.bootstrap, self.topic, ranges)
        self._splits = split_ranges(ranges, splits=settings.splits, max_span=settings.max_split_span, bytes_per_offset=density)
        self._groups = packed(self._splits, tasks=settings.splits, bytes_per_offset=density)
        self.group_bytes = [density * sum(one.span for one in group) for group in self._groups]
        """About how much each group reads."""
        self._number = 0

    def task(self) -> SplitTask:
        """Return the task of this reading; after `again`, of the next one."""
        settings = self._settings
        return SplitTask(
            source=SplitSource(
                bootstrap=settings.bootstrap,
                topic=self.topic,
                registry=settings.registry_url,
                quarantine=settings.quarantine_bootstrap,
                client_config=None,
                cluster="offline",
            ),
            target=pa.schema([*self._columns, *SYSTEM_COLUMNS]),
            groups=self._groups,
            folder=self._target,
            hours=self._hours,
        )

    def written(self, done: Sequence[SplitsDone]) -> Written | None:
        """Return what the answers make together; None if the splits have to be read again, with further columns.

        Raises TopicFailed, LoadUnproven, RegistryError.
        """
        fault = next((one.fault for one in done if one.fault), "")
        if fault:
            raise TopicFailed(self.topic, fault)
        reports = [report for one in done for report in one.reports]
        if sorted(report.split for report in reports) != sorted(self._splits):
            raise LoadUnproven(self.topic, f"{len(self._splits)} splits were to be read, and {len(reports)} are reported")
        total = task_reports.total_of(reports)
        if not total.missing_schema_ids:
            files = sorted(self._target / path for one in done for path in one.files)
            self._check_here(files)
            _delete_others(self._target, set(files))
            checks = {self._target / path: check for one in done for path, check in zip(one.files, one.checks, strict=False)}
            return Written(columns=self._columns, files=files, checks=checks, total=total)
        wider = event_columns(self._columns, schemas_by_id(self._registry, total.missing_schema_ids).values())
        log.info("load_reads_again", topic=self.topic, schema_ids=sorted(total.missing_schema_ids))
        if wider == self._columns:
            raise LoadUnproven(self.topic, f"schemas {sorted(total.missing_schema_ids)} ask for columns that they do not name")
        self._columns = wider
        remove_folder(self._target)
        self._number += 1
        return None

    def _check_here(self, files: Sequence[StorePath]) -> None:
        """Raise LoadUnproven if tasks wrote into a folder of another machine."""
        gone = next((path for path in files if isinstance(path, Path) and not path.exists()), None)
        if gone is not None:
            reason = (
                f"a task has written {gone}, and it is not on this machine: executors elsewhere want a warehouse that all reach"
            )
            raise LoadUnproven(self.topic, f"{reason}, as in HEADRACE_WAREHOUSE=s3://bucket/prefix (docs/WAREHOUSE.md)")

    @property
    def _target(self) -> StorePath:
        return self.folder / f"rows-{self._number}"


def _delete_others(folder: StorePath, files: Collection[StorePath]) -> None:
    """Delete what attempts have left that did not come to their end, or that were repeated."""
    for path in files_under(folder):
        if path not in files:
            path.unlink()
