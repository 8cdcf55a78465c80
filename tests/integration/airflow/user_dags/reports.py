"""A report as a user makes it: by a Connection of Airflow's own, a run a day, and only when it is asked for dates."""

from headrace.airflow import Places, audit_report_dag

audit_report_dag("audit_by_connection", schedule="0 0 * * *", places=Places(audit_conn_id="audit_of_test"))
