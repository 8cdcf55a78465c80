"""Merges small files of the warehouse and forgets old snapshots, every hour (`headrace.airflow.compact`)."""

from headrace.airflow import compact_dag

compact_dag()
