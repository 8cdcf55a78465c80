"""`publish`: counts what the warehouse holds, opens the hours that are proven, and tells Airflow of each, as a partition.

    count >> publish >> settled >> announce >> announced

`settled` waits, without a worker's slot, for hours that the audit is about to decide on, and publishes them. Each published hour
is emitted as a partition of the topic's asset `headrace://warehouse/<topic>`, with the hour in UTC as its key: `2015-05-17T10`.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, CronTriggerTimetable, chain, dag, get_current_context, task

from .places import Places
from .steps import RETRIED, at_fault, fail_on_faults, of_this_task, step

SETTLED_EVERY = timedelta(seconds=5)
SETTLED_WITHIN = timedelta(minutes=2)
"""Afterwards the next run publishes what is decided then."""


def publishing(places: Places, *, pool: str) -> list[Any]:
    """Return the tasks in their order, inside a DAG that is being defined."""
    goes_on: dict[str, Any] = {**RETRIED, "trigger_rule": "all_done", "pool": pool}

    @task(**goes_on, execution_timeout=timedelta(minutes=30))
    def publish() -> list[str]:
        """Publish what is proven of every table, and return the topics of which more may be decided soon."""
        from ..runtime.layout import Layout
        from ..spark.publish.all_tables import publish_all

        with of_this_task(places):
            done = publish_all(Layout.from_environment(), wait_ms=0)
        get_current_context()["ti"].xcom_push(key="waiting", value=(waiting := _waiting(done.results)))
        fail_on_faults(done.faults)
        return waiting

    @task.sensor(
        **goes_on, mode="reschedule", soft_fail=True,
        poke_interval=SETTLED_EVERY.total_seconds(), timeout=SETTLED_WITHIN.total_seconds(),
    )  # fmt: skip
    def settled() -> bool:
        """Publish the topics that wait, until none does. Between two looks the task has no slot and no process."""
        from ..runtime.layout import Layout
        from ..spark.publish.all_tables import publish_all

        waiting = get_current_context()["ti"].xcom_pull(task_ids="publish", key="waiting") or []
        if not waiting:
            return True
        with of_this_task(places):
            done = publish_all(Layout.from_environment(), wait_ms=0, topics=waiting)
        return not _waiting(done.results)

    @task(**goes_on, execution_timeout=timedelta(minutes=10))
    def announce() -> dict[str, dict[str, int]]:
        """Emit a partition for each published hour (and each new revision of one) that was not emitted yet; return them."""
        from ..runtime.layout import Layout
        from ..spark.publish.announcements import all_hours_to_announce
        from ..spark.warehouse.settings import WarehouseSettings
        from ..spark.warehouse.warehouse import Warehouse

        with of_this_task(places):
            found = all_hours_to_announce(Warehouse(WarehouseSettings.of(Layout.from_environment())))
        context = get_current_context()
        for topic, revisions in found.items():
            asset = Asset(f"headrace://warehouse/{topic}")
            # Added only now: an outlet in the DAG's text would be an event in every run, without a partition.
            context["task"].outlets.append(asset)
            context["outlet_events"][asset].add_partitions(list(revisions))
            context["outlet_events"][asset].extra = {"revisions": dict[str, Any](revisions)}
        return found

    @task(**RETRIED, execution_timeout=timedelta(minutes=10), pool=pool)
    def announced(found: Any) -> None:
        """Store that Airflow has these hours. A task of its own: Airflow stores a task's partitions once it has succeeded."""
        from ..runtime.layout import Layout
        from ..spark.publish.announcements import set_announced
        from ..spark.warehouse.settings import WarehouseSettings
        from ..spark.warehouse.warehouse import Warehouse

        with of_this_task(places):
            warehouse = Warehouse(WarehouseSettings.of(Layout.from_environment()))
            for topic, revisions in found.items():
                set_announced(warehouse, topic, revisions)

    emitted = announce()
    return [
        step("count", places, timeout=timedelta(hours=1), trigger_rule="all_done", pool=pool),
        publish(),
        settled(),
        emitted,
        announced(emitted),
    ]


def _waiting(results: Any) -> list[str]:
    return sorted(topic for topic, one in results.items() if one.may_change_soon)


def chained(tasks: list[Any]) -> None:
    """Have the tasks follow each other, and the run fail if one of them did."""
    chain(*tasks)
    fault = at_fault()
    for one in tasks:
        one >> fault


def publish_dag(
    dag_id: str = "publish",
    *,
    schedule: str | None = "5,35 * * * *",
    places: Places | None = None,
    pool: str = "default_pool",
    **words: Any,
) -> Any:
    """Return the DAG; `words` are of Airflow's `DAG`. For hours that are proven later than they are loaded."""
    places = places or Places()

    @dag(dag_id=dag_id, **{**COMMON, "schedule": _cron(schedule), "doc_md": __doc__, **words})
    def publish_events() -> None:
        chained(publishing(places, pool=pool))

    return publish_events()


COMMON: dict[str, Any] = {"catchup": False, "max_active_runs": 1, "tags": ["headrace"]}


def _cron(schedule: str | None) -> Any:
    # Without a start date, a new platform waits for the next tick and does not run the last one.
    return None if schedule is None else CronTriggerTimetable(schedule, timezone="UTC", run_immediately=False)
