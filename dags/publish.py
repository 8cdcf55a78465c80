"""Publishes by hand what is proven by now, without a load (`headrace.airflow.publish`); `load_events` does so after each load."""

from headrace.airflow import publish_dag

publish_dag(schedule=None)
