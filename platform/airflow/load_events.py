"""`load_events`: every topic of the offline cluster that has something new into the warehouse, in one Spark application.

    load >> count >> publish >> settled >> announce >> announced

Each step can be repeated at any time; Airflow retries only the one that was killed. A topic's fault stops no other topic and no
later step; it is named in the step's log, and the run ends as failed. Where nothing is new, no JVM starts. Runs of any dates, as
of a backfill, load what is new and nothing twice.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import dag

from .places import Places
from .publish import COMMON, _cron, chained, publishing
from .steps import step


def load_events_dag(
    dag_id: str = "load_events",
    *,
    schedule: str | None = "*/10 * * * *",
    places: Places | None = None,
    pool: str = "default_pool",
    **words: Any,
) -> Any:
    """Return the DAG.

    `schedule`: cron, UTC. `places`: Connections and the Variable; None: the worker's environment. `pool`: of every task; give one
    of a single slot, and two of these DAGs do not run JVMs at once. `words`: of Airflow's `DAG`.
    """
    places = places or Places()

    @dag(dag_id=dag_id, **{**COMMON, "schedule": _cron(schedule), "doc_md": __doc__, **words})
    def events() -> None:
        load = step("load", places, timeout=timedelta(hours=2), pool=pool)
        chained([load, *publishing(places, pool=pool)])

    return events()
