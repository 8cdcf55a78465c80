"""The end of an agent: an operator's word that it, and what its sources still hold, will report nothing more."""

from pathlib import Path

from ...audit.publisher import retire as retire_run
from ...client.connection.cluster import Cluster
from ...client.producer.producer import Producer
from ...sdk.journal.enrolment import leave
from ..settings import AgentSettings
from ..state.store import Store

TIMEOUT_MS = 30_000


def retire(settings: AgentSettings, *, by: str, reason: str) -> list[str]:
    """Return the runs that are retired, once the audit topic holds it; applications no longer count on the agent.

    Raises StateRefused while the agent runs, ReportNotSent. An agent that is started again speaks again, and its retirement is
    void.
    """
    store = Store(Path(settings.state))
    try:
        runs = [run for run in store.runs() if run.announced_ids >= 0 or run.next_sequence]
        cluster = Cluster(settings.brokers, client_id=f"headrace-agent-{settings.name}")
        producer = Producer(cluster, linger_ms=0)
        try:
            for run in runs:
                retire_run(producer, run.facts.instance, [run.epoch], by=by, reason=reason, timeout_ms=TIMEOUT_MS)
        finally:
            producer.close(1_000)
            cluster.close()
    finally:
        store.close()
    if settings.journals is not None:
        leave(Path(settings.journals.root), settings.name)
    return [f"{run.facts.instance} (epoch {run.epoch})" for run in runs]
