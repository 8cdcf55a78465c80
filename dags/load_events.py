"""Loads each topic of the offline cluster into the warehouse every ten minutes, one run at a time.

Each task runs a step of `headrace load`. Load, count and publish are three tasks, so that Airflow retries only the one that
was killed. Each step can be repeated at any time. Each published hour is then emitted as a partition of the topic's asset
`headrace://warehouse/<topic>`, with the hour in UTC as its key: `2015-05-17T10`. DAGs that are scheduled on it start.
"""

import os
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import Asset, CronTriggerTimetable, dag, get_current_context, task, task_group

RETRIED = {"retries": 5, "retry_delay": timedelta(seconds=3)}


@task(**RETRIED, execution_timeout=timedelta(minutes=2))
def topics() -> list[str]:
    """Return the topics of the offline cluster that can be loaded now."""
    from headrace.spark.load.airflow_connection import client_config
    from headrace.spark.load.offline_topics import loadable_topics

    with client_config() as variables:
        os.environ.update(variables)  # of this task's own process
        return loadable_topics()


class LoadStep(BashOperator):
    """A step of the load, with the client configuration of an Airflow Connection if `HEADRACE_KAFKA_CONN_ID` names one.

    It is added to the process's environment only when the task runs, as a path: rendered templates show neither.
    """

    def execute(self, context: Any) -> Any:
        from headrace.spark.load.airflow_connection import client_config

        with client_config() as self._client_config:
            return super().execute(context)

    def get_env(self, context: Any) -> dict[str, str]:
        return {**super().get_env(context), **self._client_config}


def step(name: str, topic: str, *, timeout: timedelta) -> BashOperator:
    """Return a task that runs one step of `headrace load`. `exec`: a kill of the task kills the step itself."""
    return LoadStep(
        task_id=name,
        bash_command=f'exec headrace load "$TOPIC" --step {name}',
        env={"TOPIC": topic},
        append_env=True,
        **RETRIED,
        execution_timeout=timeout,
        max_active_tis_per_dag=1,
    )


# One at a time: two tasks that emit the same hour of two topics at once can leave a DAG that waits for both with two
# half-filled runs, and it never starts (Airflow issue 71070).
@task(**RETRIED, execution_timeout=timedelta(minutes=5), max_active_tis_per_dag=1)
def announce(topic: str) -> dict[str, int]:
    """Emit a partition for each published hour (and each new revision of one) that was not emitted yet; return them."""
    from headrace.runtime.layout import Layout
    from headrace.spark.publish.announcements import hours_to_announce
    from headrace.spark.warehouse.settings import WarehouseSettings
    from headrace.spark.warehouse.warehouse import Warehouse

    revisions = hours_to_announce(Warehouse(WarehouseSettings.of(Layout.from_environment())), topic)
    if revisions:
        asset = Asset(f"headrace://warehouse/{topic}")
        context = get_current_context()
        # Added only now: an outlet in the DAG's text would be an event in every run, without a partition.
        context["task"].outlets.append(asset)
        context["outlet_events"][asset].add_partitions(list(revisions))
        context["outlet_events"][asset].extra = {"revisions": revisions}
    return revisions


@task(**RETRIED, execution_timeout=timedelta(minutes=5))
def announced(topic: str, revisions: dict[str, int]) -> None:
    """Store that Airflow has these hours. A task of its own: Airflow stores a task's partitions when the task has succeeded."""
    from headrace.runtime.layout import Layout
    from headrace.spark.publish.announcements import set_announced
    from headrace.spark.warehouse.settings import WarehouseSettings
    from headrace.spark.warehouse.warehouse import Warehouse

    if revisions:
        set_announced(Warehouse(WarehouseSettings.of(Layout.from_environment())), topic, revisions)


@dag(
    # Without a start date, a new platform waits for the next tick and does not run the last one.
    schedule=CronTriggerTimetable("*/10 * * * *", timezone="UTC", run_immediately=False),
    catchup=False,
    max_active_runs=1,
    tags=["headrace"],
    doc_md=__doc__,
)
def load_events() -> None:
    @task_group
    def events(topic: str) -> None:
        load = step("load", topic, timeout=timedelta(hours=2))
        count = step("count", topic, timeout=timedelta(minutes=30))
        publish = step("publish", topic, timeout=timedelta(minutes=10))
        revisions = announce(topic)
        load >> count >> publish >> revisions
        announced(topic, revisions)

    events.expand(topic=topics())


load_events()
