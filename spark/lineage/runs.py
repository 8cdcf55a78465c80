"""One run of a job as OpenLineage tells it: START, then COMPLETE with what was written, or FAIL with the reason.

    with observed_run("publish", topic, inputs=[...]) as run:
        ...
        run.wrote(lambda: TableDataset(...))

Never fails the work inside, and delays its end by at most `emitter.CLOSE_MS`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...runtime.logs import get_logger
from .datasets import TableDataset, TopicDataset, as_input, as_output
from .emitter import Emitter, is_configured

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

log = get_logger(__name__)

PRODUCER = "urn:headrace:warehouse"
NAMESPACE = "headrace"
"""The jobs' namespace, unless OPENLINEAGE_NAMESPACE names another."""

Output = Callable[[], TableDataset]


class ObservedRun:
    """Collects what a run wrote."""

    def __init__(self) -> None:
        self.outputs: list[Output] = []

    def wrote(self, output: Output) -> None:
        """Add an output. It is asked for only if something is sent; what it raises costs the event and not the run."""
        self.outputs.append(output)


@contextmanager
def observed_run(job: str, topic: str, *, inputs: Sequence[TopicDataset | TableDataset]) -> Iterator[ObservedRun]:
    """Yield the run whose outputs the caller adds; what the caller raises is raised again after FAIL."""
    run = ObservedRun()
    events = _Events.of(job, topic, inputs)
    if events is None:
        yield run
        return
    events.tell("START", [])
    try:
        yield run
    except BaseException as error:
        events.tell("FAIL", run.outputs, error)
        raise
    else:
        events.tell("COMPLETE", run.outputs)
    finally:
        events.close()


class _Events:
    """The events of one run."""

    def __init__(self, job: str, topic: str, inputs: Sequence[TopicDataset | TableDataset]) -> None:
        from openlineage.client.uuid import generate_new_uuid

        self._job = f"{job}.{topic}"
        self._inputs = inputs
        self._run_id = str(generate_new_uuid())
        self._emitter = Emitter()

    @classmethod
    def of(cls, job: str, topic: str, inputs: Sequence[TopicDataset | TableDataset]) -> "_Events | None":
        """Return None if nothing is configured. A client that cannot be used is logged: the work continues without it."""
        if not is_configured():
            return None
        try:
            return cls(job, topic, inputs)
        except ImportError as error:
            log.warning("lineage_not_sent", reason=f"{error}: a transport is configured, so install headrace[lineage]")
        except Exception as error:
            log.warning("lineage_not_sent", reason=f"{type(error).__name__}: {error}")
        return None

    def tell(self, kind: str, outputs: Sequence[Output], error: BaseException | None = None) -> None:
        """Queue one event. An event that cannot be made is logged and not sent: the work continues."""
        try:
            self._emitter.emit(self._event(kind, outputs, error))
        except Exception as reason:
            log.warning("lineage_not_sent", event=kind, reason=f"{type(reason).__name__}: {reason}")

    def close(self) -> None:
        self._emitter.close()

    def _event(self, kind: str, outputs: Sequence[Output], error: BaseException | None) -> "RunEvent":
        from openlineage.client.event_v2 import Job, Run, RunEvent, RunState, set_producer
        from openlineage.client.facet_v2 import error_message_run, job_type_job

        set_producer(PRODUCER)
        run_facets: dict[str, Any] = {}
        if error is not None:
            message = f"{type(error).__name__}: {error}"
            run_facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message=message, programmingLanguage="PYTHON")
        job_type = job_type_job.JobTypeJobFacet(processingType="BATCH", integration="HEADRACE", jobType="JOB")
        return RunEvent(
            eventType=RunState[kind],
            eventTime=datetime.now(UTC).isoformat(),
            run=Run(runId=self._run_id, facets=run_facets),
            job=Job(namespace=os.environ.get("OPENLINEAGE_NAMESPACE") or NAMESPACE, name=self._job, facets={"jobType": job_type}),
            inputs=[as_input(one) for one in self._inputs],
            outputs=[as_output(one()) for one in outputs],
            producer=PRODUCER,
        )
