"""When the warehouse loads: every ten minutes, each topic of the offline cluster, one run at a time.

How it loads is `headrace load`.

Load, count and publish are three tasks, so that a kill of one is retried alone; each may be run again at any moment.
"""

from datetime import timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import CronTriggerTimetable, dag, task, task_group


@task(retries=5, retry_delay=timedelta(seconds=3), execution_timeout=timedelta(minutes=2))
def topics() -> list[str]:
    """The offline cluster's topics of events, as they are now."""
    from headrace.spark.offline_topics import loadable_topics

    return loadable_topics()


def step(name: str, topic: str, *, timeout: timedelta) -> BashOperator:
    """One step of `headrace load`; `exec` makes the task's own process the one that a kill meets."""
    return BashOperator(
        task_id=name,
        bash_command=f'exec headrace load "$TOPIC" --step {name}',
        env={"TOPIC": topic},
        append_env=True,
        retries=5,
        retry_delay=timedelta(seconds=3),
        execution_timeout=timeout,
        max_active_tis_per_dag=1,
    )


@dag(
    # No start date: a fresh platform waits for the next tick instead of making up for the last one.
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
        load >> count >> publish

    events.expand(topic=topics())


load_events()
