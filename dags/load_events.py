"""Loads all topics of the offline cluster into the warehouse every ten minutes (`headrace.airflow.load_events`)."""

from headrace.airflow import load_events_dag

load_events_dag()
