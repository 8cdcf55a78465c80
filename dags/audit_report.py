"""Reports each day's windows as the audit judges them (`headrace.airflow.audit_report`)."""

from headrace.airflow import audit_report_dag

audit_report_dag()
