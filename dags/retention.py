"""Drops hours that are past the age in `<warehouse>/retention.toml`, at night; off without it (`headrace.airflow.retention`)."""

from headrace.airflow import retention_dag

retention_dag()
