"""Loads each topic of the offline cluster into the warehouse every ten minutes, one run at a time.

Each task runs a step of `headrace load`. Load, count and publish are three tasks, so that Airflow retries only the one that
was killed. Each step can be repeated at any time.
"""

from datetime import timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import CronTriggerTimetable, dag, task, task_group


@task(retries=5, retry_delay=timedelta(seconds=3), execution_timeout=timedelta(minutes=2))
def topics() -> list[str]:
    """Return the topics of the offline cluster that can be loaded now."""
    from headrace.spark.load.offline_topics import loadable_topics

    return loadable_topics()


def step(name: str, topic: str, *, timeout: timedelta) -> BashOperator:
    """Return a task that runs one step of `headrace load`. `exec`: a kill of the task kills the step itself."""
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
        load >> count >> publish

    events.expand(topic=topics())


load_events()
