"""`compact`: small files of closed hours merged, then snapshots expired and what none names deleted, over all tables.

    merge >> expire

Without a JVM. Rows, proofs and the audit's records stay as they are; loads and publishes may run beside it. A killed step is
retried; what it had committed stays. A table's fault stops no other, and the run ends as failed.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import dag

from .places import Places
from .publish import COMMON, _cron, chained
from .steps import command


def compact_dag(
    dag_id: str = "compact",
    *,
    schedule: str | None = "20 * * * *",
    places: Places | None = None,
    pool: str = "default_pool",
    **words: Any,
) -> Any:
    """Return the DAG; `words` are of Airflow's `DAG`. Settings are the tables' own properties (docs/WAREHOUSE.md)."""
    places = places or Places()

    @dag(dag_id=dag_id, **{**COMMON, "schedule": _cron(schedule), "doc_md": __doc__, **words})
    def compaction() -> None:
        hours = timedelta(hours=2)
        merge = command("merge", "headrace compact --all --step merge", places, timeout=hours, pool=pool)
        expire = command(
            "expire", "headrace compact --all --step expire", places, timeout=hours, pool=pool, trigger_rule="all_done"
        )
        chained([merge, expire])

    return compaction()
