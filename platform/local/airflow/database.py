"""How Airflow's processes open their SQLite metadata database. Their environment names it (`SQL_ALCHEMY_CONNECT_ARGS`)."""

CONNECT_ARGS = {"timeout": 60.0}
"""Seconds to wait for another writer. SQLite's default of 5 is too short for three Airflow processes on two busy cores:
requests then fail with 'database is locked'.
"""
