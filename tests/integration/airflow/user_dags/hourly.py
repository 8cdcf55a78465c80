"""DAGs as users write them: they start when hours are published. Read by the Airflow of `test_load_events.py`."""

import json
import os
from pathlib import Path

from airflow.sdk import (
    Asset,
    DayWindow,
    MinimumCount,
    PartitionedAssetTimetable,
    RollupMapper,
    StartOfDayMapper,
    dag,
    get_current_context,
    task,
)

ORDERS = Asset("headrace://warehouse/orders")
RETURNS = Asset("headrace://warehouse/returns")


@task
def show() -> None:
    """Append the DAG, the hour and what Airflow was told of it to a file that the test reads."""
    context = get_current_context()
    events = [event for found in context["triggering_asset_events"].values() for event in found]
    words = [context["dag"].dag_id, context["dag_run"].partition_key, [event.extra for event in events]]
    with (Path(os.environ["HEADRACE_HOME"]) / "shown.jsonl").open("a") as file:
        file.write(json.dumps(words) + "\n")


@dag(schedule=PartitionedAssetTimetable(assets=ORDERS), catchup=False)
def each_hour() -> None:
    show()


@dag(schedule=PartitionedAssetTimetable(assets=ORDERS & RETURNS), catchup=False)
def each_hour_of_both() -> None:
    show()


DAY = RollupMapper(upstream_mapper=StartOfDayMapper(input_format="%Y-%m-%dT%H"), window=DayWindow(), wait_policy=MinimumCount(2))


@dag(schedule=PartitionedAssetTimetable(assets=ORDERS, default_partition_mapper=DAY), catchup=False)
def each_day() -> None:
    show()


each_hour()
each_hour_of_both()
each_day()
