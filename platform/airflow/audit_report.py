"""`audit_report`: what the audit says of each interval's windows; the run fails if records are missing, doubled or altered.

One run an interval (a day, unless the schedule is another), so a backfill by a range of dates reports those days.
"""

from datetime import timedelta
from typing import Any

from airflow.sdk import CronDataIntervalTimetable, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from .places import Places
from .publish import COMMON
from .steps import RETRIED, of_this_task

ALARMS = ("INCOMPLETE", "ALTERED", "DOUBLED", "UNKNOWN")
MOST_NAMED = 20


def audit_report_dag(
    dag_id: str = "audit_report",
    *,
    schedule: str = "0 3 * * *",
    places: Places | None = None,
    pool: str = "default_pool",
    **words: Any,
) -> Any:
    """Return the DAG. `schedule`: cron, UTC; each run reports the interval from the tick before to its own."""
    places = places or Places()

    @task(**RETRIED, execution_timeout=timedelta(minutes=10), pool=pool)
    def report() -> dict[str, dict[str, int]]:
        """Return topic → verdict → windows of the run's interval."""
        from ..audit.client import completeness
        from ..runtime.layout import Layout

        context: Any = get_current_context()
        begin, end = (context[name] for name in ("data_interval_start", "data_interval_end"))
        with of_this_task(places):
            url = Layout.from_environment().audit_url
        windows = completeness(url, from_ms=int(begin.timestamp() * 1000), to_ms=int(end.timestamp() * 1000))
        counts, alarms = counted(windows)
        print(f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}: {len(windows)} windows")  # noqa: T201
        for topic, verdicts in sorted(counts.items()):
            print(f"{topic}: " + ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))  # noqa: T201
        if alarms:
            named = "; ".join(alarms[:MOST_NAMED]) + (
                "" if len(alarms) <= MOST_NAMED else f"; and {len(alarms) - MOST_NAMED} more"
            )
            raise AirflowFailException(f"{len(alarms)} windows are not as they should be: {named}")
        return counts

    timetable = CronDataIntervalTimetable(schedule, timezone="UTC")

    @dag(dag_id=dag_id, **{**COMMON, "schedule": timetable, "doc_md": __doc__, **words})
    def audit() -> None:
        report()

    return audit()


def counted(windows: list[dict[str, Any]]) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Return topic → verdict → windows, and the windows that need attention, in words."""
    counts: dict[str, dict[str, int]] = {}
    alarms = []
    for one in windows:
        mine = counts.setdefault(one["topic"], {})
        mine[one["verdict"]] = mine.get(one["verdict"], 0) + 1
        if one["verdict"] in ALARMS:
            alarms.append(f"{one['topic']} at {one['window_start_ms']} is {one['verdict']}")
    return counts, alarms
