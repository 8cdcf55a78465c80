"""Airflow on one machine: its processes, its metadata database and the runs of its DAGs."""
