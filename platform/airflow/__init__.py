"""DAG factories for your own Airflow: `from headrace.airflow import load_events_dag`.

Inside this room `airflow` is Apache Airflow, by absolute imports. Parsing a DAG imports nothing of ours but this room: tables,
Arrow and clients are imported by the tasks that need them.
"""

from .audit_report import audit_report_dag
from .compact import compact_dag
from .load_events import load_events_dag
from .places import Places
from .publish import publish_dag
from .retention import retention_dag

__all__ = ["Places", "audit_report_dag", "compact_dag", "load_events_dag", "publish_dag", "retention_dag"]
