"""What a run read and wrote, in values of our own, and as OpenLineage names it. Pure; the client is imported where it is needed.

Names follow OpenLineage's naming specification: a topic is `kafka://<host>:<port>` and its name, a table is its storage and
its path. Branch `main`, which every reader gets, has the table's own name; another branch is a dataset of its own.

    facet `headrace_completeness` (`completeness_facet.json`)    which hours a publish proved, on the dataset it published to
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset, OutputDataset

MAIN = "main"
COMPLETENESS = "headrace_completeness"
COMPLETENESS_SCHEMA = "urn:headrace:schema:completeness-facet:1#/$defs/HeadraceCompletenessDatasetFacet"
MAX_HOURS = 1_000
"""The most hours of one facet, the newest; `more` counts the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDataset:
    """A topic that a run read."""

    bootstrap: str
    """`host:port`, or several with commas: the first one names the cluster."""
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HourFact:
    """One proven hour, from its proof."""

    hour: str
    """`2015-05-17T10`, in UTC."""
    verdict: str
    revision: int
    row_count: int
    missing: int = 0
    doubled: int = 0
    altered: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDataset:
    """A branch of a table that a run read or wrote. The counts are what this run added; None: it wrote nothing."""

    location: str
    """URI of the table's folder."""
    branch: str
    snapshot_id: int | None = None
    row_count: int | None = None
    size_bytes: int | None = None
    file_count: int | None = None
    topic: str = ""
    hours: Sequence[HourFact] | None = None
    """None: this run says nothing about completeness."""


def name_of(one: TopicDataset | TableDataset) -> tuple[str, str]:
    """Return OpenLineage's namespace and name."""
    if isinstance(one, TopicDataset):
        return f"kafka://{one.bootstrap.partition(',')[0].strip()}", one.topic
    parts = urlsplit(one.location)
    namespace = f"{parts.scheme}://{parts.netloc}" if parts.netloc else parts.scheme or "file"
    path = parts.path if not parts.netloc else parts.path.lstrip("/")
    return namespace, path if one.branch == MAIN else f"{path}@{one.branch}"


def as_input(one: TopicDataset | TableDataset) -> "InputDataset":
    """Return the dataset as an input of a run."""
    from openlineage.client.event_v2 import InputDataset

    namespace, name = name_of(one)
    return InputDataset(namespace=namespace, name=name, facets=_version(one))


def as_output(one: TableDataset) -> "OutputDataset":
    """Return the dataset as an output of a run, with rows, bytes, files and the proven hours."""
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import output_statistics_output_dataset

    namespace, name = name_of(one)
    facets = _version(one)
    if one.hours is not None:
        facets[COMPLETENESS] = _completeness(one.topic, one.hours)
    written = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=one.row_count, size=one.size_bytes, fileCount=one.file_count
    )
    counts: dict[str, Any] = {} if one.row_count is None else {"outputStatistics": written}
    return OutputDataset(namespace=namespace, name=name, facets=facets, outputFacets=counts)


def _version(one: TopicDataset | TableDataset) -> dict[str, Any]:
    from openlineage.client.facet_v2 import dataset_version_dataset

    if isinstance(one, TopicDataset) or one.snapshot_id is None:
        return {}
    return {"version": dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(one.snapshot_id))}


def _completeness(topic: str, hours: Sequence[HourFact]) -> Any:
    import attr
    from openlineage.client.generated.base import DatasetFacet

    @attr.define(kw_only=True)
    class HeadraceCompletenessDatasetFacet(DatasetFacet):
        topic: str
        hours: list[dict[str, Any]]
        more: int

        @staticmethod
        def _get_schema() -> str:
            return COMPLETENESS_SCHEMA

    newest = sorted(hours, key=lambda one: one.hour)[-MAX_HOURS:]
    words = [
        {
            "hour": one.hour,
            "verdict": one.verdict,
            "missing": one.missing,
            "doubled": one.doubled,
            "altered": one.altered,
            "rowCount": one.row_count,
            "proofRevision": one.revision,
        }
        for one in newest
    ]
    return HeadraceCompletenessDatasetFacet(topic=topic, hours=words, more=len(hours) - len(newest))
