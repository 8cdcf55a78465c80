"""`retention`: hours that are past the age in `<warehouse>/retention.toml` are dropped. Without that file nothing is.

One task over all tables. Dropped hours are noted in the table and count as expired, never as missing; their files are deleted by
`compact`, once no snapshot names them.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import dag

from .places import Places
from .publish import COMMON, _cron, chained
from .steps import command


def retention_dag(
    dag_id: str = "retention",
    *,
    schedule: str | None = "40 2 * * *",
    places: Places | None = None,
    pool: str = "default_pool",
    dry_run: bool = False,
    **words: Any,
) -> Any:
    """Return the DAG; `words` are of Airflow's `DAG`. `dry_run`: the log says what would be dropped, and nothing is."""
    places = places or Places()

    @dag(dag_id=dag_id, **{**COMMON, "schedule": _cron(schedule), "doc_md": __doc__, **words})
    def retain() -> None:
        line = f"headrace retention --all {'--dry-run' if dry_run else '--apply'}"
        chained([command("retention", line, places, timeout=timedelta(hours=2), pool=pool)])

    return retain()
